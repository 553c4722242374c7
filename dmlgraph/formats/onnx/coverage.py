"""The ONNX operators that are read, and what dmlgraph's become, for lists and documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from dmlgraph.formats.onnx.table import OLDEST, REFUSED, Covered, Exported, all_rows, written

NEVER = 10**6  # an opset that will not be
DEFINITION = "ONNX's definition by other operators"


def covered() -> list[Covered]:
    """The rows of the table, and the operators without a row that ONNX defines by others."""
    found: list[Covered] = [*all_rows()]
    found += _defined({(each.domain, each.operator) for each in found})
    found.append(Covered("", "Constant", OLDEST, None, "known"))
    return sorted(found, key=lambda each: (each.domain, each.operator, each.since))


def exported() -> list[Exported]:
    """dmlgraph's operators, by name: what each becomes, or why it cannot be exported."""
    found: list[Exported] = [*written().values()]
    found += [Exported(operator, f"refused: {reason}") for operator, reason in REFUSED.items()]
    return sorted(found, key=lambda each: each.operator)


def _defined(known: set[tuple[str, str]]) -> Iterator[Covered]:
    first: dict[tuple[str, str], int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        key = (schema.domain, schema.name)
        found: Any = schema  # its stub lacks members
        versions = [*found.function_opset_versions, *found.context_dependent_function_opset_versions]
        if key not in known and versions:
            first[key] = min(*versions, first.get(key, NEVER))
    for (domain, operator), version in first.items():
        yield Covered(domain, operator, version if domain else max(version, OLDEST), None, DEFINITION)
