"""Expressions over dims: numbers that follow the sizes of a graph.

    "heads * depth"        1 / sqrt(depth)        ceil(length / 16) * 16

A graph keeps an expression as it was written, and computes it again when its dims change.  Whole numbers and fractions
are exact: `/` gives a fraction, and `sqrt` of a square its root.  `log`, `exp` and other roots are float64.

`+ - * / // % **` and the sign have the precedence of Python; `min max ceil floor sqrt log exp` are functions, `pi` is a
number unless a dim has that name.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import numbers
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from dmlgraph.base.errors import GraphError, Problem, listing, shorten, suggestion

DECLARED = "dims are declared with the graph"
NOT_A_DIM = "is not a dim of the graph"
_TIMES = re.compile("[0-9]+([x×][0-9]+)+")  # 4x4
MOST_TERMS = 500  # names and numbers in an expression
MOST_CHARACTERS = 16 * MOST_TERMS
MOST_DEPTH = 60  # operands of operators, signs and calls, and parentheses, inside one another
MOST_DIGITS = 400  # of a number that is written out
MOST_BITS = 4096  # of a whole number on the way to a result

Number = int | Fraction | float
T = TypeVar("T")


def _root(x: Number) -> Number:
    """The square root, exact for squares of whole numbers and fractions."""
    if isinstance(x, float) or x < 0:
        return math.sqrt(x)
    x = Fraction(x)
    root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
    return root if root * root == x else math.sqrt(x)


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, float) or isinstance(exponent, float) or exponent.denominator != 1:
        result = float(base) ** float(exponent)
        if isinstance(result, complex):
            raise ValueError("the base is negative")
        return float(result)
    if _bits(base) > 1 and abs(exponent.numerator) * _bits(base) > MOST_BITS:
        raise OverflowError
    return Fraction(base) ** exponent.numerator


def _quotient(x: Number, y: Number) -> Number:
    return x / y if isinstance(x, float) or isinstance(y, float) else Fraction(x) / Fraction(y)


def _bits(x: Number) -> int:
    return 0 if isinstance(x, float) else max(Fraction(x).numerator.bit_length(), Fraction(x).denominator.bit_length())


@dataclasses.dataclass(frozen=True, slots=True)
class _Infix:
    """An operator between two expressions; one that binds more tightly has a higher precedence."""

    precedence: int
    compute: Callable[[Any, Any], Number]


_NO_OPERAND = 0  # the precedence of a dim whose name is not a word
_SIGN = 3  # the precedence of −x: below `**`, above `*`
_ATOM = 5
_INFIX: Mapping[str, _Infix] = {
    "+": _Infix(1, operator.add),
    "-": _Infix(1, operator.sub),
    "*": _Infix(2, operator.mul),
    "/": _Infix(2, _quotient),
    "//": _Infix(2, operator.floordiv),
    "%": _Infix(2, operator.mod),
    "**": _Infix(4, _power),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Function:
    """A function of at least and at most so many arguments."""

    least: int
    most: int
    compute: Callable[..., Number]


_FUNCTIONS: Mapping[str, _Function] = {
    "min": _Function(2, MOST_TERMS, min),
    "max": _Function(2, MOST_TERMS, max),
    "ceil": _Function(1, 1, math.ceil),
    "floor": _Function(1, 1, math.floor),
    "sqrt": _Function(1, 1, _root),
    "log": _Function(1, 1, math.log),
    "exp": _Function(1, 1, math.exp),
}
CONSTANTS = {"pi": math.pi}
NEGATIVE = "negative"  # what the sign − does to one operand
_COMPUTE: Mapping[str, Callable[..., Number]] = {
    **{sign: infix.compute for sign, infix in _INFIX.items()},
    **{name: function.compute for name, function in _FUNCTIONS.items()},
    NEGATIVE: operator.neg,
}


def compute(name: str, operands: list[Number]) -> Number:
    """What an operator, a function or the sign makes of numbers."""
    return _exact(_COMPUTE[name](*operands))


class _Call(NamedTuple):
    """An operator, function or sign over so many values before it."""

    name: str
    operands: int


_Step = Number | str | _Call  # of an expression in postfix notation: a number, a name, or what is done with those


def _both_ways(sign: str) -> tuple[Callable[[Any, object], Any], Callable[[Any, object], Any]]:
    """The methods of an operator and of its mirror image."""
    return lambda self, other: _or_refused(self, sign, other), lambda self, other: _or_refused(other, sign, self)


@dataclasses.dataclass(frozen=True, slots=True)
class Expression:
    """A number computed from dims.  Made by `Graph.dim`, by arithmetic on what that gives, or by `parse`.

    Attributes:
        text: how it is written.
        precedence: that of its outermost operator.
        steps: how it is computed, in postfix notation.
        terms: how many names and numbers it has.
        depth: how deep its parts are nested when its text is read.
        names: the names in it.
    """

    text: str
    precedence: int = dataclasses.field(compare=False)
    steps: tuple[_Step, ...] = dataclasses.field(compare=False, repr=False)
    terms: int = dataclasses.field(compare=False, default=1)
    depth: int = dataclasses.field(compare=False, default=1)
    names: tuple[str, ...] = dataclasses.field(compare=False, default=())

    __array_ufunc__ = None  # so that NumPy's numbers leave the operators to this class

    def __str__(self) -> str:
        return self.text

    @property
    def is_literal(self) -> bool:
        """Whether it is one number, written out: `4`, `-0.5`."""
        return self.terms == 1 and not self.names and "(" not in self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return name_of if self.names == (self.text,) else parse, (self.text,)

    __add__, __radd__ = _both_ways("+")
    __sub__, __rsub__ = _both_ways("-")
    __mul__, __rmul__ = _both_ways("*")
    __truediv__, __rtruediv__ = _both_ways("/")
    __floordiv__, __rfloordiv__ = _both_ways("//")
    __mod__, __rmod__ = _both_ways("%")
    __pow__, __rpow__ = _both_ways("**")

    def __neg__(self) -> Expression:
        return _short(_negative(self))

    def __pos__(self) -> Expression:
        return self

    def __ceil__(self) -> Expression:
        return _short(_call("ceil", [self]))

    def __floor__(self) -> Expression:
        return _short(_call("floor", [self]))

    def __bool__(self) -> bool:
        raise TypeError("the truth of an expression over dims is not known before the graph has its dims")

    def value(self, dims: Mapping[str, int]) -> int | float:
        """Its value: an int where it is whole, else a float64.

        Raises:
            GraphError: a name is not a dim, or it has no finite value; the problems have no field yet.
        """
        unknown = [name for name in self.names if name not in dims and name not in CONSTANTS]
        if unknown:
            raise GraphError(unknown_dim(name, dims) for name in unknown)
        try:
            result = self.folded(
                lambda leaf: leaf if not isinstance(leaf, str) else dims[leaf] if leaf in dims else CONSTANTS[leaf],
                compute,
            )
            return int(result) if result == math.floor(result) else float(result)
        except ZeroDivisionError:
            raise GraphError("divides by zero", code="expression", got=self.with_sizes(dims)) from None
        except OverflowError:
            raise GraphError("is too large a number", code="expression", got=self.with_sizes(dims)) from None
        except ValueError:
            raise GraphError(
                "is not a real number: a root or logarithm of a number that has none",
                code="expression",
                got=self.with_sizes(dims),
            ) from None

    def replaced(self, values: Mapping[str, Expression]) -> Expression:
        """The expression with others in place of names.

        Raises:
            GraphError: it becomes too long, or an expression cannot be an operand; the problem has no field yet.
        """
        if values.keys().isdisjoint(self.names):
            return self

        def leaf(step: Number | str) -> Expression:
            if isinstance(step, str):
                return values[step] if step in values else name_of(step)
            return number_of(step)

        return self.folded(leaf, lambda name, parts: _short(_applied(name, parts)))

    def folded(self, leaf: Callable[[Number | str], T], apply: Callable[[str, list[T]], T]) -> T:
        """What `leaf` makes of names and numbers, and `apply` of a call's name and of what its operands gave."""
        stack: list[T] = []
        for step in self.steps:
            if isinstance(step, _Call):
                parts = stack[-step.operands :]
                stack[-step.operands :] = [apply(step.name, parts)]
            else:
                stack.append(leaf(step))
        return stack[0]

    def with_sizes(self, dims: Mapping[str, int]) -> str:
        """The text with the sizes of the names in it, for messages."""
        sizes = ", ".join(f"{name} = {dims[name]}" for name in dict.fromkeys(self.names) if name in dims)
        return f"{shorten(self.text)}{' with ' if sizes else ''}{sizes}"


