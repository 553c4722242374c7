"""Inputs and outputs of a model that are states: which belong together, and what a run makes of them.

A model that appends joins past rows and new ones: its past is a growing state, whose capacity is the size of the past,
and the new rows are what is appended.  Every other pair is a state that is updated whole.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from dmlgraph.base.errors import ModelError, Problem, listing, suggestion
from dmlgraph.formats.onnx.caches import AUTO, PADDED, Growth, growth, pairs
from dmlgraph.formats.onnx.names import as_text
from dmlgraph.formats.onnx.refusals import DATA, Refusal
from dmlgraph.formats.onnx.shapes import appended
from dmlgraph.formats.onnx.state_names import LENGTH, PROPERTY
from dmlgraph.formats.onnx.tensors import Array, Calls, Tensor, stored
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.state_rules import fits
from dmlgraph.graph.value import Value


@dataclasses.dataclass(eq=False, slots=True)
class Pair:
    """An input and an output that are one state.

    Attributes:
        past: the input.
        present: the output.
        growth: how the model appends; None where it does not.
        is_ours: whether dmlgraph wrote the model.
        state: the state in the graph, once it is declared.
    """

    past: ir.Value
    present: ir.Value
    growth: Growth | None
    is_ours: bool
    state: Value | None = None

    @property
    def grows(self) -> int | None:
        """The axis along which the model appends; None where it does not."""
        return None if self.growth is None else self.growth.axis

    @property
    def name(self) -> str:
        return as_text(self.past.name)

    def declare(self, graph: Graph, name: str, tensor: Tensor, initial: Tensor | None) -> None:
        """Adds the state to the graph; the tensor is what the model reads of it.

        Args:
            graph: gets the state.
            name: of the state.
            tensor: the input; it is given its value.
            initial: what the state holds at first; None for zeros.

        Raises:
            Refusal: it cannot be one.
        """
        if 0 in tensor.shape:
            hint = "the dim of the past is the state's capacity"
            raise Refusal("a state has elements", code="sizes", got=[*tensor.shape], hint=hint)
        first = None if initial is None or initial.known is None else _initial(initial.known)
        dtype = stored(tensor.dtype)
        self.state = graph.state(name, sizes=tensor.sizes, dtype=dtype, initial=first, grows=self.grows)
        tensor.made, tensor.depends = self.state, frozenset([DATA])

    def unmade(self, inputs: Sequence[Tensor | None]) -> Tensor:
        """Past rows and new ones without a value in the graph: nothing reads them.

        Raises:
            Refusal: an input is left out.
        """
        past, *rows = given = [each for each in inputs if each is not None]
        if len(given) < len(inputs):
            raise Refusal("an input is missing", code="missing")
        assert self.grows is not None
        return Tensor(past.dtype, past.shape, appended=appended(past, rows, self.grows))

    def change(self, calls: Calls, result: Tensor, *, is_masked: bool) -> None:
        """Makes the result of the model what changes the state.

        Args:
            calls: adds the nodes.
            result: what the model gives.
            is_masked: whether it is known that the model counts only rows that were written.

        Raises:
            Refusal: it is neither a next value of the state's sizes, nor past rows and new ones behind them.
        """
        assert self.state is not None
        graph = self.state.graph
        if self.grows is None:
            self._update(calls, result)
            return
        made = result.appended
        if made is None and self._begins(result):
            graph.append(self.state, calls.value(result))
            return
        if made is None or made.axis != self.grows or not self._is_past(calls.value(made.past)):
            raise self._neither(result)
        rows = made.rows(calls)
        graph.append(self.state, rows)
        if not (made.counts or is_masked or self.is_ours):
            self._check_masked(graph, rows.sizes[made.axis])

    def _update(self, calls: Calls, result: Tensor) -> None:
        """Makes the result the next value, unless it is the state itself, or has no elements, as of merged decoders."""
        assert self.state is not None
        if 0 in result.shape or (result.made is not None and self._is_past(result.made)):
            return
        if result.sizes != self.state.sizes:
            raise self._neither(result)
        self.state.graph.update(self.state, calls.value(result))

    def _begins(self, result: Tensor) -> bool:
        """Whether the result are first rows, of a branch of a merged decoder that reads no past."""
        assert self.state is not None
        graph, state = self.state.graph, self.state
        read = {source[0] for each in graph.nodes for source in graph.sources(each.name) if source is not None}
        return state.node not in read and fits(result.sizes, state.sizes, self.grows)

    def _check_masked(self, graph: Graph, rows: int) -> None:
        """Refuses a model that takes all rows of its past for written ones."""
        assert self.state is not None
        assert self.grows is not None
        capacity = self.state.sizes[self.grows]
        sizes = capacity, capacity + rows
        if not any(size in sizes for node in graph.inputs for size in node.desc.sizes):
            raise Refusal(
                "no input says which rows count, and those of a state that were never written are zeros",
                code="states",
                got=listing(node.name for node in graph.inputs),
                allowed=f"an input such as a mask, with a size of {sizes[0]} or {sizes[1]}",
            )

    def _is_past(self, value: Value) -> bool:
        assert self.state is not None
        return (value.node, value.port) == (self.state.node, self.state.port)

    def _neither(self, result: Tensor) -> Refusal:
        assert self.state is not None
        return Refusal(
            f"is not what becomes of the input '{self.name}'",
            code="states",
            got=[*result.sizes],
            allowed=f"a next value {list(self.state.sizes)}, or the input itself and new rows joined along one axis",
        )


class Pairs:
    """The states of a model.

    Args:
        model: whose inputs and outputs they are.
        states: names of inputs → names of outputs; `*` stands for any text, which is the same in both.  "auto" and
            "padded": the caches that `caches.pairs` finds.  None: the pairs that the model's metadata say.
        values: the inputs that are known.

    Raises:
        ModelError: everything that does not fit.
    """

    def __init__(self, model: ir.Model, states: Mapping[str, str] | str | None, values: Mapping[str, Any]) -> None:
        graph = model.graph
        self._inputs = {as_text(each.name): each for each in graph.inputs}
        self._outputs = {as_text(each.name): each for each in graph.outputs}
        self._values = values
        self._problems: list[Problem] = []
        self._names: dict[str, str] = {}
        if states in (AUTO, PADDED):
            states = {name: other for name, other in pairs(graph).items() if name not in values}
        checked = _checked(_written(model) if states is None else states)
        for pattern, other in checked.items():
            self._match(pattern, other)
        self._check_outputs(checked)
        if problems := self._problems:
            raise ModelError(problems)
        named = [(self._inputs[past], self._outputs[present]) for past, present in self._names.items()]
        is_ours = PROPERTY in model.metadata_props
        made = [Pair(past, present, _growth(past, present), is_ours) for past, present in named]
        self.by_past = {each.past: each for each in made}
        self.by_present = {each.present: each for each in made}
        lengths = {self._inputs.get(each.name + LENGTH): each for each in made if each.grows is not None}
        self.by_length = {value: pair for value, pair in lengths.items() if value is not None and _is_length(value)}

    def only_appends(self, node: ir.Node) -> Pair | None:
        """The pair of a node that joins past rows and new ones only for the output: what is appended needs no join."""
        if (node.domain, node.op_type) != ("", "Concat") or node.outputs[0].uses():
            return None
        pair = self.by_present.get(node.outputs[0])
        return None if pair is None or pair.grows is None else pair

    def appended_by(self, node: ir.Node) -> frozenset[int]:
        """Which outputs of a node only say what is appended to a state: nothing reads them."""
        if not self.by_present:
            return frozenset()
        pairs = {at: self.by_present.get(each) for at, each in enumerate(node.outputs) if not each.uses()}
        return frozenset(at for at, pair in pairs.items() if pair is not None and pair.grows is not None)

    def _match(self, pattern: str, other: str) -> None:
        field, stars = f"states.{pattern}", pattern.count("*")
        if stars != other.count("*"):
            self._problems.append(
                Problem("has another number of '*' than the name of the input", code="states", field=field, got=other)
            )
            return
        found = _matches(pattern, self._inputs)
        if not found:
            allowed, hint = listing(self._inputs), suggestion(pattern, self._inputs)
            message = "no input of the model has this name"
            self._problems.append(Problem(message, code="unknown-array", field=field, allowed=allowed, hint=hint))
            return
        for name, texts in found.items():
            self._add(name, _filled(other, texts), field)

    def _add(self, name: str, output: str, field: str) -> None:
        """Adds a pair, or a problem."""
        if output not in self._outputs:
            message, hint = "the model has no output of this name", suggestion(output, self._outputs)
            self._problems.append(
                Problem(message, name, field, output, listing(self._outputs), hint, code="unknown-array")
            )
        elif name in self._values:
            self._problems.append(
                Problem("cannot be a state and have a value", code="conflict", field=f"values.{name}", node=name)
            )
        elif self._names.setdefault(name, output) != output:
            got = f"{self._names[name]}, {output}"
            self._problems.append(
                Problem("the input belongs to two outputs", code="duplicate", field=field, node=name, got=got)
            )

    def _check_outputs(self, states: Mapping[str, str]) -> None:
        """Finds outputs that belong to two inputs, or that have the name of a pattern and belong to none."""
        first: dict[str, str] = {}
        for name, output in self._names.items():
            if first.setdefault(output, name) != name:
                message, got = "the output belongs to two inputs", f"{first[output]}, {name}"
                self._problems.append(Problem(message, code="duplicate", field=f"states.{name}", node=output, got=got))
        left = {output: pattern for pattern, other in states.items() for output in _matches(other, self._outputs)}
        for output, pattern in left.items() if not self._problems else ():
            if output not in first:
                message, field = "no input of the model is the past of this output", f"states.{pattern}"
                self._problems.append(Problem(message, code="states", field=field, node=output, got=states[pattern]))


def _written(model: ir.Model) -> Mapping[str, str]:
    """The pairs in a model's metadata."""
    text = model.metadata_props.get(PROPERTY)
    if text is None:
        return {}
    try:
        found: Mapping[str, str] = json.loads(text)
    except ValueError:
        raise ModelError("is not JSON", code="model", field=PROPERTY, got=text) from None
    return found


