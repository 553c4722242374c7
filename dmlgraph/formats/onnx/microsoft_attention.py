"""Attention of the domain com.microsoft, and rotary positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.compiler.passes.canonical.joined import THIN
from dmlgraph.formats.onnx.attention import (
    as_heads,
    attend,
    causal,
    extended,
    masking,
    padding,
    present,
    rotary_table,
    rotated,
    side_by_side,
)
from dmlgraph.formats.onnx.matrix import Factor, dequantized_product
from dmlgraph.formats.onnx.node import Maybe, Node, Result
from dmlgraph.formats.onnx.refusals import Refusal, unsupported
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import MICROSOFT, imports
from dmlgraph.formats.onnx.tensors import Appended, Calls, Tensor
from dmlgraph.graph.value import Value

Heads = tuple[Value, Value, Value]  # queries, keys and values: {B, N, S, H}, {B, N, T, H}, {B, N, T, V}


def _attended(
    node: Node,
    heads: Heads,
    new: int,
    mask: Maybe,
    bias: Maybe,
    *,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
    unidirectional: int = 0,
    by_products: bool = False,
) -> Value:
    """The attention of heads: {B, S, N · V}; `new` keys come after the past ones.

    With `by_products` it is not one operator, but products and a softmax.
    """
    q, k, v = heads
    sizes = (q.sizes[0], q.sizes[2], k.sizes[2])
    scale, excluded = scale or 1 / math.sqrt(q.sizes[3]), mask_filter_value
    if unidirectional and sizes[1] not in (1, new):  # ONNX Runtime's devices do not agree; on its CPU the last sees all
        got = f"{sizes[1]} queries, {new} keys"
        raise Refusal("which keys each query sees is not defined", code="sizes", field="unidirectional", got=got)
    if node.level >= FeatureLevel.V6_1 and not by_products and (sizes[1] == 1 or not unidirectional):
        masked = {} if mask is None else masking(node, mask, sizes, excluded)
        return _by_operator(node, heads, new, {"scale": scale, "relative_position_bias": bias, **masked})
    added: list[Any] = [] if mask is None else [padding(node, mask, sizes, excluded, q)]
    if unidirectional:
        added.append(causal(node, sizes[1], sizes[2], q))
    if bias is not None:
        added.append(bias)
    return side_by_side(node, attend(node, q, k, v, scale=scale, added=added))


def _by_operator(node: Node, heads: Heads, new: int, fields: dict[str, Any]) -> Value:
    """DirectML's operator; keys that contain past ones stand for all past ones."""
    q, k, v = heads
    if k.sizes[2] == new:
        fields |= {"key": side_by_side(node, k), "value": side_by_side(node, v)}
    else:
        fields |= {"past_key": k, "past_value": v}
    return node.multihead_attention(side_by_side(node, q), head_count=q.sizes[1], **fields)


def _check_unset(**attributes: int) -> None:
    for name, got in attributes.items():
        if got:
            raise unsupported(name, "0", got)


def _projected(node: Node, product: Value, batch: int, widths: list[int], past: Maybe, count: int) -> tuple[Heads, Any]:
    """Heads from the product {B · S, widths…} of inputs and weights, and the present {2, B, N, T, H}."""
    parts = node.split(product, axis=1, outputs=widths)
    length = product.sizes[0] // batch
    q, k, v = (as_heads(node, node.reshaped(each, (batch, length, each.sizes[1])), count) for each in parts)
    new = k, v
    if past is not None and 0 not in past.shape:
        if past.rank != 5 or past.shape[0] != 2:
            raise Refusal("must hold keys and values", code="sizes", field="past", got=list(past.shape))
        before = (sliced(node, past, [slice(index, index + 1)] + [slice(None)] * 4) for index in range(2))
        before_k, before_v = (node.reshaped(each, past.shape[1:]) for each in before)
        k, v = extended(node, before_k, k), extended(node, before_v, v)
    if not node.wants(1):
        return (q, k, v), None
    if k.sizes != v.sizes:
        raise Refusal("a present needs keys and values of one size", code="sizes", field="qkv_hidden_sizes")
    made = node.tensor(_stacked(node, (k, v)))
    if past is not None:
        made.appended = Appended(past, lambda calls: _stacked(calls, new), 3)
    return (q, k, v), made


