"""RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmlgraph.formats.onnx.export.emitter import INT32, Emitter, Symbol
from dmlgraph.formats.onnx.node import Maybe, Node
from dmlgraph.formats.onnx.one_to_one import ACTIVATIONS
from dmlgraph.formats.onnx.recurrent_steps import Steps
from dmlgraph.formats.onnx.refusals import Refusal, unsupported
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.directml_enums import RecurrentNetworkDirection

# The activations that ONNX's networks know, by ONNX's names without capitals: DirectML's, and the fields' defaults.
_ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "relu": ("activation_relu", {}),
    **{name.lower(): ACTIVATIONS[name] for name in ("Tanh", "Sigmoid", "Softsign")},
    "softplus": ("activation_softplus", {}),
    "affine": ("activation_linear", {"alpha": 1.0, "beta": 0.0}),
    **{name.lower(): ACTIVATIONS[name] for name in ("LeakyRelu", "ThresholdedRelu")},
    "scaledtanh": ("activation_scaled_tanh", {"alpha": 1.0, "beta": 1.0}),
    **{name.lower(): ACTIVATIONS[name] for name in ("HardSigmoid", "Elu")},
}
_DIRECTIONS = {"forward": "forward", "reverse": "backward", "bidirectional": "bidirectional"}


class _Network:
    """What RNN, GRU and LSTM have in common; `fields` are those of DirectML's operator."""

    def __init__(
        self,
        node: Node,
        x: Tensor,
        bias: Maybe,
        lengths: Maybe,
        hidden: Maybe,
        activations: list[str] | None,
        default: list[str],
        *,
        clip: float | None = None,
        direction: str = "forward",
        layout: int = 0,
        **numbers: Any,
    ) -> None:
        if direction not in _DIRECTIONS:
            raise unsupported("direction", ", ".join(_DIRECTIONS), direction)
        self.node, self.batch_first = node, bool(layout)
        self.x = node.dml.transposed(x, [1, 0, 2]) if self.batch_first else node.dml.value(x)
        self.backward = {"forward": [False], "reverse": [True]}.get(direction, [False, True])
        self.fields: dict[str, Any] = {
            "bias": _leading(node, bias, 2),
            "hidden_init": self.state(hidden),
            "sequence_lengths": _lengths(node, lengths),
            "activation_descs": _activations(activations or default * len(self.backward), **numbers),
            "direction": _DIRECTIONS[direction],
        }
        if clip is not None and not clip > 0:
            raise Refusal("must be positive", code="range", field="clip", got=clip)

    def state(self, tensor: Maybe) -> Value | None:
        """{D, B, H}, or batch first {B, D, H}, as {1, D, B, H}."""
        if tensor is None:
            return None
        dml = self.node.dml
        value = dml.transposed(tensor, [1, 0, 2]) if self.batch_first else dml.value(tensor)
        return dml.reshaped(value, (1, *value.sizes))

    def run(self, function: str, weights: Sequence[Value], **asked: bool) -> list[Tensor]:
        """The outputs of DirectML's operator."""
        x, asked = (
            self.node.dml.reshaped(self.x, (1, *self.x.sizes)),
            {"output_sequence": True, "output_single": True, **asked},
        )
        return self.outputs(getattr(self.node.dml, function)(x, *weights, **self.fields, **asked))

    def outputs(self, made: Sequence[Value]) -> list[Tensor]:
        """All states, and the last ones of some kinds, as ONNX has them."""
        node = self.node
        sequence = node.dml.transposed(made[0], [2, 0, 1, 3]) if self.batch_first else made[0]
        return [node.tensor(sequence), *map(self._single, made[1:])]

    def _single(self, made: Value) -> Tensor:
        """The opposite of `state`."""
        shaped = self.node.tensor(made, made.sizes[1:])
        return self.node.tensor(self.node.dml.transposed(shaped, [1, 0, 2])) if self.batch_first else shaped


# The activations that ONNX's networks know, with the fields that are ONNX's alpha and beta.
_WRITTEN_ACTIVATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "activation_relu": ("Relu", ()),
    "activation_tanh": ("Tanh", ()),
    "activation_sigmoid": ("Sigmoid", ()),
    "activation_softsign": ("Softsign", ()),
    "activation_linear": ("Affine", ("alpha", "beta")),
    "activation_leaky_relu": ("LeakyRelu", ("alpha",)),
    "activation_thresholded_relu": ("ThresholdedRelu", ("alpha",)),
    "activation_scaled_tanh": ("ScaledTanh", ("alpha", "beta")),
    "activation_hard_sigmoid": ("HardSigmoid", ("alpha", "beta")),
    "activation_elu": ("Elu", ("alpha",)),
}
_WRITTEN_DIRECTIONS = {
    RecurrentNetworkDirection.FORWARD: "forward",
    RecurrentNetworkDirection.BACKWARD: "reverse",
    RecurrentNetworkDirection.BIDIRECTIONAL: "bidirectional",
}


