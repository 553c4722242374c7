"""Small decoders with caches of keys and values, in the forms in which exporters write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

LAYERS, HEADS, WIDTH, VOCABULARY, PLACES = 2, 2, 16, 11, 256
HIDDEN = HEADS * WIDTH
SHAPE = f"batch, {HEADS}, past_sequence_length, WIDTH".replace("WIDTH", str(WIDTH))
LOWEST = float(np.finfo(np.float32).min)


def _caches(form: str) -> str:
    """Declarations of all caches: `form` has a place for the layer, and for key or value."""
    names = [form.format(layer, part) for layer in range(LAYERS) for part in ("key", "value")]
    return ", ".join(f'float[{SHAPE}] "{name}"' for name in names)


def _outputs() -> str:
    names = [f"present.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]
    return ", ".join(f'float[p, q, r, s] "{name}"' for name in names)


def _model(inputs: str, before: str, layer: Callable[[int], str], opset: int = 18) -> onnx.ModelProto:
    """The model whose layers add to the tensor `h0`, `h1`, ….  A layer has attention, and then a product and Silu."""
    body = "".join(
        f"""
        q{at} = MatMul (h{at}, wq{at})
        k{at} = MatMul (h{at}, wk{at})
        v{at} = MatMul (h{at}, wv{at})
        {layer(at)}
        o{at} = MatMul (a{at}, wo{at})
        r{at} = Add (h{at}, o{at})
        g{at} = MatMul (r{at}, wg{at})
        e{at} = Sigmoid (g{at})
        m{at} = Mul (g{at}, e{at})
        h{at + 1} = Add (r{at}, m{at})"""
        for at in range(LAYERS)
    )
    text = f"""<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    decoder (int64[batch, sequence_length] input_ids, int64[batch, total_sequence_length] attention_mask, {inputs}
        {_caches("past_key_values.{}.{}")}) => (float[b, l, {VOCABULARY}] logits, {_outputs()})
    {{
        h0 = Gather (table, input_ids)
        {before}
        {body}
        logits = MatMul (h{LAYERS}, head)
    }}"""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(5)
    sizes = {f"w{name}{at}": (HIDDEN, HIDDEN) for name in "qkvog" for at in range(LAYERS)}
    sizes |= {"table": (VOCABULARY, HIDDEN), "head": (HIDDEN, VOCABULARY)}
    rates = 10.0 ** -np.arange(WIDTH // 2)
    angles = np.arange(PLACES)[:, None] * rates
    arrays = {name: (rng.normal(size=size) / 4).astype(np.float32) for name, size in sizes.items()}
    tables = {"cosines": np.cos(angles), "sines": np.sin(angles), "rates": rates}
    arrays |= {name: each.astype(np.float32) for name, each in tables.items()}
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(each, name) for name, each in arrays.items() if name in used
    )
    return model


def _as_heads(name: str, at: int | str) -> str:
    return f"""
        {name}{at}_parts = Reshape ({name}{at}, heads)
        {name}{at}_heads = Transpose <perm = [0, 2, 1, 3]> ({name}{at}_parts)"""


def _turned(name: str, at: int) -> str:
    """The halves of each head turned by the angles of its position, as PyTorch's models write it."""
    return f"""
        {name}{at}_first, {name}{at}_second = Split <axis = 3, num_outputs = 2> ({name}{at}_heads)
        {name}{at}_minus = Neg ({name}{at}_second)
        {name}{at}_half = Concat <axis = 3> ({name}{at}_minus, {name}{at}_first)
        {name}{at}_c = Mul ({name}{at}_heads, cos)
        {name}{at}_s = Mul ({name}{at}_half, sin)
        {name}{at}_turned = Add ({name}{at}_c, {name}{at}_s)"""