Size = int | str | Expression  # a whole number of a node, as a caller may give it
Real = float | str | Expression  # any number of a node
numbers.Number.register(Expression)  # so that tensors may be given as expressions, like numbers


def name_of(dim: str) -> Expression:
    """The expression that is a dim; one whose name is not a word can stand alone only."""
    return Expression(dim, _ATOM if _WORD.fullmatch(dim) else _NO_OPERAND, (dim,), names=(dim,))


def number_of(number: Number) -> Expression:
    """The expression that is a number, written out.

    Raises:
        GraphError: it has too many digits.
    """
    if isinstance(number, int) and abs(number) >= 10**MOST_DIGITS:
        raise GraphError("a number has too many digits", code="expression", allowed=f"at most {MOST_DIGITS} digits")
    text = str(number)
    return Expression(text, _SIGN if text.startswith("-") else _ATOM, (number,))


def _operand(given: object) -> Expression | None:
    """A number or expression as an expression; None for anything else."""
    if isinstance(given, Expression):
        return given
    if isinstance(expression := getattr(given, "expression", None), Expression):  # of a `Sized`
        return expression
    if isinstance(given, numbers.Integral) and not isinstance(given, bool):
        return number_of(int(given))
    if isinstance(given, numbers.Real) and not isinstance(given, bool):
        try:
            number = float(given)
        except OverflowError:
            raise GraphError("is too large a number", code="expression", got=given) from None
        return number_of(number) if math.isfinite(number) else None
    return None


