"""A backend on uvicorn, the common server of asynchronous Python.

POST /echo streams the body back as it comes; /events sends an event every few milliseconds until the client goes; /gone
says how many of those streams saw their client go; any other path answers what it was asked. With an argument it listens
on a Unix socket of that path.
"""

import asyncio
import json
import socket
import sys
from typing import Any

import uvicorn
from lifetime import announce

n_gone = 0


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    match scope["path"]:
        case "/echo":
            await echo(receive, send)
        case "/events":
            await events(receive, send)
        case "/gone":
            await answer(send, {"gone": n_gone})
        case path:
            fields = {name.decode(): value.decode() for name, value in scope["headers"]}
            await answer(send, {"method": scope["method"], "path": path, "fields": fields})


async def answer(send: Any, value: dict[str, object]) -> None:
    body = json.dumps(value).encode()
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": body})


async def echo(receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    more = True
    while more:
        part = await receive()
        if part["type"] == "http.disconnect":
            return
        more = part.get("more_body", False)
        await send({"type": "http.response.body", "body": part.get("body", b""), "more_body": more})


async def events(receive: Any, send: Any) -> None:
    global n_gone
    fields = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    gone = asyncio.create_task(until_gone(receive))
    while not gone.done():
        await send({"type": "http.response.body", "body": b"data: tick\n\n", "more_body": True})
        await asyncio.wait([gone], timeout=0.01)
    n_gone += 1


async def until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


if __name__ == "__main__":
    if path := next(iter(sys.argv[1:]), None):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(256)
        announce(f"unix:{path}")
    else:
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        announce(f"http://127.0.0.1:{listener.getsockname()[1]}")
    uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")).run(sockets=[listener])
