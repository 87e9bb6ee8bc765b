"""How a backend of these tests says where it listens, and when it ends: with whoever started it."""

import os
import sys
import threading


def announce(url: str) -> None:
    """Prints what an agent calls this backend, and ends the process once standard input closes."""
    print(url, flush=True)
    threading.Thread(target=_end_with_stdin, daemon=True).start()


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)
