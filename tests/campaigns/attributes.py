"""Every operator with random attributes: DirectML accepts what dmlgraph accepts, and the devices' results agree."""

from __future__ import annotations

import contextlib
import random
import re
from typing import Any

import numpy as np
from support.agreement import LIBRARY_LEVEL
from support.sketches import Dice, Sample, Sketch

import dmlgraph as dg
from campaigns.campaign import Campaign
from campaigns.special_values import compare
from dmlgraph.devices.directml import install
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.fields import Kind

FLOATS = (0.0, 1.0, -1.0, 0.5, 2.0, -0.75, 3.0, 1e-3, 4.0)
EXTREMES = (
    float("nan"),
    float("inf"),
    -float("inf"),
    -0.0,
    65504.0,
    1e5,
    -1e5,
    1e-8,
    2.0**-23,
    1e-40,
    1e20,
    3e38,
    -3e38,
)
COUNTS = (0, 1, 1, 2, 3, 4, 5)
OPERATORS = [each for each in REGISTRY.values() if each.support().introduced <= LIBRARY_LEVEL]


class Attributes(Sketch):
    """A sketch of an operator's example with another data type and other attributes."""

    def __init__(self, seed: int) -> None:
        super().__init__(Dice(random.Random(seed)), str(LIBRARY_LEVEL))
        self.tame = True
        self.extreme = self.chance(1, 3)

    def number_of(self) -> float:
        return self.pick(EXTREMES if self.extreme and self.chance(1, 2) else FLOATS)

    def value(self, operator: type[Operator], field: str, given: Any) -> Any:
        """Another value for an attribute, as functions take it."""
        kind = operator.fields[field].kind
        if kind is Kind.FLOAT:
            return self.number_of()
        if kind is Kind.FLOATS:
            return [self.number_of() if self.chance(1, 2) else each for each in given]
        if kind is Kind.ENUM:
            return self.pick(list(operator.enumeration(field)))
        if kind is Kind.BOOL:
            return self.chance(1, 2)
        if kind is Kind.UINT:
            return self.pick(COUNTS)
        if kind in (Kind.UINTS, Kind.SIZE_2D):
            return [self.pick(COUNTS) if self.chance(1, 2) else each for each in given]
        if kind is Kind.SCALE_BIAS:
            return {"scale": self.number_of(), "bias": self.number_of()}
        return given

    def draw(self) -> tuple[dg.Value | None, ...]:
        """The example's nodes with drawn attributes; raises a DmlGraphError if these are not legal."""
        operator = self.pick(OPERATORS)
        text = example(operator)
        main = re.search(r"dtype: (\w+)", text)
        assert main is not None
        row = operator.support().rows(operator.members[0].name, self.level)
        dtypes = [str(each) for each in dg.DataType if each.bits > 4 and (row is None or row.takes(each))]
        dtype = self.pick((main[1], main[1], *dtypes))
        others = set(re.findall(rf"^  (\w+): {{dtype: (?!{main[1]}\b)", text, flags=re.M))  # indices, lengths
        text = text.replace(f"dtype: {main[1]}", f"dtype: {dtype}")
        given = dg.loads(text)
        values: dict[str, tuple[dg.Value | None, ...]] = {}
        for node in given.nodes:
            if isinstance(node, InputNode):
                indices = node.name in others and not node.desc.dtype.is_float
                data = self.array(node.desc.dtype, node.desc.sizes)
                if indices:
                    # Lengths and training steps are at least 1, indices at most 1.
                    least = node.name in ("sequence_lengths", "training_step")
                    data = self.random().integers(least, 2, node.desc.sizes).astype(node.desc.dtype.numpy)
                values[node.name] = (self.input(node.desc.dtype, node.desc.sizes, data),)
            elif isinstance(node, ConstantNode):
                values[node.name] = (self.constant(node.data),)
            elif isinstance(node, OperatorNode) and type(node.operator) is operator:
                values[node.name] = self.changed(given, node, values)
            elif isinstance(node, OperatorNode):
                values[node.name] = self.repeat(given, node, values)
        return values[next(reversed(values))]

    def changed(self, graph: dg.Graph, node: OperatorNode, values: dict[str, Any]) -> tuple[dg.Value | None, ...]:
        """The node with random values for some of its attributes."""
        operator = type(node.operator)
        attributes = dict(node.attributes)
        for field in operator.attribute_fields:
            if self.chance(1, 3):
                attributes[field] = self.value(operator, field, getattr(node.operator, field))
        bound = {port: values[source][from_port] for source, from_port, port in graph.producers(node.name)}
        tensors: dict[str, Any] = {}
        port = 0
        for field in operator.input_fields:
            current = getattr(node.operator, field)
            count = len(current) if isinstance(current, tuple) else 1
            found = [bound.get(index) for index in range(port, port + count)]
            tensors[field] = found if isinstance(current, tuple) else found[0]
            port += count
        return self.graph.add(operator, tensors, attributes, node.outputs)


def case(seed: int) -> Sample | None:
    """The graph of a seed; None if it is not legal."""
    sketch = Attributes(seed)
    with contextlib.suppress(dg.DmlGraphError):
        for index, value in enumerate(sketch.draw()):
            if value is not None:  # an output that is left out
                sketch.graph.output(f"y{index}", value)
        sketch.graph.lower()
        return Sample(sketch.graph, sketch.data, tame=not sketch.extreme)
    return None


def one_case(seed: int) -> str | None:
    sample = case(seed)
    if sample is None:
        return None
    install.install()
    with np.errstate(all="ignore"):
        problems = list(compare(sample))
    return f"{'; '.join(problems)}\n{sample!r}\n{sample.inputs!r}" if problems else None


CAMPAIGN = Campaign("attributes", "every operator with random attributes, legal ones and extremes", one_case)
