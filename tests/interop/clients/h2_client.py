"""hyper-h2 frame by frame: what clients of HTTP/2 do that no library does for them."""

import json

from checks import equal, main
from h2.errors import ErrorCodes
from h2.events import DataReceived, PingAckReceived, StreamReset, TrailersReceived
from h2.settings import SettingCodes
from h2_connection import Connection

LARGE = 10 * 1024 * 1024 + 1


def has_a_hundred_streams(url: str) -> None:
    connection = Connection(url)
    equal(connection.h2.remote_settings.max_concurrent_streams, 100)
    streams = [connection.ask(f"/slow?ms={n}") for n in range(100)]
    for stream in streams:
        equal(connection.answer(stream)[0], 200)
    equal(connection.answer(connection.ask("/"))[0], 200)


def opens_its_windows_little_by_little(url: str) -> None:
    connection = Connection(url, {SettingCodes.INITIAL_WINDOW_SIZE: 1000})
    connection.is_reading = False
    slow = connection.ask("/bytes?n=50000")
    connection.until(lambda _: len(connection.body(slow)) == 1000)
    # Who waits for a window keeps nobody else waiting.
    for n in range(50):
        stream = connection.ask(f"/quick/{n}")
        equal(connection.answer(stream)[0], 200)
    equal(len(connection.body(slow)), 1000)
    # From here on a frame beyond the window is hyper-h2's to refuse.
    connection.is_reading = True
    for event in [event for event in connection.events if isinstance(event, DataReceived)]:
        connection.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
    connection.flush()
    status, body = connection.answer(slow)
    equal((status, len(body)), (200, 50_000))


def pings(url: str) -> None:
    connection = Connection(url)
    stream = connection.ask("/slow?ms=300")
    for n in range(3):
        data = b"ping-%03d" % n
        connection.h2.ping(data)
        connection.flush()
        connection.until(lambda event: isinstance(event, PingAckReceived) and event.ping_data == data)
    assert connection.first(DataReceived, stream) is None, "a ping waited for an answer"
    equal(connection.answer(stream)[0], 200)


def resets_streams(url: str) -> None:
    connection = Connection(url)
    download = connection.ask("/stream?chunks=100000&every_ms=5")
    upload = connection.ask("/echo", "POST", ends=False)
    connection.send(upload, b"x" * 10_000, ends=False)
    waiting = connection.ask("/slow?ms=60000")
    connection.until(lambda _: connection.first(DataReceived, download) and connection.first(DataReceived, upload))
    for stream in (download, upload, waiting):
        connection.h2.reset_stream(stream, ErrorCodes.CANCEL)
    connection.flush()
    for _ in range(20):
        equal(connection.answer(connection.ask("/"))[0], 200)


def says_goodbye(url: str) -> None:
    connection = Connection(url)
    equal(connection.answer(connection.ask("/"))[0], 200)
    connection.h2.close_connection()
    connection.flush()
    connection.ended()


def names_priorities(url: str) -> None:
    connection = Connection(url)
    first = connection.ask("/slow?ms=50", priority_weight=1, priority_exclusive=True)
    second = connection.ask("/", priority_weight=256, priority_depends_on=first)
    connection.h2.prioritize(first, weight=200, depends_on=second)
    connection.h2.prioritize(1001, weight=16, depends_on=0)
    connection.flush()
    equal([connection.answer(stream)[0] for stream in (first, second)], [200, 200])


def sees_trailers(url: str) -> None:
    connection = Connection(url)
    stream = connection.ask("/chunked", fields=[("te", "trailers")])
    equal(connection.answer(stream), (200, b"one\ntwo\nthree\n"))
    equal(dict(connection.first(TrailersReceived, stream).headers), {"x-sum": "14"})


def sends_trailers(url: str) -> None:
    connection = Connection(url)
    stream = connection.ask("/sum", "POST", ends=False)
    connection.send(stream, b"x" * 5000, ends=False)
    connection.h2.send_headers(stream, [("x-sum", "5000")], end_stream=True)
    connection.flush()
    status, body = connection.answer(stream)
    equal((status, json.loads(body)["length"]), (200, 5000))


def is_refused_before_its_upload_has_ended(url: str) -> None:
    connection = Connection(url)
    equal(connection.answer(connection.ask("/", tenant="tight"))[0], 200)
    for tenant, status in (("acme", 413), ("tight", 429)):
        length = LARGE if tenant == "acme" else LARGE - 1
        fields = [("content-length", str(length))]
        stream = connection.ask("/echo", "POST", tenant, ends=False, fields=fields)
        connection.send(stream, b"x" * length)
        equal(connection.answer(stream)[0], status)
        end = connection.until(lambda event: isinstance(event, StreamReset) and event.stream_id == stream)
        equal(end.error_code, ErrorCodes.NO_ERROR)
        equal(connection.answer(connection.ask("/"))[0], 200)


def uploads_too_much_without_a_length(url: str) -> None:
    connection = Connection(url)
    stream = connection.ask("/sum", "POST", ends=False)
    connection.send(stream, b"x" * LARGE)
    equal(connection.answer(stream)[0], 413)
    equal(connection.answer(connection.ask("/"))[0], 200)


def sends_many_fields(url: str) -> None:
    connection = Connection(url)
    large = [(f"x-field-{n}", "v" * 500) for n in range(20)]
    equal(connection.answer(connection.ask("/", fields=large))[0], 200)
    equal(connection.answer(connection.ask("/", fields=large * 2))[0], 431)
    equal(connection.answer(connection.ask("/", fields=large))[0], 200)


if __name__ == "__main__":
    main(globals())