_MASK = f"""
        zero = Constant <value_ints = [0]> ()
        one = Constant <value_ints = [1]> ()
        no = Constant <value_int = 0> ()
        yes = Constant <value_int = 1> ()
        two = Constant <value_ints = [2]> ()
        three = Constant <value_ints = [3]> ()
        lowest = Constant <value_float = {LOWEST}> ()
        nothing = Constant <value_float = 0.0> ()
        heads = Constant <value_ints = [0, 0, {HEADS}, {WIDTH}]> ()
        flat = Constant <value_ints = [0, 0, {HIDDEN}]> ()
        before = Shape <start = 2, end = 3> ("past_key_values.0.key")
        new = Shape <start = 1, end = 2> (input_ids)
        after = Add (before, new)
        start = Squeeze (before, zero)
        stop = Squeeze (after, zero)
        queries = Range (start, stop, yes)
        keys = Range (no, stop, yes)
        queries_down = Unsqueeze (queries, one)
        later = Greater (keys, queries_down)
        causal = Where (later, lowest, nothing)
        rows = Constant <value_ints = [1, 2]> ()
        given = Unsqueeze (attention_mask, rows)
        excluded = Equal (given, zero)
        padding = Where (excluded, lowest, nothing)
        both = Add (causal, padding)
        mask = Max (both, lowest)"""


_WINDOW = """
        beyond = Greater (keys, queries_down)
        reach = Constant <value_int = 3> ()
        oldest = Sub (queries_down, reach)
        too_old = LessOrEqual (keys, oldest)
        later = Or (beyond, too_old)"""
_CAUSAL, _GIVEN = "later = Greater (keys, queries_down)", "given = Unsqueeze (attention_mask, rows)"


def windowed() -> onnx.ModelProto:
    """Each query sees the last three keys; the rows of the mask are gathered by their places."""
    gathered = f"picked = Gather <axis = 1> (attention_mask, keys) {_GIVEN.replace('attention_mask', 'picked')}"
    return pytorch(_MASK.replace(_CAUSAL, _WINDOW).replace(_GIVEN, gathered))


def scattered() -> onnx.ModelProto:
    """The mask is put row by row into another one, by places, as exported masks of Falcon and BLOOM are."""
    put = f"""shape = Shape (attention_mask)
        empty = ConstantOfShape <value = int64[1] {{0}}> (shape)
        places = Expand (keys, shape)
        put = ScatterElements <axis = 1> (empty, places, attention_mask)
        {_GIVEN.replace("attention_mask", "put")}"""
    return pytorch(_MASK.replace(_GIVEN, put))


def counted_along(made: str) -> onnx.ModelProto:
    """The keys are counted along a tensor that is as long as the past and the new rows, as optimum's T5 and BART do.

    Args:
        made: what the tensor `ones` {1, rows} is made by; see `ALONG`.
    """
    counted = f"{ALONG[made]} size = Shape <start = 1> (ones) all = Squeeze (size, zero) keys = Range (no, all, yes)"
    return pytorch(_MASK.replace("keys = Range (no, stop, yes)", counted))


ALONG = {
    "ConstantOfShape": "sizes = Concat <axis = 0> (one, after) ones = ConstantOfShape (sizes)",
    "Expand": "sizes = Concat <axis = 0> (one, after) ones = Expand (lowest, sizes)",
    "Range": "places = Range (no, stop, yes) more = Add (places, yes) ones = Unsqueeze (more, zero)",
}


def pytorch(mask: str = _MASK) -> onnx.ModelProto:
    """As PyTorch's and optimum's exporters write it: joins, products and a softmax; positions are an input."""
    before = f"""{mask}
        numbers = Cast <to = 1> (position_ids)
        down = Unsqueeze (numbers, two)
        angles = Mul (down, rates)
        whole = Concat <axis = 2> (angles, angles)
        c = Cos (whole)
        s = Sin (whole)
        cos = Unsqueeze (c, one)
        sin = Unsqueeze (s, one)"""

    def layer(at: int) -> str:
        return f"""{_as_heads("q", at)}{_as_heads("k", at)}{_as_heads("v", at)}{_turned("q", at)}{_turned("k", at)}
        "present.{at}.key" = Concat <axis = -2> ("past_key_values.{at}.key", k{at}_turned)
        "present.{at}.value" = Concat <axis = -2> ("past_key_values.{at}.value", v{at}_heads)
        across{at} = Transpose <perm = [0, 1, 3, 2]> ("present.{at}.key")
        dots{at} = MatMul (q{at}_turned, across{at})
        root{at} = Constant <value_float = 4.0> ()
        scaled{at} = Div (dots{at}, root{at})
        scores{at} = Add (scaled{at}, mask)
        shares{at} = Softmax <axis = -1> (scores{at})
        seen{at} = MatMul (shares{at}, "present.{at}.value")
        rows{at} = Transpose <perm = [0, 2, 1, 3]> (seen{at})
        a{at} = Reshape (rows{at}, flat)"""

    return _model("int64[batch, sequence_length] position_ids,", before, layer)


