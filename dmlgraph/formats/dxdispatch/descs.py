"""Operator descs of a model → an operator class and its fields."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dmlgraph.base.errors import OperatorError, Problem, listing, nearest, suggestion
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.formats.dxdispatch.names import MEMBERS, data_type, enumeration_name, enumerator, operator_class
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.operators.declaration.fields import Kind
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.struct import FieldMember

TENSOR_MEMBERS = (
    *("DataType", "Flags", "DimensionCount", "Sizes", "Strides"),
    *("TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment"),
)
UNKNOWN_MEMBER = "is not known here"
TENSOR_FLAGS = ("NONE", "OWNED_BY_DML")
_INFINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
# Keys beside the members where a desc has no `Desc` object.
_BESIDE = ("Type", "type", "executionFlags", "dmlCompileType", "bindings")


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorDesc:
    """A DML_OPERATOR_DESC: `inputs` and `outputs` are tensor descs by field (None: a null pointer)."""

    operator: type[Operator]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    attributes: Mapping[str, Any]
    prefix: str  # of the members' paths in the tree: "desc.", or "" if they are next to the type


def read_operator(tree: Tree) -> OperatorDesc:
    """The operator that an object describes: `{"type": …, "desc": {…}}`, or with the members next to the type.

    Raises:
        OperatorError: every problem found; fields are paths in the object.
    """
    _check_object(tree)
    kind = first_of(tree, "type", "Type")
    if kind is None:
        raise OperatorError("must be given", code="missing", field="type", hint='such as "DML_OPERATOR_GEMM"')
    with at(kind):
        operator = operator_class(tree.value[kind].plain)
    path = first_of(tree, "Desc", "desc") or ""
    with at(path):
        fields = _members(tree.value[path] if path else tree, operator, nested=bool(path), fused=False)
    return OperatorDesc(
        operator,
        {field: fields.get(field) for field in operator.input_fields},
        {field: fields.get(field) for field in operator.output_fields},
        {field: fields[field] for field in operator.attribute_fields if field in fields},
        f"{path}." if path else "",
    )


def first_of(tree: Tree, *keys: str) -> str | None:
    """The first of the keys that an object has."""
    return next((key for key in keys if key in tree.value), None)


def at(path: object) -> Report:
    """Puts `path` in front of the fields of problems raised inside."""
    return Report(OperatorError, field=str(path))


def _members(tree: Tree, operator: type[Operator], *, nested: bool, fused: bool) -> dict[str, Any]:
    """The values of the operator's fields; a fused activation has no tensors."""
    _check_object(tree)
    fields: dict[str, Any] = {}
    problems = _unknown(tree, operator, () if nested else _BESIDE)
    misspelt = {nearest(problem.field or "", [member.name for member in operator.members]) for problem in problems}
    for member in operator.fields.values():
        if fused and member.role is not None:
            continue
        item = tree.value.get(member.name)
        if item is None or (item.value is None and member.optional):
            if not member.optional and member.name not in misspelt:
                problems.append(Problem("must be given", code="missing", field=member.name))
            continue
        try:
            with at(member.name):
                fields[member.field] = _READERS.get(member.kind, _plain)(item, operator, member)
        except OperatorError as error:
            problems += error.problems
    problems += _scalars(tree, operator, fields)
    problems += _counts(tree, operator, fields)
    if problems:
        raise OperatorError(problems)
    return fields


def _check_object(tree: Tree) -> None:
    if not isinstance(tree.value, dict):
        raise OperatorError("must be an object", code="kind", got=tree.plain, hint="such as {…}")


def _unknown(tree: Tree, operator: type[Operator], beside: Iterable[str]) -> list[Problem]:
    known = [member.name for member in operator.members]
    return [
        Problem(UNKNOWN_MEMBER, code="unknown-field", field=key, allowed=listing(known), hint=suggestion(key, known))
        for key in tree.value
        if key not in (*known, *beside)
    ]


