"""Every operator, in every data type that the library's feature level allows, on the real DirectML.

Each operator's example (`dmlgraph operators NAME`) is run with its main data type replaced by every other one
that is legal, and compared with the reference: integers exactly, floats within a few units in the last place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.catalog.registry import REGISTRY
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]

# Units in the last place that float results may differ by: DirectML's shaders evaluate products and sums in
# another order, and approximate functions that have no exact result.
ULPS = 16

# Absolute differences allowed besides, where DirectML's shader approximates the function by a polynomial.
APPROXIMATED = {"asin": 1e-4, "acos": 1e-4, "atan": 2e-5, "atan_yx": 2e-5}


def legal_variants(operator: type[Operator], device: DirectMLDevice) -> Iterator[tuple[DataType, GraphDesc, set[str]]]:
    """The example in each main data type, with the names of the inputs of other types: indices, lengths, conditions."""
    text = example(operator)
    main = re.search(r"dtype: (\w+)", text)
    assert main is not None, f"the example of {operator.name} has no tensor"
    others = set(re.findall(rf"^  (\w+): {{dtype: (?!{main[1]}\b)", text, flags=re.M))
    for dtype in DataType:
        try:
            desc = lower(dg.loads(text.replace(main[0], f"dtype: {dtype}")), device.level)
        except dg.DmlGraphError:
            continue  # other tests check which data types are legal
        nodes = [node.operator for node in desc.nodes if isinstance(node, OperatorDescNode)]
        if not any(node.level_problems(device.level) for node in nodes):
            yield dtype, desc, others


def some_values(desc: TensorDesc, random: np.random.Generator, *, main: bool) -> Array:
    """Numbers that every operator accepts: small, not zero as divisors, in range as indices."""
    if not main:
        return random.integers(0, 2, desc.sizes).astype(desc.dtype.numpy)
    if desc.dtype.is_float:
        return random.uniform(-2, 2, desc.sizes).astype(desc.dtype.numpy)
    numbers = random.integers(1, 5, desc.sizes)
    if desc.dtype.is_signed:
        numbers *= random.choice([-1, 1], desc.sizes)
    return numbers.astype(desc.dtype.numpy)


def assert_close(got: Array, expected: Array, absolute: float) -> None:
    assert got.dtype == expected.dtype
    if not np.issubdtype(expected.dtype, np.floating):
        np.testing.assert_array_equal(got, expected)
        return
    epsilon = float(np.finfo(expected.dtype).eps)
    np.testing.assert_allclose(
        got.astype(np.float64),
        expected.astype(np.float64),
        rtol=ULPS * epsilon,
        atol=max(absolute, 4 * epsilon),
    )


def compare(operator: type[Operator], directml: DirectMLDevice) -> list[DataType]:
    """Compares DirectML with the reference; returns the compared data types."""
    compared = []
    random = np.random.default_rng(1)
    for dtype, desc, others in legal_variants(operator, directml):
        inputs = {
            slot.name: some_values(slot.desc, random, main=slot.name not in others)
            for slot in desc.inputs
            if slot.elements is None
        }
        if "variance" in inputs:  # none is negative
            inputs["variance"] = np.abs(inputs["variance"])
        if "sequence_lengths" in inputs:  # a length of 0 is undefined
            inputs["sequence_lengths"] = np.maximum(inputs["sequence_lengths"], 1)
        expected = ReferenceDevice().compile(desc, reason="asked for").run(inputs)
        with directml.compile(desc, reason="asked for") as executable:
            got = executable.run(inputs)
        for name, values in expected.items():
            assert_close(got[name], values, APPROXIMATED.get(operator.name, 0.0))
        compared.append(dtype)
    return compared


@pytest.mark.parametrize(
    "operator", [pytest.param(each, id=name) for name, each in sorted(REGISTRY.items()) if not each.is_view]
)
def test_operator_gives_what_the_reference_gives(operator: type[Operator], directml: DirectMLDevice) -> None:
    exists = operator.support().introduced <= directml.level
    assert bool(compare(operator, directml)) == exists
