"""Inputs of random numbers."""

from __future__ import annotations

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.base.random_arrays import random_array
from dmlgraph.measure.inputs import complete


def graph(*names: str) -> dg.Graph:
    g = dg.Graph()
    for name in names:
        g.input(name, sizes=[2, 3], dtype="float16")
    return g


@pytest.mark.parametrize("dtype", dg.DataType, ids=str)
def test_every_data_type_gets_numbers_it_holds(dtype: dg.DataType) -> None:
    desc = dg.TensorDesc(dtype=dtype, sizes=[20, 100])
    array = random_array(desc, "x")
    assert (array.dtype, array.shape) == (dtype.numpy, (20, 100))
    values = array.astype(np.float64)
    if dtype.is_float:
        assert abs(values.mean()) < 0.2
        assert abs(values.std() - 1) < 0.1
    else:
        assert set(values.ravel()) == set(range(8))


def test_given_inputs_stay_and_the_others_are_the_same_every_time() -> None:
    mine = np.ones((2, 3), np.float16)
    inputs, made = complete(graph("a", "b"), {"a": mine})
    assert inputs["a"] is mine
    assert made == ("b",)
    again, made = complete(graph("c", "b"), {})
    assert made == ("c", "b")
    np.testing.assert_array_equal(again["b"], inputs["b"])
    assert not np.array_equal(again["b"], again["c"])
    assert not np.array_equal(complete(graph("b"), {}, seed=1)[0]["b"], inputs["b"])