def _checked(states: object) -> Mapping[str, str]:
    if not isinstance(states, Mapping) or not all(isinstance(each, str) for pair in states.items() for each in pair):
        hint = 'such as {"past_key_values.*": "present.*"}'
        message = f"must be a mapping from names of inputs to names of outputs, or '{AUTO}', '{PADDED}'"
        raise ModelError(message, code="kind", field="states", got=states, hint=hint)
    return states


def _matches(pattern: str, names: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """The names of a pattern, each with the texts in the places of `*`."""
    form = re.compile("(.*)".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    found = {name: form.fullmatch(name) for name in names}
    return {name: match.groups() for name, match in found.items() if match is not None}


def _filled(pattern: str, texts: Sequence[str]) -> str:
    """A pattern with texts in the places of `*`."""
    first, *parts = pattern.split("*")
    return first + "".join(text + part for text, part in zip(texts, parts, strict=True))


def _initial(array: Array) -> Any:
    """What a state holds at first, as one number where all elements have the same bits."""
    array = np.ascontiguousarray(array.astype(np.uint8) if array.dtype == bool else array).reshape(array.shape or (1,))
    bits = array.reshape(-1, 1).view(np.uint8)
    return array.flat[0].item() if (bits == bits[0]).all() else array


def _is_length(value: ir.Value) -> bool:
    shape = () if value.shape is None else tuple(value.shape)
    return value.dtype is ir.DataType.UINT32 and shape == (1,)


def _growth(past: ir.Value, present: ir.Value) -> Growth | None:
    """How the output is the input and new rows; None where it is something else."""
    found = growth(present)
    return found if found is not None and found.past is past else None
