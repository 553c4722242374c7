"""Standard input, in place of one file that a command is given."""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

STDIN = "<stdin>"  # the name of standard input in messages

_READ = f"{__name__}.stdin"  # in the context: what was read from standard input, and for what


def is_stdin(file: pathlib.Path | str) -> bool:
    return str(file) == "-"


def shown(file: pathlib.Path) -> str:
    """A graph's file as messages name it."""
    return STDIN if is_stdin(file) else str(file)


def read_stdin(what: str) -> bytes:
    """All of standard input, which can be read once and for one thing."""
    meta = click.get_current_context().meta
    if _READ not in meta:
        if sys.stdin is None:  # as in a program without a console
            raise click.UsageError("there is no standard input")
        meta[_READ] = what, sys.stdin.buffer.read()
    before, data = meta[_READ]
    if before != what:
        raise click.UsageError(f"'-' is given twice: standard input cannot hold both {before} and {what}")
    assert isinstance(data, bytes)
    return data
