"""A gRPC backend on grpcio, with the standard health service and a service of each kind of call, of plain bytes.

/test.Kinds/Echo, /Count (a stream of answers), /Sum (a stream of requests), /Chat (both), /Late (never in time), /Fail
(status 9, with details and trailers), /Cancelled (how many calls of /Count saw their caller go).
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from lifetime import announce

n_cancelled = 0


def echo(request: bytes, context: grpc.ServicerContext) -> bytes:
    metadata = dict(context.invocation_metadata())
    context.send_initial_metadata((("x-initial", metadata.get("x-text", "")),))
    context.set_trailing_metadata((("x-trailing-bin", metadata.get("x-raw-bin", b"")),))
    return request


def count(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    """Counts to a number, or until the caller goes where there is none."""
    gone, is_whole = threading.Event(), threading.Event()

    def over() -> None:
        """The call is over, whichever way: a caller that goes while an answer is on its way is told here alone."""
        global n_cancelled
        n_cancelled += not is_whole.is_set()
        gone.set()

    context.add_callback(over)
    n, most = 0, int(request) if request else None
    while n != most and not gone.is_set():
        yield str(n).encode()
        n += 1
        if most is None:
            gone.wait(0.01)
    if n == most:
        is_whole.set()


def total(requests: Iterator[bytes], _: grpc.ServicerContext) -> bytes:
    return str(sum(map(int, requests))).encode()


def chat(requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
    for request in requests:
        yield b"re: " + request


def late(_: bytes, context: grpc.ServicerContext) -> bytes:
    gone = threading.Event()
    context.add_callback(gone.set)
    gone.wait(30)
    return b"too late"


def fail(_: bytes, context: grpc.ServicerContext) -> bytes:
    context.set_trailing_metadata((("x-why", "a reason"),))
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "ünïcödé, 100 %")


def cancelled(_: bytes, __: grpc.ServicerContext) -> bytes:
    return str(n_cancelled).encode()


if __name__ == "__main__":
    server = grpc.server(ThreadPoolExecutor(64))
    methods = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Sum": grpc.stream_unary_rpc_method_handler(total),
        "Chat": grpc.stream_stream_rpc_method_handler(chat),
        "Late": grpc.unary_unary_rpc_method_handler(late),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
        "Cancelled": grpc.unary_unary_rpc_method_handler(cancelled),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Kinds", methods),))
    healths = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healths, server)
    healths.set("up", health_pb2.HealthCheckResponse.SERVING)
    healths.set("down", health_pb2.HealthCheckResponse.NOT_SERVING)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    announce(f"http://127.0.0.1:{port}")
    server.wait_for_termination()
