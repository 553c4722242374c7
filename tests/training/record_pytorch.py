"""Records how PyTorch trains the network of test_imported_network.py: python tests/training/record_pytorch.py

It writes the loss of each of 100 steps to pytorch_losses.json, and needs PyTorch, which the tests do not.
"""

from __future__ import annotations

import json
import pathlib
import runpy
import types
from typing import Any

import torch
from torch.nn import functional

FOLDER = pathlib.Path(__file__).parent
STEPS = 100


def logits(w: dict[str, Any], x: Any, blocks: dict[str, tuple[int, int, int]]) -> Any:
    """The network, whose normalizations have fixed means and variances."""

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


def main() -> None:
    network = types.SimpleNamespace(**runpy.run_path(str(FOLDER / "test_imported_network.py")))
    w = {name: torch.from_numpy(array) for name, array in network.weights().items()}
    trained = [each.requires_grad_() for name, each in w.items() if "running" not in name]
    optimizer = torch.optim.SGD(trained, lr=network.RATE, momentum=network.MOMENTUM)
    losses = []
    for step in range(STEPS):
        images, labels = (torch.from_numpy(each) for each in network.batch(step))
        optimizer.zero_grad()
        loss = functional.cross_entropy(logits(w, images, network.BLOCKS), labels.long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    told = {"torch": torch.__version__, "resnet": losses}
    (FOLDER / "pytorch_losses.json").write_text(json.dumps(told, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