def _or_refused(left: object, sign: str, right: object) -> Any:
    """`left sign right`; NotImplemented where one of them is neither a number nor an expression."""
    one, other = _operand(left), _operand(right)
    return NotImplemented if one is None or other is None else _short(_joined(one, sign, other))


def _joined(one: Expression, sign: str, other: Expression) -> Expression:
    infix = _INFIX[sign]
    # Python's rule: `**` is right-associative and binds more tightly than a sign on its left, not on its right.
    power = sign == "**"
    left, depth_left = _within(one, infix.precedence + power)
    right, depth_right = _within(other, _SIGN if power else infix.precedence + 1)
    depth = max(depth_left, depth_right + 1)
    return _made(_Call(sign, 2), [one, other], f"{left} {sign} {right}", infix.precedence, depth)


def _negative(inner: Expression) -> Expression:
    text, depth = _within(inner, _SIGN)
    return _made(_Call(NEGATIVE, 1), [inner], f"-{text}", _SIGN, depth + 1)


def _call(name: str, arguments: list[Expression]) -> Expression:
    text = f"{name}({', '.join(each.text for each in arguments)})"
    depth = 1 + max(each.depth for each in arguments)
    return _made(_Call(name, len(arguments)), arguments, text, _ATOM, depth)


def _applied(name: str, parts: list[Expression]) -> Expression:
    """What a call of a postfix notation makes of its operands."""
    if name in _INFIX:
        return _joined(parts[0], name, parts[1])
    return _negative(parts[0]) if name == NEGATIVE else _call(name, parts)


def _within(inner: Expression, precedence: int) -> tuple[str, int]:
    """The text of an operand, in parentheses where it would bind less tightly; and its depth."""
    if inner.precedence >= precedence:
        return inner.text, inner.depth
    return f"({inner.text})", inner.depth + 1


def _made(call: _Call, parts: list[Expression], text: str, precedence: int, depth: int) -> Expression:
    """An expression of others, with the limits of `parse`, except that of its text's length.

    Raises:
        GraphError: it is beyond them, or a part cannot be one.
    """
    for part in parts:
        if part.precedence == _NO_OPERAND:
            hint = "give the dim a name of letters, digits and '_'"
            raise GraphError("a dim of this name cannot be computed with", code="name", got=part.text, hint=hint)
    terms = sum(part.terms for part in parts)
    if terms > MOST_TERMS:
        raise _too_long()
    if depth > MOST_DEPTH:
        raise GraphError(f"is nested more than {MOST_DEPTH} deep", code="expression", got=text)
    steps = (*itertools.chain.from_iterable(part.steps for part in parts), call)
    names = tuple(itertools.chain.from_iterable(part.names for part in parts))
    return Expression(text, precedence, steps, terms, depth, names)


def _short(made: Expression) -> Expression:
    """The expression, if its text can be read."""
    if len(made.text) > MOST_CHARACTERS:
        raise _too_long()
    return made


def _too_long() -> GraphError:
    allowed = f"at most {MOST_TERMS} terms and {MOST_CHARACTERS} characters"
    return GraphError("is too long an expression", code="expression", allowed=allowed)


def _exact(number: Number) -> Number:
    """A fraction that is whole as an int; refuses numbers that only waste memory, and floats that are not finite."""
    if isinstance(number, float):
        if not math.isfinite(number):
            raise OverflowError
        return number
    if _bits(number) > MOST_BITS:
        raise OverflowError
    return number.numerator if number.denominator == 1 else number


# Reading.

