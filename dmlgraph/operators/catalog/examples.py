"""A small graph file for every operator: `dmlgraph operators NAME` shows it, and the tests run it.

A class gives the fields of its node in `example`, as a graph file has them.  In place of a tensor stand its sizes, or
its whole description: with `data` it is a constant, else an input of the field's name.  A tensor that must be given,
and is not among them, has the sizes SIZES.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from dmlgraph.base.levels import NEWEST
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.declaration.fields import Missing
from dmlgraph.operators.declaration.operator import Operator

SIZES = "[1, 1, 2, 3]"
_WIDTH = 100  # a longer node has one field per line


def example(operator: type[Operator]) -> str:
    """The text of a graph file that uses the operator."""
    given = example_fields(operator)
    sections: dict[str, list[str]] = {"inputs": [], "constants": []}
    fields = [f"op: {operator.name}"]
    for field in operator.input_fields:
        text = given.pop(field, None if operator.fields[field].optional else SIZES)
        if text is None:
            continue
        is_array = operator.input_arrays[field]
        tensors = {f"{field}_{index}": each for index, each in enumerate(_parts(text[1:-1]))} if is_array else {}
        for name, desc in (tensors or {field: text}).items():
            whole = desc if desc.startswith("{") else f"{{dtype: {_dtype(operator, field)}, sizes: {desc}}}"
            sections["constants" if "data: " in whole else "inputs"].append(f"  {name}: {whole}")
        fields.append(f"{field}: [{', '.join(tensors)}]" if is_array else f"{field}: {field}")
    outputs = ", ".join(_outputs(operator, given))
    fields += [f"{name}: {text}" for name, text in given.items()]
    node = [f"  y: {{{', '.join(fields)}}}"]
    if len(node[0]) > _WIDTH:
        node = ["  y:", *(f"    {field}" for field in fields)]
    before = [line for section, lines in sections.items() if lines for line in (f"{section}:", *lines)]
    shown = f"{{{outputs}}}" if ": " in outputs else f"[{outputs}]"
    return "\n".join(["dmlgraph: 1", f"name: {operator.name}", *before, "nodes:", *node, f"outputs: {shown}", ""])


def example_fields(operator: type[Operator]) -> dict[str, str]:
    """The fields that an operator's example gives, each as text."""
    return {name: text for name, _, text in (each.partition(": ") for each in _parts(operator.example))}


def is_plain(operator: type[Operator]) -> bool:
    """Whether an operator reads tensors of the same sizes: its example gives none."""
    return bool(operator.input_fields) and example_fields(operator).keys().isdisjoint(operator.input_fields)


def _dtype(operator: type[Operator], field: str) -> DataType:
    """float32 if it is allowed, else the first data type that is."""
    row = operator.support().rows(operator.fields[field].name, NEWEST)
    return next(dtype for dtype in DataType if row is not None and dtype in row.dtypes)


def _outputs(operator: type[Operator], given: dict[str, str]) -> Iterator[str]:
    """The outputs of the graph: the node's only one, or each by its name."""
    for field, is_array in operator.output_arrays.items():
        is_missing = operator.fields[field].missing is Missing.LEFT_OUT and field not in given
        if is_array:
            yield from (f"{field}_{index}: y.{field}.{index}" for index, _ in enumerate(_parts(given[field][1:-1])))
        elif not is_missing and given.get(field) != "false":
            yield "y" if len(operator.output_fields) == 1 else f"{field}: y.{field}"


def _parts(text: str) -> list[str]:
    """What stands between the commas that are in no brackets and no quotes."""
    plain = re.sub('"[^"]*"', lambda quoted: "_" * len(quoted[0]), text)
    depths = itertools.accumulate((each in "[{") - (each in "]}") for each in plain)
    cuts = [at for at, (each, depth) in enumerate(zip(plain, depths, strict=True)) if each == "," and depth == 0]
    return [text[begin + 1 : end].strip() for begin, end in itertools.pairwise([-1, *cuts, len(text)])] if text else []
