"""Losses: their values by hand, their gradients, and numbers far from zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, rel_entr, softmax

import dmlgraph as dg

Array = np.ndarray[Any, Any]
LOGITS = np.array([[1, -2, 0.5], [3, 0, -1], [0, 0, 0], [-1, 2, 4]], np.float32)
LABELS = np.array([0, 2, 1, 2], np.int64)
TARGETS = np.array([[0.2, 0.5, 0.3], [0, 0, 1], [1, 0, 0], [0.1, 0.1, 0.8]], np.float32)
DEVICES: Any = ("reference", "cpu")
LOSSES: Any = dg.losses  # for calls with what is refused


def run(build: Callable[..., dg.Value], *arrays: Array, device: Any = "cpu") -> tuple[Array, Array]:
    """A loss, and its gradient by the first array."""
    g = dg.Graph("loss")
    values = [g.input(f"x{index}", sizes=each.shape, dtype=each.dtype) for index, each in enumerate(arrays)]
    loss = build(*values)
    g.output("loss", loss)
    whole = dg.reduce(loss, function="sum") if loss.desc.element_count > 1 else loss
    g.output("gradient", dg.gradient(whole, values[:1])[0])
    results = g.compile(device).run({f"x{index}": each for index, each in enumerate(arrays)})
    return results["loss"], results["gradient"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.int32])
def test_cross_entropy_of_indices(device: Any, dtype: Any) -> None:
    loss, gradient = run(dg.losses.softmax_cross_entropy, LOGITS, LABELS.astype(dtype), device=device)
    expected = -log_softmax(LOGITS, 1)[range(4), LABELS].mean()
    np.testing.assert_allclose(loss, [expected], rtol=1e-5)
    np.testing.assert_allclose(gradient, (softmax(LOGITS, 1) - np.eye(3)[LABELS]) / 4, atol=1e-6)


def test_cross_entropy_of_distributions() -> None:
    loss, gradient = run(dg.losses.softmax_cross_entropy, LOGITS, TARGETS)
    np.testing.assert_allclose(loss, [-(TARGETS * log_softmax(LOGITS, 1)).sum(1).mean()], rtol=1e-5)
    np.testing.assert_allclose(gradient, (softmax(LOGITS, 1) - TARGETS) / 4, atol=1e-6)


def test_label_smoothing_is_a_mixture_of_targets() -> None:
    def smooth(x: dg.Value, labels: dg.Value) -> dg.Value:
        return dg.losses.softmax_cross_entropy(x, labels, label_smoothing=0.1)

    mixed = 0.9 * np.eye(3)[LABELS] + 0.1 / 3
    expected = [-(mixed * log_softmax(LOGITS, 1)).sum(1).mean()]
    for labels in (LABELS, np.eye(3, dtype=np.float32)[LABELS]):
        loss, gradient = run(smooth, LOGITS, labels)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)
        np.testing.assert_allclose(gradient, (softmax(LOGITS, 1) - mixed) / 4, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_ignored_labels_do_not_count(smoothing: float) -> None:
    def ignoring(x: dg.Value, labels: dg.Value) -> dg.Value:
        return dg.losses.softmax_cross_entropy(x, labels, ignore_index=-100, label_smoothing=smoothing)

    def plain(x: dg.Value, labels: dg.Value) -> dg.Value:
        return dg.losses.softmax_cross_entropy(x, labels, label_smoothing=smoothing)

    labels = np.array([0, -100, 1, -100], np.int64)
    loss, gradient = run(ignoring, LOGITS, labels)
    wanted, rows = run(plain, LOGITS[::2].copy(), labels[::2].copy())
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    np.testing.assert_allclose(gradient[::2], rows, atol=1e-6)
    np.testing.assert_array_equal(gradient[1::2], np.zeros((2, 3)))
    loss, gradient = run(ignoring, LOGITS, np.full(4, -100, np.int64))
    assert loss == [0]
    assert not gradient.any()


def test_classes_along_another_axis() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 3, 2, 2)).astype(np.float32)
    labels = np.array([[[0, 1], [2, 2]], [[1, 1], [0, 2]]], np.int32)
    loss, _ = run(lambda x, t: dg.losses.softmax_cross_entropy(x, t, axis=1, reduction="none"), logits, labels)
    expected = -np.take_along_axis(log_softmax(logits, 1), labels[:, None], 1)
    np.testing.assert_allclose(loss, expected, rtol=1e-4, atol=1e-6)


def test_kl_divergence() -> None:
    loss, gradient = run(dg.losses.kl_divergence, LOGITS, LOGITS[::-1].copy())
    p, q = softmax(LOGITS[::-1], 1), softmax(LOGITS, 1)
    np.testing.assert_allclose(loss, [rel_entr(p, q).sum(1).mean()], rtol=1e-5)
    np.testing.assert_allclose(gradient, (q - p) / 4, atol=1e-6)


def test_binary_cross_entropy() -> None:
    """At a logit of 0, too, where max(x, 0) and |x| have no slope of their own."""
    x = np.array([0, 1, -3, 0, 20], np.float32)
    t = np.array([1, 0, 0.25, 0, 1], np.float32)
    loss, gradient = run(dg.losses.binary_cross_entropy, x, t)
    share = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(loss, [-(t * np.log(share) + (1 - t) * np.log(1 - share)).mean()], rtol=1e-5)
    np.testing.assert_allclose(gradient, (share - t) / 5, atol=1e-6)


def test_errors() -> None:
    x, t = np.array([1, -2, 0, 5], np.float32), np.array([0.5, 1, 0, 0], np.float32)
    d: Array = x - t
    loss, gradient = run(dg.losses.mean_squared_error, x, t)
    np.testing.assert_allclose(loss, [np.square(d).mean()], rtol=1e-6)
    np.testing.assert_allclose(gradient, d / 2, rtol=1e-6)
    loss, gradient = run(dg.losses.mean_absolute_error, x, t)
    np.testing.assert_allclose(loss, [np.abs(d).mean()], rtol=1e-6)
    np.testing.assert_array_equal(gradient, np.sign(d) / 4)
    loss, gradient = run(lambda x, t: dg.losses.huber(x, t, delta=0.75, reduction="sum"), x, t)
    np.testing.assert_allclose(loss, [0.125 + 0.75 * (3 - 0.375) + 0 + 0.75 * (5 - 0.375)], rtol=1e-6)
    np.testing.assert_allclose(gradient, [0.5, -0.75, 0, 0.75], rtol=1e-6)


@pytest.mark.parametrize("device", [*DEVICES, "directml:software"])
def test_numbers_far_from_zero(device: Any, request: pytest.FixtureRequest) -> None:
    """±10,000: losses of 0, 20,000 or so, and gradients from −1 to 1."""
    if device == "directml:software":
        request.getfixturevalue("directml_path")
    far = np.array([[1e4, -1e4], [-1e4, 1e4]], np.float32)
    labels = np.array([0, 0], np.int32)
    g = dg.Graph("far")
    x, other, t = (g.input(name, sizes=[2, 2], dtype="float32") for name in ("x", "other", "t"))
    losses = {
        "cross entropy": dg.losses.softmax_cross_entropy(x, g.constant("labels", labels)),
        "smooth": dg.losses.softmax_cross_entropy(x, g.constant("same", labels), label_smoothing=0.5),
        "kl": dg.losses.kl_divergence(x, other),
        "binary": dg.losses.binary_cross_entropy(x, t),
        "squares": dg.losses.mean_squared_error(x, t),
        "absolute": dg.losses.mean_absolute_error(x, t),
        "huber": dg.losses.huber(x, t),
    }
    for name, loss in losses.items():
        g.output(name, loss)
        g.output(f"gradient of {name}", dg.gradient(loss, [x])[0])
    results = g.compile(device).run({"x": far, "other": -far, "t": np.array([[1, 0], [1, 0]], np.float32)})
    expected: dict[str, float] = {
        "cross entropy": 1e4,
        "smooth": 1e4,
        "kl": 2e4,
        "binary": 5e3,
        "absolute": 1e4,
        "huber": 1e4 - 0.5,
    }
    for name, wanted in expected.items():
        np.testing.assert_allclose(results[name], [wanted], rtol=1e-4, err_msg=name)
    slopes = {
        "cross entropy": np.array([[0, 0], [-0.5, 0.5]]),
        "kl": np.array([[0.5, -0.5], [-0.5, 0.5]]),
        "binary": np.array([[0, 0], [-0.25, 0.25]]),
    }
    for name, slope in slopes.items():
        np.testing.assert_allclose(results[f"gradient of {name}"], slope, atol=1e-6, err_msg=name)
    assert all(np.isfinite(each).all() for each in results.values())


@pytest.mark.parametrize(
    ("build", "field", "code"),
    [
        (lambda x, t, n: LOSSES.softmax_cross_entropy(x, n, axis=2), "axis", "range"),
        (lambda x, t, n: LOSSES.softmax_cross_entropy(x, n, label_smoothing=1), "label_smoothing", "range"),
        (lambda x, t, n: LOSSES.softmax_cross_entropy(x, t.reshape(3, 4)), "labels", "sizes"),
        (lambda x, t, n: LOSSES.softmax_cross_entropy(x, n.reshape(2, 2)), "labels", "sizes"),
        (lambda x, t, n: LOSSES.softmax_cross_entropy(x, t, ignore_index=0), "ignore_index", "conflict"),
        (lambda x, t, n: LOSSES.softmax_cross_entropy(n, n), "logits", "dtype"),
        (lambda x, t, n: LOSSES.softmax_cross_entropy(x, n, reduction="average"), "reduction", "unknown-name"),
        (lambda x, t, n: LOSSES.mean_squared_error(x, t[0]), "targets", "sizes"),
        (lambda x, t, n: LOSSES.mean_squared_error(x, dg.cast(t, dtype="float16")), "targets", "dtype"),
        (lambda x, t, n: LOSSES.mean_squared_error(x, 0), "targets", "not-a-value"),
        (lambda x, t, n: LOSSES.huber(x, t, delta=0), "delta", "range"),
    ],
)
def test_refused(build: Any, field: str, code: str) -> None:
    g = dg.Graph()
    x, t = (g.input(name, sizes=[4, 3], dtype="float32") for name in "xt")
    n = g.input("n", sizes=[4], dtype="int32")
    with pytest.raises(dg.GraphError) as caught:
        build(x, t, n)
    assert (caught.value.field, caught.value.code) == (field, code)