def positions_from_the_mask() -> onnx.ModelProto:
    """The same, but positions are those of the ones in the mask."""
    make = onnx.helper.make_node
    return _counted(
        make("CumSum", ["attention_mask", "yes"], ["sums"]),
        make("Sub", ["sums", "yes"], ["less"]),
        make("Neg", ["new"], ["back"]),
        make("Slice", ["less", "back", "far", "one"], ["counted"]),
        far=np.array([2**31 - 1]),
    )


def positions_from_the_past() -> onnx.ModelProto:
    """The same, but positions are counted from the size of the past, and have embeddings, too."""
    make, places = onnx.helper.make_node, np.random.default_rng(3).normal(size=(PLACES, HIDDEN)).astype(np.float32)
    model = _counted(
        make("Unsqueeze", ["queries", "zero"], ["counted"], name="counted"),
        make("Gather", ["places", "queries"], ["place"]),
        make("Add", ["words", "place"], ["h0"]),
        places=places,
    )
    model.graph.node[0].output[0] = "words"
    return model


def _counted(*nodes: onnx.NodeProto, **weights: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """PyTorch's model whose positions are `counted` by some nodes."""
    model = pytorch()
    model.graph.input.remove(next(each for each in model.graph.input if each.name == "position_ids"))
    for node in model.graph.node:
        if "position_ids" in node.input:
            node.input[0] = "counted"
    at = next(index for index, node in enumerate(model.graph.node) if "counted" in node.input)
    for node in reversed(nodes):
        model.graph.node.insert(at, node)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in weights.items())
    return model


def multi_head() -> onnx.ModelProto:
    """As onnxruntime-genai's builder writes it for MultiHeadAttention: the mask is its bias."""

    def layer(at: int) -> str:
        return f"""{_turned_at_once(at)}
        a{at}, "present.{at}.key", "present.{at}.value" = com.microsoft.MultiHeadAttention <num_heads = {HEADS}>
            (q{at}_turned, k{at}_turned, v{at}, , , mask, "past_key_values.{at}.key", "past_key_values.{at}.value")"""

    return _model("int64[batch, sequence_length] position_ids,", _MASK, layer)


def unmasked() -> onnx.ModelProto:
    """As the builder writes Whisper's decoder: MultiHeadAttention is causal, and has no mask."""
    model = multi_head()
    model.graph.input.remove(next(each for each in model.graph.input if each.name == "attention_mask"))
    for node in model.graph.node:
        if node.op_type == "MultiHeadAttention":
            node.input[5] = ""
            node.attribute.append(onnx.helper.make_attribute("unidirectional", 1))
    kept = [node for node in model.graph.node if not {*node.input, *node.output} & _OF_MASK]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


_OF_MASK = {"attention_mask", "given", "excluded", "padding", "both"}


def attention() -> onnx.ModelProto:
    """With ONNX's own Attention, which is defined by a function."""

    def layer(at: int) -> str:
        return f"""{_turned_at_once(at)}
        a{at}, "present.{at}.key", "present.{at}.value" = Attention <q_num_heads = {HEADS}, kv_num_heads = {HEADS}>
            (q{at}_turned, k{at}_turned, v{at}, mask, "past_key_values.{at}.key", "past_key_values.{at}.value")"""

    return _model("int64[batch, sequence_length] position_ids,", _MASK, layer, opset=23)


