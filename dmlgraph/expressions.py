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
import math
import numbers
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from dmlgraph.errors import GraphError, Problem, listing, shorten, suggestion

NOT_A_DIM = "is not a dim of the graph"
MOST_TERMS = 500  # names and numbers in an expression; nested calls and parentheses are fewer
MOST_BITS = 4096  # of a whole number on the way to a result

Number = int | Fraction | float


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
    if abs(exponent.numerator) * max(_bits(base), 1) > MOST_BITS:
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


@dataclasses.dataclass(frozen=True, slots=True)
class Expression:
    """A number computed from dims.  Made by `Graph.dim`, by arithmetic on what that gives, or by `parse`.

    Attributes:
        text: how it is written.
        precedence: that of its outermost operator.
        terms: how many names and numbers it has.
        compute: its value from the sizes of the dims by name.
        names: the names in it.
    """

    text: str
    precedence: int = dataclasses.field(compare=False)
    terms: int = dataclasses.field(compare=False)
    compute: Callable[[Mapping[str, int]], Number] = dataclasses.field(compare=False, repr=False)
    names: tuple[str, ...] = dataclasses.field(compare=False, default=())

    __array_ufunc__ = None  # so that NumPy's numbers leave the operators to this class

    def __str__(self) -> str:
        return self.text

    @property
    def is_literal(self) -> bool:
        """Whether it is one number, written out."""
        return self.terms == 1 and not self.names

    def __reduce__(self) -> tuple[Any, ...]:
        return parse, (self.text,)

    def __add__(self, other: object) -> Any:
        return _or_refused(self, "+", other)

    def __radd__(self, other: object) -> Any:
        return _or_refused(other, "+", self)

    def __sub__(self, other: object) -> Any:
        return _or_refused(self, "-", other)

    def __rsub__(self, other: object) -> Any:
        return _or_refused(other, "-", self)

    def __mul__(self, other: object) -> Any:
        return _or_refused(self, "*", other)

    def __rmul__(self, other: object) -> Any:
        return _or_refused(other, "*", self)

    def __truediv__(self, other: object) -> Any:
        return _or_refused(self, "/", other)

    def __rtruediv__(self, other: object) -> Any:
        return _or_refused(other, "/", self)

    def __floordiv__(self, other: object) -> Any:
        return _or_refused(self, "//", other)

    def __rfloordiv__(self, other: object) -> Any:
        return _or_refused(other, "//", self)

    def __mod__(self, other: object) -> Any:
        return _or_refused(self, "%", other)

    def __rmod__(self, other: object) -> Any:
        return _or_refused(other, "%", self)

    def __pow__(self, other: object) -> Any:
        return _or_refused(self, "**", other)

    def __rpow__(self, other: object) -> Any:
        return _or_refused(other, "**", self)

    def __neg__(self) -> Expression:
        return _negative(self)

    def __pos__(self) -> Expression:
        return self

    def __ceil__(self) -> Expression:
        return _call("ceil", [self])

    def __floor__(self) -> Expression:
        return _call("floor", [self])

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
            result = self.compute(dims)
            if isinstance(result, float) and not math.isfinite(result):
                raise OverflowError
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
        whole = result == math.floor(result)
        return int(result) if whole else float(result)

    def with_sizes(self, dims: Mapping[str, int]) -> str:
        """The text with the sizes of the names in it, for messages."""
        sizes = ", ".join(f"{name} = {dims[name]}" for name in dict.fromkeys(self.names) if name in dims)
        return f"{shorten(self.text)}{' with ' if sizes else ''}{sizes}"


Size = int | str | Expression  # a whole number of a node, as a caller may give it
Real = float | str | Expression  # any number of a node
numbers.Number.register(Expression)  # so that tensors may be given as expressions, like numbers


def name_of(dim: str) -> Expression:
    """The expression that is a dim."""

    def compute(dims: Mapping[str, int]) -> Number:
        return dims[dim] if dim in dims else CONSTANTS[dim]

    return Expression(dim, _ATOM, 1, compute, (dim,))


def _literal(number: Number) -> Expression:
    text = str(number)
    atom = Expression(text, _ATOM, 1, lambda _: number)
    return atom if not text.startswith("-") else dataclasses.replace(atom, precedence=_SIGN)


def _operand(given: object) -> Expression | None:
    """A number or expression as an expression; None for anything else."""
    if isinstance(given, Expression):
        return given
    if isinstance(given, numbers.Integral) and not isinstance(given, bool):
        return _literal(int(given))
    if isinstance(given, numbers.Real) and not isinstance(given, bool) and math.isfinite(given):
        return _literal(float(given))
    return None


def _or_refused(left: object, sign: str, right: object) -> Any:
    """`left sign right`; NotImplemented where one of them is neither a number nor an expression."""
    one, other = _operand(left), _operand(right)
    return NotImplemented if one is None or other is None else _joined(one, sign, other)


