"""Fixtures of the operator tests."""

from __future__ import annotations

import pathlib

import pytest
from agreement import LIBRARY_LEVEL

from dmlgraph.operators import find

# Everything beside the tests is what they share, and asserts for them.
SHARED = [path.stem for path in pathlib.Path(__file__).parent.glob("*.py") if not path.stem.startswith(("test_", "__"))]
pytest.register_assert_rewrite(*(f"{__package__}.{module}" for module in SHARED))

DEVICES = ("reference", "directml:software")


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Each device that operators are run on: the reference, and the real DirectML over a software adapter."""
    name = str(request.param)
    if name.startswith("directml"):
        request.getfixturevalue("directml_path")
        operator = find(getattr(request.cls, "operator", ""))
        if operator is not None and operator.support().introduced > LIBRARY_LEVEL:
            level = operator.support().introduced
            pytest.skip(f"{operator.dml} appears at feature level {level}: no DirectML library for Linux has it")
    return name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test method that takes a `case` runs for each row of its class's table."""
    if "case" in metafunc.fixturenames and metafunc.cls is not None:
        cases = metafunc.cls.cases
        metafunc.parametrize("case", cases, ids=[each.why for each in cases])
