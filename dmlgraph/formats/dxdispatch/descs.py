"""Operator descs of a model ↔ an operator class and its fields."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dmlgraph.base.errors import OperatorError, Problem, listing, nearest, suggestion
from dmlgraph.base.report import Report
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.formats.dxdispatch.names import (
    MEMBERS,
    data_type,
    enumeration_name,
    enumerator,
    operator_class,
    operator_type,
)
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.operators.declaration.enumeration import Enumeration
from dmlgraph.operators.declaration.fields import Kind, ScaleBias
from dmlgraph.operators.declaration.fused import FusedActivation
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
    operator, fields, prefix = _described(tree, ("type", "Type"), "DML_OPERATOR_GEMM", fused=False)
    return OperatorDesc(
        operator,
        {field: fields.get(field) for field in operator.input_fields},
        {field: fields.get(field) for field in operator.output_fields},
        {field: fields[field] for field in operator.attribute_fields if field in fields},
        prefix,
    )


def _described(
    tree: Tree, kinds: tuple[str, str], example: str, *, fused: bool
) -> tuple[type[Operator], dict[str, Any], str]:
    """The operator and its fields, and the path of its members in front of their names."""
    _check_object(tree)
    kind = first_of(tree, *kinds)
    if kind is None:
        raise OperatorError("must be given", code="missing", field=kinds[0], hint=f'such as "{example}"')
    with at(kind):
        operator = operator_class(tree.value[kind].plain)
    path = first_of(tree, "Desc", "desc") or ""
    with at(path):
        fields = _members(tree.value[path] if path else tree, operator, nested=bool(path), fused=fused)
    return operator, fields, f"{path}." if path else ""


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
    names = [member.name for member in operator.members]
    problems = _unknown(tree, names, () if nested else _BESIDE)
    misspelt = {nearest(problem.field or "", names) for problem in problems}
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
                fields[member.field] = _FORMS.get(member.kind, _PLAIN).read(item, operator, member)
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


def _unknown(tree: Tree, known: Collection[str], beside: Iterable[str]) -> list[Problem]:
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
    problems += _unknown(tree, TENSOR_MEMBERS, ["Type"])
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
    operator, fields, _ = _described(tree, ("Type", "type"), "ACTIVATION_RELU", fused=True)
    return {"op": operator.name} | fields


def members(operator: Operator | FusedActivation) -> dict[str, Any]:
    """The members of an operator's struct in order, without null pointers (which include a fused operator's tensors).

    Raises:
        OperatorError: the format cannot express the payload of a NaN.
    """
    found = {}
    for member, value in operator.struct_values():
        if value is not None:
            with at(member.name):
                found[member.name] = _FORMS.get(member.kind, _PLAIN).write(value)
    return found


def tensor(desc: TensorDesc) -> dict[str, Any]:
    """A DML_TENSOR_DESC without the members that follow from others."""
    found: dict[str, Any] = {"DataType": desc.dtype.name, "Sizes": list(desc.sizes)}
    if desc.strides is not None:
        found["Strides"] = list(desc.strides)
    return found | ({"Flags": "OWNED_BY_DML"} if desc.owned else {})


def plain_number(scalar: Scalar) -> int | float | str:
    """The shortest number that the runner reads as this one; infinities and NaN as text.

    The runner rounds twice: text to double, double to the type.
    """
    value = scalar.value
    if not scalar.dtype.is_float:
        return int(value)
    if not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    short = float(str(value))
    return (
        short
        if type(value)(np.float32(short) if scalar.dtype is DataType.FLOAT16 else short) == value
        else float(value)
    )


def _float(value: float) -> int | float | str:
    return plain_number(Scalar.of(value, DataType.FLOAT32))


def _write_enumerator(value: Enumeration) -> str:
    return f"{enumeration_name(type(value))}_{value.name}"


def _scalar(scalar: Scalar) -> Any:
    """A DML_SCALAR_UNION: a finite number, or else the union with the member of the type."""
    number = plain_number(scalar)
    if not isinstance(number, str):
        return number
    if scalar.dtype is DataType.FLOAT16:
        return {"UInt16": scalar.bits}
    if math.isnan(float(number)) and scalar != Scalar.of(math.nan, scalar.dtype):
        raise OperatorError(
            "the format has only one NaN, and this one has other bits", code="does-not-fit", got=str(scalar)
        )
    return {scalar.dtype.name.capitalize(): number}


def _write_scale_bias(both: ScaleBias) -> dict[str, Any]:
    return {"Scale": _float(both.scale), "Bias": _float(both.bias)}


def _write_activation(activation: FusedActivation) -> dict[str, Any]:
    return {"Type": operator_type(activation.operator)} | members(activation)


class _Form(NamedTuple):
    """How the fields of a kind are in a model: what reads them, and what writes them."""

    read: Callable[[Tree, type[Operator], FieldMember], Any]
    write: Callable[[Any], Any]


_PLAIN = _Form(lambda tree, *_: tree.plain, lambda value: value)
_FORMS: dict[Kind, _Form] = {
    Kind.TENSOR: _Form(lambda tree, *_: read_tensor(tree), tensor),
    Kind.TENSORS: _Form(_list_of(read_tensor), lambda descs: [tensor(each) for each in descs]),
    Kind.FLOAT: _Form(lambda tree, *_: number(tree), _float),
    Kind.ENUM: _Form(_enumerator, _write_enumerator),
    Kind.DATA_TYPE: _Form(lambda tree, *_: data_type(tree.plain), lambda dtype: dtype.name),
    Kind.SCALAR: _Form(lambda tree, *_: number(tree), _scalar),
    Kind.UINTS: _Form(_list_of(lambda tree: tree.plain), list),
    Kind.INTS: _Form(_list_of(lambda tree: tree.plain), list),
    Kind.FLOATS: _Form(_list_of(number), lambda values: [_float(each) for each in values]),
    Kind.SCALE_BIAS: _Form(lambda tree, *_: _scale_bias(tree), _write_scale_bias),
    Kind.SIZE_2D: _Form(
        lambda tree, *_: list(_size(tree).values()), lambda size: dict(zip(("Width", "Height"), size, strict=True))
    ),
    Kind.OPERATOR: _Form(lambda tree, *_: _activation(tree), _write_activation),
    Kind.OPERATORS: _Form(_list_of(_activation), lambda activations: [_write_activation(each) for each in activations]),
}
