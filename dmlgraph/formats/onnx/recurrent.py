"""RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.recurrent_steps import gru_by_steps
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value

# ONNX's activation → DirectML's, and its fields with ONNX's defaults.
_ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "relu": ("activation_relu", {}),
    "tanh": ("activation_tanh", {}),
    "sigmoid": ("activation_sigmoid", {}),
    "softsign": ("activation_softsign", {}),
    "softplus": ("activation_softplus", {}),
    "affine": ("activation_linear", {"alpha": 1.0, "beta": 0.0}),
    "leakyrelu": ("activation_leaky_relu", {"alpha": 0.01}),
    "thresholdedrelu": ("activation_thresholded_relu", {"alpha": 1.0}),
    "scaledtanh": ("activation_scaled_tanh", {"alpha": 1.0, "beta": 1.0}),
    "hardsigmoid": ("activation_hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "elu": ("activation_elu", {"alpha": 1.0}),
}
_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_DIRECTIONS = {"forward": "forward", "reverse": "backward", "bidirectional": "bidirectional"}


@imports("RNN", how="rnn, views; with clip: lstm")
@imports("GRU", how="gru, views; with clip: its steps, of gemm, activations, …")
@imports("LSTM", how="lstm, views")
def _recurrent(node: Node) -> Result:
    direction = str(node.attribute("direction", "forward"))
    if direction not in _DIRECTIONS:
        raise node.refuse("direction", ", ".join(_DIRECTIONS))
    batch_first = bool(node.attribute("layout", 0))
    x = node.dml.transposed(node[0], [1, 0, 2]) if batch_first else node.dml.value(node[0])
    count = 2 if direction == "bidirectional" else 1
    fields: dict[str, Any] = {
        "bias": _leading(node, node.get(3), 2),
        "hidden_init": _state(node, node.get(5), batch_first),
        "sequence_lengths": _lengths(node, node.get(4)),
        "activation_descs": _activations(node, count),
        "direction": _DIRECTIONS[direction],
    }
    clip = node.attribute("clip")
    if clip is not None and not clip > 0:
        raise Refusal("must be positive", code="range", field="clip", got=clip)
    if clip is not None and node.operator == "GRU":
        turned = [direction == "reverse"] if count == 1 else [False, True]
        made = gru_by_steps(node, x, fields["hidden_init"], fields["activation_descs"], turned, clip)
        return _outputs(node, made, batch_first)
    if node.operator == "GRU":
        fields["linear_before_reset"] = bool(node.attribute("linear_before_reset", 0))
    if node.operator == "LSTM":
        fields["cell_mem_init"] = _state(node, node.get(6), batch_first)
        fields["peephole"] = _leading(node, node.get(7), 2)
        fields["couple_input_forget"] = bool(node.attribute("input_forget", 0))
        if clip is not None:
            fields["clip_threshold"] = clip
    weights = [node.dml.reshaped(node[index], (1, *node[index].shape)) for index in (1, 2)]
    function, asked = node.operator.lower(), {"output_sequence": True, "output_single": True}
    if node.operator == "LSTM":
        asked["output_cell_single"] = True
    if clip is not None and node.operator == "RNN":
        function, weights = "lstm", [_behind_gates(node, each, 2) for each in weights]
        fields |= _as_lstm(node, fields, clip)
    made = getattr(node.dml, function)(node.dml.reshaped(x, (1, *x.sizes)), *weights, **fields, **asked)
    return _outputs(node, made, batch_first)


def _as_lstm(node: Node, fields: dict[str, Any], clip: float) -> dict[str, Any]:
    """The fields of an LSTM that computes an RNN, for `clip`, which DirectML's RNN lacks.

    Its input and output gates are 1 and its forget gate 0, so the new cell is g of the product, and h passes it on.
    """
    bias, descs = fields["bias"], fields["activation_descs"]
    if bias is not None:  # {1, 1, D, 2 H}
        *_, directions, size = bias.sizes
        split = node.dml.reshaped(bias, (1, directions, 2, size // 2))
        bias = node.dml.reshaped(_behind_gates(node, split, 3), (1, 1, directions, 4 * size))
    one, same = ({"op": "activation_linear", "alpha": alpha, "beta": 1.0 - alpha} for alpha in (0.0, 1.0))
    return {
        "bias": bias,
        "activation_descs": [each for desc in descs for each in (one, desc, same)],
        "couple_input_forget": True,
        "clip_threshold": clip,
    }


def _behind_gates(node: Node, x: Value, axis: int) -> Value:
    """The part of an LSTM's weights for its cell, behind zeros for the gates: input, output, forget."""
    before = [3 * size if each == axis else 0 for each, size in enumerate(x.sizes)]
    made: Value = node.dml.padding(
        x, padding_mode="constant", padding_value=0, start_padding=before, end_padding=[0] * len(before)
    )
    return made


def _outputs(node: Node, made: Sequence[Value], batch_first: bool) -> Result:
    sequence = node.dml.transposed(made[0], [2, 0, 1, 3]) if batch_first else made[0]
    return [sequence, *(_single(node, each, batch_first) for each in made[1:])]


def _leading(node: Node, tensor: Tensor | None, count: int) -> Value | None:
    """With leading dimensions of size 1."""
    return None if tensor is None else node.dml.reshaped(tensor, (1,) * count + tensor.shape)


def _state(node: Node, tensor: Tensor | None, batch_first: bool) -> Value | None:
    """{D, B, H}, or batch first {B, D, H}, as {1, D, B, H}."""
    if tensor is None:
        return None
    value = node.dml.transposed(tensor, [1, 0, 2]) if batch_first else node.dml.value(tensor)
    return node.dml.reshaped(value, (1, *value.sizes))


def _single(node: Node, made: Value, batch_first: bool) -> Tensor:
    """The opposite of `_state`."""
    shaped = node.tensor(made, made.sizes[1:])
    return node.tensor(node.dml.transposed(shaped, [1, 0, 2])) if batch_first else shaped


def _lengths(node: Node, tensor: Tensor | None) -> Value | None:
    if tensor is None:
        return None
    return node.dml.reshaped(node.dml.converted(tensor, "uint32"), (1, 1, 1, tensor.count))


def _activations(node: Node, directions: int) -> list[dict[str, Any]]:
    """The activations with their numbers, which those that take some use up in turn."""
    names = [str(each) for each in node.attribute("activations") or _DEFAULTS[node.operator] * directions]
    numbers = {key: iter(node.attribute(f"activation_{key}") or ()) for key in ("alpha", "beta")}
    made = []
    for name in names:
        known = _ACTIVATIONS.get(name.lower())
        if known is None:
            raise Refusal("is not an activation", field="activations", got=name, allowed=", ".join(_ACTIVATIONS))
        op, defaults = known
        made.append({"op": op, **{key: next(numbers[key], default) for key, default in defaults.items()}})
    return made
