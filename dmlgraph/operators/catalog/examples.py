"""A small graph file for every operator: `dmlgraph operators NAME` shows it, and the tests run it.

A class gives its own in `example`: everything below the header; the operator's node is called `y`.  For operators of
plain tensors it is made here, from one input per tensor and `example_attributes`.
"""

from __future__ import annotations

from dmlgraph.base.levels import NEWEST
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.declaration.fields import Kind
from dmlgraph.operators.declaration.operator import Operator

SIZES = "[1, 1, 2, 3]"
_WIDTH = 100  # a longer node has one field per line


def example(operator: type[Operator]) -> str:
    """The text of a graph file that uses the operator."""
    body = operator.example.strip() or _of_plain_tensors(operator)
    return f"dmlgraph: 1\nname: {operator.name}\n{body}\n"


def _of_plain_tensors(operator: type[Operator]) -> str:
    inputs, fields = [], [f"op: {operator.name}"]
    for field in operator.input_fields:
        member = operator.fields[field]
        if member.kind is not Kind.TENSOR:
            raise NotImplementedError(f"{operator.name} has an array of tensors, and no `example`")
        row = None if member.optional else operator.support().rows(member.name, NEWEST)
        if row is not None:
            dtype = next(dtype for dtype in DataType if dtype in row.dtypes)  # float32 if it is allowed
            inputs.append(f"  {field}: {{dtype: {dtype}, sizes: {SIZES}}}")
            fields.append(f"{field}: {field}")
    fields += [f"{name}: {value}" for name, value in operator.example_attributes.items()]
    node = [f"  y: {{{', '.join(fields)}}}"]
    if len(node[0]) > _WIDTH:
        node = ["  y:", *(f"    {field}" for field in fields)]
    return "\n".join(["inputs:", *inputs, "nodes:", *node, "outputs: [y]"])
