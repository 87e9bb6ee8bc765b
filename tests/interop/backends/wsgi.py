"""A WSGI application on the standard library's server: it knows fields by the variables that are made of their names.

Any path answers those variables, as JSON.
"""

import json
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from lifetime import announce


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Handler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def application(environ: dict[str, object], start: Callable[..., object]) -> Iterable[bytes]:
    fields = {name: value for name, value in environ.items() if name.startswith("HTTP_")}
    body = json.dumps(fields).encode()
    start("200 OK", [("content-type", "application/json"), ("content-length", str(len(body)))])
    return [body]


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, application, server_class=Server, handler_class=Handler)
    announce(f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()
