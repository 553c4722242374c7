"""Scatter with reductions, indices known and unknown, next to NumPy."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices import choose
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
DEVICES = ["reference", "cpu", "directml:software"]
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda x, update: update,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}

pytestmark = pytest.mark.usefixtures("directml_path")


def imported(
    operator: str, inputs: dict[str, Array], device: DeviceName, folder: pathlib.Path, *, known: bool, **attributes: Any
) -> dg.Graph:
    """A model of one node whose inputs are the model's, the indices with values if they are `known`."""
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    node = helper.make_node(operator, list(inputs), ["y"], "scatter", **attributes)
    made = helper.make_tensor_value_info("y", given[0].type.tensor_type.elem_type, None)
    graph = helper.make_graph([node], "model", given, [made])
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10), path)
    values = {"indices": inputs["indices"]} if known else {}
    return dg.load(path, values=values, target=choose(device).device.level)


def result(operator: str, inputs: dict[str, Array], device: DeviceName, folder: pathlib.Path, **options: Any) -> Array:
    graph = imported(operator, inputs, device, folder, **options)
    feeds = {node.name: inputs[node.name] for node in graph.inputs}
    return np.asarray(graph.compile(device=device).run(feeds)["y"])


def scattered_elements(data: Array, indices: Array, updates: Array, axis: int, reduction: str) -> Array:
    made = data.copy()
    for place in np.ndindex(*indices.shape):
        at = list(place)
        at[axis] = int(indices[place])
        made[tuple(at)] = FUNCTIONS[reduction](made[tuple(at)], updates[place])
    return made


def scattered_slices(data: Array, indices: Array, updates: Array, reduction: str) -> Array:
    made = data.copy()
    for place in np.ndindex(*indices.shape[:-1]):
        at = tuple(int(each) for each in indices[place])
        made[at] = FUNCTIONS[reduction](made[at], updates[place])
    return made


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32], ids=["float32", "int32"])
@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_elements_that_are_updated_several_times(
    reduction: str, dtype: Any, known: bool, device: DeviceName, tmp_path: pathlib.Path
) -> None:
    rng = np.random.default_rng(3)
    for axis, shape in ((0, (4, 3)), (1, (2, 5, 3))):
        data = (rng.normal(0, 9, shape)).astype(dtype)
        sizes = tuple(6 if each == axis else size for each, size in enumerate(shape))
        indices = rng.integers(-shape[axis], shape[axis], sizes)
        updates = rng.normal(0, 9, sizes).astype(dtype)
        inputs = {"data": data, "indices": indices, "updates": updates}
        options = {"axis": axis, "reduction": reduction}
        got = result("ScatterElements", inputs, device, tmp_path, known=known, **options)
        np.testing.assert_allclose(got, scattered_elements(data, indices, updates, axis, reduction), 1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize(
    ("shape", "outer", "taken"),
    [((5,), (7,), 1), ((4, 3), (6,), 1), ((4, 3), (2, 3), 2), ((3, 2, 4), (5,), 2)],
    ids=["numbers", "rows", "elements", "slices"],
)
def test_slices_that_are_updated_several_times(
    shape: tuple[int, ...],
    outer: tuple[int, ...],
    taken: int,
    reduction: str,
    known: bool,
    device: DeviceName,
    tmp_path: pathlib.Path,
) -> None:
    rng = np.random.default_rng(4)
    data = rng.normal(0, 9, shape).astype(np.float32)
    indices = np.stack([rng.integers(-size if known else 0, size, outer) for size in shape[:taken]], -1)
    updates = rng.normal(0, 9, (*outer, *shape[taken:])).astype(np.float32)
    inputs: dict[str, Array] = {"data": data, "indices": indices, "updates": updates}
    got = result("ScatterND", inputs, device, tmp_path, known=known, reduction=reduction)
    np.testing.assert_allclose(got, scattered_slices(data, indices, updates, reduction), 1e-5)


@pytest.mark.parametrize("reduction", FUNCTIONS)
def test_known_indices_of_a_part_of_the_other_dimensions(reduction: str, tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(5)
    data, updates = (rng.normal(0, 9, sizes).astype(np.float32) for sizes in ((4, 5), (3, 2)))
    indices = np.array([[0, 3], [3, 1], [0, 3]])
    inputs = {"data": data, "indices": indices, "updates": updates}
    options: dict[str, Any] = {"axis": 0} | ({} if reduction == "none" else {"reduction": reduction})
    got = result("ScatterElements", inputs, "reference", tmp_path, known=True, **options)
    np.testing.assert_allclose(got, scattered_elements(data, indices, updates, 0, reduction), 1e-5)


def many(indices: Array) -> dict[str, Array]:
    return {"data": np.zeros((200, 1), np.float32), "indices": indices, "updates": np.ones((100, 1), np.float32)}


def test_too_many_updates_of_one_element_are_refused(tmp_path: pathlib.Path) -> None:
    same = np.zeros((100, 1), np.int64)
    for known in (False, True):
        with raises(dg.ModelError, "too-large", node="scatter", field="reduction", got=100) as caught:
            imported("ScatterElements", many(same), "reference", tmp_path, known=known, axis=0, reduction="add")
        assert (caught.value.problems[0].hint is None) is known


def test_any_number_of_known_indices_that_differ(tmp_path: pathlib.Path) -> None:
    indices = np.random.default_rng(0).permutation(200)[:100, None]
    got = result("ScatterElements", many(indices), "reference", tmp_path, known=True, axis=0, reduction="add")
    np.testing.assert_array_equal(np.flatnonzero(got), np.sort(indices.ravel()))


@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
def test_an_index_outside_is_refused(operator: str, tmp_path: pathlib.Path) -> None:
    inputs = {"data": np.zeros(3, np.float32), "indices": np.array([3]), "updates": np.ones(1, np.float32)}
    if operator == "ScatterND":
        inputs["indices"] = inputs["indices"][:, None]
    with raises(dg.ModelError, "range", node="scatter", field="indices", got=[3, 3]):
        imported(operator, inputs, "reference", tmp_path, known=True, reduction="add")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_caches(mode: str, known: bool, device: DeviceName, tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(6)
    cache, update = (rng.normal(0, 1, sizes).astype(np.float32) for sizes in ((2, 3, 6, 4), (2, 3, 3, 4)))
    starts = np.array([1, 3]) if mode == "linear" else np.array([4, 2])
    wanted = cache.copy()
    for batch, start in enumerate(starts):
        for place in range(3):
            wanted[batch, :, (start + place) % 6] = update[batch, :, place]
    inputs = {"cache": cache, "update": update, "indices": starts}
    np.testing.assert_array_equal(result("TensorScatter", inputs, device, tmp_path, known=known, mode=mode), wanted)
