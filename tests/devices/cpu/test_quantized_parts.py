"""Quantized sums, and quantization by a tensor's own range, on the device `cpu`: the bits of `reference`, no Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu.near import check_exact, desc, filled, layouts, make, seeds

from dmlgraph.devices.cpu.plan import lowered

TYPES = st.sampled_from(["int8", "uint8"])
shapes = st.lists(st.integers(1, 6), min_size=1, max_size=5)


class TestQuantizedLinearAdd:
    @given(TYPES, shapes, st.booleans(), st.sampled_from(["float32", "float16"]), st.data(), layouts, seeds)
    def test_equals_the_reference(self, dtype, sizes, has_zeros, scale_type, data, layout, seed) -> None:
        one = desc((1,) * len(sizes), dtype)
        other = tuple(data.draw(st.sampled_from([1, size])) for size in sizes)
        zeros = dict.fromkeys(("a_zero_point", "b_zero_point", "output_zero_point"), one if has_zeros else None)
        scale = desc((1,) * len(sizes), scale_type)
        operator = make(
            "quantized_linear_add", a=desc(tuple(sizes), dtype), b=desc(other, dtype), a_scale=scale, b_scale=scale,
            output_scale=scale, **zeros,
        )  # fmt: skip
        assert isinstance(lowered(operator), tuple)
        arrays = filled(operator, seed, layout)
        check_exact(
            operator,
            [
                np.abs(each) + each.dtype.type(0.1) if each is not None and each.dtype.kind == "f" else each
                for each in arrays
            ],
        )


class TestDynamicQuantizeLinear:
    @given(TYPES, shapes, st.sampled_from(["float32", "float16"]), layouts, seeds)
    def test_equals_the_reference(self, dtype, sizes, input_type, layout, seed) -> None:
        operator = make("dynamic_quantize_linear", input=desc(tuple(sizes), input_type), output={"dtype": dtype})
        assert isinstance(lowered(operator), tuple)
        check_exact(operator, filled(operator, seed, layout))

    @pytest.mark.parametrize("dtype", ["int8", "uint8"])
    @pytest.mark.parametrize("numbers", [[0.0, 0.0], [np.nan, 1.0], [2.0, np.nan], [np.inf, 1.0], [-np.inf, np.inf]])
    def test_special_numbers(self, dtype, numbers) -> None:
        operator = make("dynamic_quantize_linear", input=desc((1, 1, 1, 2)), output={"dtype": dtype})
        check_exact(operator, [np.array(numbers, np.float32).reshape(1, 1, 1, 2)])