def _counts(tree: Tree, operator: type[Operator], fields: Mapping[str, Any]) -> list[Problem]:
    """The problems of counts: they may be left out, or must be the lengths of their arrays."""
    return [
        Problem(
            f"must be the length of {array.name}",
            code="count",
            field=member.name,
            got=count.plain,
            allowed=str(len(found)),
        )
        for member in operator.members
        if member.counts is not None and (count := tree.value.get(member.name)) is not None
        for array in [operator.fields[member.counts]]
        if (found := fields.get(member.counts)) is not None and count.plain != len(found)
    ]


def _scalars(tree: Tree, operator: type[Operator], fields: dict[str, Any]) -> list[Problem]:
    """Replaces scalars written as a union, `{"Float32": 2.5}`, by the number (float16: by its bits); returns
    problems."""
    problems = []
    for member in operator.fields.values():
        dtype = fields.get(member.typed_by or "")
        if member.field not in fields or not isinstance(fields[member.field], dict) or dtype is None:
            continue
        name = "UInt16" if dtype is DataType.FLOAT16 else str(dtype).title().replace("Ui", "UI")
        inner = tree.value[member.name].value.get(name)
        if inner is None:
            got = fields[member.field]
            problems.append(
                Problem(
                    f"a {dtype} is in another member of the union",
                    code="conflict",
                    field=member.name,
                    got=got,
                    allowed=f'{{"{name}": …}}',
                )
            )
            del fields[member.field]
        else:
            fields[member.field] = {"bits": inner.plain} if dtype is DataType.FLOAT16 else number(inner)
    return problems


def number(tree: Tree) -> Any:
    """A number; infinities and NaN are text, in any case."""
    if isinstance(tree.value, str) and tree.value.lower() in _INFINITE:
        return _INFINITE[tree.value.lower()]
    return tree.plain


def read_tensor(tree: Tree) -> TensorDesc:
    """A DML_TENSOR_DESC: `{"DataType": …, "Sizes": […]}`, or that as the `Desc` of a `Type`.

    Only the extent from the sizes and strides counts: a larger TotalTensorSizeInBytes is allowed.

    Raises:
        OperatorError: every problem found; fields are paths in the object.
    """
    _check_object(tree)
    if "Type" in tree.value:
        with at("Type"):
            enumerator(tree.value["Type"].plain, "DML_TENSOR_TYPE", ["BUFFER"])
    if "Desc" in tree.value:
        with at("Desc"):
            return _buffer_tensor(tree.value["Desc"])
    return _buffer_tensor(tree)


def _buffer_tensor(tree: Tree) -> TensorDesc:
    _check_object(tree)
    problems = [
        Problem("must be given", code="missing", field=name) for name in ("DataType", "Sizes") if name not in tree.value
    ]
    problems += [
        Problem(
            UNKNOWN_MEMBER,
            code="unknown-field",
            field=key,
            allowed=listing(TENSOR_MEMBERS),
            hint=suggestion(key, TENSOR_MEMBERS),
        )
        for key in tree.value
        if key not in (*TENSOR_MEMBERS, "Type")
    ]
    if problems:
        raise OperatorError(problems)
    plain = tree.plain
    dtype, named = DataType.UINT8, [""]
    with Report(OperatorError) as report:
        with report.at(field="DataType"):
            dtype = data_type(plain["DataType"])
        with report.at(field="Flags"):
            named = [enumerator(each, "DML_TENSOR_FLAG", TENSOR_FLAGS) for each in _listed(plain.get("Flags", []))]
        with report.at(place=_of_member):
            desc = TensorDesc(
                dtype=dtype,
                sizes=plain["Sizes"],
                strides=plain.get("Strides") or None,  # the runner turns an empty list into a null pointer
                owned="OWNED_BY_DML" in named,
            )
    count, total = plain.get("DimensionCount", desc.rank), plain.get("TotalTensorSizeInBytes", 0)
    if count != desc.rank:
        raise OperatorError(
            "must be the length of Sizes", code="count", field="DimensionCount", got=count, allowed=str(desc.rank)
        )
    if not isinstance(total, int) or (total and total < desc.total_bytes):
        raise OperatorError(
            "is less than the sizes and strides need",
            code="sizes",
            field="TotalTensorSizeInBytes",
            got=total,
            allowed=f"{desc.total_bytes} or more",
        )
    return desc


