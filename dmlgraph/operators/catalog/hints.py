"""Hints for names that are not operators here, by their meaning elsewhere or by similar names."""

from __future__ import annotations

from collections.abc import Collection

from dmlgraph.base.errors import nearest
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.catalog.foreign_names import LIBRARIES, Entry, entries, plain, things
from dmlgraph.operators.catalog.foreign_names import OPERATORS as FOREIGN
from dmlgraph.operators.catalog.registry import OPERATORS, REGISTRY, full_name
from dmlgraph.operators.declaration.operator import Operator

_PREFIX = "activation_"
_NEAR = 0.75  # how similar a misspelled name is; names of operators are short, and 0.6 takes `any` for `tan`
_ENTRIES = {
    name: entry
    for name, entry in entries().items()
    if full_name(name) is None and _PREFIX + name not in OPERATORS  # these mean our own operator
}

_THINGS = things()

# Names of other libraries, without case and underscores, whose operator has a very different name here.
ELSEWHERE = {name: entry.operator for name, entry in _ENTRIES.items() if entry.operator}


def meant(name: str) -> Entry | None:
    """The operator that an unknown name means elsewhere, or is probably a misspelling of."""
    word = name.replace("::", ".").rpartition(".")[2]  # nn.ReLU, aten::relu
    short = word.lower().removeprefix("dml_operator_").removeprefix("element_wise_").removeprefix("elementwise_")
    own = full_name(short) or full_name(_PREFIX + short)
    if own is not None:
        return Entry(own)
    found = _ENTRIES.get(plain(short))
    if found is not None:
        return found
    near = nearest(short, OPERATORS, _NEAR)
    return None if near is None else Entry(near)


def tensor_hint(operator: type[Operator]) -> str | None:
    """What an operator's name means elsewhere for one tensor; None if nothing: `mean` along axes is `reduce`."""
    name = plain(operator.name)
    named = (
        entry for entry in FOREIGN if name in (plain(each) for library in LIBRARIES for each in entry.names(library))
    )
    meant = next((entry for entry in named if entry.operator == "reduce"), None)
    if meant is None:
        return None
    along = f"{_in_file(meant)}, in Python value.{operator.name}(axis)"
    return f"'{operator.name}' combines tensors element by element; along axes it is {along}"


def operator_hint(name: object) -> str:
    """What to write in a graph file instead of a name that is not an operator."""
    entry = meant(name) if isinstance(name, str) else None
    if entry is None:
        return "'dmlgraph operators' lists them"
    if not entry.operator:
        return f"DirectML has no such operator: {entry.instead}"
    return f"did you mean {_in_file(entry)}?"


def function_hint(name: str) -> str | None:
    """What to write in Python instead of `dg.NAME`; None if no name is similar."""
    entry = meant(name)
    if entry is None:
        return None
    if not entry.operator:
        return f"DirectML has no such operator: {entry.instead}"
    return f"did you mean {call(REGISTRY[entry.operator], **entry.fields)}{_more(entry)}?"


def call(operator: type[Operator], **fields: object) -> str:
    """A call of the operator's function in Python: its tensors and its required fields."""
    values = [] if operator.is_source() else list(operator.input_fields)
    tensors = [field for field in values if operator.fields[field].required]
    arrays = {member.field for member in operator.members if member.count is not None}
    shown = [f"[{field}…]" if field in arrays else field for field in tensors]
    required = [field for field in operator.attribute_fields if operator.fields[field].required]
    if operator.is_source():
        required = [*operator.output_keywords, *required]
    shown += [f"{field}={value!r}" for field, value in fields.items()]
    shown += [f"{field}=…" for field in required if field not in (*fields, "strides")]
    # Sources are methods of the graph, because they have no tensor that belongs to one.
    return f"{'graph' if operator.is_source() else 'dg'}.{operator.function_name()}({', '.join(shown)})"


def _in_file(entry: Entry) -> str:
    fields = ", ".join(f"{field}: {value}" for field, value in entry.fields.items())
    return f"'{entry.operator}'{f' with {fields}' if fields else ''}{_more(entry)}"


def _more(entry: Entry) -> str:
    return f", {entry.instead}" if entry.instead else ""


def attribute_hint(name: str, known: Collection[str], of: str = "dg") -> str | None:
    """What to write instead of `dg.NAME`, or of an attribute of a graph or value; None if no name is similar.

    Args:
        name: not an attribute of the package.
        known: the attributes that it has.
        of: what has them, as it is written.
    """
    if name in {str(dtype) for dtype in DataType}:
        return f"data types are written as text, as in dtype='{name}'"
    if name in _THINGS:
        return f"write {_THINGS[name]}" if _THINGS[name].startswith(("dg.", "graph.")) else _THINGS[name]
    others = [each for each in known if full_name(each.removesuffix("_")) is None or of != "dg"]
    near = nearest(name, others, _NEAR)
    if near is not None and plain(name) not in _ENTRIES and nearest(name, [near, *OPERATORS]) == near:
        return f"did you mean {of}.{near}?"
    return function_hint(name)
