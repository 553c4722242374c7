"""Optimizers: steps of training follow NumPy's, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg

Array = np.ndarray[Any, Any]
X = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
T = np.random.default_rng(2).normal(size=(8, 2)).astype(np.float32)
W = np.random.default_rng(3).normal(size=(3, 2)).astype(np.float32)
B = np.array([0.5, -0.5], np.float32)


DEVICES = ["reference", "cpu", "directml:software"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Any:
    if request.param == "directml:software":
        request.getfixturevalue("directml_path")
    return request.param


def linear(optimizer: Any) -> dg.Graph:
    """A layer whose mean squared error is minimized."""
    g = dg.Graph("linear")
    x = g.input("x", sizes=X.shape, dtype="float32")
    w = g.state("w", sizes=W.shape, dtype="float32", initial=W)
    b = g.state("b", sizes=B.shape, dtype="float32", initial=B)
    loss = dg.losses.mean_squared_error(x @ w + b, g.constant("t", T))
    g.output("loss", loss)
    g.minimize(loss, [w, b], optimizer=optimizer)
    return g


def of_optimizer(exe: Any, *names: str) -> list[float]:
    """Numbers that the optimizer keeps."""
    return [exe.states[f"optimizer/{name}"].item() for name in names]


Change = Callable[[int, list[Array], list[Array]], list[Array]]


def trained(change: Change, steps: int) -> tuple[list[float], list[Array]]:
    """The losses, and the parameters after some steps, in float64; `change` gives what gradients subtract."""
    w, b = W.astype(np.float64), B.astype(np.float64)
    losses = []
    for step in range(1, steps + 1):
        error = X @ w + b - T
        losses.append(float(np.square(error).mean()))
        share = error * 2 / error.size
        dw, db = change(step, [X.T @ share, share.sum(0)], [w, b])
        w, b = w - dw, b - db
    return losses, [w, b]


def sgd(rate: Callable[[int], float], momentum: float = 0, nesterov: bool = False, decay: float = 0) -> Change:
    kept = [np.zeros(W.shape), np.zeros(B.shape)]

    def change(step: int, gradients: list[Array], parameters: list[Array]) -> list[Array]:
        taken = []
        for place, (gradient, parameter) in enumerate(zip(gradients, parameters, strict=True)):
            gradient = gradient + decay * parameter  # noqa: PLW2901
            kept[place] = momentum * kept[place] + gradient
            taken.append((gradient + momentum * kept[place] if nesterov else kept[place]) * rate(step))
        return taken

    return change


def adam(
    rate: float,
    decay: float = 0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    joined: float = 0,
) -> Change:
    first, second = ([np.zeros(W.shape), np.zeros(B.shape)] for _ in range(2))

    def change(step: int, gradients: list[Array], parameters: list[Array]) -> list[Array]:
        taken = []
        for place, (gradient, parameter) in enumerate(zip(gradients, parameters, strict=True)):
            gradient = gradient + joined * parameter  # noqa: PLW2901
            first[place] = beta1 * first[place] + (1 - beta1) * gradient
            second[place] = beta2 * second[place] + (1 - beta2) * gradient**2
            root = np.sqrt(second[place] / (1 - beta2**step)) + epsilon
            taken.append(rate * (first[place] / (1 - beta1**step) / root + decay * parameter))
        return taken

    return change


OPTIMIZERS: dict[str, tuple[Any, Callable[[], Change]]] = {
    "sgd": (dg.SGD(0.1), lambda: sgd(lambda step: 0.1)),
    "momentum": (dg.SGD(0.05, momentum=0.9), lambda: sgd(lambda step: 0.05, 0.9)),
    "nesterov": (
        dg.SGD(0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
        lambda: sgd(lambda step: 0.05, 0.9, True, 0.1),
    ),
    "schedule": (
        dg.SGD("0.1 * min(1, step / 5) / (1 + max(0, step - 10) // 4) ** 0.5 + 0 * pi"),
        lambda: sgd(lambda step: 0.1 * min(1, step / 5) / (1 + max(0, step - 10) // 4) ** 0.5),
    ),
    "adam": (dg.Adam(0.05), lambda: adam(0.05)),
    "adam with decay": (dg.Adam(0.05, weight_decay=0.1), lambda: adam(0.05, joined=0.1)),
    "adamw": (dg.AdamW(0.05, weight_decay=0.1, beta1=0.8, epsilon=1e-3), lambda: adam(0.05, 0.1, 0.8, epsilon=1e-3)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_follow_numpy(name: str, device: Any) -> None:
    optimizer, change = OPTIMIZERS[name]
    steps = 20
    exe = linear(optimizer).compile(device)
    found = exe.run({"x": X}, steps=steps, collect=["loss"])["loss"].ravel()
    losses, (w, b) = trained(change(), steps)
    np.testing.assert_allclose(found, losses, rtol=1e-4)
    np.testing.assert_allclose(exe.states["w"], w, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(exe.states["b"], b, rtol=1e-3, atol=1e-5)
    assert losses[-1] < losses[0]


def test_gradients_are_clipped_together() -> None:
    """The norm of both gradients is far above 0.01, so the first step goes 0.01 · rate in their direction."""
    exe = linear(dg.SGD(0.5, clip_norm=0.01)).compile("cpu")
    exe.run({"x": X})
    _, (w, b) = trained(sgd(lambda step: 1), 1)
    gradients = [W - w, B - b]
    norm = np.sqrt(sum(np.square(each).sum() for each in gradients))
    assert norm > 0.1
    for name, before, gradient in (("w", W, gradients[0]), ("b", B, gradients[1])):
        np.testing.assert_allclose(before - exe.states[name], gradient * 0.005 / norm, rtol=1e-3)


def test_small_gradients_are_not_clipped() -> None:
    exe, plain = (linear(dg.SGD(0.5, clip_norm=norm)).compile("cpu") for norm in (1e3, None))
    for each in (exe, plain):
        each.run({"x": X})
    np.testing.assert_array_equal(exe.states["w"], plain.states["w"])


def test_runs_are_accumulated(device: Any) -> None:
    """Four runs with two rows each are one step with eight; the rate counts steps."""
    g = dg.Graph("parts")
    x, t = (g.input(name, sizes=[2, each.shape[1]], dtype="float32") for name, each in (("x", X), ("t", T)))
    w = g.state("w", sizes=W.shape, dtype="float32", initial=W)
    b = g.state("b", sizes=B.shape, dtype="float32", initial=B)
    optimizer = dg.SGD("0.1 / step", momentum=0.5, accumulate=4)
    g.minimize(dg.losses.mean_squared_error(x @ w + b, t), [w, b], optimizer)
    exe = g.compile(device)
    for run in range(11):
        rows = slice(run % 4 * 2, run % 4 * 2 + 2)
        exe.run({"x": X[rows], "t": T[rows]})
    _, (w_then, b_then) = trained(sgd(lambda step: 0.1 / step, 0.5), 2)
    np.testing.assert_allclose(exe.states["w"], w_then, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(exe.states["b"], b_then, rtol=1e-4, atol=1e-6)
    assert of_optimizer(exe, "step", "runs") == [2, 3]


@pytest.mark.parametrize("scale", [1024, "dynamic"])
def test_a_scale_of_the_loss_changes_no_step(scale: Any) -> None:
    """A power of two is exact in float32."""
    exe, plain = (linear(dg.Adam(0.05, clip_norm=1, loss_scale=each)).compile("cpu") for each in (scale, None))
    for each in (exe, plain):
        each.run({"x": X}, steps=5)
    np.testing.assert_allclose(exe.states["w"], plain.states["w"], rtol=1e-6)
    np.testing.assert_allclose(exe.states["b"], plain.states["b"], rtol=1e-6)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_infinities_change_nothing_but_the_scale(bad: float, device: Any) -> None:
    exe = linear(dg.AdamW("0.05 / step", loss_scale="dynamic", clip_norm=1)).compile(device)
    exe.run({"x": X}, steps=3)
    before = {name: np.array(exe.states[name]) for name in exe.states}
    wrong = X.copy()
    wrong[2, 1] = bad
    exe.run({"x": wrong})
    changed = {name for name, array in before.items() if not np.array_equal(array, exe.states[name])}
    assert changed == {"optimizer/loss_scale", "optimizer/finite_steps"}
    assert [before[f"optimizer/{name}"] for name in ("loss_scale", "finite_steps")] == [2**16, 3]
    assert of_optimizer(exe, "loss_scale", "finite_steps") == [2**15, 0]
    exe.run({"x": X})
    assert (exe.states["w"] != before["w"]).all()


def test_accumulated_infinities_take_no_step() -> None:
    exe = linear(dg.SGD(0.1, accumulate=2, loss_scale="dynamic")).compile("cpu")
    scales = []
    for x in (np.full_like(X, np.inf), X, X, X):
        exe.run({"x": x})
        scales += of_optimizer(exe, "loss_scale")
    assert scales == [2**16, 2**15, 2**15, 2**15], "it changes where a step is due"
    _, (w, _) = trained(sgd(lambda step: 0.1), 1)
    np.testing.assert_allclose(exe.states["w"], w, rtol=1e-5)
    assert of_optimizer(exe, "loss_scale", "finite_steps") == [2**15, 1]


def test_a_scale_grows_after_many_good_steps_within_limits() -> None:
    exe = linear(dg.SGD(0.1, loss_scale="dynamic")).compile("cpu")
    exe.states["optimizer/finite_steps"] = np.array([1998], np.uint32)
    seen = []
    for scale in (2**16, None, 2**24):
        if scale is not None:
            exe.states["optimizer/loss_scale"] = np.array([scale], np.float32)
        if scale == 2**24:
            exe.states["optimizer/finite_steps"] = np.array([1999], np.uint32)
        exe.run({"x": X})
        seen.append(of_optimizer(exe, "loss_scale", "finite_steps"))
    assert seen == [[2**16, 1999], [2**17, 0], [2**24, 0]]
    exe.states["optimizer/loss_scale"] = np.array([2**-24], np.float32)
    exe.run({"x": np.full_like(X, np.inf)})
    assert exe.states["optimizer/loss_scale"] == 2**-24


def test_half_weights_are_float32_with_their_rests(device: Any) -> None:
    """Steps of a tenth of float16's step at 1 add up; a weight that is set from outside counts."""
    g = dg.Graph("half")
    w = g.state("w", sizes=[3], dtype="float16", initial=np.array([1, 2, -4], np.float16))
    slope = g.input("slope", sizes=[3], dtype="float16")
    loss = dg.reduce(w * slope, function="sum")
    g.minimize(loss, [w], dg.SGD(2.0**-13, loss_scale=8))
    exe = g.compile(device)
    slopes = np.array([1, 0.5, 3], np.float16)
    expected = np.array([1, 2, -4], np.float32)
    for _ in range(20):
        exe.run({"slope": slopes})
        expected -= np.float32(2.0**-13) * slopes
    assert exe.states["w"].dtype == np.float16
    np.testing.assert_array_equal(exe.states["w"], expected.astype(np.float16))
    np.testing.assert_array_equal(exe.states["w"] + exe.states["optimizer/w/rest"], expected)
    exe.states["w"] = np.full(3, 8, np.float16)
    exe.run({"slope": slopes})
    np.testing.assert_allclose(exe.states["w"], 8, rtol=1e-3)


