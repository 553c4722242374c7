"""The DXGI formats that typed buffer views may have, and how their components become register values."""

from __future__ import annotations

import dataclasses
import enum

from dmlgraph.devices.directml.software.errors import ShaderError


class Kind(enum.Enum):
    """How the bits of a component are interpreted."""

    FLOAT = "float"
    UINT = "uint"
    SINT = "sint"
    UNORM = "unorm"
    SNORM = "snorm"


@dataclasses.dataclass(frozen=True)
class Format:
    """`components` values of `bits` bits each, one after another."""

    number: int
    components: int
    bits: int
    kind: Kind

    @property
    def size(self) -> int:
        """The size of an element in bytes."""
        return self.components * self.bits // 8

    @property
    def register(self) -> str:
        """The LLVM type of a component in a shader: float for everything that is not an integer."""
        return "i32" if self.kind in (Kind.UINT, Kind.SINT) else "float"


def _formats() -> dict[int, Format]:
    F, U, S, UN, SN = Kind.FLOAT, Kind.UINT, Kind.SINT, Kind.UNORM, Kind.SNORM  # noqa: N806
    families: list[tuple[int, int, dict[int, Kind]]] = [  # (components, bits, {DXGI_FORMAT: kind})
        (4, 32, {2: F, 3: U, 4: S}),
        (3, 32, {6: F, 7: U, 8: S}),
        (4, 16, {10: F, 11: UN, 12: U, 13: SN, 14: S}),
        (2, 32, {16: F, 17: U, 18: S}),
        (4, 8, {28: UN, 30: U, 31: SN, 32: S}),
        (2, 16, {34: F, 35: UN, 36: U, 37: SN, 38: S}),
        (1, 32, {41: F, 42: U, 43: S}),
        (2, 8, {49: UN, 50: U, 51: SN, 52: S}),
        (1, 16, {54: F, 56: UN, 57: U, 58: SN, 59: S}),
        (1, 8, {61: UN, 62: U, 63: SN, 64: S}),
    ]
    return {
        number: Format(number, components, bits, kind)
        for components, bits, kinds in families
        for number, kind in kinds.items()
    }


FORMATS = _formats()
R32_UINT = FORMATS[42]


def format_of(number: int) -> Format:
    """The format with a DXGI number.

    An unbound view has format 0 and no bytes: every read of it is out of bounds, so any format will do.
    """
    if number == 0:
        return R32_UINT
    if number not in FORMATS:
        raise ShaderError(f"DXGI format {number} is not supported for typed buffer views")
    return FORMATS[number]