def _joined(one: Expression, sign: str, other: Expression) -> Expression:
    infix = _INFIX[sign]
    compute_one, compute_other = one.compute, other.compute
    # Python's rule: `**` is right-associative and binds more tightly than a sign on its left, not on its right.
    power = sign == "**"
    text_one = _within(one, infix.precedence + power)
    text_other = _within(other, _SIGN if power else infix.precedence + 1)

    def compute(dims: Mapping[str, int]) -> Number:
        return _exact(infix.compute(compute_one(dims), compute_other(dims)))

    return _limited(
        Expression(
            f"{text_one} {sign} {text_other}",
            infix.precedence,
            one.terms + other.terms,
            compute,
            one.names + other.names,
        )
    )


def _negative(inner: Expression) -> Expression:
    compute = inner.compute
    text = f"-{_within(inner, _SIGN)}"
    return Expression(text, _SIGN, inner.terms, lambda dims: -compute(dims), inner.names)


def _call(name: str, arguments: list[Expression]) -> Expression:
    function = _FUNCTIONS[name]
    computes = [each.compute for each in arguments]
    return _limited(
        Expression(
            f"{name}({', '.join(each.text for each in arguments)})",
            _ATOM,
            sum(each.terms for each in arguments),
            lambda dims: _exact(function.compute(*(compute(dims) for compute in computes))),
            tuple(each for argument in arguments for each in argument.names),
        )
    )


def _within(inner: Expression, precedence: int) -> str:
    """The text of an operand, in parentheses where it would bind less tightly."""
    return inner.text if inner.precedence >= precedence else f"({inner.text})"


def _exact(number: Number) -> Number:
    """A fraction that is whole as an int; refuses numbers that only waste memory."""
    if isinstance(number, Fraction) and number.denominator == 1:
        number = number.numerator
    if _bits(number) > MOST_BITS:
        raise OverflowError
    return number


def _limited(made: Expression) -> Expression:
    if made.terms > MOST_TERMS or len(made.text) > 16 * MOST_TERMS:
        raise GraphError("is too long an expression", code="expression", allowed=f"at most {MOST_TERMS} terms")
    return made


# Reading.

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)|(?P<sign>//|\*\*|[-+*/%(),]))"
)
MOST_DEPTH = 60  # parentheses, calls, signs and powers inside one another
MOST_DIGITS = 400


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Expression:
    """The expression in a text.

    Raises:
        GraphError: it cannot be read; the problem says what was found where.
    """
    return _Parser(text).read()


def names_in(text: str) -> set[str]:
    """Every word of a text that may be the name of a dim, even if the text cannot be read as an expression."""
    return {text, *(match["name"] for match in _tokens(text) if match["name"])}


def substituted(text: str, values: Mapping[str, float | str]) -> float | str:
    """A text with numbers or other expressions in place of names; a number where nothing is left to compute.

    Text that cannot be read is returned with the names replaced up to there, for its reader to refuse.
    """
    if text in values:
        return values[text]
    pieces, at = [], 0
    for match in _tokens(text):
        name, at = match["name"], match.end()
        is_function = text[at:].lstrip().startswith("(")
        given = match[0] if name not in values or is_function else _inserted(values[name])
        pieces.append(given if given == match[0] else match[0].removesuffix(name) + given)
    made = "".join(pieces) + text[at:]
    if made == text:
        return text
    try:
        expression = parse(made)
        number = made if expression.names else expression.value({})
    except GraphError:
        return made
    return number if isinstance(number, int) or expression.is_literal else made


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """The tokens of a text, up to the first part that is not a token."""
    match = _TOKEN.match(text)
    while match is not None:
        yield match
        match = _TOKEN.match(text, match.end())


def _inserted(value: float | str) -> str:
    """How a value is written as an operand of anything."""
    try:
        return _within(parse(value) if isinstance(value, str) else _literal(value), _ATOM)
    except GraphError:
        return f"({value})"


class _Parser:
    """Reads by precedence climbing."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.kind: str | None = None  # number, name, sign; None at the end
        self.token = ""
        self.start = 0
        if len(text) > 16 * MOST_TERMS:
            raise self._error("it is too long")
        self._next()

    def read(self) -> Expression:
        result = self._expression(1)
        if self.kind is not None:
            raise self._error(f"'{self.token}' is not expected here")
        return dataclasses.replace(result, text=self.text.strip())

    def _expression(self, precedence: int) -> Expression:
        self.depth += 1
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
            return _literal(int(token))
        number = float(token)
        if not math.isfinite(number):
            raise self._error("a number is too large", start)
        return _literal(number)

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
    hint = hint or suggestion(name, dims) or "dims are declared with the graph"
    return Problem(NOT_A_DIM, None, None, name, allowed, hint, code="unknown-dim")
