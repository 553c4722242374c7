"""ACTIVATION_SHRINK: x − bias above the threshold, x + bias below its opposite, else 0."""

from __future__ import annotations

from support.operators.checks import UnaryTests
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype

SMALL = ("int8", "int16", "int32", "uint8", "uint16", "uint32")


class TestActivationShrink(UnaryTests):
    operator = "activation_shrink"
    levels = "2.0: 4-5D F32 F16 | 3.0: 1-8D F32 F16 | 5.1: 1-8D ALL8"
    sample = case("two dimensions", [[[1, -2, 3], [-4, 5, -6]]], [[0, 0, 2], [-3, 4, -5]], bias=1, threshold=2)
    cases = (
        *each_dtype(FLOATS, "bias is 0, threshold 0.5 unless given", [[0.5, 0.75, -0.5, -3]], [0, 0.75, 0, -3]),
        *each_dtype(FLOATS, "bias", [[0.5, 0.75, -0.5, -3]], [0, 0.5, 0, -2.75], bias=0.25),
        *each_dtype(FLOATS, "threshold", [[2, 2.5, -2, -3]], [0, 2.5, 0, -3], threshold=2),
        *each_dtype(FLOATS, "a negative bias stretches", [[1, -1]], [3, -3], bias=-2),
        *each_dtype(
            FLOATS, "below a negative threshold x − bias wins", [[0, -1, -3]], [-1, -2, -2], bias=1, threshold=-2
        ),
        *each_dtype(FLOATS, "special values", [[INF, -INF, NAN, -0.0]], [INF, -INF, 0, 0], bias=1),
        *each_dtype(SMALL, "whole numbers", [[0, 1, 2, 3, 100]], [0, 0, 0, 2, 99], bias=1, threshold=2),
        *each_dtype(SMALL[:3], "below the opposite", [[-2, -3, -100]], [0, -2, -99], bias=1, threshold=2),
        *each_dtype(SMALL, "the threshold is not cut", [[2, 3]], [0, 3], threshold=2.5),
        # 1.5, 2.5, 3.5 and 4.5.
        *each_dtype(SMALL, "halves go to the even number", [[2, 3, 4, 5]], [2, 2, 4, 4], bias=0.5),
        *each_dtype(SMALL[:3], "halves go to the even number below", [[-2, -3]], [-2, -2], bias=0.5),
        case("int8 stays in its range", [[127, -128, 100]], [127, -128, 127], "int8", bias=-30),
        case("uint8 stays in its range", [[255, 3, 250]], [255, 33, 255], "uint8", bias=-30),
        case("uint8 is not below zero", [[2, 40]], [0, 10], "uint8", bias=30),
        case("int16 wraps", [[32767, -32768]], [-32767, 32766], "int16", bias=-2),
        case("uint16 wraps above", [[65535, 65000]], [1, 65002], "uint16", bias=-2),
        case("uint16 does not wrap below", [[2, 40]], [0, 10], "uint16", bias=30),
        # Only every 128th whole number from 2^30 on is a float32: 2^30 + 60 becomes 2^30.
        case("32 bits are computed in float32", [[2**30 + 60, 5]], [2**30, 5], "int32"),
        case("32 bits are computed in float32", [[2**30 + 60, 5]], [2**30, 5], "uint32"),
        case("int32 stays in its range", [[2**31 - 1, -(2**31)]], [2**31 - 1, -(2**31)], "int32", bias=-1000),
        case("uint32 stays in its range", [[2**32 - 1, 1]], [2**32 - 1, 0], "uint32", bias=-1000, threshold=1),
    )