def _stacked(calls: Calls, parts: tuple[Value, Value]) -> Value:
    """{2, B, N, T, H} of keys and values."""
    return calls.join([calls.reshaped(each, (1, *each.sizes)) for each in parts], axis=0)


_HOW = "multihead_attention; below level 6.1, and unidirectional: gemm, add, activation_softmax1"


@imports(domain=MICROSOFT, how=f"gemm, {_HOW}")
def Attention(
    node: Node,
    input: Tensor,
    weights: Tensor,
    bias: Maybe = None,
    mask_index: Maybe = None,
    past: Maybe = None,
    attention_bias: Maybe = None,
    past_sequence_length: Maybe = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: list[int] | None = None,
    rotary_embedding_dim: int = 0,
    **attributes: Any,
) -> Result:
    """The input is {B, S, D}, the weights {D, 3 · N · H}."""
    _check_unset(do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    if past_sequence_length is not None:
        raise Refusal("buffers shared by past and present have no counterpart", field="past_sequence_length")
    widths = node.ints("qkv_hidden_sizes", qkv_hidden_sizes, [weights.shape[1] // 3] * 3)
    if len(widths) != 3 or sum(widths) != weights.shape[1] or widths[0] != widths[1]:
        raise Refusal("must add up to the columns of the weights", code="sizes", field="qkv_hidden_sizes", got=widths)
    rows = node.reshaped(input, (math.prod(input.shape[:-1]), input.shape[-1]))
    added = None if bias is None else node.expanded(bias, (rows.sizes[0], sum(widths)))
    product = node.gemm(rows, weights, added)
    heads, present = _projected(node, product, input.shape[0], widths, past, num_heads)
    return [_attended(node, heads, input.shape[1], mask_index, attention_bias, **attributes), present]


@imports(domain=MICROSOFT, how="matrix_multiply_integer, then as Attention")
def QAttention(
    node: Node,
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    input_scale: Tensor,
    weight_scale: Tensor,
    mask_index: Maybe = None,
    input_zero_point: Maybe = None,
    weight_zero_point: Maybe = None,
    past: Maybe = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
    **attributes: Any,
) -> Result:
    _check_unset(do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    rows = node.tensor(node.reshaped(input, (math.prod(input.shape[:-1]), input.shape[-1])))
    left, right = Factor(rows, input_scale, input_zero_point), Factor(weight, weight_scale, weight_zero_point)
    product = node.add(dequantized_product(node, left, right), bias)
    heads, present = _projected(node, product, input.shape[0], [weight.shape[1] // 3] * 3, past, num_heads)
    return [_attended(node, heads, input.shape[1], mask_index, None, **attributes), present]


@imports(domain=MICROSOFT, how=_HOW)
def MultiHeadAttention(
    node: Node,
    query: Tensor,
    key: Maybe = None,
    value: Maybe = None,
    bias: Maybe = None,
    key_padding_mask: Maybe = None,
    attention_bias: Maybe = None,
    past_key: Maybe = None,
    past_value: Maybe = None,
    past_sequence_length: Maybe = None,
    cache_indirection: Maybe = None,
    *,
    num_heads: int,
    **attributes: Any,
) -> Result:
    shared = {"past_sequence_length": past_sequence_length, "cache_indirection": cache_indirection}
    for name, given in shared.items():
        if given is not None:
            raise Refusal("buffers shared by past and present have no counterpart", field=name)
    if node.wants(3):
        raise Refusal("the scores are not read", field="outputs", got="qk")
    q, k, v = _separate(node, query, key, value, bias, num_heads)
    new = k.sizes[2]
    keys, values = extended(node, past_key, k), extended(node, past_value, v)
    # DirectML's operator copies a past into a join of its own, and so does a join in front of it.  Of few queries
    # products with a join become products with its parts.
    by_products = node.appends >= {1, 2} and q.sizes[2] <= THIN
    heads = (q, keys, values)
    made = _attended(node, heads, new, key_padding_mask, attention_bias, by_products=by_products, **attributes)
    return [made, present(past_key, k, keys), present(past_value, v, values)]


def _separate(node: Node, query: Tensor, key: Maybe, value: Maybe, bias: Maybe, count: int) -> Heads:
    """Queries, keys and values, with their bias, as heads; they may come in one tensor, or keys and values in one."""
    if query.rank == 5:
        parts = _unstacked(node, query, 3)
    elif key is not None and key.rank == 5:
        parts = [node.value(query), *_unstacked(node, key, 2)]
    else:
        parts = [node.value(query), *(node.value(node.there(at, each)) for at, each in ((1, key), (2, value)))]
    if bias is not None:
        widths = [each.sizes[-1] if len(each.sizes) == 3 else each.sizes[1] * each.sizes[3] for each in parts]
        if sum(widths) != bias.count:
            raise Refusal("must have the widths of query, key and value", code="sizes", field="bias", got=bias.count)
        biases = node.split(bias, axis=0, outputs=widths)
        # Keys and values of four dimensions come from another node, which has added it.
        parts = [
            node.add(each, part) if len(each.sizes) == 3 else each for each, part in zip(parts, biases, strict=True)
        ]
    return tuple(as_heads(node, each, count) if len(each.sizes) == 3 else each for each in parts)  # type: ignore


def _unstacked(node: Node, x: Tensor, count: int) -> list[Value]:
    """{B, S, N, count, H} as parts of {B, S, N · H}."""
    batch, length, heads, held, width = x.shape
    if held != count:
        got = list(x.shape)
        raise Refusal("holds another number of tensors", code="sizes", got=got, allowed=f"{count} in dimension 3")
    parts = node.split(x, axis=3, outputs=[1] * count)
    return [node.reshaped(each, (batch, length, heads * width)) for each in parts]


@imports(domain=MICROSOFT, how="gather, multiply, add, views")
def RotaryEmbedding(
    node: Node,
    input: Tensor,
    position_ids: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
) -> Result:
    """The input is {B, S, N · H} or {B, N, S, H}, positions {1} (of the first) or {B, S}, cosines and sines {M, R}.

    ONNX Runtime reads the attributes `scale` and `is_packed_batching` and computes the same whatever they are.
    """
    places = position_ids
    if 0 in cos_cache.shape:
        got = [*cos_cache.shape]
        raise Refusal("a tensor without elements has no counterpart", code="empty-tensor", field="cos_cache", got=got)
    width = 2 * cos_cache.shape[1]
    split = node.value(input) if input.rank == 4 else as_heads(node, input, num_heads or input.shape[2] // width)
    wanted = (split.sizes[0], split.sizes[2])
    if places.shape not in ((1,), wanted):
        got, allowed = list(places.shape), f"[1], {list(wanted)}"
        raise Refusal("has another shape", code="sizes", field="position_ids", got=got, allowed=allowed)
    if places.rank == 1:
        places = consecutive(node, places, split.sizes[2])
    cosines, sines = (rotary_table(node, each, places) for each in (cos_cache, sin_cache))
    made = rotated(node, split, cosines, sines, interleaved=bool(interleaved))
    return made if input.rank == 4 else side_by_side(node, made)


def consecutive(node: Node, first: Tensor, count: int) -> Tensor:
    """The positions {1, count} from the first on."""
    steps = np.arange(count, dtype=np.int64)[None]
    if first.known is not None:
        return Tensor.of(steps + first.known.reshape(1, 1))
    return node.tensor(node.add(node.reshaped(first, (1, 1)), Tensor.of(steps)))
