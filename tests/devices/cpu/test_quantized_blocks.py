"""QUANTIZE and DEQUANTIZE by blocks, also of 4 bits, on the device `cpu`: the bits of `reference`, no Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.cpu.near import check_exact, compiled, desc, filled, layouts, make, seeds
from support.cpu.plans import kinds

import dmlgraph as dg
from dmlgraph.base.tensor import MAX_RANK
from dmlgraph.devices.cpu.nodes import Evaluate
from dmlgraph.devices.cpu.plan import lowered
from dmlgraph.operators.declaration.operator import Operator

INTEGERS = st.sampled_from(["int4", "uint4", "int8", "uint8"])
FLOATS = st.sampled_from(["float32", "float16"])


@st.composite
def operators(draw: st.DrawFn, name: str) -> Operator:
    """Along each axis the zero point has as many blocks as the scale, or some of these together: up to 8 dimensions."""
    numbers, integers = draw(FLOATS), draw(INTEGERS)
    rank = draw(st.integers(1, 4))
    lengths = [draw(st.lists(st.sampled_from([1, 1, 2, 3, 5]), min_size=3, max_size=3)) for _ in range(rank)]
    assume(sum(each > 1 for axis in lengths for each in axis) <= MAX_RANK)
    sizes = tuple(int(np.prod(each)) for each in lengths)
    scale = desc(tuple(each[0] * each[1] for each in lengths), numbers)
    zero_point = desc(tuple(each[0] for each in lengths), integers)
    kind = draw(st.sampled_from(["none", "scale", "scale_zero_point"]))
    quantizations = {"none": (), "scale": (scale,), "scale_zero_point": (scale, zero_point)}[kind]
    given, made = (integers, numbers) if name == "dequantize" else (numbers, integers)
    return make(
        name, input=desc(sizes, given), quantizations=quantizations, quantization_type=kind, output={"dtype": made}
    )


def numbers_for(operator: Any, seed: int, layout: str) -> list[Any]:
    """Scales are positive, and numbers reach beyond the integers' range."""
    first, *parameters = filled(operator, seed, layout)
    assert first is not None
    if first.dtype.kind == "f" and operator.output.dtype.bits == 8:
        first = first * first.dtype.type(20)
    scales = parameters[:1] if operator.quantizations else []
    positive = [np.abs(each) + each.dtype.type(0.125) for each in scales if each is not None]
    return [first, *positive, *parameters[1:]]


@given(operators("dequantize"), layouts, seeds)
def test_dequantize_equals_the_reference(operator: Operator, layout: str, seed: int) -> None:
    assert isinstance(lowered(operator), tuple)
    check_exact(operator, numbers_for(operator, seed, layout))


@given(operators("quantize"), layouts, seeds)
def test_quantize_equals_the_reference(operator: Operator, layout: str, seed: int) -> None:
    assert isinstance(lowered(operator), tuple)
    check_exact(operator, numbers_for(operator, seed, layout))


def test_all_elements_of_a_byte() -> None:
    """Two's complement, the first element in the lower half."""
    operator = make("dequantize", input=desc((16,), "int4"), quantizations=(desc((1,)),), quantization_type="scale")
    steps = np.array([0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1])
    with compiled(operator) as executable:
        x = steps.astype(operator.input.dtype.numpy)
        (result,) = executable.run({"x0": x, "x1": np.array([2], np.float32)}).values()
    np.testing.assert_array_equal(result, 2 * steps)


@pytest.mark.parametrize("sizes", [(1,), (3,), (5, 7), (65, 1031)])
def test_odd_counts_between_others(sizes: tuple[int, ...]) -> None:
    """Numbers become 4-bit steps and numbers again, between element-wise operators."""
    g = dg.Graph()
    x = g.input("x", sizes=list(sizes), dtype="float32")
    scale = g.constant("scale", np.full((1,) * len(sizes), 0.5, np.float32))
    steps = dg.quantize(x + 1, [scale], dtype="int4", quantization_type="scale")
    g.output("steps", steps)
    g.output("y", dg.dequantize(steps, [scale], quantization_type="scale") * 2)
    executable = g.compile(device="cpu", threads=2)
    given = {"x": np.linspace(-7, 7, int(np.prod(sizes)), dtype=np.float32).reshape(sizes)}
    results = executable.run(given)
    assert "python" not in kinds(executable)
    clamped = np.clip(np.rint((given["x"] + 1) / np.float32(0.5)), -8, 7)
    np.testing.assert_array_equal(results["steps"].astype(np.float32), clamped)
    np.testing.assert_array_equal(results["y"], clamped)


def test_other_layouts_of_4_bits() -> None:
    """Elements of 4 bits with gaps, and in another order."""
    g = dg.Graph()
    x = g.input("x", sizes=[3, 4], dtype="int4", strides=[1, 5])
    scale = g.constant("scale", np.array([[0.5, 2]], np.float32))
    y = dg.dequantize(x, [scale], quantization_type="scale")
    g.output("y", y)
    g.output("z", dg.quantize(y, [scale], quantization_type="scale", output={"dtype": "int4", "strides": [9, 2]}))
    executable = g.compile(device="cpu")
    steps = np.random.default_rng(1).integers(-8, 7, (3, 4), endpoint=True)
    results = executable.run({"x": steps.astype(x.desc.dtype.numpy)})
    assert "python" not in kinds(executable)
    np.testing.assert_array_equal(results["y"], steps * np.repeat([[0.5, 2]], 2, 1))
    np.testing.assert_array_equal(results["z"].astype(int), steps)


def test_blocks_that_overlap_run_in_python() -> None:
    """Of 2 and of 3 elements: neither is a part of the other."""
    operator = make(
        "dequantize", input=desc((6,), "uint8"), quantizations=(desc((3,)), desc((2,), "uint8")),
        quantization_type="scale_zero_point",
    )  # fmt: skip
    assert isinstance(lowered(operator), Evaluate)
    check_exact(operator, filled(operator, 1))
