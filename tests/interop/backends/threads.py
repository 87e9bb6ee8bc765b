"""A backend on the standard library's server: a thread for each connection, HTTP/1.1 with keep-alive.

Any path answers what it was asked, as JSON. Besides: POST /sum reads a whole body and answers its length and hash;
/chunked answers in chunks, with a trailer.
"""

import hashlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lifetime import announce

CHUNKS = (b"one\n", b"two\n", b"three\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/chunked":
            self.answer_in_chunks()
        else:
            fields = {name.lower(): value for name, value in self.headers.items()}
            self.answer({"method": self.command, "path": self.path, "fields": fields})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        digest, length = hashlib.sha256(), 0
        for part in self.body():
            digest.update(part)
            length += len(part)
        self.answer({"length": length, "sha256": digest.hexdigest()})

    def answer(self, value: dict[str, object]) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_in_chunks(self) -> None:
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.send_header("trailer", "x-sum")
        self.end_headers()
        for chunk in CHUNKS:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\nx-sum: %d\r\n\r\n" % sum(map(len, CHUNKS)))

    def body(self) -> Iterator[bytes]:
        """The body's parts, however it is framed."""
        if self.headers.get("transfer-encoding") != "chunked":
            left = int(self.headers.get("content-length", "0"))
            while left and (part := self.rfile.read(min(left, 65536))):
                left -= len(part)
                yield part
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    # More may be connecting at once than the five of the default.
    request_queue_size = 256
    daemon_threads = True


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    announce(f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()
