"""Usual patterns of views in models: each as a graph, as NumPy, and with what it costs on DirectML."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import dmlgraph as dg

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A pattern.

    Attributes:
        name: what it is called.
        inputs: sizes of the inputs.
        build: values of the inputs → the output.  Only Python's operators, views and `OF_BOTH`, so that it computes
            the same from arrays.
        copies: operators in the lowered graph that only move elements.
        dispatches: of a run on the software adapter.
        why: for each copy, and for a dispatch that DirectML adds, why it remains.
    """

    name: str
    inputs: tuple[Sizes, ...]
    build: Callable[..., Any]
    copies: int
    dispatches: int
    why: str = ""


# Functions of values and of arrays.


def relu(x: Any) -> Any:
    return dg.activation_relu(x) if isinstance(x, dg.Value) else np.maximum(x, 0)


def softmax(x: Any) -> Any:
    if isinstance(x, dg.Value):
        return dg.activation_softmax1(x, axes=[-1])
    shifted = np.exp(x - x.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def total(x: Any, axis: int) -> Any:
    return dg.reduce(x, function="sum", axes=[axis]) if isinstance(x, dg.Value) else x.sum(axis, keepdims=True)


def joined(parts: list[Any], axis: int) -> Any:
    return dg.join(parts, axis=axis) if isinstance(parts[0], dg.Value) else np.concatenate(parts, axis)


def squeezed(x: Any, axis: int) -> Any:
    return x.squeeze(axis)


def repeated(x: Any, sizes: Sizes) -> Any:
    return x.broadcast_to(sizes) if isinstance(x, dg.Value) else np.broadcast_to(x, sizes)


def flat(x: Any) -> Any:
    return x.flatten() if isinstance(x, dg.Value) else x.reshape(x.shape[0], -1)


def constant(like: Any, sizes: Sizes) -> Any:
    """A constant of the graph, or its array."""
    data = (np.arange(math.prod(sizes), dtype=np.float32) % 7 - 3).reshape(sizes)
    return like.graph.constant("weights", data) if isinstance(like, dg.Value) else data


def turned(x: Any, *order: int) -> Any:
    return x.transpose(order)


# Attention: batch 2, 4 tokens, 2 heads of 3.


def split_heads(x: Any) -> Any:
    """[N, L, H · D] → [N, H, L, D]."""
    return x.reshape(2, 4, 2, 3).transpose(0, 2, 1, 3)


def merge_heads(x: Any) -> Any:
    return x.transpose(0, 2, 1, 3).reshape(2, 4, 6)


def attention(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (split_heads(relu(each)) for each in (q, k, v))
    return merge_heads(softmax(q @ k.transpose(0, 1, 3, 2)) @ v)


def packed_attention(qkv: Any) -> Any:
    """One product for query, key and value, cut by subscripts."""
    made = relu(qkv)
    q, k, v = (split_heads(made[..., 6 * part : 6 * part + 6]) for part in range(3))
    return merge_heads(softmax(q @ k.transpose(0, 1, 3, 2)) @ v)


def stacked_attention(qkv: Any) -> Any:
    """[N, L, 3 · H · D] → [3, N, H, L, D], of which query, key and value are elements."""
    made = relu(qkv).reshape(2, 4, 3, 2, 3).transpose(2, 0, 3, 1, 4)
    return merge_heads(softmax(made[0] @ made[1].transpose(0, 1, 3, 2)) @ made[2])


def rotate_half(x: Any) -> Any:
    made = relu(x)
    return joined([-made[..., 3:], made[..., :3]], -1) * made


def rotate_pairs(x: Any) -> Any:
    made = relu(x)
    pairs = made.reshape(2, 4, 3, 2)
    return joined([-pairs[..., 1:], pairs[..., :1]], -1).reshape(2, 4, 6) * made


def grouped_queries(q: Any, k: Any) -> Any:
    """4 query heads read 2 key heads: [N, 2, L, D] → [N, 2, 2, L, D] → [N, 4, L, D]."""
    keys = repeated(relu(k)[:, :, None], (2, 2, 2, 4, 3)).reshape(2, 4, 4, 3)
    return relu(q) @ keys.transpose(0, 1, 3, 2)


# Pictures: [N, C, H, W].


def depth_to_space(x: Any) -> Any:
    return relu(relu(x).reshape(2, 2, 2, 2, 3, 5).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 6, 10))


def pixel_unshuffle(x: Any) -> Any:
    return relu(relu(x).reshape(2, 2, 3, 2, 5, 2).transpose(0, 1, 3, 5, 2, 4).reshape(2, 8, 3, 5))


def patches(x: Any) -> Any:
    """[N, 3, 4, 6] in patches of 2 by 2 → [N, 6 patches, 12 numbers], for a dense layer."""
    made = relu(x).reshape(2, 3, 2, 2, 3, 2).transpose(0, 2, 4, 1, 3, 5).reshape(2, 6, 12)
    return made.reshape(12, 12) @ constant(x, (12, 4))


def channel_shuffle(x: Any) -> Any:
    return relu(relu(x).reshape(2, 2, 3, 4, 5).transpose(0, 2, 1, 3, 4).reshape(2, 6, 4, 5))


def windows(x: Any) -> Any:
    """Swin's windows of 2 by 3: [N, H, W, C] → [N · windows, 6, C]."""
    return softmax(relu(x).reshape(2, 2, 2, 2, 3, 5).transpose(0, 1, 3, 2, 4, 5).reshape(8, 6, 5))


START = "a tensor desc has no offset: what begins at another element is a copy"
BACK = "strides are not negative"
# Measured: most operators that write in another order cost a dispatch more, as the copy does.
ONE = "the reader needs one dimension where strides need several, and is not element-wise"
OUTPUT = "an output has as many bytes as the caller expects"
INPUT = "an input is not an output: someone must write it"

PATTERNS = (
    Pattern("flatten before dense", ((2, 3, 4, 5),), lambda x: flat(relu(x)) @ constant(x, (60, 4)), 0, 2),
    Pattern("split heads", ((2, 4, 6),), lambda x: softmax(split_heads(relu(x))), 0, 4),
    Pattern("split heads of an input", ((2, 4, 6),), lambda x: softmax(split_heads(x)), 0, 3),
    Pattern("merge heads", ((2, 2, 4, 3),), lambda x: relu(merge_heads(softmax(x))), 0, 4),
    Pattern("merge heads before dense", ((2, 2, 4, 3),),
            lambda x: merge_heads(softmax(x)).reshape(8, 6) @ constant(x, (6, 5)), 0, 4),
    Pattern("keys transposed", ((2, 2, 4, 3), (2, 2, 5, 3)),
            lambda q, k: relu(q) @ relu(k).transpose(0, 1, 3, 2), 0, 3),
    Pattern("keys transposed, inputs", ((4, 3), (5, 3)), lambda q, k: q @ k.T, 0, 1),
    Pattern("attention of three values", ((2, 4, 6),) * 3, attention, 0, 8),
    Pattern("attention of one product, by subscripts", ((2, 4, 18),), packed_attention, 2, 8, START),
    Pattern("attention of one product, stacked", ((2, 4, 18),), stacked_attention, 2, 9, START),
    Pattern("rotary embedding, halves", ((2, 4, 6),), rotate_half, 1, 6, START),
    Pattern("rotary embedding, pairs", ((2, 4, 6),), rotate_pairs, 1, 6, START),
    Pattern("keys of grouped queries", ((2, 4, 4, 3), (2, 2, 4, 3)), grouped_queries, 0, 3),
    Pattern("batch and tokens as rows", ((2, 4, 6),),
            lambda x: (relu(x).reshape(8, 6) @ constant(x, (6, 5))).reshape(2, 4, 5), 0, 2),
    Pattern("transposed weights", ((2, 6),), lambda x: x @ constant(x, (5, 6)).T, 0, 1),
    Pattern("NHWC and back", ((2, 3, 4, 5),),
            lambda x: relu(turned(softmax(turned(relu(x), 0, 2, 3, 1)), 0, 3, 1, 2)), 0, 6),
    Pattern("NHWC around an element-wise operator", ((2, 3, 4, 5),),
            lambda x: turned(relu(turned(x, 0, 2, 3, 1)), 0, 3, 1, 2), 0, 2),
    Pattern("bias of the channels in NHWC", ((2, 3, 4, 5),),
            lambda x: turned(turned(x, 0, 2, 3, 1) + constant(x, (3,)), 0, 3, 1, 2), 0, 2),
    Pattern("channel shuffle", ((2, 6, 4, 5),), channel_shuffle, 0, 1),
    Pattern("depth to space", ((2, 8, 3, 5),), depth_to_space, 0, 2),
    Pattern("pixel unshuffle", ((2, 2, 6, 10),), pixel_unshuffle, 0, 2),
    Pattern("patches of a picture", ((2, 3, 4, 6),), patches, 1, 3, ONE),
    Pattern("windows of a picture", ((2, 4, 6, 5),), windows, 1, 5, ONE),
    Pattern("first token", ((2, 4, 6),), lambda x: relu(x)[:, 0] @ constant(x, (6, 5)), 0, 2),
    Pattern("last token", ((2, 4, 6),), lambda x: relu(x)[:, -1] @ constant(x, (6, 5)), 1, 3, START),
    Pattern("all tokens but the last", ((2, 4, 6),), lambda x: relu(relu(x)[:, :-1]), 0, 1),
    Pattern("every second", ((2, 4, 6),), lambda x: relu(relu(x)[:, ::2]), 0, 1),
    Pattern("every second from the second on", ((2, 4, 6),), lambda x: relu(relu(x)[..., 1::2]), 1, 3, START),
    Pattern("reversed", ((2, 4, 6),), lambda x: relu(relu(x)[:, ::-1]), 1, 3, BACK),
    Pattern("cropped", ((2, 3, 6, 8),), lambda x: relu(x[:, :, 1:-1, 1:-1]), 1, 2, START),
    Pattern("a reduction squeezed", ((2, 4, 6),), lambda x: relu(squeezed(total(x, -1), -1)), 0, 2),
    Pattern("expanded for broadcasting", ((2, 4), (2, 4, 6)), lambda s, x: relu(s)[:, :, None] * x, 0, 2),
    Pattern("all pairs", ((5,), (6,)), lambda a, b: relu(a)[:, None] - relu(b)[None, :], 0, 3),
    Pattern("broadcast before a softmax", ((6,),), lambda x: softmax(repeated(x, (2, 4, 6))), 0, 3),
    Pattern("concatenation of two reshaped", ((2, 3, 4), (2, 12)),
            lambda x, y: joined([relu(x).reshape(2, 12), relu(y)], 1), 0, 4),
    Pattern("output reshaped", ((2, 3, 4),), lambda x: relu(x).reshape(6, 4), 0, 1),
    Pattern("output transposed", ((2, 3, 4),), lambda x: relu(x).transpose(0, 2, 1), 0, 1),
    Pattern("output cut", ((2, 3, 4),), lambda x: relu(x)[:, :2], 1, 2, OUTPUT),
    Pattern("output repeated", ((2, 1, 4),), lambda x: repeated(relu(x), (2, 3, 4)), 1, 2, OUTPUT),
    Pattern("input reshaped to an output", ((2, 3, 4),), lambda x: x.reshape(6, 4), 1, 1, INPUT),
    Pattern("input transposed to an output", ((2, 3, 4),), lambda x: x.transpose(2, 0, 1), 1, 1, INPUT),
)  # fmt: skip
