"""Checks a node against ONNX's schema of its operator: the number of inputs and outputs, types, attributes."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from dmlgraph.base.errors import listing, plural, suggestion
from dmlgraph.formats.onnx.definitions import schema
from dmlgraph.formats.onnx.forms import ANY, MOST, Shape, check_forms, shapes
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import MICROSOFT
from dmlgraph.formats.onnx.tensors import Tensor, TensorList, type_name

_STRING = np.dtype(object)  # stands for strings, which NumPy has several types for
_NAMED = frozenset(onnx.TensorProto.DataType.keys())


@dataclasses.dataclass(frozen=True, slots=True)
class Formal:
    """An input or output of an operator.

    Attributes:
        name: its name.
        kind: the name of its type; those of one kind have the same type.
        types: the allowed ones; None if other things than tensors are.
        is_optional: whether it may be left out.
        is_same: whether all that it stands for, if it stands for several, have the same type.
        shape: what its shape must be.
    """

    name: str
    kind: str
    types: frozenset[np.dtype[Any]] | None
    is_optional: bool
    is_same: bool
    shape: Shape = ANY


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What the schema of an operator says, in a form that is quick to read.

    Attributes:
        inputs: the last one may stand for several.
        counts: the least and the largest number of inputs, and of outputs.
        attributes: by name: the type, and whether it must be given.
    """

    inputs: tuple[Formal, ...]
    counts: tuple[tuple[int, int], tuple[int, int]]
    attributes: Mapping[str, tuple[ir.AttributeType, bool]]


# Written before ONNX had them, or instead: the operator and the opset whose schema they keep to.
_LATER = dict.fromkeys(("LayerNormalization", "SimplifiedLayerNormalization"), ("LayerNormalization", 17))


@functools.cache
def signature(domain: str, operator: str, opset: int) -> Signature | None:
    """The signature of an operator; None if ONNX does not know it, or no longer."""
    if domain == MICROSOFT:
        return _of_microsoft(operator)
    known = schema(domain, operator, opset) or schema(domain, *_LATER.get(operator, (operator, opset)))
    if known is None or known.deprecated:
        return None
    constraints = {each.type_param_str: each.allowed_type_strs for each in known.type_constraints}
    option = onnx.defs.OpSchema.FormalParameterOption
    inputs = tuple(
        Formal(
            each.name,
            each.type_str,
            _types(constraints.get(each.type_str, [each.type_str])),
            each.option != option.Single,
            each.option != option.Variadic or each.is_homogeneous,
            shapes(domain, operator).get(each.name, ANY),
        )
        for each in known.inputs
    )
    attributes = {name: (ir.AttributeType(each.type.value), each.required) for name, each in known.attributes.items()}
    least = known.min_input
    while least and known.inputs[least - 1].option == option.Optional:
        least -= 1  # onnx-ir leaves out "" at the end
    counts = (least, known.max_input), (known.min_output, known.max_output)
    return Signature(inputs, counts, attributes)


def _of_microsoft(operator: str) -> Signature | None:
    found = _microsoft().get(operator)
    if found is None:
        return None
    inputs = tuple(
        Formal(
            name,
            kind,
            _types(found["types"].get(kind, [kind])),
            option != "Single",
            option != "Variadic" or is_same,
            shapes(MICROSOFT, operator).get(name, ANY),
        )
        for name, kind, option, is_same in found["inputs"]
    )
    attributes = {name: (ir.AttributeType[kind], required) for name, (kind, required) in found["attributes"].items()}
    (least, most), (fewest, all_outputs) = found["counts"]
    return Signature(inputs, ((least, most), (fewest, all_outputs)), attributes)


@functools.cache
def _microsoft() -> Any:
    """ONNX Runtime's schemas, as tools/generate.py writes them."""
    file = resources.files("dmlgraph.formats.onnx").joinpath("microsoft_schemas.json")
    return json.loads(file.read_text(encoding="utf-8"))


def _types(names: Iterable[str]) -> frozenset[np.dtype[Any]] | None:
    """The types of `tensor(float)` and the like; None where one is not a tensor."""
    found = set()
    for name in names:
        inner = name.removeprefix("tensor(").removesuffix(")")
        if not name.startswith("tensor(") or inner.upper() not in _NAMED:
            return None
        number = onnx.TensorProto.DataType.Value(inner.upper())
        found.add(_STRING if inner == "string" else onnx.helper.tensor_dtype_to_np_dtype(number))
    return frozenset(found)


