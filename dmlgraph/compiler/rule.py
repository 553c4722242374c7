"""Rules: their arguments, their results, and their description.

A rule is a function of a graph and one node.  It changes nothing, but returns a `Rewrite` (what replaces the node's
outputs: an expression of new operators over existing operands), or None (the pattern does not match).  It raises
`Declined` where the pattern matches, but …; the reason is kept for the user.  `demand`, `wanted`, `alone` and `through`
do that.

    @rule(Multiply, effect="bit-exact")
    def double(ir, node):
        '''x · 2 → x + x.'''
        ...
        return Rewrite.of(New(Add, {"a": x, "b": x}), "a sum is cheaper")

A rule is for classes of operators, or for those with a trait: `@rule(lambda kind: kind.commutative, …)`.  A class of
`later`, such as `later.QuantizeLinear`, imports no family: the rule runs only in graphs that have imported it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from dmlgraph.compiler.ir_node import Kind, Operand
from dmlgraph.graph.nodes import ConstantNode
from dmlgraph.operators.catalog.registry import OPERATORS
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.fill import FillValueConstant

if TYPE_CHECKING:
    from dmlgraph.compiler.ir import IrGraph
    from dmlgraph.compiler.ir_node import IrNode

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A constant that a rule makes; its data type and sizes are the array's.

    With `sizes` it is broadcast to these through zero strides, as in NumPy.
    """

    data: np.ndarray[Any, Any]
    sizes: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class New:
    """An operator that a rule makes: tensors by input field (lists for arrays), attributes, requests for outputs.

    `port` selects one of several outputs.
    """

    operator: type[Operator]
    tensors: Mapping[str, Tensor | list[Tensor] | None]
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    outputs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    port: int = 0

    @classmethod
    def like(
        cls,
        node: IrNode,
        tensors: Tensors,
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        port: int = 0,
        operator: type[Operator] | None = None,
    ) -> Self:
        """The operator of a node, or another one with its fields, with these tensors and attributes in place of its."""
        before = node.computation
        same: Tensors = {
            field: list(node.operands(field)) if is_array else node.operand(field)
            for field, is_array in before.input_arrays.items()
        }
        return cls(operator or type(before), same | tensors, {**before.attributes, **attributes}, outputs or {}, port)


@dataclasses.dataclass(frozen=True, slots=True)
class Viewed:
    """An operator that a rule makes, whose packed output is read with other sizes."""

    new: New
    sizes: tuple[int, ...]


Tensor = Operand | Constant | New | Viewed
Tensors = dict[str, Tensor | list[Tensor] | None]  # by input field


@dataclasses.dataclass(frozen=True, slots=True)
class Rewrite:
    """What replaces a node's outputs, by port, and why that is the same.

    Other outputs must have no readers.  `node` is the replaced node if it is not the one that the rule looks at.
    """

    values: Mapping[int, Tensor]
    why: str
    node: str | None = None

    @classmethod
    def of(cls, value: Tensor, why: str) -> Rewrite:
        """The rewrite of a node's only output."""
        return cls({0: value}, why)


class Declined(Exception):  # noqa: N818 - not an error
    """The pattern matches, but the rule does not apply: the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def demand(holds: object, why: str) -> None:
    """Raises Declined, for this reason, where something does not hold."""
    if not holds:
        raise Declined(why)


def wanted(found: T | None, why: str) -> T:
    """What was found; raises Declined, for this reason, where nothing was."""
    if found is None:
        raise Declined(why)
    return found


def alone(ir: IrGraph, operand: Operand, otherwise: str = "and would stay") -> None:
    """Raises Declined where something else reads a value, too; `otherwise` says what follows."""
    demand(ir.only_use(operand), f"'{operand.source.node}' has other readers, {otherwise}")


def through(ir: IrGraph, operand: Operand, before: Operand) -> Operand:
    """What a node reads, `before`, as `operand` reads the node's output; raises Declined where no strides do that."""
    found = ir.around(operand, ir.produced(operand), before)
    return wanted(found, f"it reads '{operand.source.node}' through other strides")


Outcome = Rewrite | None
Function = Callable[["IrGraph", "IrNode"], Outcome]

NUMBERS: tuple[Kind, ...] = (FillValueConstant, ConstantNode)  # what may be one number everywhere
Test = Callable[[type[Operator]], bool]
Anchor = Kind | Test


class _Later:
    """Classes of operators by name, each as a test of being this class."""

    _names = frozenset(name for _, name in OPERATORS.values())

    def __getattr__(self, name: str) -> Test:
        if name not in self._names:
            raise AttributeError(f"there is no operator {name}", name=name)
        return lambda kind: kind.__name__ == name


if TYPE_CHECKING:  # mypy checks the names, and that they are those of classes
    from dmlgraph import operators

    later = operators
else:
    later = _Later()


class Kinds:
    """Kinds of node: themselves, and the operators of which something is true."""

    def __init__(self, given: Iterable[Anchor]) -> None:
        self._given = frozenset(given)
        self._tests = tuple(each for each in self._given if not isinstance(each, type))
        self._known: dict[Kind, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._given)

    def __contains__(self, kind: Kind) -> bool:
        found = self._known.get(kind)
        if found is None:
            found = kind in self._given
            if issubclass(kind, Operator):
                found = found or any(test(kind) for test in self._tests)
            self._known[kind] = found
        return found

    def isdisjoint(self, kinds: Iterable[Kind]) -> bool:
        """Whether none of these kinds is one of them."""
        return not any(kind in self for kind in kinds)


class Differs(enum.Flag):
    """In what the results of a fused graph may differ from its source's; a rule's `effect` says it in words."""

    ROUNDED = enum.auto()  # a few ULP of the values that the replaced nodes write, and the signs of their zeros
    CANCELS = enum.auto()  # a few ULP of the values that they read: where terms cancel, no digit may be correct
    WIDENED = enum.auto()  # the steps of a float16 function may be rounded only to float32
    NAN = enum.auto()  # NaN may become something else


NOTHING = Differs(0)


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite of the nodes around one node.

    `after` and `needs` say where the rule returns None, so that it need not be called: most rules fit nowhere in most
    graphs.

    Attributes:
        name: the function's, as in `fuse=[…]`.
        anchors: the kinds of node it looks at; empty: every node.
        after: one of these kinds must produce something that the node reads; empty: any.
        needs: one of these kinds must be in the graph; empty: any.
        effect: its effect on the numbers, for people.
        differs: the same, for comparisons; NOTHING: every bit stays, except for payloads of NaN.
        default: whether it runs by default; a rule that does more than change rounding does not.
    """

    name: str
    anchors: Kinds
    effect: str
    function: Function
    default: bool
    after: Kinds
    needs: Kinds
    differs: Differs = NOTHING

    def may_fit(self, kinds: set[Kind]) -> bool:
        """Whether it may apply in a graph that has nodes of these kinds."""
        return all(not each or not each.isdisjoint(kinds) for each in (self.anchors, self.after, self.needs))

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (self.function.__doc__ or "").strip().splitlines()[0]


def rule(
    *anchors: Anchor,
    effect: str,
    differs: Differs = NOTHING,
    default: bool = True,
    after: Iterable[Anchor] = (),
    needs: Iterable[Anchor] = (),
) -> Callable[[Function], Rule]:
    """Turns a function into a Rule with its name and docstring."""

    def make(function: Function) -> Rule:
        return Rule(function.__name__, Kinds(anchors), effect, function, default, Kinds(after), Kinds(needs), differs)

    return make
