"""Names, numbers and texts in C++."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np

from dmlgraph.base.errors import OperatorError
from dmlgraph.base.free_names import FreeNames

# What cannot name something in C++17 with Windows' headers: keywords, and macros without parameters.
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
    while xor xor_eq std main
    near far small hyper interface cdecl pascal IN OUT OPTIONAL CONST VOID TRUE FALSE NULL ERROR NOERROR DELETE IGNORE
    INFINITE STRICT UNICODE NEAR FAR linux unix errno stdin stdout stderr NAN INFINITY EOF BUFSIZ"""
RESERVED = frozenset(_WORDS.split())
LONGEST_NAME = 100  # letters of an identifier


class Identifiers:
    """Makes identifiers of names: different ones of different names, and the same in every run."""

    def __init__(self) -> None:
        self._free = FreeNames(RESERVED)

    def take(self, name: str) -> str:
        """A name as an identifier: `encoder/w.0` becomes `encoder_w_0`."""
        return self._free.take(identifier(name))

    def take_all(self, names: Iterable[str]) -> list[str]:
        return [self.take(name) for name in names]


def identifier(name: str) -> str:
    """A name as an identifier, which other names may share."""
    # No two underscores, nor one in front of a capital letter at the beginning: these belong to the compiler.
    written = re.sub(r"[^A-Za-z0-9]+", "_", name.replace("_", " ")).strip("_")[:LONGEST_NAME]
    if not written or written[0].isdigit():
        written = f"n{written}"
    return f"{written}_" if written in RESERVED else written


def quoted(text: str) -> str:
    """A text as a string literal, in UTF-8 for every compiler."""
    return '"' + "".join(map(_escaped, text.encode())) + '"'


def _escaped(byte: int) -> str:
    # Three octal digits end an escape whatever follows; `?` could begin a trigraph.
    letter = chr(byte)
    return letter if 0x20 <= byte < 0x7F and letter not in '"\\?' else f"\\{byte:03o}"


def comment(text: str) -> str:
    """A text in a comment of one line."""
    return "".join(letter if letter.isprintable() and letter != "\\" else "?" for letter in text)


def floating(value: float) -> str:
    """A FLOAT, bit for bit.

    Raises:
        OperatorError: a NaN with other bits than the usual one.
    """
    number = np.float32(value)
    if math.isnan(number):
        if number.view(np.uint32) != np.float32(np.nan).view(np.uint32):
            bits = f"{number.view(np.uint32):#x}"
            raise OperatorError("C++ can write only the usual NaN", code="does-not-fit", got=bits)
        return "std::numeric_limits<FLOAT>::quiet_NaN()"
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}std::numeric_limits<FLOAT>::infinity()"
    text = str(number)  # the shortest decimal that is read as this number
    return f"{text}f"


def integer(value: int) -> str:
    """An INT: the smallest one cannot be written as a literal."""
    return "-2147483647 - 1" if value == -(2**31) else str(value)


def data(values: bytes) -> str:
    """Bytes as the elements of an array."""
    return ", ".join(f"0x{byte:02x}" for byte in values)
