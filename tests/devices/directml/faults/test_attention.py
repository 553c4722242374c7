"""Attention with a mask and a position bias on the real DirectML, which scales the bias with a boolean mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.compile import lower_graph
from dmlgraph.devices.directml.device import DirectMLDevice, DirectMLExecutable, ExecutionFlag
from dmlgraph.devices.directml.faults import make_safe

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("directml_path")

HEADS, SCALE, FILTER = 2, 0.3, -50.0
RNG = np.random.default_rng(3)
DATA = {
    "query": RNG.normal(size=(2, 3, 8)),
    "key": RNG.normal(size=(2, 5, 8)),
    "value": RNG.normal(size=(2, 5, 8)),
    "mask": RNG.integers(0, 2, (2, 1, 1, 5)),
    "relative_position_bias": RNG.normal(size=(1, 2, 3, 5)),
}


def attention(
    scale: float = SCALE, dtype: DataTypeName = "float32", *, of_a_product: bool = False, **fields: Any
) -> dg.Graph:
    graph = dg.Graph("attention")
    tensors: dict[str, Any] = {
        name: graph.input(name, dtype="int32" if name == "mask" else dtype, sizes=data.shape)
        for name, data in DATA.items()
    }
    bias = tensors["relative_position_bias"]
    if of_a_product:  # which DirectML might merge with the sum
        one = graph.constant("one", np.eye(5, dtype=dtype))
        tensors["relative_position_bias"] = dg.gemm(
            bias, one.broadcast_to(1, 2, 5, 5), fused_activation="activation_relu"
        )
    fields = {"mask_type": "boolean", "mask_filter_value": FILTER, "head_count": HEADS, "scale": scale} | fields
    tensors |= fields
    graph.output("y", dg.multihead_attention(**tensors))
    return graph


def feeds(dtype: str = "float32") -> dict[str, Array]:
    return {name: data.astype("int32" if name == "mask" else dtype) for name, data in DATA.items()}


def expected(scale: float, bias_scale: float = 1.0, *, of_a_product: bool = False) -> Array:
    q, k, v = (DATA[name].reshape(2, -1, HEADS, 4).transpose(0, 2, 1, 3) for name in ("query", "key", "value"))
    bias = DATA["relative_position_bias"]
    scores = scale * q @ k.transpose(0, 1, 3, 2) + bias_scale * (np.maximum(bias, 0) if of_a_product else bias)
    powers = np.exp(scores + (1 - DATA["mask"]) * FILTER)
    weighted = powers / powers.sum(axis=-1, keepdims=True) @ v
    return np.asarray(weighted.transpose(0, 2, 1, 3).reshape(2, 3, 8))


def ran(graph: dg.Graph, dtype: str = "float32") -> Array:
    with graph.compile("directml:software") as executable:
        return executable.run(feeds(dtype))["y"]


@pytest.mark.parametrize("scale", [SCALE, 1.0, 0.0, -2.0])
@pytest.mark.parametrize("of_a_product", [False, True])
@pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-5), ("float16", 1e-2)])
def test_the_bias_is_not_scaled(scale: float, of_a_product: bool, dtype: DataTypeName, near: float) -> None:
    got = ran(attention(scale, dtype, of_a_product=of_a_product), dtype)
    np.testing.assert_allclose(got, expected(scale, of_a_product=of_a_product), atol=near)


def test_directml_scales_the_bias(directml: DirectMLDevice) -> None:
    """If this fails, DirectML is right, and `add_masks_to_biases` can be removed."""
    desc = lower_graph(attention(), directml)[1]
    with DirectMLExecutable(
        desc, directml.name, "asked for", directml._open_to_run(), ExecutionFlag.NONE
    ) as executable:
        got = executable.run(feeds())["y"]
        unsafe = executable.stats["dispatches"]
    np.testing.assert_allclose(got, expected(SCALE, bias_scale=SCALE), atol=1e-5)
    with attention().compile("directml:software") as executable:
        executable.run(feeds())
        assert (executable.stats["dispatches"], executable.stats["added_copies"]) == (unsafe, 0)


def test_an_infinite_filter_value_gives_nan() -> None:
    graph = dg.Graph("attention")
    tensors: dict[str, Any] = {
        name: graph.input(name, dtype="int32" if name == "mask" else "float32", sizes=DATA[name].shape)
        for name in ("query", "key", "value", "mask")
    }
    fields: dict[str, Any] = {"mask_type": "boolean", "mask_filter_value": -np.inf, "head_count": HEADS, "scale": SCALE}
    graph.output("y", dg.multihead_attention(**tensors, **fields))
    given = {name: data for name, data in feeds().items() if name in tensors} | {"mask": np.ones((2, 1, 1, 5), "int32")}
    results = {}
    for device in ("reference", "directml:software"):
        with graph.compile(device) as executable:
            results[device] = executable.run(given)["y"]
    assert np.isfinite(results["reference"]).all()
    assert np.isnan(results["directml:software"]).all()


def test_leading_ones_of_mask_and_bias_may_differ() -> None:
    graph = dg.Graph("attention")
    sizes = {name: data.shape for name, data in DATA.items()} | {"mask": (1, 2, 2, 3, 5)}
    tensors: dict[str, Any] = {
        name: graph.input(name, dtype="int32" if name == "mask" else "float32", sizes=each)
        for name, each in sizes.items()
    }
    fields: dict[str, Any] = {"mask_type": "boolean", "mask_filter_value": FILTER, "head_count": HEADS, "scale": SCALE}
    graph.output("y", dg.multihead_attention(**tensors, **fields))
    whole = np.broadcast_to(feeds()["mask"], (2, 2, 3, 5)).reshape(1, 2, 2, 3, 5)
    with graph.compile("directml:software") as executable:
        got = executable.run(feeds() | {"mask": whole})["y"]
    np.testing.assert_allclose(got, expected(SCALE), atol=1e-5)


def test_a_bias_that_is_a_window() -> None:
    """The sum overwrites the mask's numbers, and not the window, which DirectML would refuse."""
    graph = dg.Graph("attention")
    names = ("query", "key", "value", "mask")
    tensors: dict[str, Any] = {
        name: graph.input(name, dtype="int32" if name == "mask" else "float32", sizes=DATA[name].shape)
        for name in names
    }
    wide = graph.input("wide", dtype="float32", sizes=[4, 2, 3, 5])
    bias = dg.slice(dg.sin(wide), offsets=[2, 0, 0, 0], sizes=[2, 2, 3, 5], strides=1)
    fields: dict[str, Any] = {"mask_type": "boolean", "mask_filter_value": FILTER, "head_count": HEADS, "scale": SCALE}
    graph.output("y", dg.multihead_attention(**tensors, relative_position_bias=bias, **fields))
    given = {name: feeds()[name] for name in names}
    given["wide"] = np.linspace(-9, 9, 120, dtype="float32").reshape(4, 2, 3, 5)
    with graph.compile("directml:software", fuse=False) as executable:
        got = executable.run(given)["y"]
        assert executable.stats["added_copies"] == 0
    with graph.compile("reference") as executable:
        np.testing.assert_allclose(got, executable.run(given)["y"], atol=1e-5)


def test_other_attention_stays_as_it_is(directml: DirectMLDevice) -> None:
    def plain(*names: str, **fields: Any) -> dg.Graph:
        graph = dg.Graph("plain")
        tensors: dict[str, Any] = {
            name: graph.input(name, dtype="int32" if name == "mask" else "float32", sizes=DATA[name].shape)
            for name in ("query", "key", "value", *names)
        }
        graph.output("y", dg.multihead_attention(**tensors, head_count=HEADS, scale=SCALE, **fields))
        return graph

    for graph in (
        attention(1.0),
        plain("relative_position_bias", mask_type="none"),
        plain("mask", mask_type="boolean", mask_filter_value=FILTER),
    ):
        desc = lower_graph(graph, directml)[1]
        assert make_safe(desc) == (desc, 0)