def _turned_at_once(at: int) -> str:
    return "".join(
        f"""
        {name}{at}_turned = com.microsoft.RotaryEmbedding <num_heads = {HEADS}>
            ({name}{at}, position_ids, cosines, sines)"""
        for name in "qk"
    )


def group_query() -> onnx.ModelProto:
    """As onnxruntime-genai's builder writes it for GroupQueryAttention: lengths are counted from the mask."""
    before = """
        one = Constant <value_ints = [1]> ()
        at_one = Constant <value_int = 1> ()
        total = ReduceSum (attention_mask, one)
        less = Sub (total, one)
        lengths = Cast <to = 6> (less)
        sizes = Shape (attention_mask)
        size = Gather (sizes, at_one)
        longest = Cast <to = 6> (size)"""

    def layer(at: int) -> str:
        return f"""
        a{at}, "present.{at}.key", "present.{at}.value" =
            com.microsoft.GroupQueryAttention <num_heads = {HEADS}, kv_num_heads = {HEADS}, do_rotary = 1>
            (q{at}, k{at}, v{at}, "past_key_values.{at}.key", "past_key_values.{at}.value", lengths, longest,
            cosines, sines)"""

    return _model("", before, layer)


def encoder_decoder() -> onnx.ModelProto:
    """As optimum merges decoders with cross attention: the first run computes keys and values of the encoder's states.

    Later runs, of one token, read these.  There is no mask.
    """
    shape = f"batch, {HEADS}, {{}}, {WIDTH}"
    kinds = {"decoder": "past_sequence_length", "encoder": "encoder_sequence_length"}
    pasts = [(kind, part) for kind in kinds for part in ("key", "value")]
    inputs = ", ".join(f'float[{shape.format(kinds[kind])}] "past.0.{kind}.{part}"' for kind, part in pasts)
    outputs = ", ".join(f'float[{shape.format(f"{kind}_rows")}] "present.0.{kind}.{part}"' for kind, part in pasts)

    def attended(at: str, keys: str, values: str, mask: str = "") -> str:
        return f"""
            {at}_across = Transpose <perm = [0, 1, 3, 2]> ("{keys}")
            {at}_dots = MatMul ({at}_q_heads, {at}_across)
            {at}_scores = {f"Add ({at}_dots, {mask})" if mask else f"Identity ({at}_dots)"}
            {at}_shares = Softmax <axis = -1> ({at}_scores)
            {at}_seen = MatMul ({at}_shares, "{values}")
            {at}_rows = Transpose <perm = [0, 2, 1, 3]> ({at}_seen)
            {at}_flat = Reshape ({at}_rows, flat)"""

    def heads(name: str, x: str, weight: str) -> str:
        return f"{name} = MatMul ({x}, {weight}) {_as_heads(name, '')}"

    def branch(name: str, own: str, other: str, places: str, mask: str) -> str:
        body = f"""
            {places}
            place = Gather (places, numbers)
            words = Gather (table, input_ids)
            h = Add (words, place)
            {heads("self_q", "h", "wq0")}{heads("self_k", "h", "wk0")}{heads("self_v", "h", "wv0")}
            {own}{attended("self", f"{name}.0.decoder.key", f"{name}.0.decoder.value", mask)}
            m = Add (h, self_flat)
            {heads("cross_q", "m", "wq1")}
            {other}{attended("cross", f"{name}.0.encoder.key", f"{name}.0.encoder.value")}
            both = Add (m, cross_flat)
            {name}_logits = MatMul (both, head)"""
        made = ", ".join(f'float[{shape.format(f"{kind}_rows")}] "{name}.0.{kind}.{part}"' for kind, part in pasts)
        return f"{name} () => (float[b, l, {VOCABULARY}] {name}_logits, {made}) {{{body}}}"

    later = branch(
        "later",
        """"later.0.decoder.key" = Concat <axis = 2> ("past.0.decoder.key", self_k_heads)
            "later.0.decoder.value" = Concat <axis = 2> ("past.0.decoder.value", self_v_heads)""",
        """"later.0.encoder.key" = Identity ("past.0.encoder.key")
            "later.0.encoder.value" = Identity ("past.0.encoder.value")""",
        """before = Shape <start = 2, end = 3> ("past.0.decoder.key")
            numbers = Identity (before)""",
        "",
    )
    first = branch(
        "first",
        """"first.0.decoder.key" = Identity (self_k_heads)
            "first.0.decoder.value" = Identity (self_v_heads)""",
        f"""{heads("cross_k", "encoder_hidden_states", "wk1")}{heads("cross_v", "encoder_hidden_states", "wv1")}
            "first.0.encoder.key" = Identity (cross_k_heads)
            "first.0.encoder.value" = Identity (cross_v_heads)""",
        """new = Shape <start = 1, end = 2> (input_ids)
            count = Squeeze (new)
            numbers = Range (no, count, yes)
            down = Unsqueeze (numbers, one)
            beyond = Greater (numbers, down)
            causal = Where (beyond, lowest, nothing)""",
        "causal",
    )
    text = f"""<ir_version: 10, opset_import: ["" : 18]>
    decoder (int64[batch, sequence_length] input_ids,
        float[batch, encoder_sequence_length, {HIDDEN}] encoder_hidden_states, {inputs}, bool[1] use_cache_branch)
        => (float[b, l, {VOCABULARY}] logits, {outputs})
    {{
        one = Constant <value_ints = [1]> ()
        no = Constant <value_int = 0> ()
        yes = Constant <value_int = 1> ()
        lowest = Constant <value_float = {LOWEST}> ()
        nothing = Constant <value_float = 0.0> ()
        heads = Constant <value_ints = [0, 0, {HEADS}, {WIDTH}]> ()
        flat = Constant <value_ints = [0, 0, {HIDDEN}]> ()
        logits, {", ".join(f'"present.0.{kind}.{part}"' for kind, part in pasts)} = If (use_cache_branch)
            <then_branch = {later}, else_branch = {first}>
    }}"""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(11)
    sizes = {f"w{name}{at}": (HIDDEN, HIDDEN) for name in "qkv" for at in range(2)}
    sizes |= {"table": (VOCABULARY, HIDDEN), "places": (PLACES, HIDDEN), "head": (HIDDEN, VOCABULARY)}
    arrays = {name: (rng.normal(size=size) / 3).astype(np.float32) for name, size in sizes.items()}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in arrays.items())
    return model


