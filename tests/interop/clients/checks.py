"""Runs one check of a client program: `program.py CHECK ARGUMENT...` calls the function CHECK of the program."""

import sys
from typing import Any


def main(program: dict[str, Any]) -> None:
    _, check, *arguments = sys.argv
    program[check](*arguments)


def equal(seen: object, expected: object) -> None:
    assert seen == expected, f"seen {seen!r}, expected {expected!r}"
