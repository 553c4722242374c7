"""Small language models of random weights, in the nodes that onnxruntime-genai's builder and optimum write.

There are two layers: an RMS norm, attention with rotary positions over a cache, an RMS norm, and a gated product.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as Types
from onnx import helper

Array = np.ndarray[Any, Any]
LAYERS, HIDDEN, WIDTH, INNER, VOCABULARY, PLACES, BLOCK = 2, 64, 16, 96, 37, 256, 32
MICROSOFT = "com.microsoft"
EPSILON = 1e-6


@dataclasses.dataclass(frozen=True)
class Form:
    """How a model is written.

    Attributes:
        bits: of the weights of products; 32 for floats.
        heads, shared: of queries; of keys and values.
        window, softcap, scale: attributes of attention.
        packed: whether queries, keys and values come from one product.
        rotary: whether GroupQueryAttention turns them; else RotaryEmbedding does, at given positions.
        normed: whether heads are normed, as Qwen 3 does.
        tied: whether the embeddings are the weights of the last product.
        sliding: whether only the odd layers have the window, and caches of its size, which the builder gives a dim.
        sampled: whether the model gives the best token as the next input.
        cached: how caches hold keys and values: "NONE", or "PER_TENSOR" or "PER_CHANNEL" in 8 bits.
    """

    bits: int = 32
    heads: int = 4
    shared: int = 2
    window: int = -1
    softcap: float = 0.0
    scale: float = 0.0
    packed: bool = False
    rotary: bool = True
    normed: bool = False
    tied: bool = False
    sliding: bool = False
    sampled: bool = False
    cached: str = "NONE"

    def is_local(self, layer: int) -> bool:
        """Whether a layer has the window."""
        return layer % 2 == 1 or not self.sliding


class Writer:
    """Collects nodes and weights of a model."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}
        self.infos: list[onnx.ValueInfoProto] = []
        self._rng = np.random.default_rng(7)

    def call(self, operator: str, inputs: list[str], name: str, **attributes: Any) -> str:
        """Adds a node; gives its first output."""
        domain = attributes.pop("domain", "")
        made = attributes.pop("made", [f"{name}/output_0"])
        self.nodes.append(helper.make_node(operator, inputs, made, name, domain=domain, **attributes))
        return str(made[0])

    def constant(self, name: str, array: Any) -> str:
        self.weights.setdefault(name, onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(f"/model/constants/INT64/{list(numbers)}", np.array(numbers, np.int64))

    def random(self, *sizes: int) -> Array:
        return (self._rng.normal(size=sizes) / np.sqrt(sizes[0])).astype(np.float32)

    def product(self, x: str, name: str, rows: int, columns: int) -> str:
        """A MatMul, or MatMulNBits with the weights in blocks."""
        weights = self.random(rows, columns)
        self.infos.append(info(f"{name}/output_0", Types.FLOAT, "batch_size", "sequence_length", columns))
        if self.form.bits == 32:
            return self.call("MatMul", [x, self.constant(f"{name}.weight", weights)], name)
        packed, scales = in_blocks(weights.T)
        parts = [self.constant(f"{name}.qweight", packed), self.constant(f"{name}.scales", scales.ravel())]
        fields = {"K": rows, "N": columns, "bits": 4, "block_size": BLOCK, "domain": MICROSOFT}
        return self.call("MatMulNBits", [x, *parts], name, **fields)

    def model(self, inputs: list[Any], outputs: list[Any], opset: int = 21) -> onnx.ModelProto:
        weights = list(self.weights.values())
        graph = helper.make_graph(self.nodes, "main_graph", inputs, outputs, weights, value_info=self.infos)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def in_blocks(weights: Array) -> tuple[Array, Array]:
    """{N, K} in 4 bits: {N, K / block, block / 2}, and the scales {N, K / block}; the zero point is 8."""
    parts = weights.reshape(weights.shape[0], -1, BLOCK)
    scales = np.abs(parts).max(axis=2) / 7
    numbers = np.clip(np.rint(parts / scales[..., None]) + 8, 0, 15).astype(np.uint8)
    return numbers[..., ::2] | numbers[..., 1::2] << 4, scales.astype(np.float32)


def tables() -> tuple[Array, Array]:
    """Cosines and sines of the angles of each position: {places, H / 2}."""
    angles = np.arange(PLACES)[:, None] * 100.0 ** (-np.arange(WIDTH // 2) / (WIDTH // 2))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def info(name: str, kind: int, *sizes: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, sizes)


# As onnxruntime-genai's builder writes them, for GroupQueryAttention.


def genai(form: Form = Form()) -> onnx.ModelProto:
    """The inputs are tokens, a mask and the caches; without `rotary` also positions."""
    w = Writer(form)
    x, skip = _embedded(w), ""
    last, total = _lengths(w)
    for layer in range(LAYERS):
        base = f"/model/layers.{layer}"
        normed, skip = _norm(w, x, skip, f"{base}/input_layernorm")
        attended = _grouped(w, normed, f"{base}/attn", layer, last, total)
        x = w.product(attended, f"{base}/attn/o_proj/MatMul", form.heads * WIDTH, HIDDEN)
        normed, skip = _norm(w, x, skip, f"{base}/post_attention_layernorm")
        gate, up = (w.product(normed, f"{base}/mlp/{part}_proj/MatMul", HIDDEN, INNER) for part in ("gate", "up"))
        open_ = w.call("Sigmoid", [gate], f"{base}/mlp/act_fn/Sigmoid")
        open_ = w.call("Mul", [gate, open_], f"{base}/mlp/act_fn/Mul")
        x = w.call("Mul", [open_, up], f"{base}/mlp/Mul")
        x = w.product(x, f"{base}/mlp/down_proj/MatMul", INNER, HIDDEN)
    normed, _ = _norm(w, x, skip, f"/model/layers.{LAYERS}/final_norm_layernorm")
    _head(w, normed)
    sizes = ("batch_size", "sequence_length")
    inputs = [info("input_ids", Types.INT64, *sizes)]
    inputs += [info("attention_mask", Types.INT64, "batch_size", "total_sequence_length")]
    inputs += [] if form.rotary else [info("position_ids", Types.INT64, *sizes)]
    return _with_caches(w, inputs, "kv_cache_dim")


def _with_caches(w: Writer, inputs: list[Any], width: int | str) -> onnx.ModelProto:
    outputs = [info("logits", Types.FLOAT, "batch_size", "sequence_length", VOCABULARY)]
    for layer in range(LAYERS):
        kind = "sliding" if w.form.sliding and w.form.is_local(layer) else "sequence"
        for part in ("key", "value"):
            sizes: list[int | str] = ["batch_size", w.form.shared, f"past_{kind}_length", width]
            held = Types.FLOAT if w.form.cached == "NONE" else Types.INT8
            inputs.append(info(f"past_key_values.{layer}.{part}", held, *sizes))
            sizes[2] = f"total_{kind}_length"
            outputs.append(info(f"present.{layer}.{part}", held, *sizes))
    if w.form.sampled:
        made = ["input_ids.next"]
        w.call("ArgMax", ["logits"], "/sampling/ArgMax", made=made, axis=2, keepdims=0)
        outputs.append(info(made[0], Types.INT64, "batch_size", "sequence_length"))
    return w.model(inputs, outputs)


def _embedded(w: Writer) -> str:
    table = w.random(VOCABULARY, HIDDEN) * 8
    name = "/model/embed_tokens/Gather"
    if w.form.bits == 32:
        return w.call("Gather", [w.constant("model.embed_tokens.weight", table), "input_ids"], name)
    packed, scales = in_blocks(table)
    w.constant("lm_head.MatMul.qweight", packed)
    w.constant("lm_head.MatMul.scales", scales)
    data = w.constant("model.embed_tokens.weight_Q4", packed.reshape(VOCABULARY, HIDDEN // 2))
    fields = {"bits": 4, "block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1, "domain": MICROSOFT}
    return w.call("GatherBlockQuantized", [data, "input_ids", "lm_head.MatMul.scales"], name, **fields)


def _head(w: Writer, x: str) -> None:
    name, made = "/lm_head/MatMul", ["logits"]
    if not w.form.tied:
        w.call("Identity", [w.product(x, name, HIDDEN, VOCABULARY)], "/logits", made=made)
    elif w.form.bits == 32:
        upright = w.call("Transpose", ["model.embed_tokens.weight"], "/lm_head/Transpose", perm=[1, 0])
        w.call("MatMul", [x, upright], name, made=made)
    else:
        flat = w.call("Reshape", ["lm_head.MatMul.scales", w.ints(-1)], "/lm_head/Reshape")
        fields = {"K": HIDDEN, "N": VOCABULARY, "bits": 4, "block_size": BLOCK, "domain": MICROSOFT}
        w.call("MatMulNBits", [x, "lm_head.MatMul.qweight", flat], name, made=made, **fields)


def _norm(w: Writer, x: str, skip: str, name: str) -> tuple[str, str]:
    """The normed sum of both, and the sum."""
    weight = w.constant(f"{name}.weight", 1 + w.random(HIDDEN) / 4)
    if not skip:
        name = f"{name}/SimplifiedLayerNormalization"
        return w.call("SimplifiedLayerNormalization", [x, weight], name, axis=-1, epsilon=EPSILON, stash_type=1), x
    name, fields = f"{name}/SkipLayerNorm", {"domain": MICROSOFT, "epsilon": EPSILON}
    made = [f"{name}/output_0", "", "", f"{name}/output_3"]
    w.call("SkipSimplifiedLayerNormalization", [skip, x, weight], name, made=made, **fields)
    return made[0], made[3]


def _lengths(w: Writer) -> tuple[str, str]:
    """The last place of each sequence and the number of all, from the mask."""
    base = "/model/attn_mask_reformat/attn_mask_subgraph"
    counted = w.call("ReduceSum", ["attention_mask", w.ints(1)], f"{base}/ReduceSum", keepdims=0)
    less = w.call("Sub", [counted, w.ints(1)], f"{base}/Sub")
    last = w.call("Cast", [less], f"{base}/Sub/Cast", to=Types.INT32)
    shape = w.call("Shape", ["attention_mask"], f"{base}/Shape")
    size = w.call("Gather", [shape, w.constant("/model/constants/INT64/1", np.int64(1))], f"{base}/Gather", axis=0)
    return last, w.call("Cast", [size], f"{base}/Gather/Cast", to=Types.INT32)


def _grouped(w: Writer, x: str, base: str, layer: int, last: str, total: str) -> str:
    form = w.form
    sizes = {"q": form.heads * WIDTH, "k": form.shared * WIDTH, "v": form.shared * WIDTH}
    if form.packed:
        parts = [w.product(x, f"{base}/qkv_proj/MatMul", HIDDEN, sum(sizes.values())), "", ""]
    else:
        parts = [w.product(x, f"{base}/{part}_proj/MatMul", HIDDEN, size) for part, size in sizes.items()]
    if form.normed:
        parts[:2] = [_normed_heads(w, parts[at], f"{base}/{part}_norm", sizes[part]) for at, part in enumerate("qk")]
    cosines, sines = (w.constant(name, each) for name, each in zip(("cos_cache", "sin_cache"), tables(), strict=True))
    if not form.rotary:
        turned = [parts[0], parts[1]]
        for at, part in enumerate("qk"):
            inputs, name = [parts[at], "position_ids", cosines, sines], f"{base}/{part}_rotary/RotaryEmbedding"
            turned[at] = w.call("RotaryEmbedding", inputs, name, domain=MICROSOFT)
            w.infos.append(info(turned[at], Types.FLOAT, "batch_size", "sequence_length", sizes[part]))
        parts[:2] = turned
    tail = [cosines, sines] if form.rotary else []
    if form.cached != "NONE":
        channels = form.shared * WIDTH if form.cached == "PER_CHANNEL" else 1
        scales = [np.linspace(0.02, 0.03, channels, dtype=np.float32) * (1 + at) for at in range(2)]
        tail = [*(tail or ["", ""]), "", "", "", *(w.constant(f"cache.{at}", each) for at, each in enumerate(scales))]
    fields: dict[str, Any] = {"num_heads": form.heads, "kv_num_heads": form.shared, "scale": form.scale}
    window = form.window if form.is_local(layer) else -1
    fields |= {"local_window_size": window, "softcap": form.softcap, "do_rotary": int(form.rotary)}
    if form.cached != "NONE":
        fields |= {"kv_cache_bit_width": 8, "k_quant_type": form.cached, "v_quant_type": form.cached}
    fields |= {"sliding_window_cache": 1} if form.sliding and window > 0 else {}
    past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
    made = [f"{base}/GroupQueryAttention/output_0", *(f"present.{layer}.{part}" for part in ("key", "value"))]
    name = f"{base}/GroupQueryAttention"
    return w.call(
        "GroupQueryAttention", [*parts, *past, last, total, *tail], name, made=made, domain=MICROSOFT, **fields
    )


def _normed_heads(w: Writer, x: str, name: str, size: int) -> str:
    """Each head by its root mean square."""
    heads = w.call("Reshape", [x, w.ints(0, -1, WIDTH)], f"{name}/Reshape_1")
    inputs = [heads, w.constant(f"{name}.layernorm.weight", 1 + w.random(WIDTH) / 4)]
    fields = {"axis": -1, "epsilon": EPSILON, "stash_type": 1}
    normed = w.call("SimplifiedLayerNormalization", inputs, f"{name}/SimplifiedLayerNormalization", **fields)
    made = w.call("Reshape", [normed, w.ints(0, -1, size)], f"{name}/Reshape_2")
    w.infos.append(info(made, Types.FLOAT, "batch_size", "sequence_length", size))
    return made


def genai_folder(form: Form, folder: pathlib.Path) -> pathlib.Path:
    """Writes `model.onnx` and the `genai_config.json` of it, for greedy search; gives the model's path."""
    onnx.save_model(genai(form), folder / "model.onnx")
    decoder = {
        "session_options": {"provider_options": []},
        "filename": "model.onnx",
        "head_size": WIDTH,
        "hidden_size": HIDDEN,
        "num_attention_heads": form.heads,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": form.shared,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
    }
    if form.sliding:
        layers = [layer for layer in range(LAYERS) if form.is_local(layer)]
        sizes = {"window_size": form.window, "cache_slack": 0, "layers": layers}
        decoder["sliding_window"] = sizes | {"slide_key_value_cache": False, "slide_inputs": False}
    model = {
        "type": "llama",
        "bos_token_id": 0,
        "eos_token_id": VOCABULARY - 1,
        "pad_token_id": VOCABULARY - 1,
        "context_length": PLACES,
        "vocab_size": VOCABULARY,
        "decoder": decoder,
    }
    search = {"do_sample": False, "max_length": PLACES, "past_present_share_buffer": True, "num_beams": 1}
    config = json.dumps({"model": model, "search": search})
    (folder / "genai_config.json").write_text(config, encoding="utf-8")
    return folder / "model.onnx"
