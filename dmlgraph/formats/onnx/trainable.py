"""Weights of a model that become states: what training may change."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx_ir as ir

from dmlgraph.base.errors import GraphError, listing
from dmlgraph.formats.onnx.names import Names, as_label
from dmlgraph.formats.onnx.refusals import DATA, Notes
from dmlgraph.formats.onnx.tensors import Calls, Tensor, stored
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.trainable import FLOATS, beside_quantized, matched

_READS_QUANTIZED = re.compile("QLinear|[Qq]uantize|Integer|NBits|Bnb4")  # in the names of ONNX's operators


class Trainable:
    """The weights that patterns mean.

    Args:
        graph: the main graph of the model.
        patterns: names of weights, in which `*` stands for any text; None: no weight becomes a state.
        notes: gets what is wrong with them.
    """

    def __init__(self, graph: ir.Graph, patterns: Sequence[str] | None, notes: Notes) -> None:
        self.weights: set[ir.Value] = set()
        if patterns is None:
            return
        known = {as_label(name): value for name, value in graph.initializers.items()}
        with notes.noting("weights"):
            found = matched(patterns, known, "trainable")
            floats = [name for name in found if _is_float(known[name])]
            for name in found:
                if name not in floats:
                    _check_integers(known[name], name, floats, is_named=name in patterns)
            self.weights = {known[name] for name in floats}
            if not self.weights:
                message = "only floats can be trained"
                raise GraphError(message, code="dtype", field="trainable", got=listing(found), allowed=FLOATS)

    def state(self, calls: Calls, names: Names, graph: Graph, weight: Tensor) -> Tensor:
        """The tensor of a weight as a state of its name; what it holds is not known to whoever reads it."""
        dtype = stored(weight.dtype)
        assert weight.known is not None
        array = weight.known.reshape(weight.sizes)

        def make(name: str) -> Tensor:
            state = graph.state(name, sizes=weight.sizes, dtype=dtype, initial=array)
            return Tensor(weight.dtype, weight.shape, made=state, depends=frozenset([DATA]), name=name)

        return calls.named(names.take_weight, calls.label or "weight", make)


def _is_float(weight: ir.Value) -> bool:
    return weight.dtype is None or weight.dtype.is_floating_point()


def _check_integers(weight: ir.Value, name: str, floats: Sequence[str], *, is_named: bool) -> None:
    """As for constants of a graph: integers that a pattern means among others stay constants.

    Raises:
        GraphError: they are quantized, or are named themselves; `floats` are what could be named.
    """
    reader = next((node for node in weight.consumers() if _READS_QUANTIZED.search(node.op_type)), None)
    if reader is None and not is_named:
        return
    what = "only floats can be trained" if reader is None else f"is quantized: {reader.op_type} reads it"
    hint = None if reader is None else beside_quantized(floats)
    field = f"trainable.{name}"
    raise GraphError(what, code="dtype", field=field, got=str(weight.dtype), allowed=FLOATS, hint=hint)