def test_small_gradients_of_half_models_need_the_scale() -> None:
    """1e-4 · 1e-4 is 0 in float16."""

    def change(scale: Any) -> Any:
        g = dg.Graph("half")
        w = g.state("w", sizes=[1], dtype="float16")
        x = g.constant("x", np.array([1e-4], np.float16))
        g.minimize(w * x * x, [w], dg.SGD(1.0, loss_scale=scale))
        exe = g.compile("cpu")
        exe.run({})
        return exe.states["w"] + exe.states["optimizer/w/rest"]

    np.testing.assert_array_equal(change(None), 0)
    np.testing.assert_allclose(change(2**14), -1e-8, rtol=2e-2)


@pytest.mark.parametrize(("optimizer", "shrinks"), [(dg.SGD, 0.05), (dg.Adam, None), (dg.AdamW, 0.05)])
def test_some_parameters_do_not_decay(optimizer: Any, shrinks: float | None) -> None:
    g = dg.Graph("decay")
    w, b = (g.state(name, sizes=[1], dtype="float32", initial=1) for name in ("layer.weight", "layer.bias"))
    g.minimize(w.reshape(1) * 0 + b * 0, [w, b], optimizer(0.1, weight_decay=0.5, no_decay=["*.bias"]))
    exe = g.compile("cpu")
    exe.run({})
    assert exe.states["layer.bias"] == 1
    # Adam's step is the rate at first, whatever the gradient.
    np.testing.assert_allclose(exe.states["layer.weight"], 1 - (shrinks or 0.1), rtol=1e-5)


