"""Sequences: arithmetic and slices that give a sequence, only if every bit is certain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.passes.fusing import applied, assert_same_bits, dispatches, fused, operator, operators, refusal

import dmlgraph as dg
from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators.fill import FillValueConstant, FillValueSequence

SIZES = [1, 2, 3, 4]
LONG = [1, 1, 1024, 1024]  # more than are compared
RULES = ("fill_of_sequence", "fold_sequences", "slice_sequence", "fold_fills")
Build = Callable[[dg.Graph], Any]


def of(build: Build) -> dg.Graph:
    g = dg.Graph("test")
    results = build(g)
    for index, value in enumerate(results if isinstance(results, tuple) else (results,)):
        g.output(f"y{index}", value)
    return g


def seq(g: dg.Graph, start: Any, delta: Any, dtype: str = "float32", sizes: list[int] = SIZES) -> dg.Value:
    return g.fill_value_sequence(sizes=sizes, dtype=dtype, value_start=start, value_delta=delta)


def filled(g: dg.Graph, value: Any, dtype: str = "float32", sizes: list[int] = SIZES) -> dg.Value:
    return g.fill_value_constant(sizes=sizes, dtype=dtype, value=value)


def line(g: dg.Graph) -> tuple[Any, Any]:
    """Start and delta of the only remaining operator."""
    sequence = operator(fused(g, *RULES))
    assert isinstance(sequence, FillValueSequence)
    return sequence.value_start.value.item(), sequence.value_delta.value.item()


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda g: seq(g, 3, 2) + 1, (4, 2)),
        (lambda g: 1 - seq(g, 3, 2), (-2, -2)),
        (lambda g: seq(g, 3, 2) - 1, (2, 2)),
        (lambda g: 3 * seq(g, 3, 2), (9, 6)),
        (lambda g: seq(g, 3, 2) + seq(g, 10, -1), (13, 1)),
        (lambda g: seq(g, 3, 2) - seq(g, 10, -1), (-7, 3)),
        (lambda g: dg.negate(seq(g, 3, 2)), (-3, -2)),
        (lambda g: seq(g, 10, -2, "uint8") + filled(g, 250, "uint8"), (4, 254)),
        (lambda g: seq(g, 1, 3, "int32") * filled(g, 1 << 30, "int32"), (1 << 30, -(1 << 30))),
        (lambda g: dg.cast(seq(g, 30, -1, "uint8"), dtype="float32"), (30, -1)),
        (lambda g: dg.cast(seq(g, 30, -1), dtype="uint8"), (30, 255)),
        (lambda g: dg.cast(seq(g, 0.5, 0.25), dtype="float16"), (0.5, 0.25)),
        (lambda g: (seq(g, 3, 2) * 2 + 1) * seq(g, 4, 0), (28, 16)),
    ],
)
def test_arithmetic(build: Build, expected: tuple[Any, Any], device: DeviceName) -> None:
    g = of(build)
    assert line(g) == expected
    assert_same_bits(g, {}, *RULES, device=device)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda g: dg.slice(seq(g, 1, 2, sizes=[24]), offsets=[3], sizes=[5], strides=[4]), (7, 8)),
        (lambda g: dg.slice(seq(g, 1, 2), offsets=[0, 1, 0, 0], sizes=[1, 1, 3, 4], strides=[1] * 4), (25, 2)),
        (lambda g: dg.slice(seq(g, 1, 2), offsets=[0, 0, 0, 1], sizes=[1, 2, 3, 1], strides=[1] * 4), (3, 8)),
        (lambda g: dg.slice(seq(g, 1, 2), offsets=[0] * 4, sizes=[1, 2, 3, 2], strides=[1, 1, 1, 2]), (1, 4)),
        (lambda g: backwards(seq(g, 1, 2, sizes=[24])), (47, -2)),
        (lambda g: backwards(seq(g, 1, 2, "uint8", sizes=[24])), (47, 254)),
        (lambda g: dg.split(seq(g, 1, 2, sizes=[24]), outputs=[10, 14], axis=0)[1], (21, 2)),
    ],
)
def test_slices(build: Build, expected: tuple[Any, Any], device: DeviceName) -> None:
    g = of(build)
    assert line(g) == expected
    assert_same_bits(g, {}, *RULES, device=device)


def backwards(x: dg.Value) -> dg.Value:
    return dg.slice1(x, input_window_offsets=[0], input_window_sizes=[24], input_window_strides=[-1])


def test_rows_that_are_cut_short_are_not_evenly_spaced() -> None:
    g = of(lambda g: dg.slice(seq(g, 1, 2), offsets=[0] * 4, sizes=[1, 2, 3, 3], strides=[1] * 4))
    assert "not evenly spaced" in refusal(fused(g, *RULES), "slice_sequence")


@pytest.mark.parametrize(
    ("build", "number"),
    [
        (lambda g: seq(g, 3, 0), 3),
        (lambda g: seq(g, 3, 5, sizes=[1]), 3),
        (lambda g: seq(g, 3, 2) - seq(g, 1, 2), 2),
        (lambda g: seq(g, 3, 2, "uint8") * filled(g, 0, "uint8"), 0),
        (lambda g: dg.slice(seq(g, 1, 2), offsets=[0, 1, 1, 1], sizes=[1] * 4, strides=[1] * 4), 35),
    ],
)
def test_sequences_that_stand_still_are_fills(build: Build, number: float) -> None:
    g = of(build)
    fill = operator(fused(g, *RULES))
    assert isinstance(fill, FillValueConstant)
    assert fill.value.value == number
    assert_same_bits(g, {}, *RULES)


def test_standing_still_at_minus_zero() -> None:
    g = of(lambda g: seq(g, -0.0, -0.0) * 1)
    assert operators(fused(g, *RULES)) == ["fill_value_constant"]
    assert_same_bits(g, {}, *RULES)


def test_an_infinite_index_times_zero_is_nan() -> None:
    g = of(lambda g: seq(g, 1, 0, "float16", [1 << 17]))
    assert refusal(fused(g, *RULES), "fill_of_sequence") == "its elements are not all the same to the bit"


# Certain or not, for more elements than are compared.


@pytest.mark.parametrize(
    "build",
    [
        lambda g: seq(g, 0.5, 0.5, sizes=LONG) * 2,
        lambda g: seq(g, -1000, 0.25, sizes=LONG) + 3,
        lambda g: seq(g, 7, 3, "uint16", LONG) * filled(g, 40001, "uint16", LONG),
        lambda g: dg.cast(seq(g, 7, 3, "int32", LONG), dtype="float32"),
        lambda g: dg.slice(seq(g, 7, 3, sizes=LONG), offsets=[0, 0, 1, 0], sizes=[1, 1, 512, 1024], strides=[1] * 4),
    ],
)
def test_long_ones_that_are_exact(build: Build) -> None:
    g = of(build)
    line(g)
    assert_same_bits(g, {}, *RULES)


@pytest.mark.parametrize(
    "build",
    [
        lambda g: seq(g, 0, 0.1, sizes=LONG) * 3,  # 0.1 is not an exact multiple of a power of two in float32
        lambda g: seq(g, 0, 1, sizes=LONG) * (1 / 3),
        lambda g: seq(g, 1, 1, sizes=LONG) + 1e-9,
        lambda g: seq(g, 0, 1, sizes=LONG) * 3e38,  # infinite
        lambda g: seq(g, 0, 1, sizes=LONG) * 2e-45,  # subnormal
        lambda g: dg.negate(seq(g, -4, 1, sizes=LONG)),  # −0.0 in the middle
        lambda g: seq(g, -4, 1, sizes=LONG) * -1,
        lambda g: dg.cast(seq(g, 0, 1, sizes=LONG), dtype="uint8"),  # saturates
        lambda g: dg.cast(seq(g, 0, 0.5, sizes=LONG), dtype="int32"),  # cuts
        lambda g: dg.cast(seq(g, 0, 1, "int32", sizes=[1, 1, 4097, 4097]), dtype="float32"),  # beyond 2^24
        lambda g: dg.cast(seq(g, 0, 1, "uint16", sizes=LONG), dtype="float32"),  # wraps
        lambda g: seq(g, 0, 1, "float16", [1, 1, 512, 512]) + 1,  # the index is rounded
        lambda g: dg.negate(seq(g, 0, 1, "int8", LONG)),  # −128 becomes 127
    ],
)
def test_long_ones_that_are_not(build: Build) -> None:
    result = fused(of(build), *RULES)
    assert refusal(result, "fold_sequences")
    assert applied(result) == []


@pytest.mark.parametrize(
    "build",
    [
        lambda g: seq(g, 0.1, 0.1) * 3,
        lambda g: dg.negate(seq(g, -4, 1)),
        lambda g: dg.cast(seq(g, 250, 1), dtype="uint8"),
        lambda g: seq(g, 0, 1) * float("inf"),
    ],
)
def test_short_ones_that_differ(build: Build) -> None:
    result = fused(of(build), *RULES)
    assert refusal(result, "fold_sequences") == "start + i · delta would be rounded to other numbers"


def test_what_is_not_exact_but_agrees() -> None:
    g = of(lambda g: seq(g, 0.1, 0.3) * 4)  # a power of two scales every rounding
    line(g)
    assert_same_bits(g, {}, *RULES)


def test_a_sequence_that_is_broadcast_starts_again() -> None:
    g = of(lambda g: seq(g, 0, 1, sizes=[4]) + filled(g, 1))
    assert refusal(fused(g, *RULES), "fold_sequences") == "the sequence is broadcast: it starts again and again"
    g = of(lambda g: seq(g, 0, 1, sizes=[4]) + filled(g, 1, sizes=[1, 1, 4]))
    assert line(g) == (1, 1)
    assert_same_bits(g, {}, *RULES)


def test_a_product_of_sequences_is_none() -> None:
    assert applied(fused(of(lambda g: seq(g, 0, 1) * seq(g, 0, 1)), *RULES)) == []


# Random expressions.

_TYPES: st.SearchStrategy[DataTypeName] = st.sampled_from(
    ["float16", "float32", "int8", "uint8", "int16", "uint32", "int64"]
)
_WIDTHS = st.integers(1, 9).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(1, 9)))


def _numbers(dtype: str) -> st.SearchStrategy[Any]:
    if dtype.startswith("float"):
        whole = st.integers(-64, 64).map(lambda value: value / 4)
        return st.one_of(whole, st.sampled_from([0.0, -0.0, 0.1, 60000.0, 1e-7, float("inf"), float("nan")]))
    info = np.iinfo(dtype)
    return st.one_of(st.integers(0, 9), st.integers(int(info.min), int(info.max)))


@given(st.data())
def test_folded_sequences_have_every_bit(data: st.DataObject) -> None:
    dtype, sizes = data.draw(_TYPES), list(data.draw(_WIDTHS))
    numbers = _numbers(dtype)

    def build(g: dg.Graph) -> dg.Value:
        value = seq(g, data.draw(numbers), data.draw(numbers), dtype, sizes)
        for _ in range(data.draw(st.integers(1, 3))):
            other = data.draw(
                st.sampled_from(
                    [
                        lambda: filled(g, data.draw(numbers), dtype, sizes),
                        lambda: seq(g, data.draw(numbers), data.draw(numbers), dtype, sizes),
                    ]
                )
            )()
            step = data.draw(
                st.sampled_from(
                    [
                        lambda x: x + other,  # noqa: B023 - called at once
                        lambda x: x - other,  # noqa: B023
                        lambda x: other * x,  # noqa: B023
                        lambda x: dg.cast(x, dtype=dtype),
                        lambda x: dg.slice(
                            x,
                            offsets=[data.draw(st.integers(0, size - 1)) for size in x.desc.sizes],
                            sizes=[1, 1],
                            strides=[1, 1],
                        ),
                    ]
                )
            )
            try:
                value = step(value)
            except DmlGraphError:
                assume(False)
            sizes[:] = value.desc.sizes
        return dg.cast(value, dtype=data.draw(_TYPES))

    g = of(build)
    assert_same_bits(g, {}, *RULES)


@pytest.mark.usefixtures("directml_path")
def test_a_sequence_used_twice_costs_nothing() -> None:
    def build(g: dg.Graph) -> dg.Value:
        ramp = seq(g, 3, 2)
        return g.input("x", sizes=SIZES, dtype="float32") * ramp + 3 * ramp

    x = np.ones(SIZES, np.float32)
    assert dispatches(of(build), {"x": x}, fuse=False) == 4
    assert dispatches(of(build), {"x": x}, fuse=["fold_sequences"]) == 2