def _written_activations(fused: tuple[FusedActivation, ...]) -> dict[str, Any]:
    """The attributes of the activations: alphas and betas are those of the activations that have them, in order."""
    found: dict[str, list[Any]] = {"activations": [], "activation_alpha": [], "activation_beta": []}
    for place, activation in enumerate(fused):
        name = activation.name
        softplus = name == "activation_softplus" and activation.attributes["steepness"] == 1
        if name not in _WRITTEN_ACTIVATIONS and not softplus:
            raise Refusal(
                "ONNX's networks do not know the activation",
                field=f"activation_descs.{place}",
                got=name,
                allowed=", ".join(sorted(_WRITTEN_ACTIVATIONS)),
            )
        theirs, fields = _WRITTEN_ACTIVATIONS.get(name, ("Softplus", ()))
        found["activations"].append(theirs)
        for key, field in zip(("activation_alpha", "activation_beta"), fields, strict=False):
            found[key].append(activation.attributes[field])
    return {key: value for key, value in found.items() if value}


@imports(how="rnn, views; with clip: lstm")
def RNN(
    node: Node,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Maybe = None,
    sequence_lens: Maybe = None,
    initial_h: Maybe = None,
    *,
    activations: list[str] | None = None,
    clip: float | None = None,
    **attributes: Any,
) -> list[Tensor]:
    network = _Network(node, X, B, sequence_lens, initial_h, activations, ["Tanh"], clip=clip, **attributes)
    weights = [node.dml.reshaped(each, (1, *each.shape)) for each in (W, R)]
    if clip is None:
        return network.run("rnn", weights)
    weights = [_behind_gates(node, each, 2) for each in weights]
    network.fields |= _as_lstm(node, network.fields, clip)
    return network.run("lstm", weights)


@exports("rnn", how="RNN")
@exports("gru", how="GRU")
@exports("lstm", how="LSTM")
def _network(node: Emitter) -> list[Symbol]:
    kind, hidden = node.operator.name, node.desc("recurrence").sizes[-1]
    fields = ["input", "weight", "recurrence", "bias", "sequence_lengths", "hidden_init"]
    fields += ["cell_mem_init", "peephole"] if kind == "lstm" else []
    attributes = {"direction": _WRITTEN_DIRECTIONS[node.field("direction")], "hidden_size": hidden}
    attributes |= _written_activations(node.field("activation_descs"))
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


@imports(how="gru, views; with clip: its steps, of gemm, activations, …")
def GRU(
    node: Node,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Maybe = None,
    sequence_lens: Maybe = None,
    initial_h: Maybe = None,
    *,
    activations: list[str] | None = None,
    clip: float | None = None,
    linear_before_reset: int = 0,
    **attributes: Any,
) -> list[Tensor]:
    default = ["Sigmoid", "Tanh"]
    network = _Network(node, X, B, sequence_lens, initial_h, activations, default, clip=clip, **attributes)
    if clip is not None:
        steps = Steps(node, W, R, B, sequence_lens, bool(linear_before_reset), clip)
        fields = network.fields
        made = steps.run(network.x, fields["hidden_init"], fields["activation_descs"], network.backward)
        return network.outputs(made)
    network.fields["linear_before_reset"] = bool(linear_before_reset)
    return network.run("gru", [node.dml.reshaped(each, (1, *each.shape)) for each in (W, R)])


@imports(how="lstm, views")
def LSTM(
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
    input_forget: int = 0,
    **attributes: Any,
) -> list[Tensor]:
    default = ["Sigmoid", "Tanh", "Tanh"]
    network = _Network(node, X, B, sequence_lens, initial_h, activations, default, clip=clip, **attributes)
    network.fields |= {"cell_mem_init": network.state(initial_c), "peephole": _leading(node, P, 2)}
    network.fields |= {"couple_input_forget": bool(input_forget)}
    network.fields |= {} if clip is None else {"clip_threshold": clip}
    weights = [node.dml.reshaped(each, (1, *each.shape)) for each in (W, R)]
    return network.run("lstm", weights, output_cell_single=True)


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


def _leading(node: Node, tensor: Tensor | None, count: int) -> Value | None:
    """With leading dimensions of size 1."""
    return None if tensor is None else node.dml.reshaped(tensor, (1,) * count + tensor.shape)


def _lengths(node: Node, tensor: Tensor | None) -> Value | None:
    if tensor is None:
        return None
    return node.dml.reshaped(node.dml.converted(tensor, "uint32"), (1, 1, 1, tensor.count))


def _activations(
    names: list[str],
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    hidden_size: int = 0,
) -> list[dict[str, Any]]:
    """The activations with their numbers, which those that take some use up in turn."""
    numbers = {"alpha": iter(activation_alpha), "beta": iter(activation_beta)}
    made = []
    for name in names:
        known = _ACTIVATIONS.get(name.lower())
        if known is None:
            raise Refusal("is not an activation", field="activations", got=name, allowed=", ".join(_ACTIVATIONS))
        op, defaults = known
        made.append({"op": op, **{key: next(numbers[key], default) for key, default in defaults.items()}})
    return made
