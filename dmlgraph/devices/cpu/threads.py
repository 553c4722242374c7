"""How many threads a run on `cpu` may use: the number that `threads=` asks for, or DMLGRAPH_THREADS."""

from __future__ import annotations

import operator
import os

from dmlgraph.base.errors import DeviceError

VARIABLE = "DMLGRAPH_THREADS"
MOST_THREADS = 1024  # the native pool's limit


def checked_threads(asked: object) -> int | None:
    """The number that `threads=` asks for, or else DMLGRAPH_THREADS; None means one thread for each processor.

    Raises:
        DeviceError: the number is not a whole number from 1 to the limit.
    """
    if asked is not None:
        return _checked(asked, asked, "threads")
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    return _checked(int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text, text, VARIABLE)


def _checked(number: object, said: object, field: str) -> int:
    try:
        count = 0 if isinstance(number, (bool, str)) else operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        count = 0
    if not 1 <= count <= MOST_THREADS:
        raise DeviceError(
            "must be a number of threads", code="range", field=field, got=said, allowed=f"1 to {MOST_THREADS}"
        )
    return count
