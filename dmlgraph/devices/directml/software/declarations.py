"""Declares the intrinsics of LLVM that a module calls.

The rest of the adapter calls them by short names, as in `@llvm.fabs(float %x)`.  Every release of LLVM takes full
names, which contain types, and declarations; LLVM 15 does not do without.
"""

from __future__ import annotations

import re
from collections.abc import Container

_CALL = re.compile(r"call (\{[^}]*\}|<[^>]*>|\S+) @llvm\.([\w.]+)\(([^()]*)\)")
_OPERAND = re.compile(r"(<[^>]*>|\w+) [^,]+")
_TYPES = re.compile(r"(?:\.(?:p|[if]|v\d+[if])\d+)+$")  # at the end of a name that is full already

# The types in a full name, where they are not that of the first operand: RESULT, or an operand's place.
RESULT = -1
_IN_NAME: dict[str, tuple[int, ...]] = {
    "coro.begin": (),
    "coro.done": (),
    "coro.end": (),
    "coro.id": (),
    "coro.resume": (),
    "coro.size": (RESULT,),
    "coro.suspend": (),
    "fptosi.sat": (RESULT, 0),
    "fptoui.sat": (RESULT, 0),
    "memcpy": (0, 1, 2),
    "memset": (0, 2),
    "x86.sse.ldmxcsr": (),
    "x86.sse.stmxcsr": (),
}
_SHORT = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}

# The C library's function of a number, in place of an intrinsic.  It has none of halves.
_OF_C = {"half": "{}.half", "float": "{}f", "double": "{}"}
_OF_HALF = """define internal half @{name}.half(half %a) alwaysinline nounwind {{
  %wide = fpext half %a to float
  %value = call float @{name}f(float %wide)
  %r = fptrunc float %value to half
  ret half %r
}}"""


def declared(text: str, lacking: Container[str]) -> str:
    """The text of a module, with its intrinsics by full names and declared.

    Args:
        lacking: short names of intrinsics that this release of LLVM lacks; the C library's functions replace them.
    """
    found: dict[str, str] = {}

    def full(match: re.Match[str]) -> str:
        result, name, operands = match.groups()
        name = _TYPES.sub("", name)
        kinds = _OPERAND.findall(operands)
        if name in lacking:
            target, wide = _OF_C[result].format(name), "float" if result == "half" else result
            found[_OF_C[wide].format(name)] = f"declare {wide} @{_OF_C[wide].format(name)}({wide})"
            if result == "half":
                found[target] = _OF_HALF.format(name=name)
        else:
            types = ((*kinds, result)[place] for place in _IN_NAME.get(name, (0,)))
            target = ".".join(("llvm", name, *map(_short, types)))
            found[target] = f"declare {result} @{target}({', '.join(kinds)})"
        return f"call {result} @{target}({operands})"

    return "\n".join([_CALL.sub(full, text), *found.values(), ""])


def _short(kind: str) -> str:
    """A type as names contain it: v4i32 for <4 x i32>."""
    if kind.startswith("<"):
        count, element = kind.strip("<>").split(" x ")
        return f"v{count}{_short(element)}"
    return _SHORT.get(kind, kind)
