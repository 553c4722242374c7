"""MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1, compared with the formula number by number, and ONNX's Attention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from support.nodes import operator_of
from support.operators.checks import OperatorTests
from support.operators.harness import FLOATS, Array, Case, add_node, build, case, operator_class, refused, run
from support.operators.literal import some
from support.operators.onnx_model import evaluate

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

B, S, K, P, H, D, V = 2, 3, 4, 5, 2, 3, 5  # sequences, queries, new and past keys, heads, numbers of keys and values
FIELDS = {"scale": 0.5, "mask_filter_value": -2.5}
ONE_KIND = {"head_count": H}
Row = list[float]
Heads = list[list[list[Row]]]  # by sequence, head and row


# The formula.


def split(tensor: Array, heads: int) -> Heads:
    """{B, S, heads · D} by head."""
    size = tensor.shape[-1] // heads
    return [
        [[[float(x) for x in row[head * size : head * size + size]] for row in rows] for head in range(heads)]
        for rows in tensor
    ]


def unstacked(tensor: Array, place: int) -> Heads:
    """One of the tensors in {B, S, heads, 2 or 3, D} by head."""
    return [
        [[[float(x) for x in row[head][place]] for row in rows] for head in range(tensor.shape[2])] for rows in tensor
    ]


def new_rows(tensors: dict[str, Array], role: str, heads: int) -> Heads | None:
    """The new queries, keys or values, from any of their tensors."""
    if role in tensors:
        return split(tensors[role], heads)
    for field, roles in (
        ("stacked_query_key", ("query", "key")),
        ("stacked_key_value", ("key", "value")),
        ("stacked_query_key_value", ("query", "key", "value")),
    ):
        if field in tensors and role in roles:
            return unstacked(tensors[field], roles.index(role))
    return None


def filtered(kind: str, mask: Array, at: tuple[int, int, int, int], total: int) -> float:
    """How many times the filter value is added to the score of a sequence, head, query and key."""
    b, head, query, key = at
    flat = [int(each) for each in mask.reshape(-1)]
    if kind == "boolean":
        return 1 - int(np.broadcast_to(mask, (B, mask.shape[1] if mask.shape[1] > 1 else head + 1, S, total))[at])
    if kind == "key_sequence_length":
        return float(key >= flat[b])
    if kind == "key_sequence_end_start":
        return float(not flat[B + b] <= key < flat[b])
    lengths, queries, keys = flat[:B], flat[B : 2 * B + 1], flat[2 * B + 1 :]
    inside = queries[b] <= b * S + query < queries[b + 1]
    return float(not (inside and keys[b] <= b * total + key < keys[b] + lengths[b]))


def attended(tensors: dict[str, Array], query_heads: int, key_heads: int, kind: str, lengths: Any = None) -> Any:
    """The output, and keys and values with the past ones first."""
    parts: dict[str, Any] = {}
    start = 0
    for role in ("query", "key", "value"):
        heads = query_heads if role == "query" else key_heads
        rows = new_rows(tensors, role, heads)
        if rows is not None and "bias" in tensors:
            size = len(rows[0][0][0])
            bias = [float(each) for each in tensors["bias"].reshape(-1)[start : start + heads * size]]
            start += heads * size
            rows = [
                [
                    [[x + bias[h * size + n] for n, x in enumerate(row)] for row in each]
                    for h, each in enumerate(sequence)
                ]
                for sequence in rows
            ]
        past = tensors.get(f"past_{role}")
        if past is not None:
            old = [[[[float(x) for x in row] for row in head] for head in sequence] for sequence in past]
            rows = (
                old
                if rows is None
                else [[a + b for a, b in zip(*both, strict=True)] for both in zip(old, rows, strict=True)]
            )
        parts[role] = rows
    total, past_count = len(parts["key"][0][0]), tensors["past_key"].shape[-2] if "past_key" in tensors else 0
    width = len(parts["value"][0][0][0])
    output = np.zeros((B, S, query_heads * width))
    for b in range(B):
        for head in range(query_heads):
            shared = head // (query_heads // key_heads)
            for query in range(S):
                scores: list[float] = []
                for key in range(total):
                    pair = zip(parts["query"][b][head][query], parts["key"][b][shared][key], strict=True)
                    score = FIELDS["scale"] * sum(x * y for x, y in pair)
                    if "relative_position_bias" in tensors:
                        relative = tensors["relative_position_bias"]
                        score += float(relative[b % relative.shape[0], head, query, key])
                    if kind != "none":
                        at = (b, head, query, key)
                        score += FIELDS["mask_filter_value"] * filtered(kind, tensors["mask"], at, total)
                    if lengths is not None:
                        new = key - past_count
                        counts = key < lengths[b] if new < 0 else new <= query + (total - past_count) - S
                        score = score if counts else -math.inf
                    scores.append(score)
                powers = [math.exp(each - max(scores)) for each in scores]
                for n in range(width):
                    weighted = sum(power * parts["value"][b][shared][key][n] for key, power in enumerate(powers))
                    output[b, query, head * width + n] = weighted / sum(powers)
    return output, np.array(parts["key"]), np.array(parts["value"])


def row(
    operator: str,
    why: str,
    names: str,
    of: str = "float32",
    mask_type: str = "none",
    present: bool = False,
    heads: tuple[int, int] = (H, H),
    **given: Any,
) -> Case:
    """A row with the named tensors, and others as they are given."""
    query_heads, key_heads = heads
    sizes = {
        "query": [B, S, query_heads * D],
        "key": [B, K, key_heads * D],
        "value": [B, K, key_heads * V],
        "stacked_query_key": [B, S, H, 2, D],
        "stacked_key_value": [B, K, H, 2, D],
        "stacked_query_key_value": [B, S, H, 3, D],
        "bias": [query_heads * D + key_heads * (D + V)],
        "past_key": [B, key_heads, P, D],
        "past_value": [B, key_heads, P, V],
    }
    if "stacked_query_key" in names.split():
        sizes["value"][1] = S  # as many keys as queries
    tensors = {name: some(sizes[name], of, seed=seed) for seed, name in enumerate(names.split())}
    tensors |= {name: each.astype(of if name == "relative_position_bias" else "int32") for name, each in given.items()}
    lengths = tensors.get("past_sequence_lengths")
    output, *presents = attended(tensors, query_heads, key_heads, mask_type, lengths)
    gives = tuple(each.astype(of) for each in ([output, *presents] if present else [output]))
    fields: dict[str, Any] = FIELDS | {"mask_type": mask_type}
    fields |= {"head_count": H} if operator == "multihead_attention" else {}
    fields |= {} if "head_count" in fields else {"query_head_count": query_heads, "key_value_head_count": key_heads}
    fields |= {"output_present_key": True, "output_present_value": True} if present else {}
    inputs = [tensors.get(field) for field in operator_class(operator).input_fields]
    return case(f"{why}, {mask_type}", inputs, gives, of, **fields)


PLAIN, PAST = "query key value", "query key value past_key past_value"


def ints(*values: Any) -> Array:
    return np.array(values)


def flags(*sizes: int) -> Array:
    return (np.arange(math.prod(sizes)) * 7 % 11 % 3 > 0).astype(int).reshape(sizes)


def rows(operator: str) -> tuple[Case, ...]:
    """The rows of both operators."""
    return tuple(
        row(operator, why, names, of, kind, **cast("dict[str, Any]", given))
        for of in FLOATS
        for why, names, kind, given in (
            ("plain", PLAIN, "none", {}),
            ("present", PLAIN, "none", {"present": True}),
            ("bias", f"{PLAIN} bias", "none", {}),
            ("past", PAST, "none", {}),
            ("past and present", PAST, "none", {"present": True}),
            ("past, present and bias", f"{PAST} bias", "none", {"present": True}),
            ("past only", "query past_key past_value", "none", {"present": True}),
            ("position bias", PLAIN, "none", {"relative_position_bias": some([B, H, S, K])}),
            ("position bias for all", PLAIN, "none", {"relative_position_bias": some([1, H, S, K])}),
            ("position bias of the past", PAST, "none", {"relative_position_bias": some([B, H, S, P + K])}),
            ("query and key", "stacked_query_key value", "none", {}),
            ("key and value", "query stacked_key_value", "none", {}),
            ("all three", "stacked_query_key_value", "none", {}),
            ("every element", PLAIN, "boolean", {"mask": flags(B, H, S, K)}),
            ("keys", PLAIN, "boolean", {"mask": flags(B, 1, 1, K)}),
            ("past", PAST, "boolean", {"mask": flags(B, H, S, P + K)}),
            ("1 − mask times", PLAIN, "boolean", {"mask": np.arange(B * K).reshape(B, 1, 1, K) % 5 - 1}),
            (
                "every element and position bias",
                PLAIN,
                "boolean",
                {"mask": flags(B, H, S, K), "relative_position_bias": some([B, H, S, K])},
            ),
            (
                "keys of the past and position bias for all",
                PAST,
                "boolean",
                {"mask": flags(B, 1, 1, P + K), "relative_position_bias": some([1, H, S, P + K])},
            ),
            ("lengths", PLAIN, "key_sequence_length", {"mask": ints([2, 3])}),
            ("none and all", PLAIN, "key_sequence_length", {"mask": ints([0, 9])}),
            ("past", PAST, "key_sequence_length", {"mask": ints([3, 7])}),
            ("ends and starts", PLAIN, "key_sequence_end_start", {"mask": ints([3, 4], [1, 2])}),
            ("past", PAST, "key_sequence_end_start", {"mask": ints([7, 9], [1, 6])}),
            *(
                (why, PLAIN, "key_query_sequence_length_start_end", {"mask": ints(*mask)})
                for why, mask in (
                    ("whole sequences", (2, 3, 0, 3, 6, 0, 4, 8)),
                    ("some queries", (2, 3, 0, 2, 5, 0, 4, 8)),
                    ("keys begin late", (2, 2, 0, 3, 6, 1, 5, 8)),
                    ("lengths reach beyond the bounds", (4, 4, 0, 3, 6, 1, 2, 3)),
                )
            ),
        )
    )


class AttentionTests(OperatorTests):
    """The checks of both operators."""

    asked: ClassVar = ("output", "output_present_key", "output_present_value")
    ulp: ClassVar = {"reference": 1, "directml:software": 4}
    ulp_floor: ClassVar = {"reference": 0.1, "directml:software": 2.0}  # the greatest weighted value

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x, x, x], **self.fields())

    def fields(self, **changes: Any) -> dict[str, Any]:
        heads = {field: 1 for field in operator_class(self.operator).attribute_fields if field.endswith("head_count")}
        return FIELDS | heads | {"mask_type": "none"} | changes

    def refused(self, names: str, sizes: Mapping[str, Sequence[int]] | None = None, **fields: Any) -> dg.OperatorError:
        """The error of a node whose tensors have one element each, or other sizes."""
        ranks = {"past_key": 4, "past_value": 4, "relative_position_bias": 4, "mask": 2, "bias": 1}
        tensors = {
            name: np.ones(
                [1] * ranks.get(name, 5 if "stacked" in name else 3), "int32" if name == "mask" else "float32"
            )
            for name in names.split()
        }
        tensors |= {name: np.ones(each, tensors[name].dtype) for name, each in (sizes or {}).items()}
        inputs = [tensors.get(field) for field in operator_class(self.operator).input_fields]
        return refused(self.operator, inputs, **self.fields(**fields))

    # Where queries, keys and values come from.

    @pytest.mark.parametrize(
        ("names", "field"),
        [
            ("key value", "query"),
            ("query value", "key"),
            ("query key", "value"),
            ("stacked_query_key", "value"),
            ("stacked_key_value", "query"),
            ("query past_value value", "key"),
            ("query key value stacked_query_key", "stacked_query_key"),
            ("query key stacked_key_value", "stacked_key_value"),
            ("query stacked_query_key_value", "stacked_query_key_value"),
        ],
    )
    def test_each_comes_from_one_tensor(self, names: str, field: str) -> None:
        sizes = {
            name: [1, 1, 1, 3 if name.endswith("key_value") else 2, 1] for name in names.split() if "stacked" in name
        }
        sizes |= {"stacked_key_value": [1, 1, 1, 2, 1]} if "stacked_key_value" in sizes else {}
        assert self.refused(names, sizes).field == field

    def test_past_keys_and_values_go_together(self) -> None:
        assert self.refused("query key value past_key").field == "past_value"
        assert self.refused("query key value past_value").field == "past_key"

    def test_a_bias_wants_new_keys(self) -> None:
        assert self.refused("query past_key past_value bias", {"bias": [3]}).field == "bias"

    # Sizes.

    @pytest.mark.parametrize(
        ("field", "sizes", "allowed"),
        [
            ("key", [1, 3, 4], [1, 3, 6]),
            ("value", [1, 2, 8], [1, 3, 8]),
            ("bias", [19], [20]),
            ("past_key", [1, 2, 5, 2], [1, 2, 5, 3]),
            ("past_value", [1, 2, 4, 4], [1, 2, 5, 4]),
            ("relative_position_bias", [1, 2, 2, 8], [1, 2, 2, 8]),
        ],
    )
    def test_sizes_agree(self, field: str, sizes: list[int], allowed: list[int]) -> None:
        right = {
            "query": [1, 2, 6],
            "key": [1, 3, 6],
            "value": [1, 3, 8],
            "bias": [20],
            "past_key": [1, 2, 5, 3],
            "past_value": [1, 2, 5, 4],
            "relative_position_bias": [1, 2, 2, 8],
        }
        heads = {name: 2 for name in self.fields() if name.endswith("head_count")}
        if sizes == allowed:
            sizes = [*sizes[:-1], sizes[-1] - 1]
        error = self.refused(" ".join(right), right | {field: sizes}, **heads)
        assert field in (error.field or "")
        assert str(allowed) in (error.allowed or "")

    def test_heads_share_the_numbers_of_a_query(self) -> None:
        heads = {name: 2 for name in self.fields() if name.endswith("head_count")}
        error = self.refused("query key value", {"query": [1, 2, 5]}, **heads)
        assert (error.field, error.allowed) == ("query.sizes", "2 · n")

    def test_there_is_a_head(self) -> None:
        heads: dict[str, Any] = {name: 0 for name in self.fields() if name.endswith("head_count")}
        error = self.refused("query key value", **heads)
        assert (error.code, error.got) == ("range", 0)

    def test_ones_may_stand_in_front(self, device: DeviceName) -> None:
        x, *others = self.sample.inputs
        front = [each if each is None else each[None] for each in (x, *others)]
        got = run(self.operator, front, device=device, **{k: v for k, v in self.sample.fields.items() if v is not True})
        self.assert_close(got, self.sample.gives[0][None], device)

    def test_a_tensor_with_too_few_dimensions_is_refused(self) -> None:
        error = self.refused("query key value", {"query": [1, 1]})
        assert (error.field, error.got) == ("query.sizes", [1, 1])
        for past in ("past_key", "past_value"):
            error = self.refused("query key value past_key past_value", {past: [3]})
            assert (error.field, error.got) == (f"{past}.sizes", [3])

    # Masks.

    def test_a_mask_and_its_type_go_together(self) -> None:
        assert self.refused("query key value", mask_type="boolean").field == "mask"
        assert self.refused("query key value mask").field == "mask"

    @pytest.mark.parametrize(
        ("kind", "sizes", "allowed"),
        [
            ("key_sequence_length", [2, 1], [1, 1]),
            ("key_sequence_end_start", [1, 1], [2, 1]),
            ("key_query_sequence_length_start_end", [4], [5]),
        ],
    )
    def test_a_mask_has_the_sizes_of_its_type(self, kind: str, sizes: list[int], allowed: list[int]) -> None:
        error = self.refused("query key value mask", {"mask": sizes}, mask_type=kind)
        assert (error.field, error.got, error.allowed) == ("mask.sizes", sizes, str(allowed))

    def test_a_boolean_mask_that_does_not_broadcast_is_refused(self) -> None:
        error = self.refused("query key value mask", {"mask": [1, 1, 1, 2]}, mask_type="boolean")
        assert (error.field, error.allowed) == ("mask.sizes", "[1, 1, 1, 1]")

    def test_a_boolean_mask_is_read_with_zero_strides(self) -> None:
        masked = next(each for each in self.cases if each.why == "keys, boolean (float32)")
        graph, _ = build(self.operator, masked.inputs, **masked.fields)
        mask = operator_of(graph.node("node")).mask
        assert (mask.sizes, mask.strides) == ((B, H, S, K), (K, 0, 0, 1))

    def test_a_list_of_lengths_is_a_row(self, device: DeviceName) -> None:
        masked = next(each for each in self.cases if each.why == "lengths, key_sequence_length (float32)")
        inputs = [each if each is None or each.dtype != np.int32 else each.reshape(-1) for each in masked.inputs]
        self.assert_close(run(self.operator, inputs, device=device, **masked.fields), masked.gives[0], device)


class TestMultiheadAttention(AttentionTests):
    operator = "multihead_attention"
    levels = "6.1: 3-5D F32 F16"
    sample = row("multihead_attention", "past and present", PAST, present=True)
    cases = rows("multihead_attention")

    def test_it_is_the_attention_of_onnx(self, device: DeviceName) -> None:
        q, k, v = some([2, 3, 8]), some([2, 5, 8], seed=1), some([2, 5, 6], seed=2)
        (expected,) = evaluate("Attention", [q, k, v], q_num_heads=2, kv_num_heads=2, scale=0.3)
        got = run(self.operator, [q, k, v], device=device, **self.fields(head_count=2, scale=0.3))
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


class TestMultiheadAttention1(AttentionTests):
    operator = "multihead_attention1"
    levels = "6.3: 3-5D F32 F16"
    sample = row("multihead_attention1", "past and present", PAST, present=True)
    cases = (
        *rows("multihead_attention1"),
        *(
            row(
                "multihead_attention1",
                f"{why}, {heads} heads",
                names,
                present=True,
                heads=heads,
                **cast("dict[str, Any]", given),
            )
            for heads in ((4, 2), (4, 1), (6, 2))
            for why, names, given in (
                ("shared", PLAIN, {}),
                ("shared, with past and bias", f"{PAST} bias", {}),
                ("lengths", PAST, {"past_sequence_lengths": ints(2, 5)}),
            )
        ),
        row("multihead_attention1", "lengths without a past", PLAIN, past_sequence_lengths=ints(0, 0)),
        row("multihead_attention1", "no length", PAST, past_sequence_lengths=ints(0, 9)),
    )

    def test_query_heads_share_whole_key_heads(self) -> None:
        sizes = {"query": [1, 1, 3], "key": [1, 1, 2], "value": [1, 1, 2]}
        error = self.refused("query key value", sizes, query_head_count=3, key_value_head_count=2)
        assert (error.field, error.got, error.allowed) == ("query_head_count", 3, "2 · n")

    def test_there_is_a_length_for_each_sequence(self) -> None:
        x = np.ones([2, 1, 1], "float32")
        inputs = [
            x if field in ("query", "key", "value") else None for field in operator_class(self.operator).input_fields
        ]
        inputs[11] = np.ones([3], "int32")
        error = refused(self.operator, inputs, **self.fields())
        assert (error.field, error.got, error.allowed) == ("past_sequence_lengths.sizes", [3], "[2]")

    def test_shared_heads_are_the_grouped_attention_of_onnx(self) -> None:
        q, k, v = some([2, 3, 12]), some([2, 5, 6], seed=1), some([2, 5, 4], seed=2)
        (expected,) = evaluate("Attention", [q, k, v], q_num_heads=4, kv_num_heads=2, scale=0.3)
        fields = self.fields(query_head_count=4, key_value_head_count=2, scale=0.3)
        np.testing.assert_allclose(run(self.operator, [q, k, v], **fields), expected, rtol=1e-5, atol=1e-6)

    def test_lengths_of_the_whole_past_are_the_causal_attention_of_onnx(self) -> None:
        q, k, v = some([2, 3, 12]), some([2, 3, 6], seed=1), some([2, 3, 4], seed=2)
        (expected,) = evaluate("Attention", [q, k, v], q_num_heads=4, kv_num_heads=2, scale=0.3, is_causal=1)
        fields = self.fields(query_head_count=4, key_value_head_count=2, scale=0.3)
        inputs = [q, k, v, *[None] * 8, np.zeros([2], "int32")]
        np.testing.assert_allclose(run(self.operator, inputs, **fields), expected, rtol=1e-5, atol=1e-6)
