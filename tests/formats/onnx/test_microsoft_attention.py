"""Attention and rotary positions of com.microsoft, against ONNX Runtime's CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.onnx.microsoft_cases import SOFTWARE, Array, Case, Chance, Makers

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

making = Makers()
FILTERED = 2e-4  # a score of −10000 has three digits after the point; sequences without any key show that


# Attention with weights.


def mask_of(chance: Chance, batch: int, queries: int, keys: int, kinds: tuple[str, ...]) -> Array | None:
    """A mask in one of its forms; each sequence has at least one key."""
    kind = chance.one(None, *kinds)
    ends, starts = chance.below(keys, batch) + 1, np.zeros(batch, np.int32)
    if kind == "ends":
        return ends
    if kind == "ends and starts":
        starts = np.minimum(chance.below(keys, batch), ends - 1).astype(np.int32)
        return np.concatenate([ends, starts])
    if kind == "bounds":
        steps = np.arange(batch + 1, dtype=np.int32)
        return np.concatenate([ends, steps * queries, steps * keys])
    if kind == "keys":
        flags = chance.below(2, batch, keys)
        flags[:, 0] = 1
        return flags
    if kind == "queries and keys":
        flags = chance.below(2, batch, queries, keys)
        flags[..., 0] = 1
        return flags
    return None


MASKS = ("ends", "ends and starts", "bounds", "keys", "queries and keys")


def options(chance: Chance) -> dict[str, Any]:
    return {
        **chance.one({}, {"unidirectional": 1}),
        **chance.one({}, {"scale": 0.3}),
        **chance.one({}, {}, {"mask_filter_value": -2.5}),
    }


@making(40)
def _attention(chance: Chance) -> Case:
    batch, queries, heads, width, past = chance.size(1, 3), chance.size(1, 4), *(chance.size(1, 3) for _ in range(3))
    past, keep = chance.one(0, past), chance.flag()
    keys, hidden = past + queries, heads * width
    values = hidden if past or keep else heads * chance.size(1, 4)
    columns = 2 * hidden + values
    mask = mask_of(chance, batch, queries, keys, MASKS)
    inputs = [
        chance.floats(batch, queries, 5),
        chance.floats(5, columns),
        chance.maybe(chance.floats(columns)),
        mask,
        chance.floats(2, batch, heads, past, width) if past else None,
        None if past else chance.maybe(chance.floats(chance.one(1, batch), chance.one(1, heads), queries, keys)),
    ]
    fields = {"num_heads": heads, **options(chance)}
    if values != hidden or chance.flag():
        fields["qkv_hidden_sizes"] = [hidden, hidden, values]
    known = (1, 3) if mask is not None and chance.flag() else (1,)
    return Case("Attention", inputs, fields, (True, True) if past or keep else (True,), known)


@making(32)
def _q_attention(chance: Chance) -> Case:
    batch, queries, heads, width, past = chance.size(1, 3), chance.size(1, 4), *(chance.size(1, 3) for _ in range(3))
    past, keep = chance.one(0, past), chance.flag()
    columns, kind = 3 * heads * width, chance.one(np.uint8, np.int8)
    many = chance.flag()
    inputs = [
        chance.whole(np.uint8, batch, queries, 5),
        chance.weights(kind, 5, columns),
        chance.floats(columns),
        chance.positive(),
        chance.positive(columns, most=0.02) if many else chance.positive(most=0.02),
        mask_of(chance, batch, queries, past + queries, ("ends", "keys")),
        chance.maybe(chance.whole(np.uint8)),
        chance.one(None, chance.whole(kind), *([chance.whole(kind, columns)] if many else [])),
        chance.floats(2, batch, heads, past, width) if past else None,
    ]
    fields = {"num_heads": heads, **options(chance)}
    return Case("QAttention", inputs, fields, (True, True) if past or keep else (True,), bound=1e-4)


# Attention of queries, keys and values.


@making(40)
def _multi_head_attention(chance: Chance) -> Case:
    batch, queries, keys, heads, width = chance.size(1, 3), *(chance.size(1, 4) for _ in range(4))
    ready = chance.one(False, False, True)  # keys and values as heads, of another node
    past = 0 if ready else chance.one(0, chance.size(1, 3))
    fields = {"num_heads": heads, **options(chance)}
    if fields.get("unidirectional"):
        keys = queries
    hidden, total = heads * width, keys + past
    values = hidden if past or ready else heads * chance.size(1, 4)
    if ready:
        key, value = (chance.floats(batch, heads, keys, width) for _ in range(2))
    else:
        key, value = chance.floats(batch, keys, hidden), chance.floats(batch, keys, values)
    inputs = [
        chance.floats(batch, queries, hidden),
        key,
        value,
        chance.maybe(chance.floats(2 * hidden + values)),
        mask_of(chance, batch, queries, total, ("ends", "bounds", "keys", "queries and keys")),
        chance.maybe(chance.floats(chance.one(1, batch), chance.one(1, heads), queries, total)),
        *((chance.floats(batch, heads, past, width) for _ in range(2)) if past else ()),
    ]
    outputs = (True, True, True) if past or (not ready and chance.flag()) else (True,)
    return Case("MultiHeadAttention", inputs, fields, outputs)


@making(48)
def _group_query_attention(chance: Chance) -> Case:
    """A first prompt, a token after it, or more tokens of one sequence."""
    phase = chance.one("prompt", "token", "chunk")
    batch = 1 if phase == "chunk" else chance.size(1, 3)
    shared, width = chance.size(1, 2), 16
    heads = shared * chance.size(1, 3)
    queries = {"prompt": chance.size(1, 5), "token": 1, "chunk": chance.size(2, 4)}[phase]
    before = 0 if phase == "prompt" else chance.size(1, 5)
    total = queries + before
    room = 0 if phase == "prompt" else chance.one(before, total + 2) if phase == "token" else total + 2
    lengths = np.full(batch, total - 1, np.int32)
    if phase == "token" and room > before:
        lengths = (chance.below(total, batch)).astype(np.int32)
        lengths[0] = total - 1
    dtype = chance.one(np.float32, np.float32, np.float32, np.float16)
    packed, turned = chance.flag(), chance.flag()
    angles = chance.numbers.uniform(0, 6, (total + 3, 8))
    query = (heads + 2 * shared if packed else heads) * width
    inputs = [
        chance.floats(batch, queries, query),
        *((None if packed else chance.floats(batch, queries, shared * width)) for _ in range(2)),
        *((chance.floats(batch, shared, room, width) if room else None) for _ in range(2)),
        lengths,
        np.array(total, np.int32),
        *((each(angles).astype(np.float32) if turned else None) for each in (np.cos, np.sin)),
        chance.one(None, chance.below(3, batch, queries, dtype=np.int64)) if turned else None,
        chance.maybe(chance.floats(chance.one(1, batch), chance.one(1, heads), queries, total)),
        chance.one(None, None, chance.floats(heads)),
    ]
    inputs = [each.astype(dtype) if each is not None and each.dtype == np.float32 else each for each in inputs]
    fields = {"num_heads": heads, "kv_num_heads": shared, **chance.one({}, {"scale": 0.3}, {"softcap": 1.5})}
    fields |= chance.one({}, {"causal": 0}, {"local_window_size": chance.size(1, 4)})
    fields |= {} if inputs[11] is not None else chance.one({}, {"smooth_softmax": 1})
    fields |= {"do_rotary": 1, "rotary_interleaved": chance.flag()} if turned else {}
    return Case("GroupQueryAttention", inputs, fields, (True,) * 3, chance.one((6,), (5, 6)))


@making(24)
def _rotary_embedding(chance: Chance) -> Case:
    batch, length, heads, width = chance.size(1, 3), chance.size(1, 4), chance.size(1, 3), 8
    part = chance.one(width, width, 4)
    dtype = chance.one(np.float32, np.float16)
    angles = chance.numbers.uniform(0, 6, (9, part // 2))
    places = chance.one(chance.below(5, 1, dtype=np.int64), chance.below(9, batch, length, dtype=np.int64))
    sizes = chance.one((batch, length, heads * width), (batch, heads, length, width))
    fields = {"num_heads": heads, "rotary_embedding_dim": part} if part < width else {}
    fields |= {"interleaved": chance.flag(), **chance.one({}, {"scale": 0.5}, {"is_packed_batching": 1})}
    tables = [each(angles).astype(dtype) for each in (np.cos, np.sin)]
    known = chance.one((), (1,), (2, 3))
    return Case("RotaryEmbedding", [chance.floats(*sizes, dtype=dtype), places, *tables], fields, known=known)


@pytest.mark.parametrize("name", list(making))
@pytest.mark.usefixtures("directml_path")
def test_random_cases_give_what_onnx_runtime_gives(name: str) -> None:
    making.check(name)


@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_a_sequence_without_keys(device: DeviceName) -> None:
    """All scores are about −10000: they are as coarse as float32 is there."""
    chance = Chance(3)
    inputs = [chance.floats(2, 3, 8), chance.floats(8, 24), chance.floats(24), np.array([0, 3], np.int32)]
    case = Case("Attention", inputs, {"num_heads": 2}, bound=FILTERED)
    case.check(case.expected(), device)


@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_a_bias_of_the_scores_beside_a_mask(device: DeviceName) -> None:
    """On DirectML the mask becomes a part of the bias."""
    chance = Chance(5)
    q, k, v = (chance.floats(2, 3, 8) for _ in range(3))
    mask = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
    case = Case("MultiHeadAttention", [q, k, v, None, mask, chance.floats(2, 2, 3, 3)], {"num_heads": 2})
    case.check(case.expected(), device)


# Forms that ONNX Runtime's CPU lacks, against those that it has.


@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_stacked_queries_keys_and_values_are_the_same_as_separate_ones(device: DeviceName) -> None:
    chance, heads = Chance(4), 3
    stack = chance.floats(2, 5, heads, 3, 4)
    q, k, v = (np.ascontiguousarray(stack[:, :, :, part]).reshape(2, 5, 12) for part in range(3))
    bias, fields = chance.floats(36), {"num_heads": heads}
    expected = Case("MultiHeadAttention", [q, k, v, bias], fields).expected()
    Case("MultiHeadAttention", [stack, None, None, bias], fields).check(expected, device)
    pair = np.ascontiguousarray(stack[:, :, :, 1:])
    Case("MultiHeadAttention", [q, pair, None, bias], fields).check(expected, device)


@pytest.mark.parametrize("epsilon", [{}, {"qk_norm_epsilon": 0.1}, {"q_norm_epsilon": 0.1, "k_norm_epsilon": 0.2}])
@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_heads_are_normalized_before_they_are_turned(device: DeviceName, epsilon: dict[str, float]) -> None:
    chance = Chance(5)
    q, k, v = chance.floats(2, 3, 64), chance.floats(2, 3, 32), chance.floats(2, 3, 32)
    weights = chance.floats(16), chance.floats(16)
    angles = chance.numbers.uniform(0, 6, (5, 8))
    tables = [each(angles).astype(np.float32) for each in (np.cos, np.sin)]
    fields = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}

    def normalized(x: Any, weight: Any, name: str) -> Any:
        least = epsilon.get(name, epsilon.get("qk_norm_epsilon", 1e-6))
        split = x.reshape(2, 3, -1, 16).astype(np.float64)
        made = split / np.sqrt((split**2).mean(-1, keepdims=True) + least) * weight
        return made.reshape(x.shape).astype(np.float32)

    lengths = [None, None, np.array([2, 2], np.int32), np.array(3, np.int32), *tables]
    ready = [normalized(q, weights[0], "q_norm_epsilon"), normalized(k, weights[1], "k_norm_epsilon"), v]
    expected = Case("GroupQueryAttention", [*ready, *lengths], fields, (True,) * 3).expected()
    inputs = [q, k, v, *lengths, *[None] * 5, *weights]
    Case("GroupQueryAttention", inputs, fields | epsilon, (True,) * 3, known=(6,)).check(expected, device)


def test_queries_before_the_padding_of_a_prompt_are_right() -> None:
    """What ONNX Runtime gives for the padding itself means nothing."""
    chance = Chance(6)
    inputs = [chance.floats(2, 4, 32), chance.floats(2, 4, 32), chance.floats(2, 4, 32), None, None]
    inputs += [np.array([3, 1], np.int32), np.array(4, np.int32)]
    case = Case("GroupQueryAttention", inputs, {"num_heads": 2, "kv_num_heads": 2}, (True,) * 3, known=(6,))
    (expected, *_), (got, *_) = case.expected(), case.run("cpu")
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1, :2], expected[1, :2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.usefixtures("directml_path")
def test_caches_of_eight_bits(device: DeviceName, kind: str) -> None:
    """Some of the new numbers are beyond those that the cache can hold."""
    chance = Chance(8)
    scales = [chance.numbers.uniform(0.01, 0.03, 1 if kind == "PER_TENSOR" else 16).astype(np.float32) for _ in "kv"]
    pasts = [chance.numbers.integers(-128, 128, (2, 2, 3, 8)).astype(np.int8) for _ in "kv"]
    inputs: list[Any] = [chance.floats(2, 1, 32), 2 * chance.floats(2, 1, 16), chance.floats(2, 1, 16), *pasts]
    inputs += [np.array([3, 3], np.int32), np.array(4, np.int32), *[None] * 5, *scales]
    fields = {"num_heads": 4, "kv_num_heads": 2, "kv_cache_bit_width": 8, "k_quant_type": kind, "v_quant_type": kind}
    case = Case("GroupQueryAttention", inputs, fields, (True,) * 3, known=(5, 6))
    expected, got = case.expected(), case.run(device)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-3, atol=1e-4)
    for one, other in zip(got[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.isin(got[1][:, :, 3], (-128, 127)).any()


# Refusals.

X, FIELDS = np.zeros((2, 3, 8), np.float32), {"num_heads": 2}
WEIGHTS, BIAS = np.zeros((8, 24), np.float32), np.zeros(24, np.float32)
ONE = np.array([1], np.int32)
LENGTHS: list[Any] = [None, None, np.full(2, 2, np.int32), np.array(3, np.int32)]
PAST = np.zeros((2, 2, 2, 4), np.float32)
GROUPED = {"num_heads": 2, "kv_num_heads": 2}


def grouped(fields: dict[str, Any], *more: Any, outputs: int = 3, total: int = 3) -> Case:
    inputs = [X, X, X, *LENGTHS[:3], np.array(total, np.int32), *more]
    return Case("GroupQueryAttention", inputs, GROUPED | fields, (True,) * outputs, (6,))


REFUSED = [
    ("do_rotary", Case("Attention", [X, WEIGHTS, BIAS], FIELDS | {"do_rotary": 1})),
    ("past_present_share_buffer", Case("Attention", [X, WEIGHTS, BIAS], FIELDS | {"past_present_share_buffer": 1})),
    ("past_sequence_length", Case("Attention", [X, WEIGHTS, BIAS, None, None, None, ONE], FIELDS)),
    ("qkv_hidden_sizes", Case("Attention", [X, WEIGHTS, BIAS], FIELDS | {"qkv_hidden_sizes": [8, 8, 4]})),
    (
        "qkv_hidden_sizes",
        Case("Attention", [X, WEIGHTS[:, :20]], FIELDS | {"qkv_hidden_sizes": [8, 8, 4]}, (True,) * 2),
    ),
    ("mask", Case("Attention", [X, WEIGHTS, BIAS, np.zeros((2, 1, 4, 4), np.int32)], FIELDS)),
    ("past", Case("Attention", [X, WEIGHTS, BIAS, None, np.zeros((1, 2, 2, 1, 4), np.float32)], FIELDS, (True, True))),
    ("num_heads", Case("Attention", [X, WEIGHTS, BIAS], {"num_heads": 3})),
    ("num_heads", Case("Attention", [X, WEIGHTS, BIAS])),
    ("past_sequence_length", Case("MultiHeadAttention", [X, X, X, *[None] * 5, ONE], FIELDS)),
    ("cache_indirection", Case("MultiHeadAttention", [X, X, X, *[None] * 6, ONE.reshape(1, 1, 1)], FIELDS)),
    ("bias", Case("MultiHeadAttention", [X, X, X, BIAS[:20]], FIELDS)),
    ("outputs", Case("MultiHeadAttention", [X, X, X], FIELDS, (True,) * 4)),
    ("unidirectional", Case("MultiHeadAttention", [X, X[:, :2], X[:, :2]], FIELDS | {"unidirectional": 1})),
    ("input 1", Case("MultiHeadAttention", [X], FIELDS)),
    ("k_quant_type", grouped({"k_quant_type": "PER_BLOCK"})),
    ("kv_cache_bit_width", grouped({"kv_cache_bit_width": 4})),
    ("sliding_window_cache", grouped({"sliding_window_cache": 1})),
    ("local_window_size", grouped({"local_window_size": 0})),
    ("local_window_size", grouped({"local_window_size": 2, "causal": 0})),
    ("outputs", grouped({"qk_output": 1}, outputs=4)),
    ("total_sequence_length", grouped({}, total=2)),
    ("total_sequence_length", grouped({}, total=2**31 - 1)),
    (
        "seqlens_k",
        Case("GroupQueryAttention", [X[:, :1]] * 3 + [PAST, PAST, LENGTHS[2] + 1, LENGTHS[3]], GROUPED, known=(5, 6)),
    ),
    ("query_seqlens", grouped({}, *[None] * 9, ONE)),
    ("query", Case("GroupQueryAttention", [X[..., :7], None, None, *LENGTHS], GROUPED, known=(6,))),
    ("cos_cache", Case("RotaryEmbedding", [X.reshape(2, 2, 3, 4), np.zeros(1, np.int64), X[0], X[0]], {})),
]


@pytest.mark.parametrize(
    ("field", "case"), REFUSED, ids=[f"{index}-{field}" for index, (field, _) in enumerate(REFUSED)]
)
def test_what_has_no_counterpart_is_refused_by_its_field(field: str, case: Case) -> None:
    with pytest.raises(dg.ModelError) as caught:
        case.graph()
    assert [problem.field for problem in caught.value.problems] == [field]


def test_the_length_of_the_longest_sequence_must_be_known() -> None:
    inputs = [X, X, X, *LENGTHS]
    with pytest.raises(dg.ModelError) as caught:
        Case("GroupQueryAttention", inputs, GROUPED).graph()
    problem = next(each for each in caught.value.problems if each.code == "unknown-value")
    assert (problem.hint or "").startswith("values={'x6': …}")
