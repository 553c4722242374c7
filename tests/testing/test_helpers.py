"""`dmlgraph.testing` for tests in Python."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.testing import assert_devices_agree, random_inputs


def graph() -> dg.Graph:
    g = dg.Graph("g")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    n = g.input("n", sizes=[2, 3], dtype="uint8")
    g.output("y", dg.activation_relu(x * 2 + 1))
    g.output("m", dg.max(n, n))
    return g


def test_random_inputs_are_there_for_every_input_and_the_same_for_the_same_seed() -> None:
    g = graph()
    first, again, other = random_inputs(g, 1), random_inputs(g, 1), random_inputs(g, seed=2)
    assert list(first) == ["x", "n"]
    assert (first["x"].dtype, first["n"].dtype) == (np.float32, np.uint8)
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["x"] != other["x"]).any()


def test_all_devices_of_the_machine_agree_by_default() -> None:
    assert_devices_agree(graph())
    assert_devices_agree(graph(), random_inputs(graph(), 5), devices=["reference", "cpu"])


def test_one_device_is_compared_with_itself_without_fusion() -> None:
    assert_devices_agree(graph(), devices=["cpu"])
    g = dg.Graph()
    x = g.input("x", sizes=[2, 3], dtype="float32")
    w = g.input("w", sizes=[3, 2], dtype="float32")
    g.output("y", dg.gemm(x, w) * 3)  # fused, the product is not rounded before it is scaled
    inputs = {
        "x": np.array([[1 + 2.0**-12, 0, 0], [1, 1, 1]], np.float32),
        "w": np.array([[1 + 2.0**-12, 1], [0, 1], [0, 1]], np.float32),
    }
    with pytest.raises(AssertionError, match="'reference, fused' and 'reference, not fused' differ"):
        assert_devices_agree(g, inputs, devices=["reference"])
    assert_devices_agree(g, inputs, devices=["reference"], ulp=1)
    assert_devices_agree(g, inputs, devices=["reference"], relative=1e-6)
    assert_devices_agree(g, inputs, devices=["reference"], absolute=1e-6)


def test_a_device_that_is_not_here_is_an_error() -> None:
    with pytest.raises(dg.DeviceError):
        assert_devices_agree(graph(), devices=["reference", "directml:77"])


@pytest.mark.parametrize("devices", ["cpu", []])
def test_devices_are_a_list(devices: object) -> None:
    with pytest.raises(ValueError, match="must be a list of names"):
        assert_devices_agree(graph(), devices=devices)  # type: ignore[arg-type]


def cache() -> dg.Graph:
    g = dg.Graph("cache")
    x = g.input("x", sizes=[1, 2], dtype="float32")
    total = g.state("total", sizes=[1, 2], dtype="float32", initial=1)
    g.update(total, total + x)
    rows = g.state("rows", sizes=[4, 2], dtype="float32", grows=0)
    g.append(rows, x)
    g.output("y", dg.add(dg.reduce(rows, function="sum", axes=[0]), total))
    return g


def test_states_are_set_before_and_compared_after_every_step() -> None:
    states = {"total": np.float32([[3, 4]]), "rows": np.float32([[1, 2]])}  # type: ignore[arg-type]
    assert_devices_agree(cache(), states=states, steps=3)
    for wrong, code, field in (
        ({"totl": 0}, "unknown-state", "totl"),
        ({"rows": np.zeros((5, 2), "f4")}, "sizes", "rows"),
    ):
        with raises(dg.BindingError, code, field=field):
            assert_devices_agree(cache(), states=wrong)
    with raises(dg.BindingError, "capacity", field="rows", got="4 rows and 1 more"):
        assert_devices_agree(cache(), states=states, steps=4)


@pytest.mark.parametrize("steps", [0, 1.5, True])
def test_steps_are_a_whole_number(steps: object) -> None:
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1"):
        assert_devices_agree(cache(), steps=steps)  # type: ignore[arg-type]


def test_a_state_that_differs_is_named_with_its_step() -> None:
    g = dg.Graph()
    w = g.input("w", sizes=[2, 2], dtype="float32")
    s = g.state("s", sizes=[1, 2], dtype="float32", initial=1)
    g.update(s, dg.gemm(s, w) * 3)  # fused, the product is not rounded before it is scaled
    g.output("before", dg.identity(s))
    inputs = {"w": np.array([[1, 1], [1, 0]], np.float32) + np.float32(2**-12)}  # exact in the first step
    with pytest.raises(AssertionError) as caught:
        assert_devices_agree(g, inputs, devices=["reference"], steps=9)
    lines = str(caught.value).splitlines()
    assert lines[0] == "'reference, fused' and 'reference, not fused' differ in step 1"
    assert re.fullmatch(r"state 's': \d of 2 elements differ, most .*", lines[1])
    assert_devices_agree(g, inputs, devices=["reference"], steps=1)
