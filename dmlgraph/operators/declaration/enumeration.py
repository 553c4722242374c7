"""Base of DirectML's enumerations: in Python and YAML a member is its lower-case name."""

from __future__ import annotations

import enum
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from dmlgraph.base.errors import Problem, listing, suggestion
from dmlgraph.base.tensor import refusal
from dmlgraph.operators.catalog.foreign_names import MEMBERS


class Enumeration(enum.Enum):
    """Members parse from, and print as, their lower-case names: `TRANSPOSE` is `"transpose"`."""

    @classmethod
    def names(cls) -> list[str]:
        return [str(member) for member in cls]

    @classmethod
    def parse(cls, value: object) -> Enumeration:
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value == value.lower() and value.upper() in cls.__members__:
            return cls[value.upper()]
        is_word = isinstance(value, (str, bool))
        hint = suggestion(str(value).lower(), cls.names(), cls._elsewhere()) if is_word else None
        problem = Problem(
            "is not one of the names", code="unknown-name", got=value, allowed=listing(cls.names()), hint=hint
        )
        raise refusal(problem)

    @classmethod
    def _elsewhere(cls) -> dict[str, str]:
        """The members' names in other libraries."""
        return {name: member for name, member in MEMBERS.items() if member in cls.names()}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return core_schema.no_info_plain_validator_function(cls.parse)

    def __str__(self) -> str:
        return self.name.lower()