def check(known: Signature, node: Node, others: Collection[np.dtype[Any]] = ()) -> None:
    """Checks a node against the signature of its operator; `others` are types that are allowed everywhere.

    Raises:
        Refusal: the node breaks the schema.
    """
    inputs, outputs = node.inputs, len(node.outputs)
    for what, count, (least, most) in zip(("input", "output"), (len(inputs), outputs), known.counts, strict=True):
        if not least <= count <= most:
            allowed = f"{least}" if least == most else f"at least {least}" if count < least else f"at most {most}"
            raise Refusal(f"the node has {plural(count, what)}", code="count", allowed=allowed)
    _check_attributes(known, node.attributes)
    said = node.attributes.get("num_outputs")
    if said is not None and said.value != outputs:
        message = "differs from the number of outputs"
        raise Refusal(message, code="count", field=said.name, got=said.value, allowed=str(outputs))
    _check_inputs(known, inputs, others)
    if any(each.shape.form for each in known.inputs):
        check_forms([each.shape for each in known.inputs], inputs, [each.name for each in known.inputs])


def _check_attributes(known: Signature, given: Mapping[str, ir.Attr]) -> None:
    for name, attribute in given.items():
        expected = known.attributes.get(name)
        if expected is None:
            near = suggestion(name, known.attributes)
            allowed = listing(known.attributes) or "none"
            raise Refusal(
                "the operator has no such attribute", code="unknown-field", field=name, allowed=allowed, hint=near
            )
        if attribute.type is not expected[0]:
            got, allowed = (each.name.lower() for each in (attribute.type, expected[0]))
            raise Refusal("the attribute has another type", code="kind", field=name, got=got, allowed=allowed)
        texts = attribute.value if isinstance(attribute.value, (list, tuple)) else [attribute.value]
        if any(isinstance(each, bytes) for each in texts):
            raise Refusal("the attribute is not UTF-8 text", code="kind", field=name)
    for name, (_, is_required) in known.attributes.items():
        if is_required and name not in given:
            raise Refusal("an attribute is missing", code="missing", field=name)


def _check_inputs(known: Signature, inputs: Sequence[Tensor | None], others: Collection[np.dtype[Any]]) -> None:
    seen: dict[str, tuple[str, np.dtype[Any]]] = {}  # by kind: the first input of it, and its type
    for index, tensor in enumerate(inputs):
        formal = known.inputs[min(index, len(known.inputs) - 1)]
        field = formal.name if index < len(known.inputs) else f"{formal.name} {index}"
        if tensor is None:
            if not formal.is_optional:
                raise Refusal("an input is missing", code="missing", field=field)
            continue
        if isinstance(tensor, TensorList) and formal.types is not None:
            raise Refusal("a sequence of tensors is given", code="kind", field=field, allowed="a tensor")
        dtype = _STRING if tensor.is_text else tensor.dtype
        if formal.types is not None and dtype not in others:
            if dtype not in formal.types:
                allowed = listing(sorted(map(type_name, formal.types)))
                raise _other_type(field, dtype, allowed)
            first, same = seen.setdefault(formal.kind, (field, dtype)) if formal.is_same else (field, dtype)
            if dtype != same:
                raise _other_type(field, dtype, f"{type_name(same)}, as input {first}")
        _check_rank(formal, field, tensor)
    for formal in known.inputs[len(inputs) :]:
        if not formal.is_optional:
            raise Refusal("an input is missing", code="missing", field=formal.name)


def _other_type(field: str, dtype: np.dtype[Any], allowed: str) -> Refusal:
    return Refusal("the input has another type", code="dtype", field=field, got=type_name(dtype), allowed=allowed)


def _check_rank(formal: Formal, field: str, tensor: Tensor) -> None:
    least, most, _ = formal.shape
    if not least <= tensor.rank <= most:
        allowed = f"{least}" if least == most else f"{least} or more" if most == MOST else f"{least} to {most}"
        got = list(tensor.shape)
        raise Refusal("the input has another rank", code="rank", field=field, got=got, allowed=f"rank {allowed}")
