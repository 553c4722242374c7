"""EXPAND_DIMS: new dimensions of size 1."""

from __future__ import annotations

from typing import ClassVar

import pytest
from support.operators.harness import refused
from support.operators.views import ViewTests, numbers


class TestExpandDims(ViewTests):
    operator = "expand_dims"
    cases: ClassVar = {
        "first": ((2, 3), lambda x: x.expand_dims(0), lambda x: x[None]),
        "last": ((2, 3), lambda x: x.expand_dims(-1), lambda x: x[..., None]),
        "several": ((2, 3), lambda x: x.expand_dims(0, -1), lambda x: x[None, ..., None]),
        "a list": ((2, 3), lambda x: x.expand_dims([1, 3]), lambda x: x[:, None, :, None]),
        "to rank 8": ((3,), lambda x: x.expand_dims(0, 1, 2, 3, 5, 6, 7), lambda x: x.reshape(1, 1, 1, 1, 3, 1, 1, 1)),
    }

    @pytest.mark.parametrize(("axes", "field", "said"), [
        ([3], "axes.0", "is not a place in the output"),
        ([-4], "axes.0", "is not a place in the output"),
        ([0, -4], "axes.1", "names an axis twice"),
        ([0, 0], "axes.1", "names an axis twice"),
        ([0, 1, 2, 3, 4, 5, 6], "axes", "a tensor has 1 to 8 dimensions"),
    ])  # fmt: skip
    def test_wrong_axes(self, axes: list[int], field: str, said: str) -> None:
        error = refused("expand_dims", [numbers((2, 3))], axes=axes)
        assert error.field == field
        assert said in str(error)
