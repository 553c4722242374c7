"""EXPAND_DIMS: new dimensions of size 1."""

from __future__ import annotations

from typing import ClassVar

import pytest
from support.operators.harness import refused
from support.operators.views import ViewTests, numbers
from support.problems import expect


class TestExpandDims(ViewTests):
    operator = "expand_dims"
    cases: ClassVar = {
        "first": ((2, 3), lambda x: x.expand_dims(0), lambda x: x[None]),
        "last": ((2, 3), lambda x: x.expand_dims(-1), lambda x: x[..., None]),
        "several": ((2, 3), lambda x: x.expand_dims(0, -1), lambda x: x[None, ..., None]),
        "a list": ((2, 3), lambda x: x.expand_dims([1, 3]), lambda x: x[:, None, :, None]),
        "to rank 8": ((3,), lambda x: x.expand_dims(0, 1, 2, 3, 5, 6, 7), lambda x: x.reshape(1, 1, 1, 1, 3, 1, 1, 1)),
    }

    @pytest.mark.parametrize(("axes", "field", "code"), [
        ([3], "axes.0", "range"),
        ([-4], "axes.0", "range"),
        ([0, -4], "axes.1", "duplicate"),
        ([0, 0], "axes.1", "duplicate"),
        ([0, 1, 2, 3, 4, 5, 6], "axes", "rank"),
    ])  # fmt: skip
    def test_wrong_axes(self, axes: list[int], field: str, code: str) -> None:
        error = refused("expand_dims", [numbers((2, 3))], axes=axes)
        expect(error, code, node="node", field=field)