_NUMBER_AND_NAME = r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)"
_TOKEN = re.compile(rf"\s*(?:{_NUMBER_AND_NAME}|(?P<sign>//|\*\*|[-+*/%(),]))")
_WORDS = re.compile(_NUMBER_AND_NAME)
_WORD = re.compile(r"[^\W\d]\w*")


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Expression:
    """The expression in a text.

    Raises:
        GraphError: it cannot be read; the problem says what was found where.
    """
    return _Parser(text).read()


def names_in(text: str) -> set[str]:
    """Every word of a text that may be the name of a dim, even if the text cannot be read as an expression."""
    return {text, *(match["name"] for match in _WORDS.finditer(text) if match["name"])}


class _Parser:
    """Reads by precedence climbing."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth, self.deepest = text, 0, 0, 0
        self.kind: str | None = None  # number, name, sign; None at the end
        self.token = ""
        self.start = 0
        if len(text) > MOST_CHARACTERS:
            raise self._error("it is too long")
        self._next()

    def read(self) -> Expression:
        result = self._expression(1)
        if self.kind is not None:
            raise self._error(f"'{self.token}' is not expected here")
        return dataclasses.replace(result, text=self.text.strip(), depth=self.deepest)

    def _expression(self, precedence: int) -> Expression:
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        if self.depth > MOST_DEPTH:
            raise self._error(f"it is nested more than {MOST_DEPTH} deep")
        left = self._operand()
        while self.kind == "sign" and self.token in _INFIX and _INFIX[self.token].precedence >= precedence:
            sign = self.token
            self._next()
            right = self._expression(_SIGN if sign == "**" else _INFIX[sign].precedence + 1)
            left = _joined(left, sign, right)
        self.depth -= 1
        return left

    def _operand(self) -> Expression:
        kind, token, start = self.kind, self.token, self.start
        if kind is None:
            raise self._error("it ends where a number or name is expected")
        self._next()
        if kind == "number":
            return self._number(token, start)
        if kind == "name":
            return self._called(token, start) if self.token == "(" else name_of(token)
        if token == "(":
            inner = self._expression(1)
            self._expect(")")
            return inner
        if token in "+-":
            inner = self._expression(_SIGN)
            return _negative(inner) if token == "-" else inner
        raise self._error(f"'{token}' is not expected here", start)

    def _number(self, token: str, start: int) -> Expression:
        if len(token) > MOST_DIGITS:
            raise self._error("a number has too many digits", start)
        if token.isdecimal():
            return number_of(int(token))
        number = float(token)
        if not math.isfinite(number):
            raise self._error("a number is too large", start)
        return number_of(number)

    def _called(self, name: str, start: int) -> Expression:
        function = _FUNCTIONS.get(name)
        if function is None:
            known = suggestion(name, _FUNCTIONS) or f"there are {listing(_FUNCTIONS)}"
            raise self._error(f"'{name}' is not a function; {known}", start)
        self._next()
        arguments = [self._expression(1)]
        while self.token == ",":
            self._next()
            arguments.append(self._expression(1))
        self._expect(")")
        if not function.least <= len(arguments) <= function.most:
            takes = "one number" if function.most == 1 else "two or more numbers"
            raise self._error(f"{name} takes {takes}", start)
        return _call(name, arguments)

    def _expect(self, sign: str) -> None:
        if self.token != sign:
            found = f"not '{self.token}'" if self.kind else "not the end"
            raise self._error(f"'{sign}' is expected, {found}")
        self._next()

    def _next(self) -> None:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            rest = self.text[self.at :]
            self.kind, self.token = None, ""
            self.start = self.at + len(rest) - len(rest.lstrip())
            if rest.strip():
                raise self._error(f"'{rest.strip()[0]}' is not expected here")
            return
        self.kind, self.token = str(match.lastgroup), str(match[match.lastgroup or 0])
        self.start, self.at = match.start(match.lastgroup or 0), match.end()

    def _error(self, what: str, at: int | None = None) -> GraphError:
        position = (self.start if at is None else at) + 1
        return GraphError(
            f"cannot be read: {what}, at character {position}",
            code="expression",
            got=self.text,
            hint='such as "heads * depth" or "1 / sqrt(depth)"',
        )


def unknown_dim(name: str, dims: Mapping[str, int], hint: str | None = None) -> Problem:
    """The problem of a name, or of a text in place of a number, that is not a dim; without a field."""
    allowed = f"a number{', ' if dims else ''}{listing(dims)}"
    declared = DECLARED if not name.isidentifier() else f"{DECLARED}, as in dims={{{name!r}: 1}}"
    if _TIMES.fullmatch(name):
        declared = f"write a list: [{', '.join(re.findall('[0-9]+', name))}]"
    hint = hint or suggestion(name, dims) or declared
    return Problem(NOT_A_DIM, None, None, name, allowed, hint, code="unknown-dim")