def test_the_rate_may_be_an_input() -> None:
    g = dg.Graph("rated")
    w = g.state("w", sizes=[2], dtype="float32", initial=1)
    rate = g.input("rate", sizes=[1, 1], dtype="float32")
    g.minimize(dg.reduce(w * w, function="sum"), [w], dg.SGD(rate))
    exe = g.compile("cpu")
    for number in (0.25, 0.125):
        exe.run({"rate": np.array([[number]], np.float32)})
    np.testing.assert_allclose(exe.states["w"], np.full(2, 0.5 * 0.75))


def test_what_is_kept_is_named_after_the_parameters() -> None:
    g = linear(dg.Adam("1e-3 / step"))
    assert sorted(node.name for node in g.states) == [
        "b",
        "optimizer/b/first_moment",
        "optimizer/b/second_moment",
        "optimizer/first_divisor",
        "optimizer/second_divisor",
        "optimizer/step",
        "optimizer/w/first_moment",
        "optimizer/w/second_moment",
        "w",
    ]
    assert not g.warnings()


def test_an_evaluation_shares_the_trained_states() -> None:
    training = linear(dg.SGD(0.1)).compile("cpu")
    training.run({"x": X}, steps=3)
    g = dg.Graph("evaluation")
    w = g.state("w", sizes=W.shape, dtype="float32")
    g.output("y", g.input("x", sizes=X.shape, dtype="float32") @ w)
    y = g.compile("cpu").run({"x": X}, states=training.states)["y"]
    np.testing.assert_allclose(y, X @ training.states["w"], rtol=1e-4, atol=1e-6)


