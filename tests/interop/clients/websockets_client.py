"""The websockets library, through router and agent, before itself."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from urllib.request import Request, urlopen

from checks import equal, main
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

PATIENCE = 20


def opened(url: str, path: str = "/", tenant: str = "acme", **more: object) -> connect:
    fields = {"x-tenant-id": tenant}
    return connect(url.replace("http:", "ws:") + path, additional_headers=fields, proxy=None, max_size=None, **more)


def checked(check: Callable[[str], Awaitable[None]]) -> Callable[[str], None]:
    return lambda url: asyncio.run(asyncio.wait_for(check(url), PATIENCE))


async def comes_back(connection: ClientConnection, message: str | bytes | list[str] | list[bytes]) -> None:
    await connection.send(message)
    whole = message[0][:0].join(message) if isinstance(message, list) else message
    assert await connection.recv() == whole, f"{type(message)} of {len(whole)}"


async def until_closed(url: str, expected: str) -> None:
    """Waits until the backend knows of a close; its answer is plain HTTP."""
    while True:
        request = Request(url + "/closed", headers={"x-tenant-id": "acme"})
        seen = (await asyncio.to_thread(lambda: urlopen(request).read())).decode()
        if seen == expected:
            return
        await asyncio.sleep(0.02)


@checked
async def exchanges_messages(url: str) -> None:
    for compression in ("deflate", None):
        async with opened(url, compression=compression) as connection:
            equal(len(connection.protocol.extensions), 1 if compression else 0)
            for message in ("text", "", "ünïcödé", b"\x00\xff", b"", "x" * 65_536, bytes(range(256)) * 20_000):
                await comes_back(connection, message)
            await comes_back(connection, ["in ", "many ", "parts"])
            await comes_back(connection, [b"p" * 100_000] * 10)


@checked
async def streams_both_ways_at_once(url: str) -> None:
    messages = [bytes([n % 256]) * 20_000 for n in range(200)]
    async with opened(url, compression=None) as connection:

        async def send() -> None:
            for message in messages:
                await connection.send(message)

        sending = asyncio.create_task(send())
        for message in messages:
            assert await connection.recv() == message
        await sending


@checked
async def has_many_connections(url: str) -> None:
    async def one(n: int) -> None:
        async with opened(url) as connection:
            for m in range(10):
                await comes_back(connection, f"{n} {m}")

    await asyncio.gather(*(one(n) for n in range(50)))


@checked
async def pings_and_is_pinged(url: str) -> None:
    async with opened(url) as connection:
        for data in (b"", b"once", b"again"):
            await (await connection.ping(data))
        # The backend ends a connection whose client answers none of its pings.
        await asyncio.sleep(0.5)
        await comes_back(connection, "still here")


@checked
async def closes_and_is_closed(url: str) -> None:
    for code, reason in ((1000, ""), (1001, "going"), (4002, "enough"), (4999, "r" * 123)):
        async with opened(url) as connection:
            await comes_back(connection, "hello")
            await connection.close(code, reason)
        await until_closed(url, f"{code} {reason}")
    async with opened(url, "/close") as connection:
        await connection.send("go on")
        try:
            await connection.recv()
        except ConnectionClosed as closed:
            equal((closed.rcvd.code, closed.rcvd.reason), (4001, "that is all"))
        else:
            raise AssertionError("the backend did not close")


@checked
async def vanishes(url: str) -> None:
    connection = await opened(url, ping_interval=None)
    await comes_back(connection, "hello")
    # A reset, without a word of goodbye: 1006 stands for that.
    raw = connection.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.transport.abort()
    await until_closed(url, "1006 ")


@checked
async def agrees_on_a_subprotocol(url: str) -> None:
    for offered, chosen in ((["chat.v1", "chat.v2"], "chat.v2"), (["chat.v1"], "chat.v1")):
        async with opened(url, subprotocols=offered) as connection:
            equal(connection.subprotocol, chosen)


async def refusal(url: str, path: str, tenant: str) -> tuple[int, bytes]:
    try:
        async with opened(url, path, tenant):
            raise AssertionError("not refused")
    except InvalidStatus as refused:
        return refused.response.status_code, refused.response.body


@checked
async def is_refused(url: str) -> None:
    equal(await refusal(url, "/refused", "acme"), (403, b"not here\n"))
    async with opened(url, tenant="tight") as connection:
        await comes_back(connection, "once")
    status, body = await refusal(url, "/", "tight")
    equal(status, 429)
    assert b"urn:cofferdam:" in body, body


if __name__ == "__main__":
    main(globals())
