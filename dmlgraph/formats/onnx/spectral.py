"""Fourier transforms, as products with matrices of sines and cosines."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from dmlgraph.base.errors import listing
from dmlgraph.formats.onnx.folding import numbers
from dmlgraph.formats.onnx.node import Maybe, Node, at_axis
from dmlgraph.formats.onnx.refusals import Refusal, give_values
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Tensor

MOST_NUMBERS = 1 << 24  # of a matrix


@imports(since=17, how="gemm with a constant, views")
def DFT(
    node: Node, input: Tensor, dft_length: Maybe = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0
) -> Tensor:
    """The axis is an attribute before opset 20."""
    x, along = input, axis if isinstance(axis, int) else int(node.scalar(axis, 1 if node.opset < 20 else -2))
    axis, to_real = at_axis(along, x.rank), bool(inverse and onesided)
    if axis == x.rank - 1 or x.shape[-1] not in (1, 2):
        raise Refusal("the last dimension holds a real number, or its real and imaginary parts", code="sizes")
    length = int(node.scalar(dft_length, 2 * (x.shape[axis] - 1) if to_real else x.shape[axis]))
    taken = length // 2 + 1 if to_real else length
    given = min(x.shape[axis], taken)  # the rest is zeros
    matrix = _matrix(length, given, x.shape[-1], inverse=bool(inverse), onesided=bool(onesided))
    order = [*(each for each in range(x.rank - 1) if each != axis), axis, x.rank - 1]
    moved = node.tensor(node.transposed(x, order))
    if given < x.shape[axis]:
        moved = sliced(node, moved, [slice(None)] * (x.rank - 2) + [slice(given), slice(None)])
    flat = node.reshaped(moved, (math.prod(moved.shape[:-2]), given * x.shape[-1]))
    made = node.gemm(flat, Tensor.of(matrix.reshape(given * x.shape[-1], -1).astype(x.dtype)))
    shaped = node.reshaped(made, (*moved.shape[:-2], *matrix.shape[2:]))
    return node.tensor(node.transposed(shaped, list(np.argsort(order))))


def _matrix(length: int, given: int, parts: int, *, inverse: bool, onesided: bool) -> Array:
    """What one number adds to another: [index and part of the input, index and part of the output]."""
    to_real = inverse and onesided
    results = length // 2 + 1 if onesided and not inverse else length
    if given * parts * results * 2 > MOST_NUMBERS:
        raise Refusal("the transform is too long", code="too-large", got=length)
    angle = 2 * np.pi * (np.outer(np.arange(given), np.arange(results)) % length) / length
    turn = np.exp((1j if inverse else -1j) * angle) / (length if inverse else 1)
    if to_real:  # the half that is left out is the conjugate of the given one
        twice = np.where((np.arange(given) == 0) | (2 * np.arange(given) == length), 1, 2)
        turn = turn * twice[:, None]
    columns = [turn, turn * 1j][:parts]  # of a real and an imaginary part
    kept = [np.stack([each.real] if to_real else [each.real, each.imag], -1) for each in columns]
    return np.stack(kept, 1)


@imports(since=17, how="gather, multiply, gemm with a constant, views")
def STFT(
    node: Node,
    signal: Tensor,
    frame_step: Tensor,
    window: Maybe = None,
    frame_length: Maybe = None,
    *,
    onesided: int = 1,
) -> Tensor:
    x, step = signal, int(node.scalar(frame_step))
    if window is None and frame_length is None:
        raise Refusal("an input is missing: the window or its length", code="missing", field="frame_length")
    length = int(node.scalar(frame_length, None if window is None else window.count))
    if step < 1 or not 1 <= length <= x.shape[1]:
        allowed = f"steps of 1 or more, a length of 1 to {x.shape[1]}"
        raise Refusal("does not fit the signal", code="range", field="frame_step", got=[step, length], allowed=allowed)
    if window is not None and window.count != length:
        raise Refusal("has another length", code="sizes", field="window", got=window.count, allowed=str(length))
    if x.rank == 3 and x.shape[2] != 1:
        raise Refusal("complex signals have no counterpart", field="signal", got=list(x.shape))
    batch, samples = x.shape[:2]
    frames = 1 + (samples - length) // step
    places = np.arange(frames)[:, None] * step + np.arange(length)
    row = node.reshaped(x, (1, batch, samples))
    indices = node.index(Tensor.of(places[None].astype(np.int64)))
    cut = node.gather(row, indices, axis=2, index_dimensions=2)
    if window is not None:
        cut = node.multiply(cut, node.reshaped(window, (1, 1, length)))
    matrix = _matrix(length, length, 1, inverse=False, onesided=bool(onesided))
    flat = node.reshaped(cut, (batch * frames, length))
    made = node.gemm(flat, Tensor.of(matrix.reshape(length, -1).astype(x.dtype)))
    return node.tensor(made, (batch, frames, *matrix.shape[2:]))


@imports(since=17, how="known inputs only")
def MelWeightMatrix(node: Node, *inputs: Tensor) -> NoReturn:
    unknown = [each for each in inputs if numbers(each) is None]
    if unknown:
        message = "the inputs must be known when the model is imported"
        hint = give_values(frozenset().union(*(each.depends for each in unknown)))
        raise Refusal(message, code="unknown-value", got=listing(each.name for each in unknown), hint=hint)
    raise Refusal("the matrix is too large", code="too-large")
