"""Records how PyTorch trains networks of the tests: python tests/training/record_pytorch.py

It writes the loss of each of 100 steps to pytorch_losses.json.  It needs PyTorch, which the tests do not.  The residual
network is computed in float32.  The others are computed in float64, because rounding differences grow: in float32, the
digits' losses of PyTorch are as far from these as those of any device.
"""

from __future__ import annotations

import json
import pathlib
import runpy
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional

TESTS = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

from support import pytorch  # noqa: E402

Weights = dict[str, Any]


def resnet(w: Weights, x: Any, blocks: dict[str, tuple[int, int, int]]) -> Any:
    """The residual network, whose normalizations have fixed means and variances."""

    def normalized(x: Any, name: str, norm: str, stride: int = 1) -> Any:
        kernel = w[f"{name}.weight"]
        x = functional.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        names = ("running_mean", "running_var", "weight", "bias")
        mean, variance, scale, bias = (w[f"{norm}.{each}"] for each in names)
        return functional.batch_norm(x, mean, variance, scale, bias, training=False, eps=1e-5)

    x = torch.relu(normalized(x, "conv1", "bn1"))
    for block, (_, _, stride) in blocks.items():
        h = torch.relu(normalized(x, f"{block}.conv1", f"{block}.bn1", stride))
        h = normalized(h, f"{block}.conv2", f"{block}.bn2")
        if stride > 1:
            x = normalized(x, f"{block}.downsample.0", f"{block}.downsample.1", stride)
        x = torch.relu(h + x)
    return functional.linear(x.mean((2, 3)), w["fc.weight"], w["fc.bias"])


def digits(w: Weights, pixels: Any) -> Any:
    """Two convolutions and a pooling."""
    x = pixels / 16
    for name in ("first", "second"):
        x = torch.relu(functional.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"], padding=1))
    return functional.conv2d(functional.max_pool2d(x, 2), w["last.weight"], w["last.bias"]).flatten(1)


def characters(w: Weights, tokens: Any) -> Any:
    """A layer of a transformer; the logits after each token."""

    def norm(x: Any) -> Any:
        return functional.layer_norm(x, x.shape[-1:], eps=1e-5)

    x = w["embedding"][tokens] + w["position"]
    batch, length, width = x.shape
    q, k, v = (norm(x) @ w["qkv"]).reshape(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
    seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + seen.transpose(1, 2).reshape(batch, length, width) @ w["out"]
    x = x + functional.gelu(norm(x) @ w["up"]) @ w["down"]
    return norm(x) @ w["head"]


def trained(
    weights: Mapping[str, Any],
    optimizer: Any,
    batches: Iterable[tuple[Any, Any]],
    logits: Callable[[Weights, Any], Any],
    *,
    clip_norm: float | None = None,
    warm: int = 1,
) -> list[float]:
    """The losses.

    Args:
        weights: what the network begins with; those with `running` in their names stay.
        optimizer: made of the weights that change.
        batches: what the network reads, and labels.
        logits: the network.
        clip_norm: the most that the gradients of all weights are long.
        warm: for how many steps the rate grows.
    """
    w = {name: torch.from_numpy(np.array(each)) for name, each in weights.items()}
    free = [each.requires_grad_() for name, each in w.items() if "running" not in name]
    made = optimizer(free)
    rising = torch.optim.lr_scheduler.LambdaLR(made, lambda before: min(1.0, (before + 1) / warm))
    losses = []
    for given, labels in batches:
        made.zero_grad()
        scores = logits(w, torch.from_numpy(given))
        targets = torch.from_numpy(np.int64(labels)).flatten()
        loss = functional.cross_entropy(scores.reshape(len(targets), -1), targets)
        loss.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(free, clip_norm)
        made.step()
        rising.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    torch.set_num_threads(1)  # so that sums have one order

    def module(path: str) -> Any:
        return types.SimpleNamespace(**runpy.run_path(str(TESTS / path)))

    def started(example: Mapping[str, Any]) -> dict[str, Any]:
        states = example["training_graph"]().compile("cpu").states
        return {name: np.float64(states[name]) for name in states if "/" not in name}

    network, image, text = map(
        module, ("training/test_imported_network.py", "examples/test_train_digits.py", "examples/test_characters.py")
    )
    root = TESTS.parent / "examples"
    image_example = runpy.run_path(str(root / "train_digits.py"))
    text_example = runpy.run_path(str(root / "characters" / "characters.py"))
    told = {
        "torch": torch.__version__,
        "resnet": trained(
            network.weights(),
            lambda free: torch.optim.SGD(free, lr=network.RATE, momentum=network.MOMENTUM),
            map(network.batch, range(pytorch.STEPS)),
            lambda w, x: resnet(w, x, network.BLOCKS),
        ),
        "digits": trained(
            started(image_example),
            lambda free: torch.optim.Adam(free, lr=3e-3),
            ((np.float64(pixels), labels) for pixels, labels in image.batches_of(image_example)),
            digits,
            warm=20,
        ),
        "characters": trained(
            started(text_example),
            lambda free: torch.optim.Adam(free, lr=3e-3),
            ((np.int64(tokens[:, :-1]), tokens[:, 1:]) for tokens in text.batches_of(text_example)),
            characters,
            clip_norm=1.0,
            warm=20,
        ),
    }
    pytorch.FILE.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
