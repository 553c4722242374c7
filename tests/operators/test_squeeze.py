"""SQUEEZE: without dimensions of size 1."""

from __future__ import annotations

from typing import ClassVar

from support.operators.harness import refused
from support.operators.views import ViewTests, numbers
from support.problems import expect


class TestSqueeze(ViewTests):
    operator = "squeeze"
    cases: ClassVar = {
        "one": ((2, 1, 3), lambda x: x.squeeze(1), lambda x: x.squeeze(1)),
        "several": ((1, 2, 1, 3), lambda x: x.squeeze(0, -2), lambda x: x.squeeze((0, 2))),
        "all": ((1, 2, 1, 3, 1), lambda x: x.squeeze(), lambda x: x.squeeze()),
        "all but one": ((1, 1), lambda x: x.squeeze(), lambda x: x.reshape(1)),
        "none": ((2, 3), lambda x: x.squeeze(), lambda x: x),
        "of rank 8": ((1, 1, 3, 1, 2, 1, 1, 2), lambda x: x.squeeze(), lambda x: x.squeeze()),
    }

    def test_only_dimensions_of_size_one(self) -> None:
        error = refused("squeeze", [numbers((1, 2, 1))], axes=[0, 1])
        expect(error, "sizes", node="node", field="axes.1", got=1, allowed="[0, 2]")

    def test_one_remains(self) -> None:
        error = refused("squeeze", [numbers((1, 1))], axes=[0, 1])
        expect(error, "rank", node="node", field="axes", got=[0, 1])
