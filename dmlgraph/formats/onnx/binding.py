"""A rule is a function with the signature of ONNX's operator; here it becomes a function of a node.

    def Gemm(node: Node, A: Tensor, B: Tensor, C: Maybe = None, *, alpha: float = 1.0, transA: int = 0) -> Result: ...

Inputs are given by position: None for one that is left out, but in `*inputs` only those that are there.  Attributes are
given by name, with the types that the schema says.  What was an attribute before it became an input, such as `axes`, is
given in the input's place.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import onnx_ir as ir

from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.numbers import elements
from dmlgraph.formats.onnx.refusals import Refusal

T = TypeVar("T")


def bind(function: Callable[..., T]) -> Callable[[Node], T]:
    """The function of a node; its signature is read once.  Attributes that it does not name are not given.

    The bound function raises Refusal where an input or attribute is missing.  A schema refuses such a node before, but
    not all operators have one.
    """
    _, *parameters = inspect.signature(function).parameters.values()
    kind = inspect.Parameter
    places = {each.name: at for at, each in enumerate(parameters) if each.kind is kind.POSITIONAL_OR_KEYWORD}
    needed = [places[each.name] for each in parameters if each.name in places and each.annotation == "Tensor"]
    takes_all = any(each.kind is kind.VAR_POSITIONAL for each in parameters)
    takes_any = any(each.kind is kind.VAR_KEYWORD for each in parameters)
    names = {each.name: each.default for each in parameters if each.kind is kind.KEYWORD_ONLY}
    required = [name for name, default in names.items() if default is kind.empty]

    @functools.wraps(function)
    def rule(node: Node) -> T:
        inputs: list[Any] = node.inputs[: len(places)]
        attributes = {}
        for name, attribute in node.attributes.items():
            if attribute.value is None:
                continue
            at = places.get(name)
            if at is not None:
                inputs = [*inputs, *[None] * (at + 1 - len(inputs))]
                inputs[at] = value_of(attribute)
            elif takes_any or name in names:
                attributes[name] = value_of(attribute)
        for at in needed:
            node.there(at, inputs[at] if at < len(inputs) else None)
        for name in required:
            if name not in attributes:
                raise Refusal("an attribute is missing", code="missing", field=name)
        if takes_all:
            inputs = [*inputs, *(each for each in node.inputs[len(places) :] if each is not None)]
        return function(node, *inputs, **attributes)

    return rule


def value_of(attribute: ir.Attr) -> Any:
    """The value of an attribute: a number, text, a list of these, an array, or a graph."""
    value = attribute.value
    if attribute.type is ir.AttributeType.TENSOR:  # isinstance is slow with onnx-ir's protocols
        return elements(value)
    return list(value) if isinstance(value, tuple) else value