def test_frozen_values_are_not_differentiated() -> None:
    g = dg.Graph("frozen")
    x = g.input("x", sizes=[1, 3], dtype="float32")
    frozen = g.constant("frozen", np.ones((3, 3), np.float32))
    w = g.state("w", sizes=[3, 1], dtype="float32")
    g.minimize((x @ frozen @ w).reshape(1), [w], dg.SGD(0.1))
    assert len([node for node in g.nodes if "gemm" in node.name.rpartition("/")[2]]) == 3


OPTIMIZER: Any = dg  # for calls with what is refused


@pytest.mark.parametrize(
    ("build", "field", "code"),
    [
        (lambda g, w, x: g.minimize(x, [x], dg.SGD(0.1)), "parameters.0", "not-a-state"),
        (lambda g, w, x: g.minimize(x, w, dg.SGD(0.1)), "parameters", "kind"),
        (lambda g, w, x: g.minimize(x, [], dg.SGD(0.1)), "parameters", "kind"),
        (lambda g, w, x: g.minimize(x, [w, w], dg.SGD(0.1)), "parameters.1", "duplicate"),
        (lambda g, w, x: g.minimize(x, [w], 0.1), "optimizer", "kind"),
        (lambda g, w, x: g.minimize(w, [w], dg.SGD(0.1)), "loss", "sizes"),
        (lambda g, w, x: g.minimize(x, [w], dg.SGD(0.1)), "values.0", "independent"),
        (lambda g, w, x: g.minimize(dg.reduce(w, function="sum"), [w], dg.SGD("0.1 / steps")), "rate", "expression"),
        (lambda g, w, x: g.minimize(dg.reduce(w, function="sum"), [w], dg.SGD(w)), "rate", "sizes"),
        (lambda g, w, x: OPTIMIZER.SGD(-1), "rate", "range"),
        (lambda g, w, x: OPTIMIZER.SGD("0.1", momentum=1), "momentum", "range"),
        (lambda g, w, x: OPTIMIZER.SGD(0.1, nesterov=True), "nesterov", "conflict"),
        (lambda g, w, x: OPTIMIZER.Adam(clip_norm=0), "clip_norm", "range"),
        (lambda g, w, x: OPTIMIZER.Adam(beta2=True), "beta2", "range"),
        (lambda g, w, x: OPTIMIZER.AdamW(weight_decay=float("nan")), "weight_decay", "range"),
        (lambda g, w, x: OPTIMIZER.AdamW(no_decay="w"), "no_decay", "kind"),
        (
            lambda g, w, x: g.minimize(dg.reduce(w, function="sum"), [w], dg.AdamW(no_decay=["w", "*.bias"])),
            "no_decay.1",
            "unknown-name",
        ),
        (lambda g, w, x: OPTIMIZER.SGD(0.1, accumulate=0), "accumulate", "range"),
        (lambda g, w, x: OPTIMIZER.SGD(0.1, accumulate=2.0), "accumulate", "range"),
        (lambda g, w, x: OPTIMIZER.SGD(0.1, loss_scale=0), "loss_scale", "range"),
        (lambda g, w, x: OPTIMIZER.SGD(0.1, loss_scale="static"), "loss_scale", "range"),
    ],
)
def test_refused(build: Any, field: str, code: str) -> None:
    """And the graph is as it was."""
    g = dg.Graph()
    w = g.state("w", sizes=[2], dtype="float32")
    x = g.input("x", sizes=[1], dtype="float32")
    with pytest.raises(dg.GraphError) as caught:
        build(g, w, x)
    assert (caught.value.field, caught.value.code) == (field, code)
    assert not [node.name for node in g.nodes if "/" in node.name]
    assert g.next_values == {}


def test_integers_and_changed_states_are_refused() -> None:
    g = dg.Graph()
    w = g.state("w", sizes=[1], dtype="int32")
    with raises(dg.GraphError, "dtype", field="parameters.0", got="w: int32") as caught:
        g.minimize(g.input("x", sizes=[1], dtype="float32"), [w], dg.SGD(0.1))
    assert caught.value.allowed == "float32, float16"
    s = g.state("s", sizes=[1], dtype="float32")
    g.update(s, s + 1)
    with raises(dg.GraphError, "duplicate", node="s", field="parameters.0"):
        g.minimize(s, [s], dg.SGD(0.1))
