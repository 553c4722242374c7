"""Diagonal matrices, scaled images and random bits on the device `cpu`: the bits of `reference`, nothing in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu.near import check_exact, desc, filled, layouts, make, run, seeds

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.devices.cpu.plan import lowered

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
    assert isinstance(lowered(operator), tuple)
    check_exact(operator, filled(operator, seed, layout))


@given(st.sampled_from(TYPES), matrices, diagonals, st.sampled_from([1.0, -2.5, 300.0]))
def test_diagonal_matrix(dtype, sizes, offset, value) -> None:
    operator = make("diagonal_matrix", output=desc(sizes, dtype), offset=offset, value=value)
    assert isinstance(lowered(operator), tuple)
    check_exact(operator, [])


@given(
    st.sampled_from(["float32", "float16"]), st.integers(1, 3), st.sampled_from([1, 3]), st.integers(1, 9),
    st.integers(1, 9), st.sampled_from([0.1, -3.0, 1e6]), layouts, seeds,
)  # fmt: skip
def test_value_scale_2d(dtype, batch, channels, height, width, scale, layout, seed) -> None:
    x = desc((batch, channels, height, width), dtype)
    operator = make("value_scale_2d", input=x, scale=scale, bias=tuple([0.3, 1e-7, -70000.0][:channels]))
    assert isinstance(lowered(operator), tuple)
    check_exact(operator, filled(operator, seed, layout))


WORDS = st.sampled_from([0, 1, 2**31, 2**32 - 2, 2**32 - 1])


@given(st.lists(WORDS, min_size=6, max_size=6), st.sampled_from([1, 3, 4, 63, 64, 65, 1000, 20001]), st.booleans())
def test_random_generator(words, count, has_state) -> None:
    """Words at their bounds carry into the next ones."""
    more = {} if has_state else {"output_state": False}
    operator = make(
        "random_generator", input_state=desc((1, 1, 1, 6), "uint32"), output={"sizes": (1, 1, 1, count)}, **more
    )
    assert isinstance(lowered(operator), tuple)
    state = np.array(words, np.uint32).reshape(1, 1, 1, 6)
    for got, expected in zip(run(operator, state, threads=2), operator.evaluate(state), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("state", "bits"),
    [  # the known answers of the authors' implementation, Random123
        ([0, 0, 0, 0, 0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 6, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_known_random_bits(state: list[int], bits: list[int]) -> None:
    operator = make("random_generator", input_state=desc((6,), "uint32"), output={"sizes": (4,)})
    assert operator.output.dtype is DataType.UINT32
    np.testing.assert_array_equal(run(operator, np.array(state, np.uint32))[0], np.array(bits, np.uint32))
