"""DirectML feature levels: which operators, data types and dimension counts a runtime accepts."""

from __future__ import annotations

import enum
import functools
import re

from dmlgraph.base.errors import GraphError, listing, suggestion

_NUMBER = re.compile(r"(\d{1,3})(?:\.(\d{1,3}))?")


@functools.total_ordering
class FeatureLevel(enum.Enum):
    """A DML_FEATURE_LEVEL; the value is DirectML's (0xMm00), the text form is `major.minor`."""

    V1_0 = 0x1000
    V2_0 = 0x2000
    V2_1 = 0x2100
    V3_0 = 0x3000
    V3_1 = 0x3100
    V4_0 = 0x4000
    V4_1 = 0x4100
    V5_0 = 0x5000
    V5_1 = 0x5100
    V5_2 = 0x5200
    V6_0 = 0x6000
    V6_1 = 0x6100
    V6_2 = 0x6200
    V6_3 = 0x6300
    V6_4 = 0x6400

    @classmethod
    def parse(cls, text: object) -> FeatureLevel:
        """`"5.0"` → `V5_0`; also takes a FeatureLevel.

        Raises:
            GraphError: not a level of DirectML (a number such as 5.0 is refused: 5.10 would be 5.1).
        """
        if isinstance(text, cls):
            return text
        known = {str(level): level for level in cls}
        if isinstance(text, str) and text in known:
            return known[text]
        number = _NUMBER.fullmatch(str(text))
        if number and (int(number[1]), int(number[2] or 0)) > (NEWEST.value >> 12, NEWEST.value >> 8 & 0xF):
            hint: str | None = f"the newest that this dmlgraph knows is {NEWEST}"
        elif isinstance(text, str):
            hint = suggestion(text, known)
        else:
            hint = f'write it as text: "{text}"' if str(text) in known else None
        raise GraphError(
            "not a DirectML feature level",
            code="unknown-level",
            field="target",
            got=text,
            allowed=listing(known),
            hint=hint,
        )

    def __str__(self) -> str:
        return f"{self.value >> 12}.{self.value >> 8 & 0xF}"

    def __lt__(self, other: FeatureLevel) -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return self.value


NEWEST = max(FeatureLevel)
