"""RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Any

from dmlgraph.onnx.node import Node, Result
from dmlgraph.onnx.refusals import Refusal
from dmlgraph.onnx.table import imports
from dmlgraph.onnx.tensors import Tensor
from dmlgraph.value import Value

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


@imports("RNN", how="rnn, views")
@imports("GRU", how="gru, views")
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
    if clip is not None and node.operator != "LSTM":
        raise Refusal("has no counterpart in DirectML", field="clip", got=clip)
    if node.operator == "GRU":
        fields["linear_before_reset"] = bool(node.attribute("linear_before_reset", 0))
    if node.operator == "LSTM":
        fields["cell_mem_init"] = _state(node, node.get(6), batch_first)
        fields["peephole"] = _leading(node, node.get(7), 2)
        fields["couple_input_forget"] = bool(node.attribute("input_forget", 0))
        if clip is not None:
            fields["clip_threshold"] = clip
    weights = (_leading(node, node[1], 1), _leading(node, node[2], 1))
    asked = {"output_sequence": True, "output_single": True}
    if node.operator == "LSTM":
        asked["output_cell_single"] = True
    function = getattr(node.dml, node.operator.lower())
    made = function(node.dml.reshaped(x, (1, *x.sizes)), *weights, **fields, **asked)
    sequence = made.output_sequence
    if batch_first:
        sequence = node.dml.transposed(sequence, [2, 0, 1, 3])
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
