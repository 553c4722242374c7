"""Ladder: one graph, an executable for each of several sizes, one set of states."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")

pytestmark = pytest.mark.usefixtures("directml_path")


def blurred() -> dg.Graph:
    """An image of any size, and its mean."""
    g = dg.Graph("blurred", dims={"height": 4, "width": 6})
    image = g.input("image", sizes=[1, 1, "height", "width"], dtype="float32")
    g.output("mean", dg.reduce(image, function="average", axes=[2, 3]))
    return g


def cache() -> dg.Graph:
    """Appends the tokens to what it has, and gives all of it."""
    g = dg.Graph("cache", dims={"tokens": 1, "capacity": 4})
    x = g.input("x", sizes=["tokens"], dtype="float32")
    held = g.state("held", sizes=["capacity"], dtype="float32", grows=0)
    calls = g.state("calls", sizes=[1], dtype="float32")
    g.append(held, x * 2)
    g.update(calls, calls + 1)
    g.output("sum", dg.reduce(held, function="sum", axes=[0]))
    return g


def tokens(*given: float) -> dict[str, Any]:
    return {"x": np.array(given, np.float32)}


def test_images_of_any_size() -> None:
    ladder, rng = dg.Ladder(blurred(), device="cpu"), np.random.default_rng(0)
    for height, width in ((4, 6), (3, 5), (4, 6)):
        image = rng.random((1, 1, height, width), np.float32)
        np.testing.assert_allclose(ladder.run({"image": image})["mean"].item(), image.mean(), rtol=1e-6)
    assert [each.dims for each in ladder.stats["compiled"]] == [
        {"height": 4, "width": 6},
        {"height": 3, "width": 5},
    ]
    assert all(each.seconds > 0 and not each.in_background for each in ladder.stats["compiled"])


def test_the_least_rung_that_is_enough() -> None:
    ladder = dg.Ladder(cache(), device="cpu", dims={"tokens": [128, 1, 16]})
    assert ladder.rungs == {"tokens": (1, 16, 128)}
    assert ladder.sizes({"tokens": 2}) == {"tokens": 16, "capacity": 4}
    ladder = dg.Ladder(cache(), device="cpu", dims={"capacity": [8, 32]})
    assert ladder.at({"capacity": 9}) is ladder.at({"capacity": 32})
    assert ladder.at() is ladder.at({"capacity": 8})  # 4, of the graph, is not a rung
    assert [each.dims["capacity"] for each in ladder.stats["compiled"]] == [32, 8]


def test_the_least_recently_used_goes() -> None:
    ladder = dg.Ladder(blurred(), device="reference", most=2)
    first = ladder.at({"width": 1})
    ladder.at({"width": 2})
    assert ladder.at({"width": 1}) is first
    ladder.at({"width": 3})
    assert ladder.stats["kept"] == 2
    assert ladder.at({"width": 1}) is first
    ladder.at({"width": 2})
    assert [each.dims["width"] for each in ladder.stats["compiled"]] == [1, 2, 3, 2]


def test_in_the_background_and_by_several_threads_at_once() -> None:
    entered, go_on, made = threading.Event(), threading.Event(), []

    def make(dims: dict[str, int]) -> dg.Graph:
        made.append(dims["width"])
        entered.set()
        assert go_on.wait(60)
        return blurred().with_dims(dims)

    ladder = dg.Ladder(make, device="cpu")  # type: ignore[arg-type]
    future = ladder.prepare({"width": 7})
    assert entered.wait(60)
    assert not future.done()
    got: list[object] = []
    threads = [threading.Thread(target=lambda: got.append(ladder.at({"width": 7}))) for _ in range(3)]
    for each in threads:
        each.start()
    go_on.set()
    for each in threads:
        each.join()
    assert got == [future.result()] * 3
    assert made == [7]
    assert [(each.dims["width"], each.in_background) for each in ladder.stats["compiled"]] == [(7, True)]
    ladder.close()
    assert ladder.stats["kept"] == 0


@pytest.mark.parametrize("device", DEVICES)
def test_one_set_of_states_for_all_sizes_and_capacities(device: DeviceName) -> None:
    ladder = dg.Ladder(cache(), device=device, dims={"tokens": [1, 3], "capacity": [4, 8]})
    ladder.run(tokens(1, 2, 3))
    assert ladder.run(tokens(4))["sum"] == 12
    with pytest.raises(dg.BindingError) as full:
        ladder.run(tokens(5))
    assert full.value.code == "capacity"
    assert ladder.run(tokens(5), dims={"capacity": 5})["sum"] == 20
    np.testing.assert_array_equal(ladder.states["held"], [2, 4, 6, 8, 10])
    assert ladder.states["calls"].item() == 3
    assert ladder.states.bytes == 4 * 8 + 2 * 4
    with raises(dg.BindingError, "capacity", field="held", got="5 rows"):
        ladder.run(tokens(6), dims={"capacity": 4})
    ladder.states.rewind(3)
    assert ladder.run(tokens(6), dims={"capacity": 4})["sum"] == 6
    np.testing.assert_array_equal(ladder.states["held"], [2, 4, 12])
    other = ladder.states.copy()
    assert ladder.run(tokens(1), states=other)["sum"] == 18


@pytest.mark.parametrize("device", DEVICES)
def test_an_executable_of_another_capacity_is_refused_until_the_set_fits(device: DeviceName) -> None:
    small, large = (cache().compile(device, dims={"capacity": capacity}) for capacity in (4, 8))
    states = small.new_states()
    small.run(tokens(1), states=states)
    states.fit(large.graph)
    assert large.run(tokens(2), states=states)["sum"] == 2
    with pytest.raises(dg.BindingError) as caught:  # it was used before, with the other capacity
        small.run(tokens(3), states=states)
    expect(caught.value, "states", field="held", got="float32 [8], grows along 0", hint="fit gives it the capacity")
    states.fit(small.graph)
    assert small.run(tokens(3), states=states)["sum"] == 6
    np.testing.assert_array_equal(states["held"], [2, 4, 6])


def test_mistakes() -> None:
    graph = cache()
    for dims, code in (
        ({"token": [1]}, "unknown-dim"),
        ({"tokens": []}, "kind"),
        ({"tokens": 3}, "kind"),
        ({"tokens": [0]}, "range"),
        ({"tokens": [1.5]}, "range"),
    ):
        with pytest.raises(dg.GraphError) as caught:
            dg.Ladder(graph, dims=dims)  # type: ignore[arg-type]
        assert (caught.value.code, str(caught.value.field)[:10]) == (code, "dims.token")
    for most in (0, True, 1.5):
        with raises(dg.BindingError, "range"):
            dg.Ladder(graph, most=most)  # type: ignore[arg-type]
    ladder = dg.Ladder(graph, device="cpu", dims={"tokens": [2, 4]})
    with raises(dg.GraphError, "range", got=5, allowed="at most 4") as caught:
        ladder.at({"tokens": 5})
    assert caught.value.field == "dims.tokens"
    with pytest.raises(dg.GraphError) as caught:
        ladder.prepare({"x": 5})
    assert (caught.value.code, caught.value.field) == ("unknown-dim", "dims.x")
    with raises(dg.GraphError, "range", field="dims.tokens", got=3, allowed="2, 4"):
        ladder.run(tokens(1, 2, 3))
    with raises(dg.BindingError, "unknown-array", field="y"):
        ladder.run({"y": tokens(1, 2)["x"]})
