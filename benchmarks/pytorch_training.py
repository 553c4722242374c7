"""Steps of training in PyTorch: the networks of training.py, by their names, and Adam of `torch.optim`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from training import blocks

Weights = Mapping[str, Any]


def _mlp(w: Weights, x: Any) -> Any:
    h = torch.relu(x @ w["0"] + w["0.bias"])
    h = torch.relu(h @ w["1"] + w["1.bias"])
    return h @ w["2"] + w["2.bias"]


def _convolution(w: Weights, name: str, x: Any, stride: int = 1) -> Any:
    return functional.conv2d(x, w[name], w.get(f"{name}.bias"), stride, w[name].shape[2] // 2)


def _digits(w: Weights, x: Any) -> Any:
    h = torch.relu(_convolution(w, "second", torch.relu(_convolution(w, "first", x))))
    return functional.max_pool2d(h, 2).flatten(1) @ w["last"] + w["last.bias"]


def _resnet(w: Weights, x: Any) -> Any:
    def normal(name: str, x: Any, stride: int = 1) -> Any:
        x = functional.conv2d(x, w[name], None, stride, w[name].shape[2] // 2)
        return functional.batch_norm(x, None, None, w[f"{name}.scale"], w[f"{name}.bias"], training=True, eps=1e-5)

    h = torch.relu(normal("stem", x))
    for index, halves in blocks(w):
        inner = normal(f"{index}.b", torch.relu(normal(f"{index}.a", h, 2 if halves else 1)))
        h = torch.relu(inner + (functional.conv2d(h, w[f"{index}.around"], None, 2) if halves else h))
    return h.mean((2, 3)) @ w["last"] + w["last.bias"]


def _unet(w: Weights, x: Any) -> Any:
    def block(name: str, x: Any) -> Any:
        return torch.relu(_convolution(w, f"{name}.b", torch.relu(_convolution(w, f"{name}.a", x))))

    first = block("down0", x)
    second = block("down1", functional.max_pool2d(first, 2))
    h = block("middle", functional.max_pool2d(second, 2))
    for name, around in (("up1", second), ("up0", first)):
        h = functional.conv_transpose2d(h, w[f"{name}.wider"], stride=2)
        h = block(name, torch.cat([around, h], 1))
    return _convolution(w, "last", h).mean((2, 3))


def _transformer(w: Weights, x: Any) -> Any:
    def normal(name: str, x: Any) -> Any:
        return functional.layer_norm(x, x.shape[-1:], w[f"{name}.scale"], w[f"{name}.bias"], 1e-5)

    batch, tokens, width = x.shape
    several = (normal("before", x) @ w["qkv"]).chunk(3, 2)
    q, k, v = (each.reshape(batch, tokens, 4, -1).transpose(1, 2) for each in several)
    seen = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
    x = x + seen @ w["out"]
    x = x + functional.gelu(normal("between", x) @ w["up"] + w["up.bias"]) @ w["down"]
    return x.mean(1) @ w["last"]


def _lstm(w: Weights, x: Any) -> Any:
    def reordered(each: Any) -> Any:
        i, o, f, new = each.chunk(4)
        return torch.cat([i, f, new, o])

    zeros = torch.zeros(1, len(x), w["hidden"].shape[1])
    parts = [reordered(w["input"]), reordered(w["hidden"])]
    _, h, _ = torch.lstm(x, (zeros, zeros), parts, False, 1, 0.0, True, False, True)
    return h[0] @ w["last"]


NETWORKS: dict[str, Callable[[Weights, Any], Any]] = {
    "mlp": _mlp,
    "digits": _digits,
    "resnet": _resnet,
    "resnet18": _resnet,
    "unet": _unet,
    "transformer": _transformer,
    "lstm": _lstm,
}


def make_step(
    name: str,
    weights: Mapping[str, np.ndarray],
    arrays: Mapping[str, np.ndarray],
    rate: float,
    threads: int,
    compiled: bool,
) -> Callable[[], float]:
    """A step of a network, which gives its loss.

    Args:
        name: of the network.
        weights: what it begins with.
        arrays: `x` and `labels`.
        rate: Adam's.
        threads: how many PyTorch may use.
        compiled: forward, backward and loss by `torch.compile`, which needs a C++ compiler; the optimizer's step, too.
    """
    torch.set_num_threads(threads)
    w = {key: torch.from_numpy(each.copy()).requires_grad_() for key, each in weights.items()}
    x, labels = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["labels"]).long()
    optimizer = torch.optim.Adam(w.values(), lr=rate)

    def compute() -> torch.Tensor:
        return functional.cross_entropy(NETWORKS[name](w, x), labels)

    update: Callable[[], Any] = optimizer.step
    if compiled:
        compute, update = torch.compile(compute), torch.compile(update)

    def step() -> float:
        optimizer.zero_grad()
        loss = compute()
        loss.backward()
        update()
        return loss.item()

    return step
