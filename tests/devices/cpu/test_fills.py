"""Diagonal matrices, and scaled images on the device `cpu`: the bits of `reference`, nothing in Python."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from near import check_exact, desc, filled, layouts, make, seeds

from dmlgraph.devices.cpu.plan import payload_of
from dmlgraph.scalar import Scalar

TYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"]
matrices = st.lists(st.integers(1, 7), min_size=2, max_size=4).map(tuple)
diagonals = st.one_of(st.integers(-9, 9), st.sampled_from([-(2**31), 2**31 - 1]))


@given(st.sampled_from(TYPES), matrices, diagonals, diagonals, st.booleans(), layouts, seeds)
def test_diagonal_matrix1(dtype, sizes, begin, end, has_input, layout, seed) -> None:
    output = desc(sizes, dtype)
    value = Scalar(output.dtype, 7)
    operator = make(
        "diagonal_matrix1", input=output if has_input else None, output=output, value_data_type=output.dtype,
        value=value, diagonal_fill_begin=begin, diagonal_fill_end=end,
    )  # fmt: skip
    assert payload_of(operator)[0] == "parts"
    check_exact(operator, filled(operator, seed, layout))


@given(st.sampled_from(TYPES), matrices, diagonals, st.sampled_from([1.0, -2.5, 300.0]))
def test_diagonal_matrix(dtype, sizes, offset, value) -> None:
    operator = make("diagonal_matrix", output=desc(sizes, dtype), offset=offset, value=value)
    assert payload_of(operator)[0] == "parts"
    check_exact(operator, [])


@given(
    st.sampled_from(["float32", "float16"]), st.integers(1, 3), st.sampled_from([1, 3]), st.integers(1, 9),
    st.integers(1, 9), st.sampled_from([0.1, -3.0, 1e6]), layouts, seeds,
)  # fmt: skip
def test_value_scale_2d(dtype, batch, channels, height, width, scale, layout, seed) -> None:
    x = desc((batch, channels, height, width), dtype)
    operator = make("value_scale_2d", input=x, scale=scale, bias=tuple([0.3, 1e-7, -70000.0][:channels]))
    assert payload_of(operator)[0] == "parts"
    check_exact(operator, filled(operator, seed, layout))
