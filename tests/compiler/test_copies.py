"""Copies: at every feature level each tensor has a legal copy, or a message."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType, DataTypeName, TensorDesc
from dmlgraph.compiler.copies import packing, window
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators.declaration.operator import Operator

ORDERS = {
    "transposed": ((3, 2), (1, 3)),
    "repeated": ((2, 3, 2), (0, 2, 1)),
    "of rank 8": ((2, 1, 2, 1, 3, 1, 1, 2), (1, 0, 12, 0, 4, 0, 0, 2)),
}
NO_ONES = (3, 2, 2, 2, 2, 2, 2, 2), (1, 3, 6, 12, 24, 48, 96, 192)  # pairs of words would be a ninth dimension
LEVELS = [level for level in FeatureLevel if level <= FeatureLevel.V6_2]


def words(dtype: DataType, count: int) -> np.ndarray:
    return np.arange(1, count + 1).astype(dtype.numpy)


def made_or_message(make: Callable[[], Operator]) -> Operator | None:
    """The operator; None where there is none and the message says so."""
    try:
        return make()
    except dg.GraphError as error:
        problem = error
    assert problem.code == "level"
    assert problem.hint in ("a higher target has one", "no level copies this data type in another order")
    return None


@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("dtype", DataType, ids=str)
def test_every_order_has_a_copy_or_a_message(dtype: DataType, level: FeatureLevel) -> None:
    for sizes, strides in ORDERS.values():
        desc = TensorDesc(dtype=dtype, sizes=sizes, strides=strides)
        operator = made_or_message(functools.partial(packing, desc, level))
        if operator is None:
            assert dtype.bits in (4, 8, 16, 64)
            continue
        assert operator.level_problems(level) == []
        (read,) = operator.input_descs
        assert read is not None
        assert read.total_bytes == desc.total_bytes
        data = words(dtype, 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)))
        memory = data.view(read.dtype.numpy)
        expected = np.lib.stride_tricks.as_strided(data, sizes, [data.itemsize * stride for stride in strides])
        source = np.lib.stride_tricks.as_strided(
            memory, read.sizes, [memory.itemsize * stride for stride in read.effective_strides]
        )
        (made,) = operator.evaluate(np.array(source))
        assert np.array(made, order="C").tobytes() == np.array(expected, order="C").tobytes()


@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("dtype", DataType, ids=str)
@pytest.mark.parametrize("steps", [(1, 2), (1, -1)])
def test_every_window_has_a_copy_or_a_message(dtype: DataType, level: FeatureLevel, steps: tuple[int, int]) -> None:
    starts, counts = (1, 1 if steps[1] > 0 else 4), (2, 2)
    data = words(dtype, 15).reshape(3, 5)
    desc = TensorDesc(dtype=dtype, sizes=(3, 5))
    operator = made_or_message(lambda: window(desc, starts, steps, counts, level))
    if operator is None:
        return
    assert operator.level_problems(level) == []
    (read,) = operator.input_descs
    assert read is not None
    (made,) = operator.evaluate(data.view(read.dtype.numpy).reshape(read.sizes))
    expected = data[1:3, starts[1] :: steps[1]][:, :2]
    assert np.array(made, order="C").tobytes() == np.array(expected, order="C").tobytes()


@pytest.mark.parametrize("dtype", [dtype for dtype in DataType if dtype.bits > 4], ids=str)
def test_the_highest_level_copies_all_but_four_bits(dtype: DataType) -> None:
    for sizes, strides in (*ORDERS.values(), NO_ONES):
        packing(TensorDesc(dtype=dtype, sizes=sizes, strides=strides), FeatureLevel.V6_2)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_four_bits_have_no_copy_at_any_level(dtype: str) -> None:
    with pytest.raises(dg.GraphError) as caught:
        packing(TensorDesc(dtype=dtype, sizes=(3, 2), strides=(1, 3)), max(FeatureLevel))
    assert caught.value.hint == "no level copies this data type in another order"


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_eight_dimensions_of_64_bits_in_another_order(dtype: DataTypeName, device: DeviceName) -> None:
    """As an output, before a join, and behind a slice that no strides express."""
    x = np.arange(3 * 2**7).reshape(3, *(2,) * 7).astype(dtype)
    graph = dg.Graph("orders")
    value = graph.input("x", sizes=x.shape, dtype=dtype)
    graph.output("turned", value.T)
    graph.output("joined", dg.join([value.T, value.T], axis=2))
    graph.output("back", value.T[1:, :, ::-1])
    graph.output("flat", dg.reshape(value.T, sizes=[x.size]))
    got = graph.compile(device=device).run({"x": x})
    expected = {
        "turned": x.T,
        "joined": np.concatenate([x.T, x.T], 2),
        "back": x.T[1:, :, ::-1],
        "flat": x.T.ravel(),
    }
    for name, each in expected.items():
        np.testing.assert_array_equal(got[name], each)
