"""How much was compared with the real DirectML: the lines about it at the end of a test run.

A pair is an operator and the data type of its first tensor.  It agreed if at least one test of the operator with that
type ran on DirectML, and none failed.
"""

from __future__ import annotations

import collections
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from dmlgraph.base.levels import NEWEST, FeatureLevel
from dmlgraph.operators import REGISTRY, Operator, find

LIBRARY_LEVEL = FeatureLevel.V6_2
PROPERTY = "directml agreement"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes on the report of a test that ran an operator on DirectML: operator, data type, outcome."""
    report = yield
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    operator = getattr(getattr(item, "cls", None), "operator", None)
    if report.when == "call" and operator and str(parameters.get("device")).startswith("directml"):
        case = parameters.get("case") or getattr(item.cls, "sample", None)  # type: ignore[attr-defined]
        for dtype in _dtypes(case):
            report.user_properties.append((PROPERTY, [operator, dtype, report.outcome]))
    return report


def _dtypes(case: Any) -> Iterator[str]:
    """The data type of a row's first tensor."""
    if case is None:
        return
    for tensor in (*case.inputs, *case.gives):
        first = tensor[0] if isinstance(tensor, list) and tensor else tensor
        if hasattr(first, "dtype"):
            yield str(first.dtype)
            return


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints how many pairs agreed, and how many could not be compared, and why."""
    outcomes: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY:
                    found = find(value[0])
                    outcomes[found.name if found else value[0], value[1]].add(value[2])
    if not outcomes:
        return
    agreed = {pair for pair, seen in outcomes.items() if seen == {"passed"}}
    failed = {pair for pair, seen in outcomes.items() if "failed" in seen}
    known = {
        (each.name, dtype): level for each in REGISTRY.values() if not each.is_view for dtype, level in _pairs(each)
    }
    beyond = {pair for pair, level in known.items() if level > LIBRARY_LEVEL}
    missing = set(known) - beyond - agreed - failed
    line = terminalreporter.write_line
    terminalreporter.section("real DirectML")
    line(f"{len(agreed & set(known))} of {len(known)} pairs of operator and data type agreed with DirectML")
    line(f"{len(beyond)} pairs appear after feature level {LIBRARY_LEVEL}: no DirectML library for Linux has them")
    if failed:
        line(f"{len(failed)} pairs disagreed")
    if missing:
        names = sorted({name for name, _ in missing})
        line(f"{len(missing)} pairs have no comparison in the tests that ran, of {', '.join(names)}")


def _pairs(operator: type[Operator]) -> Iterator[tuple[str, FeatureLevel]]:
    """Each data type that an operator's first tensor may have, and its lowest level."""
    facts = operator.support()
    fields = operator.input_fields or operator.output_fields
    first = next(member.name for member in operator.members if member.field == fields[0])
    seen: set[str] = set()
    for level, rows in facts.levels.items():
        for row in rows:
            if row.tensor == first and level <= NEWEST:
                for dtype in row.dtypes:
                    if str(dtype) not in seen:
                        seen.add(str(dtype))
                        yield str(dtype), max(level, facts.introduced)
