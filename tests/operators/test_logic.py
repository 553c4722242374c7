"""ELEMENT_WISE_LOGICAL_AND, LOGICAL_OR, LOGICAL_XOR, LOGICAL_NOT: every number except zero counts as true; 1 or 0."""

from __future__ import annotations

from support.operators.checks import BinaryTests, UnaryTests
from support.operators.harness import case, each_dtype

TYPES = ("uint8", "uint32")
A = [[0, 0, 1], [1, 2, 0]]
B = [[0, 3, 0], [1, 4, 0]]
PAIRS = [[0, 0, 1, 1], [0, 1, 0, 1]]
OTHERS = [[0, 2, 255, 128, 2], [7, 4, 0, 127, 1]]  # the bits of 2 and 4, 128 and 127, 2 and 1 differ


class LogicTests(BinaryTests):
    levels = "1.0: 4D U32 | 2.0: 4D U32 U8 | 3.0: 1-8D U32 U8"


class TestLogicalAnd(LogicTests):
    operator = "logical_and"
    sample = case("two dimensions", [A, B], [[0, 0, 0], [1, 1, 0]], "uint8")
    cases = (
        *each_dtype(TYPES, "truth table", PAIRS, [0, 0, 0, 1]),
        *each_dtype(TYPES, "not bit by bit", OTHERS, [0, 1, 0, 1, 1]),
        case("high bits count", [[2**31, 2**31], [1, 0]], [1, 0], "uint32"),
    )


class TestLogicalOr(LogicTests):
    operator = "logical_or"
    sample = case("two dimensions", [A, B], [[0, 1, 1], [1, 1, 0]], "uint8")
    cases = (
        *each_dtype(TYPES, "truth table", PAIRS, [0, 1, 1, 1]),
        *each_dtype(TYPES, "not bit by bit", OTHERS, [1, 1, 1, 1, 1]),
        case("high bits count", [[2**31, 0], [0, 0]], [1, 0], "uint32"),
    )


class TestLogicalXor(LogicTests):
    operator = "logical_xor"
    sample = case("two dimensions", [A, B], [[0, 1, 1], [0, 0, 0]], "uint8")
    cases = (
        *each_dtype(TYPES, "truth table", PAIRS, [0, 1, 1, 0]),
        *each_dtype(TYPES, "not bit by bit", OTHERS, [1, 0, 1, 0, 0]),
        case("high bits count", [[2**31, 2**31], [1, 0]], [0, 1], "uint32"),
    )


class TestLogicalNot(UnaryTests):
    operator = "logical_not"
    levels = "1.0: 4D U32 | 2.0: 4D U32 U8 | 3.0: 1-8D U32 U8"
    sample = case("two dimensions", [A], [[1, 1, 0], [0, 0, 1]], "uint8")
    cases = (
        *each_dtype(TYPES, "truth table", [[0, 1]], [1, 0]),
        *each_dtype(TYPES, "not bit by bit", [[2, 255, 254]], [0, 0, 0]),
        case("high bits count", [[2**31, 2**32 - 1]], [0, 0], "uint32"),
    )
