"""A WebSocket backend: it sends back what it is sent, and pings its clients often.

/close closes with 4001 as soon as it is told anything; /refused is no WebSocket; /closed says, over plain HTTP, how the
last connection that ended was closed. It speaks chat.v2 rather than chat.v1.
"""

import asyncio
import http
import logging
from collections.abc import Sequence

from lifetime import announce
from websockets.asyncio.server import Request, Response, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

last_closed = "nothing was closed yet"


async def converse(connection: ServerConnection) -> None:
    global last_closed
    try:
        async for message in connection:
            if connection.request.path == "/close":
                await connection.close(4001, "that is all")
                return
            await connection.send(message)
    except ConnectionClosed:
        pass
    finally:
        await connection.wait_closed()
        last_closed = f"{connection.close_code} {connection.close_reason}"


def ask(connection: ServerConnection, request: Request) -> Response | None:
    match request.path:
        case "/refused":
            return connection.respond(http.HTTPStatus.FORBIDDEN, "not here\n")
        case "/closed":
            return connection.respond(http.HTTPStatus.OK, last_closed)
    return None


def choose(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return next((Subprotocol(name) for name in ("chat.v2", "chat.v1") if name in offered), None)


async def main() -> None:
    # An agent looks whether its backend listens, by a connection that says nothing.
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    how = {"process_request": ask, "select_subprotocol": choose, "ping_interval": 0.05, "max_size": None}
    async with serve(converse, "127.0.0.1", 0, **how) as server:
        announce(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
