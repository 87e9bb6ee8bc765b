"""One connection of HTTP/2 with prior knowledge on a blocking socket, by hyper-h2, which checks every frame it is sent."""

import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, SettingsAcknowledged, StreamEnded
from h2.events import StreamReset
from h2.settings import SettingCodes

PATIENCE = 30


class Connection:
    def __init__(self, url: str, settings: dict[SettingCodes, int] | None = None) -> None:
        self.authority = urlsplit(url).netloc
        host, _, port = self.authority.partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.events: list[Event] = []
        # Whether what comes is at once allowed to come again.
        self.is_reading = True
        self.h2.initiate_connection()
        if settings:
            self.h2.update_settings(settings)
        self.flush()
        self.until(lambda event: isinstance(event, SettingsAcknowledged) and (event.changed_settings or not settings))

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, path: str, method: str = "GET", tenant: str = "acme", ends: bool = True, **more: object) -> int:
        """Opens a stream; `more` goes to hyper-h2 as it is, but `fields`, which are further fields."""
        fields = more.pop("fields", [])
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "http"), (":authority", self.authority), (":path", path)]
        self.h2.send_headers(stream, [*head, ("x-tenant-id", tenant), *fields], end_stream=ends, **more)
        self.flush()
        return stream

    def send(self, stream: int, body: bytes, ends: bool = True) -> None:
        """Sends a body as the windows allow, and no more of it once the stream has ended or was reset."""
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room == 0:
                self.read()
                if self.first(StreamReset, stream) or self.first(StreamEnded, stream):
                    return
                continue
            self.h2.send_data(stream, body[:room])
            self.flush()
            body = body[room:]
        if ends:
            self.h2.end_stream(stream)
            self.flush()

    def read(self) -> list[Event]:
        """The events of what comes next."""
        received = self.socket.recv(65536)
        assert received, f"the connection ended after {self.events[-3:]}"
        events = self.h2.receive_data(received)
        for event in events:
            if self.is_reading and isinstance(event, DataReceived) and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        self.events += events
        return events

    def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The first event that is wanted, of those that came and those that come."""
        seen = 0
        while True:
            for event in self.events[seen:]:
                if wanted(event):
                    return event
            seen = len(self.events)
            self.read()

    def first(self, kind: type[Event], stream: int | None = None) -> Event | None:
        """An event of that kind, if one came."""
        of = (event for event in self.events if isinstance(event, kind))
        return next((event for event in of if stream is None or event.stream_id == stream), None)

    def answer(self, stream: int) -> tuple[int, bytes]:
        """Status and body of a stream, once it has ended."""
        ends = (StreamEnded, StreamReset)
        end = self.until(lambda event: isinstance(event, ends) and event.stream_id == stream)
        assert isinstance(end, StreamEnded), end
        return self.status(stream), self.body(stream)

    def status(self, stream: int) -> int:
        self.until(lambda event: isinstance(event, ResponseReceived) and event.stream_id == stream)
        return int(dict(self.first(ResponseReceived, stream).headers)[":status"])

    def body(self, stream: int) -> bytes:
        """What came of a body so far."""
        data = (event for event in self.events if isinstance(event, DataReceived))
        return b"".join(event.data for event in data if event.stream_id == stream)

    def ended(self) -> None:
        """Reads until the other side closes."""
        while received := self.socket.recv(65536):
            self.events += self.h2.receive_data(received)
