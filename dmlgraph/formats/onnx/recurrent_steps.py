"""GRU step by step, for `clip`, which DirectML's operator lacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.control import MOST_STEPS
from dmlgraph.formats.onnx.node import Maybe, Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value

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
