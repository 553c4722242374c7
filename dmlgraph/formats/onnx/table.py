"""The table of operators: how ONNX's are read, and how dmlgraph's are written.

    @imports(since=20, how="activation_gelu")
    def Gelu(node: Node, X: Tensor) -> Tensor: ...

    @exports("gather_elements", how="GatherElements")
    def gather_elements(node: Emitter) -> Symbol: ...

    @applies("exp", how="Exp")
    def exp(node: Emitter, operator: Operator, x: Symbol) -> Symbol: ...

The modules named in `FAMILIES` have the rows.

A rule for reading is a function with the signature of ONNX's operator.  Inputs are given by position: None for one that
is left out, but in `*inputs` only those that are there.  Attributes are given by name, with the types that the schema
says.  What was an attribute before it became an input, such as `axes`, is given in the input's place.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import onnx_ir as ir

from dmlgraph.formats.onnx.message import elements
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import Refusal

if TYPE_CHECKING:
    from dmlgraph.formats.onnx.export import emitter
    from dmlgraph.formats.onnx.export.emitter import Emitter, Function

Rule = TypeVar("Rule", bound=Callable[..., Any])

OLDEST = 1  # the first opset that is read
MICROSOFT = "com.microsoft"
FAMILIES = (
    "one_to_one",
    "element_wise",
    "fills",
    "bits",
    "powers",
    "activations",
    "matrix",
    "windows",
    "regions",
    "reduction",
    "shapes",
    "indexing",
    "resampling",
    "sampling",
    "boxes",
    "spectral",
    "normalization",
    "recurrent",
    "quantization",
    "control",
    "experimental",
    "microsoft",
    "microsoft_normalization",
    "microsoft_attention",
    "microsoft_grouped",
    "microsoft_quantized",
    "attention",
    "gradients",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Covered:
    """An operator of ONNX that is read, in a range of opsets.

    Attributes:
        domain: "" for ONNX's own operators.
        operator: its name.
        since, until: the first and the last opset; `until` is None where the row holds to the newest.
        how: what it becomes: functions of `dmlgraph`, or a phrase.
    """

    domain: str
    operator: str
    since: int
    until: int | None
    how: str

    @property
    def title(self) -> str:
        """The name with the domain."""
        return f"{self.domain}.{self.operator}" if self.domain else self.operator

    @property
    def opsets(self) -> str:
        """The range as text."""
        return f"{self.since}+" if self.until is None else f"{self.since}–{self.until}"


@dataclasses.dataclass(frozen=True, slots=True)
class Row(Covered):
    """One with a rule, which adds its nodes to the graph."""

    rule: Callable[[Node], Result]


@dataclasses.dataclass(frozen=True, slots=True)
class Exported:
    """An operator of dmlgraph: its name, and the operators of ONNX that it becomes, or why it cannot be exported."""

    operator: str
    how: str


@dataclasses.dataclass(frozen=True, slots=True)
class Written(Exported):
    """One that can be exported.

    Attributes:
        rule: adds its nodes to the model.
        function: for a function of one tensor, which may be fused into another operator: adds its nodes.
    """

    rule: Callable[[Emitter], emitter.Result]
    function: Function | None = None


_ROWS: dict[tuple[str, str], list[Row]] = {}
_WRITTEN: dict[str, Written] = {}
# Operators of dmlgraph that cannot be exported, and the reasons.
REFUSED = {
    "random_generator": "ONNX's random numbers are not those of Philox",
    "roi_align_grad": "ONNX has no gradient of RoiAlign",
}


def imports(
    *operators: str, how: str, since: int = OLDEST, until: int | None = None, domain: str = ""
) -> Callable[[Rule], Rule]:
    """Enters a rule for reading into the table: a function that `binding.bind` takes.

    It is for the operator of its name, without a number at the end such as that of `Clip_6`, unless others are given.

    A rule raises ByDefinition for a form of the operator that ONNX's definition by other operators serves better.
    """

    def enter(rule: Rule) -> Rule:
        bound = bind(rule)
        for operator in operators or (rule.__name__.partition("_")[0],):
            row = Row(domain, operator, 1 if domain else since, until, how, bound)
            _ROWS.setdefault((domain, operator), []).append(row)
        return rule

    return enter


def exports(*operators: str, how: str) -> Callable[[Rule], Rule]:
    """Enters a rule for writing operators into the table."""

    def enter(rule: Rule) -> Rule:
        for operator in operators:
            _WRITTEN[operator] = Written(operator, how, rule)
        return rule

    return enter


def applies(*operators: str, how: str) -> Callable[[Function], Function]:
    """Enters a function of one tensor that is written; `input` and `scale_bias` are read before it."""

    def enter(function: Function) -> Function:
        def rule(node: Emitter) -> emitter.Symbol:
            return node.converted(function(node, node.operator, node.scaled()), node.dtype)

        for operator in operators:
            _WRITTEN[operator] = Written(operator, how, rule, function)
        return function

    return enter


@functools.cache
def _load() -> None:
    for family in FAMILIES:
        importlib.import_module(f"dmlgraph.formats.onnx.{family}")


@functools.cache
def rows() -> dict[tuple[str, str], list[Row]]:
    """The rows of what is read by domain and operator, each operator's by opset."""
    _load()
    return {key: sorted(each, key=lambda row: row.since) for key, each in sorted(_ROWS.items())}


@functools.cache
def written() -> dict[str, Written]:
    """The rows of what is written, by operator."""
    _load()
    return dict(sorted(_WRITTEN.items()))


def find(domain: str, operator: str, opset: int) -> Row | None:
    """The row of an operator in an opset."""
    for row in rows().get((domain, operator), ()):
        if row.since <= opset and (row.until is None or opset <= row.until):
            return row
    return None


def all_rows() -> Iterator[Row]:
    """All rows of what is read, ONNX's own operators first, by name."""
    for each in rows().values():
        yield from each


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
