"""Pooling of regions, and the choice of boxes by their overlap, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.onnx.onnx_runtime import session
from support.onnx.parsed import assert_agrees, imported, model_of, run
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

DEVICES = ["reference", "cpu", "directml:software"]

pytestmark = pytest.mark.usefixtures("directml_path")


MAX_ROI_POOL = """g (TYPE[2,3,9,11] x, TYPE[5,5] rois) => (TYPE[5,3,2,3] y) {
    y = MaxRoiPool<pooled_shape = [2, 3], spatial_scale = SCALE>(x, rois)
}"""


def regions_of(scale: float) -> dict[str, Any]:
    """Many corners lie in the middle between two elements: those are rounded away from zero."""
    generator = np.random.default_rng(3)
    corners = np.sort(generator.integers(0, 9, (5, 2, 2)), axis=1).reshape(5, 4) / scale
    corners[:4] += [0.5 / scale, 0, 0, 0.5 / scale]
    corners[4] *= -1
    x = generator.normal(0, 1, (2, 3, 9, 11)).astype(np.float16)
    return {"x": x, "rois": np.concatenate([generator.integers(0, 2, (5, 1)), corners], 1).astype(np.float16)}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [1.0, 0.5, 0.0625])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_greatest_elements_of_cells(dtype: type[Any], scale: float, device: DeviceName) -> None:
    text = MAX_ROI_POOL.replace("SCALE", str(scale))
    feeds = regions_of(scale)
    single = model_of(text.replace("TYPE", "float")).SerializeToString()
    expected = session(single)({name: each.astype(np.float32) for name, each in feeds.items()})["y"]
    model = model_of(text.replace("TYPE", "float" if dtype is np.float32 else "float16"))
    got = run(model, {name: each.astype(dtype) for name, each in feeds.items()}, device)["y"]
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype(np.float32), expected)


def boxes_of(seed: int, batches: int, classes: int, count: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    at, size = generator.uniform(0, 4, (2, batches, count, 2))
    boxes = np.concatenate([at, at + size], 2)
    flipped = generator.random((batches, count)) < 0.3
    boxes[flipped] = boxes[flipped][:, [2, 1, 0, 3]]
    scores = generator.uniform(0, 1, (batches, classes, count)).round(1)  # some are equal
    return {"boxes": boxes.astype(np.float32), "scores": scores.astype(np.float32)}


NMS = """g (float[{b},{n},4] boxes, float[{b},{c},{n}] scores) => (int64[K,3] y)
    <int64 most = {{{most}}}, float overlap = {{{overlap}}}, float low = {{{low}}}> {{
    y = NonMaxSuppression<center_point_box = {center}>(boxes, scores, most, overlap{more})
}}"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("batches", "classes", "count", "most", "overlap", "low", "center"),
    [
        (1, 1, 8, 3, 0.5, 0.0, 0),
        (1, 1, 1, 5, 0.0, None, 0),
        (2, 3, 12, 4, 0.3, 0.4, 0),
        (1, 2, 20, 20, 0.1, 0.2, 1),
        (2, 1, 6, 1, 0.5, 0.9, 1),
        (1, 1, 30, 30, 1.0, None, 0),
    ],
)
def test_the_chosen_boxes_come_first(
    batches: int,
    classes: int,
    count: int,
    most: int,
    overlap: float,
    low: float | None,
    center: int,
    device: DeviceName,
) -> None:
    more = ", low" if low is not None else ""
    text = NMS.format(
        b=batches, c=classes, n=count, most=most, overlap=overlap, low=low or 0.0, center=center, more=more
    )
    model = model_of(text)
    for seed in range(3):
        feeds = boxes_of(seed, batches, classes, count)
        expected = session(model.SerializeToString())(feeds)["y"]
        got = run(model, feeds, device)["y"]
        assert got.shape == (batches * classes * min(most, count), 3)
        np.testing.assert_array_equal(got[: len(expected)], expected)
        assert (got[len(expected) :] == -1).all()


def test_without_a_limit_no_box_is_chosen() -> None:
    """The default of the limit is 0."""
    model = model_of(
        "g (float[1,4,4] boxes, float[1,1,4] scores) => (int64[K,3] y) {z = NonMaxSuppression(boxes, scores) "
        "o = Constant<value_ints = [1, 2, 3]>() p = Unsqueeze(o, q) y = Concat<axis = 0>(z, p)}"
    )
    model.graph.initializer.add(name="q", data_type=7, dims=[1], int64_data=[0])
    feeds = {"boxes": np.zeros((1, 4, 4), np.float32), "scores": np.ones((1, 1, 4), np.float32)}
    assert_agrees(model, feeds, "cpu")


@pytest.mark.parametrize(("boxes", "scores"), [([1, 4, 3], [1, 1, 4]), ([1, 4, 4], [2, 1, 4]), ([1, 4, 4], [1, 4])])
def test_boxes_and_scores_that_do_not_fit_are_refused(boxes: list[int], scores: list[int]) -> None:
    text = f"g (float{boxes} boxes, float{scores} scores) => (int64[K,3] y) <int64 m = {{1}}>"
    text += " {y = NonMaxSuppression(boxes, scores, m)}"
    with raises(dg.ModelError, "sizes", node="y", got=[boxes, scores]):
        imported(model_of(text))


def test_a_limit_that_is_not_known_is_asked_for() -> None:
    model = model_of(
        "g (float[1,4,4] boxes, float[1,1,4] scores, int64[1] m) => (int64[K,3] y)"
        " {y = NonMaxSuppression(boxes, scores, m)}"
    )
    with raises(dg.ModelError, "unknown-value", node="y", got="m") as caught:
        imported(model)
    assert "values={'m'" in (caught.value.problems[0].hint or "")
