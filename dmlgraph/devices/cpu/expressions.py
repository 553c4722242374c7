"""Expressions: what is computed for one element, written with operators; and their instructions.

    (x - mean).convert(DataType.FLOAT64).apply("SQRT")

Every instruction rounds its result to its type.  So a float16 operator that rounds only once is one instruction, or
converts to float32 and back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dmlgraph._native import cpu_kernels
from dmlgraph.base.tensor import DataType
from dmlgraph.devices.cpu.nodes import Instruction


class Expression:
    """An element's number: an operand, or the result of an instruction on others."""

    dtype: DataType

    def __init__(self, dtype: DataType) -> None:
        self.dtype = dtype

    def __add__(self, other: Expression) -> Result:
        return apply("ADD", self, other)

    def __sub__(self, other: Expression) -> Result:
        return apply("SUBTRACT", self, other)

    def __mul__(self, other: Expression) -> Result:
        return apply("MULTIPLY", self, other)

    def __truediv__(self, other: Expression) -> Result:
        return apply("DIVIDE", self, other)

    def __neg__(self) -> Result:
        return self.apply("NEGATE")

    def apply(self, opcode: str, *immediates: float, result: DataType | None = None) -> Result:
        """The opcode of this one operand."""
        return apply(opcode, self, result=result, immediates=immediates)

    def convert(self, dtype: DataType) -> Expression:
        return self if self.dtype is dtype else self.apply("CONVERT", result=dtype)

    def linear(self, factor: float, addend: float = 0.0) -> Result:
        """The float32 or float16 expression · factor + addend."""
        return self.apply("LINEAR", factor, addend)

    def equals(self, other: Expression) -> Result:
        return apply("EQUAL", self, other, result=DataType.UINT8)

    def is_less(self, other: Expression) -> Result:
        return apply("LESS", self, other, result=DataType.UINT8)

    def is_at_most(self, other: Expression) -> Result:
        return apply("LESS_OR_EQUAL", self, other, result=DataType.UINT8)


class Operand(Expression):
    """The node's input with this port."""

    def __init__(self, port: int, dtype: DataType) -> None:
        super().__init__(dtype)
        self.port = port


class Result(Expression):
    """The result of an opcode."""

    def __init__(
        self,
        opcode: str,
        operands: tuple[Expression, ...],
        operand_type: DataType,
        dtype: DataType,
        immediates: tuple[float, ...],
    ) -> None:
        super().__init__(dtype)
        self.opcode = opcode
        self.operands = operands
        self.operand_type = operand_type
        self.immediates = immediates


def apply(
    opcode: str,
    *operands: Expression,
    of: DataType | None = None,
    result: DataType | None = None,
    immediates: tuple[float, ...] = (),
) -> Result:
    """The opcode's result.  The operand type `of` is the last operand's if it is left out, the result type `of`."""
    of = of or operands[-1].dtype
    return Result(opcode, operands, of, result or of, immediates)


def choose(condition: Expression, one: Expression, other: Expression) -> Result:
    """`one` where the uint8 condition is not 0."""
    return apply("IF", condition, one, other)


def sequence(dtype: DataType, start: int, delta: int) -> Result:
    """start + delta · index, from the bits of both."""
    return apply("SEQUENCE", of=dtype, immediates=(start, delta))


def _port(expression: Any) -> int:
    port: int = expression.port
    return port


def instructions(*roots: Expression, port: Callable[[Any], int] = _port) -> tuple[Instruction, ...] | None:
    """The instructions that compute the roots, each after its operands; the last one's result is the last root.

    `port` gives the input port of an expression that is not an instruction's result.  An empty tuple means that the
    root is an input.  Returns None if a kernel is missing for some data types.
    """
    written: list[Instruction] = []
    places: dict[int, int] = {}

    def place(expression: Expression) -> int:
        if not isinstance(expression, Result):
            return port(expression)
        found = places.get(id(expression))
        if found is None:
            operands = tuple([place(each) for each in expression.operands])
            found = places[id(expression)] = ~len(written)
            written.append(
                Instruction(
                    expression.opcode, operands, expression.operand_type, expression.dtype, expression.immediates
                )
            )
        return found

    for root in roots:
        place(root)
    return tuple(written) if all(_exists(each[0], each[2], each[3]) for each in written) else None


def leaves(expression: Expression) -> list[Expression]:
    """The operands that are not an instruction's result, in the order in which instructions read them."""
    found: dict[int, Expression] = {}
    seen: set[int] = set()

    def visit(each: Expression) -> None:
        if not isinstance(each, Result):
            found.setdefault(id(each), each)
        elif id(each) not in seen:
            seen.add(id(each))
            for operand in each.operands:
                visit(operand)

    visit(expression)
    return list(found.values())


@functools.cache
def _exists(opcode: str, operand: DataType, result: DataType) -> bool:
    return cpu_kernels.has_kernel(opcode, operand.value, result.value, "baseline")  # all levels have the same kernels