def merged() -> onnx.ModelProto:
    """As optimum merges decoders: with `use_cache_branch` that with a past, else one that reads no past."""
    model = pytorch()
    names = [f"past_key_values.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]
    branches = {"then_branch": _branch(model, "with_past/"), "else_branch": _branch(model, "no_past/")}
    for node in branches["else_branch"].node:
        if node.op_type == "Concat" and node.input[0] in names:
            node.op_type = "Identity"
            del node.attribute[:], node.input[0]
        if node.op_type == "Shape" and node.input[0] in names:
            zero = onnx.helper.make_node("Constant", [], list(node.output), value_ints=[0])
            node.CopyFrom(zero)
    outputs = [each.name for each in model.graph.output]
    del model.graph.node[:]
    condition = onnx.helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1])
    model.graph.input.append(condition)
    model.graph.node.append(onnx.helper.make_node("If", ["use_cache_branch"], outputs, **branches))
    return model


def _branch(model: onnx.ModelProto, prefix: str) -> onnx.GraphProto:
    """The nodes of a model as a branch, with other names for all that they compute."""
    made = {name for node in model.graph.node for name in node.output}
    branch = onnx.GraphProto(name=prefix.rstrip("/"))
    for source in model.graph.node:
        node = branch.node.add()
        node.CopyFrom(source)
        node.input[:] = [prefix + name if name in made else name for name in source.input]
        node.output[:] = [prefix + name for name in source.output]
    for output in model.graph.output:
        inner = branch.output.add()
        inner.CopyFrom(output)
        inner.name = prefix + output.name
    return branch
