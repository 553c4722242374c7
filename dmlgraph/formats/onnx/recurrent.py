"""RNN, GRU and LSTM; a GRU with `clip`, which DirectML's operator lacks, is read step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.control import MOST_STEPS
from dmlgraph.formats.onnx.export.emitter import INT32, Emitter, Symbol
from dmlgraph.formats.onnx.node import Maybe, Node
from dmlgraph.formats.onnx.one_to_one import ACTIVATIONS
from dmlgraph.formats.onnx.refusals import Refusal, one_of
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.fused import FusedActivation

# The activations that ONNX's networks know: dmlgraph's, and those of its fields that are ONNX's alpha and beta, with
# their defaults.
_ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "Relu": ("activation_relu", {}),
    **{name: ACTIVATIONS[name] for name in ("Tanh", "Sigmoid", "Softsign")},
    "Softplus": ("activation_softplus", {}),
    "Affine": ("activation_linear", {"alpha": 1.0, "beta": 0.0}),
    **{name: ACTIVATIONS[name] for name in ("LeakyRelu", "ThresholdedRelu")},
    "ScaledTanh": ("activation_scaled_tanh", {"alpha": 1.0, "beta": 1.0}),
    **{name: ACTIVATIONS[name] for name in ("HardSigmoid", "Elu")},
}
_READ = {name.lower(): each for name, each in _ACTIVATIONS.items()}  # in models capitals do not matter
_WRITTEN = {function: (name, fields) for name, (function, fields) in _ACTIVATIONS.items()}
_DIRECTIONS = {"forward": "forward", "reverse": "backward", "bidirectional": "bidirectional"}  # ONNX's: dmlgraph's
_DEFAULTS = {"rnn": ["Tanh"], "gru": ["Sigmoid", "Tanh"], "lstm": ["Sigmoid", "Tanh", "Tanh"]}


def recurrent(
    node: Node,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Maybe = None,
    sequence_lens: Maybe = None,
    initial_h: Maybe = None,
    initial_c: Maybe = None,
    P: Maybe = None,
    *,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    layout: int = 0,
    **attributes: Any,
) -> list[Tensor]:
    """RNN, GRU and LSTM, of which only LSTM has `initial_c` and `P`: all states, and the last ones of each kind."""
    one_of("direction", direction, _DIRECTIONS)
    kind = node.operator[-4:].lower()
    backward = {"forward": [False], "reverse": [True]}.get(direction, [False, True])

    def turned(x: Any) -> Value:
        """{T, B, …} or {D, B, …}, where `layout` has the batch first; and back."""
        return node.transposed(x, [1, 0, 2]) if layout else node.value(x)

    def state(tensor: Maybe) -> Value | None:
        """{D, B, H} as {1, D, B, H}."""
        return None if tensor is None else _leading(node, turned(tensor), 1)

    x = turned(X)
    fields: dict[str, Any] = {
        "bias": _leading(node, B, 2),
        "hidden_init": state(initial_h),
        "sequence_lengths": _lengths(node, sequence_lens),
        "activation_descs": _activations(activations or _DEFAULTS[kind] * len(backward), **attributes),
        "direction": _DIRECTIONS[direction],
    }
    if clip is not None and not clip > 0:
        raise Refusal("must be positive", code="range", field="clip", got=clip)
    if kind == "lstm":
        fields |= {"cell_mem_init": state(initial_c), "peephole": _leading(node, P, 2)}
    if kind == "gru" and clip is not None:
        steps = Steps(node, W, R, B, sequence_lens, bool(attributes.get("linear_before_reset", 0)), clip)
        made: Sequence[Value] = steps.run(x, fields["hidden_init"], fields["activation_descs"], backward)
    else:
        made = _by_operator(node, kind, x, (W, R), fields, clip, **attributes)
    sequence = node.transposed(made[0], [2, 0, 1, 3]) if layout else made[0]
    return [node.tensor(sequence), *(node.tensor(turned(node.reshaped(each, each.sizes[1:]))) for each in made[1:])]


def _by_operator(
    node: Node,
    kind: str,
    x: Value,
    weights: Sequence[Tensor],
    fields: dict[str, Any],
    clip: float | None,
    *,
    linear_before_reset: int = 0,
    input_forget: int = 0,
    **_: Any,
) -> Sequence[Value]:
    """The outputs of DirectML's operator; RNN, which has no clip there, becomes an LSTM for it."""
    asked = {"output_sequence": True, "output_single": True}
    parts = [node.reshaped(each, (1, *each.shape)) for each in weights]
    if kind == "gru":
        fields |= {"linear_before_reset": bool(linear_before_reset)}
    elif kind == "lstm":
        asked["output_cell_single"] = True
        fields |= {"couple_input_forget": bool(input_forget)} | ({} if clip is None else {"clip_threshold": clip})
    elif clip is not None:
        kind, parts = "lstm", [_behind_gates(node, each, 2) for each in parts]
        fields |= _as_lstm(node, fields, clip)
    made: Sequence[Value] = getattr(node, kind)(node.reshaped(x, (1, *x.sizes)), *parts, **fields, **asked)
    return made


