"""httpx, blocking and asynchronous, over HTTP/1.1 and HTTP/2 with prior knowledge."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
from checks import equal, main

ACME = {"x-tenant-id": "acme"}
PIECES = [bytes([n]) * 10_000 for n in range(60)]

# Prior knowledge: httpx speaks HTTP/2 without TLS only where it may not speak anything else.
VERSIONS = {"HTTP/1.1": {"http1": True, "http2": False}, "HTTP/2": {"http1": False, "http2": True}}


def blocking(url: str, version: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers=ACME, timeout=30, **VERSIONS[version])


def asynchronous(url: str, version: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=100)
    return httpx.AsyncClient(base_url=url, headers=ACME, timeout=30, limits=limits, **VERSIONS[version])


def each_version(check: Callable[[str, str], None]) -> Callable[[str], None]:
    def checked(url: str) -> None:
        for version in VERSIONS:
            check(url, version)

    return checked


def pieces() -> Iterator[bytes]:
    yield from PIECES


async def pieces_later() -> AsyncIterator[bytes]:
    for piece in PIECES:
        await asyncio.sleep(0)
        yield piece


@each_version
def is_answered(url: str, version: str) -> None:
    with blocking(url, version) as client:
        for n in range(20):
            answer = client.get(f"/some/{n}")
            equal((answer.status_code, answer.http_version), (200, version))
            equal(answer.json()["path"], f"/some/{n}")
        equal(client.head("/bytes", params={"n": 77}).headers["content-length"], "77")
        equal(client.get("/status", params={"code": 204}).status_code, 204)
        equal(client.delete("/status", params={"code": 503}).status_code, 503)


@each_version
def streams_both_ways(url: str, version: str) -> None:
    with blocking(url, version) as client:
        with client.stream("POST", "/echo", content=pieces()) as answer:
            equal((answer.status_code, answer.http_version), (200, version))
            assert b"".join(answer.iter_bytes()) == b"".join(PIECES)
        with client.stream("GET", "/stream", params={"chunks": 5, "every_ms": 20}) as answer:
            lines = list(answer.iter_lines())
        equal(lines, [f"chunk {n}" for n in range(5)])
        with client.stream("GET", "/bytes", params={"n": 20_000_000}) as answer:
            equal(sum(map(len, answer.iter_raw())), 20_000_000)


@each_version
def streams_asynchronously(url: str, version: str) -> None:
    async def work() -> None:
        async with asynchronous(url, version) as client:
            answers = [client.post("/echo", content=pieces_later()) for _ in range(8)]
            for answer in await asyncio.gather(*answers):
                equal((answer.status_code, answer.http_version), (200, version))
                assert answer.content == b"".join(PIECES)

    asyncio.run(work())


@each_version
def asks_a_hundred_things_at_once(url: str, version: str) -> None:
    async def work() -> None:
        async with asynchronous(url, version) as client:
            answers = [client.get("/slow", params={"ms": 100 + n}) for n in range(100)]
            statuses = {answer.status_code for answer in await asyncio.gather(*answers)}
            equal(statuses, {200})

    asyncio.run(work())


@each_version
def gives_up_and_goes_on(url: str, version: str) -> None:
    with blocking(url, version) as client:
        began = time.monotonic()
        try:
            client.get("/slow", params={"ms": 60_000}, timeout=0.2)
        except httpx.ReadTimeout:
            pass
        else:
            raise AssertionError("a minute passed unnoticed")
        assert time.monotonic() - began < 30
        equal(client.get("/").status_code, 200)


def tenants_on_one_connection_are_limited_each_by_itself(url: str) -> None:
    """`tight` may ask once, in all."""
    expected = iter([200, 429, 429])
    for version in VERSIONS:
        # One connection at most, so that all tenants share it.
        limits = httpx.Limits(max_connections=1)
        with httpx.Client(base_url=url, limits=limits, timeout=30, **VERSIONS[version]) as client:
            for _ in range(10):
                equal(client.get("/", headers=ACME).status_code, 200)
            for status in (next(expected), 429):
                answer = client.get("/", headers={"x-tenant-id": "tight"})
                equal(answer.status_code, status)
            assert int(answer.headers["retry-after"]) > 0
            equal(client.get("/", headers=ACME).status_code, 200)


def is_served_in_time(url: str, seconds: str, most: str) -> None:
    """Asks on kept connections and on new ones, for some seconds: no answer may take longer than `most`."""
    kept = [blocking(url, version) for version in VERSIONS]
    end = time.monotonic() + float(seconds)
    slowest, n_answers = 0.0, 0
    while time.monotonic() < end:
        for client in [*kept, *(blocking(url, version) for version in VERSIONS)]:
            began = time.monotonic()
            equal(client.get("/").status_code, 200)
            slowest = max(slowest, time.monotonic() - began)
            n_answers += 1
            if client not in kept:
                client.close()
        time.sleep(0.1)
    print(f"{n_answers} answers, the slowest after {slowest:.3f} s")
    assert slowest < float(most), f"an answer took {slowest:.3f} s"


if __name__ == "__main__":
    main(globals())