def _of_member(problem: Problem) -> Problem:
    """A problem of a description, with the member's name as its field."""
    if not problem.field:
        return problem
    return dataclasses.replace(problem, field=".".join(MEMBERS.get(part, part) for part in problem.field.split(".")))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _list_of(read: Callable[[Tree], Any]) -> Callable[[Tree, type[Operator], FieldMember], Any]:
    """A reader of arrays whose items `read` reads."""

    def reader(tree: Tree, operator: type[Operator], member: FieldMember) -> list[Any]:  # noqa: ARG001
        if not isinstance(tree.value, list):
            raise OperatorError("must be a list", code="kind", got=tree.plain)
        items = []
        with Report(OperatorError) as report:
            for index, item in enumerate(tree.value):
                with report.at(field=str(index)):
                    items.append(read(item))
        return items

    return reader


def _enumerator(tree: Tree, operator: type[Operator], member: FieldMember) -> str:
    enumeration = operator.enumeration(member.field)
    return enumerator(tree.plain, enumeration_name(enumeration), enumeration.__members__).lower()


def _struct(names: Mapping[str, str]) -> Callable[[Tree], dict[str, Any]]:
    """A reader of a small struct of numbers with required members: member → key."""

    def read(tree: Tree) -> dict[str, Any]:
        _check_object(tree)
        missing = [Problem("must be given", code="missing", field=name) for name in names if name not in tree.value]
        if missing:
            raise OperatorError(missing)
        return {key: number(tree.value[name]) for name, key in names.items()}

    return read


_scale_bias = _struct({"Scale": "scale", "Bias": "bias"})
_size = _struct({"Width": "width", "Height": "height"})


def _activation(tree: Tree) -> dict[str, Any]:
    """A fused activation: `{"Type": "ACTIVATION_ELU", "Alpha": 0.5}`, with its members in a `Desc` or not."""
    _check_object(tree)
    kind = first_of(tree, "Type", "type")
    if kind is None:
        raise OperatorError("must be given", code="missing", field="Type", hint='such as "ACTIVATION_RELU"')
    with at(kind):
        operator = operator_class(tree.value[kind].plain)
    path = first_of(tree, "Desc", "desc") or ""
    with at(path):
        fields = _members(tree.value[path] if path else tree, operator, nested=bool(path), fused=True)
    return {"op": operator.name} | fields


def _plain(tree: Tree, operator: type[Operator], member: FieldMember) -> Any:  # noqa: ARG001
    return tree.plain


_READERS: dict[Kind, Callable[[Tree, type[Operator], FieldMember], Any]] = {
    Kind.TENSOR: lambda tree, _, __: read_tensor(tree),
    Kind.TENSORS: _list_of(read_tensor),
    Kind.FLOAT: lambda tree, _, __: number(tree),
    Kind.ENUM: _enumerator,
    Kind.DATA_TYPE: lambda tree, _, __: data_type(tree.plain),
    Kind.SCALAR: lambda tree, _, __: number(tree),
    Kind.UINTS: _list_of(lambda tree: tree.plain),
    Kind.INTS: _list_of(lambda tree: tree.plain),
    Kind.FLOATS: _list_of(number),
    Kind.SCALE_BIAS: lambda tree, _, __: _scale_bias(tree),
    Kind.SIZE_2D: lambda tree, _, __: list(_size(tree).values()),
    Kind.OPERATOR: lambda tree, _, __: _activation(tree),
    Kind.OPERATORS: _list_of(_activation),
}
