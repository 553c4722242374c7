"""Normalizations of single elements on the real DirectML, which uses the elements as their variance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operators.harness import build

from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml import device as module
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.devices.directml.faults import make_safe
from dmlgraph.operators import MeanVarianceNormalization1

Array = np.ndarray[Any, Any]


def normalized(device: DirectMLDevice, operator: str, x: Array, parameters: list[Array | None], **fields: Any) -> Array:
    graph, feeds = build(operator, [x, *parameters], **fields)
    with device.compile(lower(graph, device.level), reason="asked for") as executable:
        (got,) = executable.run(feeds).values()
    return got


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed", range(12))
def test_single_elements_are_normalized_to_the_bias(directml: DirectMLDevice, dtype: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.choice([1, 2, 3], 4)
    fields: dict[str, Any] = {"normalize_variance": True, "epsilon": float(random.choice([1e-5, 0.5]))}
    if seed % 3 == 0:
        operator, reduced, fields["cross_channel"] = "mean_variance_normalization", [2, 3], False
    else:
        operator, reduced = "mean_variance_normalization1", sorted(random.choice(4, 2, replace=False).tolist())
        fields["axes"] = reduced
    sizes[reduced] = 1
    x = random.choice([-1e4, -7.5, -1e-3, 0.0, 2.0, 1e4], sizes).astype(dtype)
    x.flat[0] = -7.5
    scale, bias = (random.normal(size=[1] * 4).astype(dtype) if seed % 2 else None for _ in range(2))
    got = normalized(directml, operator, x, [scale, bias], **fields)
    np.testing.assert_array_equal(got, np.broadcast_to(0 if bias is None else bias, x.shape))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_directml_takes_single_elements_for_their_variance(
    directml: DirectMLDevice, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, DirectML is right, and `normalize_single_elements` can be removed."""
    monkeypatch.setattr(module, "make_safe", lambda graph: (graph, 0))
    x = np.array([[-7.5, 2.0]], dtype)
    fields = {"axes": [0], "normalize_variance": True, "epsilon": 0.5}
    got = normalized(directml, "mean_variance_normalization1", x, [], **fields)
    np.testing.assert_array_equal(got, [[np.nan, 0]])


def test_only_normalizations_of_single_elements_change() -> None:
    def divides(sizes: list[int], **fields: Any) -> bool:
        given: dict[str, Any] = {"axes": [1], "normalize_variance": True, "epsilon": 1e-3} | fields
        graph, _ = build("mean_variance_normalization1", [np.zeros(sizes, np.float32)], **given)
        desc = lower(graph)
        safe, _ = make_safe(desc)
        (node,) = safe.nodes
        assert isinstance(node, OperatorDescNode)
        assert isinstance(node.operator, MeanVarianceNormalization1)
        assert (safe is desc) == (node.operator.normalize_variance == given["normalize_variance"])
        return bool(node.operator.normalize_variance)

    assert not divides([3, 1])
    assert divides([1, 3])
    assert divides([3, 1], axes=[0, 1])
    assert divides([3, 1], epsilon=0.0)  # 0 / 0
    assert not divides([3, 1], normalize_variance=False)
