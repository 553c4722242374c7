"""What a notebook shows of an error: the lines of the user's code, without those of libraries below them."""

from __future__ import annotations

import functools
import pathlib
import sysconfig
import traceback
from types import TracebackType

_PACKAGE = pathlib.Path(__file__).parents[1]


def rendered(error: BaseException) -> list[str]:
    """The lines of an error and of where the user's code caused it."""
    frames: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    users = [each for each in frames if not _is_of_a_library(each.tb_frame.f_code.co_filename)]
    shown: TracebackType | None = None
    for each in reversed(users or frames):
        shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return "".join(traceback.format_exception(type(error), error, shown, chain=False)).splitlines()


@functools.cache
def _is_of_a_library(file: str) -> bool:
    """Whether a file belongs to this package, to another that is installed, or to Python."""
    paths = sysconfig.get_paths()
    folders = (_PACKAGE, *(pathlib.Path(paths[key]) for key in ("stdlib", "platstdlib", "purelib", "platlib")))
    return any(pathlib.Path(file).is_relative_to(folder) for folder in folders)
