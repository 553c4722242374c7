"""Recurrent networks."""

from __future__ import annotations

from typing import Any

from dmlgraph.formats.onnx.export.emitter import INT32, Emitter, Symbol
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import exports
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.directml_enums import RecurrentNetworkDirection

# The activations that ONNX's networks know, with the fields that are ONNX's alpha and beta.
_ACTIVATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
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
_DIRECTIONS = {
    RecurrentNetworkDirection.FORWARD: "forward",
    RecurrentNetworkDirection.BACKWARD: "reverse",
    RecurrentNetworkDirection.BIDIRECTIONAL: "bidirectional",
}


def _activations(fused: tuple[FusedActivation, ...]) -> dict[str, Any]:
    """The attributes of the activations: alphas and betas are those of the activations that have them, in order."""
    found: dict[str, list[Any]] = {"activations": [], "activation_alpha": [], "activation_beta": []}
    for place, activation in enumerate(fused):
        name = activation.name
        softplus = name == "activation_softplus" and activation.attributes["steepness"] == 1
        if name not in _ACTIVATIONS and not softplus:
            raise Refusal(
                "ONNX's networks do not know the activation",
                field=f"activation_descs.{place}",
                got=name,
                allowed=", ".join(sorted(_ACTIVATIONS)),
            )
        theirs, fields = _ACTIVATIONS.get(name, ("Softplus", ()))
        found["activations"].append(theirs)
        for key, field in zip(("activation_alpha", "activation_beta"), fields, strict=False):
            found[key].append(activation.attributes[field])
    return {key: value for key, value in found.items() if value}


@exports("rnn", how="RNN")
@exports("gru", how="GRU")
@exports("lstm", how="LSTM")
def _network(node: Emitter) -> list[Symbol]:
    kind, hidden = node.operator.name, node.desc("recurrence").sizes[-1]
    fields = ["input", "weight", "recurrence", "bias", "sequence_lengths", "hidden_init"]
    fields += ["cell_mem_init", "peephole"] if kind == "lstm" else []
    attributes = {"direction": _DIRECTIONS[node.field("direction")], "hidden_size": hidden}
    attributes |= _activations(node.field("activation_descs"))
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