for _name, _how in (
    ("RNN", "rnn, views; with clip: lstm"),
    ("GRU", "gru, views; with clip: its steps, of gemm, activations, …"),
    ("LSTM", "lstm, views"),
):
    imports(_name, how=_how)(recurrent)


def _as_lstm(node: Node, fields: dict[str, Any], clip: float) -> dict[str, Any]:
    """The fields of an LSTM that computes an RNN, for `clip`, which DirectML's RNN lacks.

    Its input and output gates are 1 and its forget gate 0, so the new cell is g of the product, and h passes it on.
    """
    bias, descs = fields["bias"], fields["activation_descs"]
    if bias is not None:  # {1, 1, D, 2 H}
        *_, directions, size = bias.sizes
        split = node.reshaped(bias, (1, directions, 2, size // 2))
        bias = node.reshaped(_behind_gates(node, split, 3), (1, 1, directions, 4 * size))
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
    return node.padding(
        x, padding_mode="constant", padding_value=0, start_padding=before, end_padding=[0] * len(before)
    )


def _leading(node: Node, tensor: Tensor | Value | None, count: int) -> Value | None:
    """With leading dimensions of size 1."""
    return None if tensor is None else node.reshaped(tensor, (1,) * count + node.value(tensor).sizes)


def _lengths(node: Node, tensor: Tensor | None) -> Value | None:
    if tensor is None:
        return None
    return node.reshaped(node.converted(tensor, "uint32"), (1, 1, 1, tensor.count))


def _activations(
    names: list[str],
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    **_: Any,
) -> list[dict[str, Any]]:
    """The activations with their numbers, which those that take some use up in turn."""
    numbers = {"alpha": iter(activation_alpha), "beta": iter(activation_beta)}
    made = []
    for name in names:
        known = _READ.get(name.lower())
        if known is None:
            raise Refusal("is not an activation", field="activations", got=name, allowed=", ".join(_READ))
        op, defaults = known
        made.append({"op": op, **{key: next(numbers[key], default) for key, default in defaults.items()}})
    return made


def _activation_attributes(fused: tuple[FusedActivation, ...]) -> dict[str, Any]:
    """The attributes of the activations: alphas and betas are those of the activations that have them, in order."""
    found: dict[str, list[Any]] = {"activations": [], "activation_alpha": [], "activation_beta": []}
    for place, activation in enumerate(fused):
        name, given = activation.name, activation.attributes
        if name not in _WRITTEN or given.get("steepness", 1) != 1:  # of Softplus
            message, allowed = (
                "ONNX's networks do not know the activation",
                sorted({*_WRITTEN} - {"activation_softplus"}),
            )
            raise Refusal(message, field=f"activation_descs.{place}", got=name, allowed=", ".join(allowed))
        theirs, fields = _WRITTEN[name]
        found["activations"].append(theirs)
        for field in fields:
            found[f"activation_{field}"].append(given[field])
    return {key: value for key, value in found.items() if value}


@exports("rnn", how="RNN")
@exports("gru", how="GRU")
@exports("lstm", how="LSTM")
def _network(node: Emitter) -> list[Symbol]:
    kind, hidden = node.operator.name, node.desc("recurrence").sizes[-1]
    fields = ["input", "weight", "recurrence", "bias", "sequence_lengths", "hidden_init"]
    fields += ["cell_mem_init", "peephole"] if kind == "lstm" else []
    direction = next(theirs for theirs, ours in _DIRECTIONS.items() if ours == str(node.field("direction")))
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    attributes |= _activation_attributes(node.field("activation_descs"))
    if kind == "gru":
        attributes["linear_before_reset"] = int(node.field("linear_before_reset"))
    if kind == "lstm":
        attributes["input_forget"] = int(node.field("couple_input_forget"))
        if node.field("use_clip_threshold"):
            attributes["clip"] = node.field("clip_threshold")
    outputs = [getattr(node.operator, field) for field in node.operator.output_fields]
    made = node.calls(
        kind.upper(),
        *(_given(node, field) for field in fields),
        dtypes=[None if desc is None else desc.dtype.numpy for desc in outputs],
        **attributes,
    )
    present = [(field, desc) for field, desc in zip(node.operator.output_fields, outputs, strict=True) if desc]
    return [_with_rank(node, each, field, desc.sizes) for each, (field, desc) in zip(made, present, strict=True)]


def _with_rank(node: Emitter, made: Symbol, field: str, sizes: tuple[int, ...]) -> Symbol:
    """A result with the operator's number of dimensions; ONNX's is {T, D, B, H} of every state, {D, B, H} of one."""
    return node.reshape(made, sizes, sizes[-4:] if field == "output_sequence" else sizes[-3:])


def _given(node: Emitter, field: str) -> Symbol | None:
    """A tensor with ONNX's dimensions."""
    if node.field(field) is None:
        return None
    sizes = node.desc(field).sizes
    if field == "sequence_lengths":
        return node.cast(node.flat(field, sizes[-1]), INT32)
    return node.flat(field, *sizes[-2 if field in ("bias", "peephole") else -3 :])


GATES = 3  # update, reset, hidden


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """A GRU, step by step.

    Attributes:
        node: adds the nodes.
        w, r, b, lengths: ONNX's inputs.
        after: whether the reset comes after the product with the hidden state.
        clip: what the activations are given is clipped to ±clip.
    """

    node: Node
    w: Tensor
    r: Tensor
    b: Maybe
    lengths: Maybe
    after: bool
    clip: float

    def run(
        self, x: Value, state: Value | None, activations: Sequence[Mapping[str, Any]], backward: Sequence[bool]
    ) -> tuple[Value, Value]:
        """The hidden states of all steps {T, D, B, H}, and the last ones {1, D, B, H}.

        Args:
            x: the input {T, B, I}.
            state: the first hidden states {1, D, B, H}; None for zeros.
            activations: f and g of each direction, as activation_descs has them.
            backward: for each direction.

        Raises:
            Refusal: there are too many steps, or the node is damaged.
        """
        if len(activations) != 2 * len(backward):
            message, wanted = "needs two activations for each direction", 2 * len(backward)
            raise Refusal(message, code="count", field="activations", got=len(activations), allowed=f"{wanted}")
        if x.sizes[0] > MOST_STEPS:
            message = "with clip there are too many steps"
            raise Refusal(message, code="too-large", field="clip", allowed=f"{MOST_STEPS} steps")
        made = [
            _Direction(self, index, activations[2 * index : 2 * index + 2]).run(x, state, turned)
            for index, turned in enumerate(backward)
        ]
        sequences, singles = zip(*made, strict=True)
        if len(made) == 1:
            return sequences[0], singles[0]
        return self.node.join(list(sequences), axis=1), self.node.join(list(singles), axis=1)


class _Direction:
    """One direction of a GRU: its weights, and what a step does."""

    def __init__(self, steps: Steps, index: int, activations: Sequence[Mapping[str, Any]]) -> None:
        self.node, self.index = steps.node, index
        self.f, self.g = activations
        self.clip, self.after, self.lengths = steps.clip, steps.after, steps.lengths
        self.hidden = steps.r.shape[2]
        self.weight = self._of(steps.w)
        self.gates, self.new = self.node.split(self._of(steps.r), axis=0, outputs=[2 * self.hidden, self.hidden])
        self.bias, self.last_bias = self._biases(steps.b)

    def _of(self, tensor: Tensor) -> Value:
        """This direction's part of a tensor {D, …}."""
        value = self.node.value(tensor)
        if tensor.shape[0] > 1:
            value = self.node.split(value, axis=0, outputs=[1] * tensor.shape[0])[self.index]
        return self.node.reshaped(value, tensor.shape[1:])

    def _biases(self, tensor: Tensor | None) -> tuple[Value | None, Value | None]:
        """What is added to the input's product {1, 3 H}, and to the hidden state's {1, H} before the reset."""
        if tensor is None:
            return None, None
        size, node = self.hidden, self.node
        of_x, of_gates, of_new = node.split(
            node.reshaped(self._of(tensor), (1, 2 * GATES * size)), axis=1, outputs=[GATES * size, 2 * size, size]
        )
        if not self.after:
            return node.add(of_x, node.join([of_gates, of_new], axis=1)), None
        none = node.fill_value_constant(sizes=[1, size], dtype=of_new.dtype, value=0)
        return node.add(of_x, node.join([of_gates, none], axis=1)), of_new

    def run(self, x: Value, state: Value | None, backward: bool) -> tuple[Value, Value]:
        """The states {T, 1, B, H} and the last {1, 1, B, H}."""
        node, (steps, batch, width) = self.node, x.sizes
        product = node.gemm(node.reshaped(x, (steps * batch, width)), self.weight, trans_b="transpose")
        if self.bias is not None:
            product = node.add(product, self.bias)
        parts = [product] if steps == 1 else node.split(product, axis=0, outputs=[batch] * steps)
        if state is None:
            last = node.fill_value_constant(sizes=[batch, self.hidden], dtype=x.dtype, value=0)
        else:
            states = [state] if state.sizes[1] == 1 else node.split(state, axis=1, outputs=[1] * state.sizes[1])
            last = node.reshaped(states[self.index], (batch, self.hidden))
        zeros, sequence = Tensor.of(np.zeros((1, 1), x.dtype.numpy)), [last] * steps
        for step in reversed(range(steps)) if backward else range(steps):
            new, going = self._step(parts[step], last), self._going(step, steps)
            last = new if going is None else node.if_(going, new, last)
            sequence[step] = node.reshaped(
                new if going is None else node.if_(going, new, zeros), (1, 1, batch, self.hidden)
            )
        whole = sequence[0] if steps == 1 else node.join(sequence, axis=0)
        return whole, node.reshaped(last, (1, 1, batch, self.hidden))

    def _going(self, step: int, steps: int) -> Value | None:
        """Which sequences {B, 1} have this step; None if all have it."""
        lengths = self.lengths
        if lengths is None or (lengths.known is not None and (lengths.known > step).all()):
            return None
        column = self.node.reshaped(self.node.converted(lengths, "uint32"), (lengths.count, 1))
        return self.node.logical_greater_than(column, step, dtype="uint8")

    def _step(self, part: Value, last: Value) -> Value:
        """The next state {B, H}, of a product of the input {B, 3 H}."""
        node, size = self.node, self.hidden
        of_gates, of_new = node.split(part, axis=1, outputs=[2 * size, size])
        gates = self._activated(self.f, node.add(of_gates, node.gemm(last, self.gates, trans_b="transpose")))
        update, reset = node.split(gates, axis=1, outputs=[size, size])
        if self.after:
            kept = node.gemm(last, self.new, trans_b="transpose")
            kept = node.multiply(reset, kept if self.last_bias is None else node.add(kept, self.last_bias))
        else:
            kept = node.gemm(node.multiply(reset, last), self.new, trans_b="transpose")
        new = self._activated(self.g, node.add(of_new, kept))
        return node.add(new, node.multiply(update, node.subtract(last, new)))

    def _activated(self, activation: Mapping[str, Any], x: Value) -> Value:
        fields = {name: each for name, each in activation.items() if name != "op"}
        clipped = self.node.clip(x, min=-self.clip, max=self.clip)
        return self.node.apply(activation["op"], clipped, **fields)
