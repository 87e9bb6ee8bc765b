"""grpcio and its health service, through router and agent, before a backend of the same."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from urllib.parse import urlsplit

import grpc
from checks import equal, main
from grpc_health.v1 import health_pb2, health_pb2_grpc

ACME = (("x-tenant-id", "acme"),)
TIGHT = (("x-tenant-id", "tight"),)
PATIENCE = 20

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def channel(url: str) -> grpc.Channel:
    # What environment variables say of proxies is of no concern here.
    return grpc.insecure_channel(urlsplit(url).netloc, options=[("grpc.enable_http_proxy", 0)])


def refused(call: object, expected: grpc.StatusCode) -> grpc.RpcError:
    """The error of a call that has to fail, in that way."""
    try:
        list(call()) if callable(call) else list(call)
    except grpc.RpcError as error:
        equal(error.code(), expected)
        return error
    raise AssertionError(f"no error, expected {expected}")


def checks_health(url: str) -> None:
    with channel(url) as to:
        health = health_pb2_grpc.HealthStub(to)
        ask = {"metadata": ACME, "timeout": PATIENCE}
        for service, status in (("up", SERVING), ("down", NOT_SERVING), ("", SERVING)):
            equal(health.Check(health_pb2.HealthCheckRequest(service=service), **ask).status, status)
        unknown = health_pb2.HealthCheckRequest(service="unknown")
        refused(lambda: [health.Check(unknown, **ask)], grpc.StatusCode.NOT_FOUND)
        watch = health.Watch(health_pb2.HealthCheckRequest(service="up"), **ask)
        equal(next(watch).status, SERVING)
        watch.cancel()


def makes_calls_of_each_kind(url: str) -> None:
    with channel(url) as to:
        ask = {"metadata": ACME, "timeout": PATIENCE}
        echo, count = to.unary_unary("/test.Kinds/Echo"), to.unary_stream("/test.Kinds/Count")
        for body in (b"", b"hello", bytes(1_000_000)):
            equal(echo(body, **ask), body)
        equal(list(count(b"1000", **ask)), [str(n).encode() for n in range(1000)])
        equal(to.stream_unary("/test.Kinds/Sum")((str(n).encode() for n in range(1000)), **ask), b"499500")
        answered = threading.Semaphore()

        def talk() -> Iterator[bytes]:
            for n in range(20):
                # One answer comes for each, before the next is said.
                answered.acquire()
                yield str(n).encode()

        for n, answer in enumerate(to.stream_stream("/test.Kinds/Chat")(talk(), **ask)):
            equal(answer, b"re: %d" % n)
            answered.release()
        equal(n, 19)


def makes_many_calls_at_once(url: str) -> None:
    with channel(url) as to, ThreadPoolExecutor(50) as pool:
        echo = to.unary_unary("/test.Kinds/Echo")
        bodies = [b"%d" % n * 1000 for n in range(300)]
        equal(list(pool.map(lambda body: echo(body, metadata=ACME, timeout=PATIENCE), bodies)), bodies)


def carries_metadata_both_ways(url: str) -> None:
    raw = bytes(range(256))
    with channel(url) as to:
        metadata = (*ACME, ("x-text", "some text"), ("x-raw-bin", raw))
        _, call = to.unary_unary("/test.Kinds/Echo").with_call(b"", metadata=metadata, timeout=PATIENCE)
        equal(dict(call.initial_metadata())["x-initial"], "some text")
        equal(dict(call.trailing_metadata())["x-trailing-bin"], raw)


def sees_why_a_call_fails(url: str) -> None:
    with channel(url) as to:
        ask = {"metadata": ACME, "timeout": PATIENCE}
        fail = to.unary_unary("/test.Kinds/Fail")
        error = refused(lambda: [fail(b"", **ask)], grpc.StatusCode.FAILED_PRECONDITION)
        equal(error.details(), "ünïcödé, 100 %")
        equal(dict(error.trailing_metadata())["x-why"], "a reason")
        missing = to.unary_unary("/test.Kinds/Missing")
        refused(lambda: [missing(b"", **ask)], grpc.StatusCode.UNIMPLEMENTED)


def passes_its_deadline(url: str) -> None:
    with channel(url) as to:
        late = to.unary_unary("/test.Kinds/Late")
        began = time.monotonic()
        refused(lambda: [late(b"", metadata=ACME, timeout=0.3)], grpc.StatusCode.DEADLINE_EXCEEDED)
        assert time.monotonic() - began < PATIENCE
        # The router's own word, where the route has less time than the caller.
        refused(lambda: [late(b"short", metadata=ACME, timeout=PATIENCE)], grpc.StatusCode.DEADLINE_EXCEEDED)
        equal(to.unary_unary("/test.Kinds/Echo")(b"on", metadata=ACME, timeout=PATIENCE), b"on")


def cancels_a_stream(url: str) -> None:
    with channel(url) as to:
        call = to.unary_stream("/test.Kinds/Count")(b"", metadata=ACME, timeout=PATIENCE)
        equal(list(islice(call, 5)), [b"0", b"1", b"2", b"3", b"4"])
        call.cancel()
        refused(call, grpc.StatusCode.CANCELLED)
        cancelled = to.unary_unary("/test.Kinds/Cancelled")
        while cancelled(b"", metadata=ACME, timeout=PATIENCE) != b"1":
            time.sleep(0.02)


def is_limited(url: str) -> None:
    with channel(url) as to:
        echo = to.unary_unary("/test.Kinds/Echo")
        equal(echo(b"once", metadata=TIGHT, timeout=PATIENCE), b"once")
        call = lambda: [echo(b"twice", metadata=TIGHT, timeout=PATIENCE)]
        error = refused(call, grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert error.details(), error
        equal(echo(b"others", metadata=ACME, timeout=PATIENCE), b"others")


def has_no_backend(url: str) -> None:
    with channel(url) as to:
        echo = to.unary_unary("/test.Kinds/Echo")
        refused(lambda: [echo(b"", metadata=ACME, timeout=PATIENCE)], grpc.StatusCode.UNAVAILABLE)
        count = to.unary_stream("/test.Kinds/Count")(b"5", metadata=ACME, timeout=PATIENCE)
        refused(count, grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    main(globals())
