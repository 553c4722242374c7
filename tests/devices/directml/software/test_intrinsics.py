"""Every dx.op that computes gives Direct3D's result, also for edge values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.software import dxil

from dmlgraph.devices.directml.software import intrinsics, translate
from dmlgraph.devices.directml.software.opcodes import Opcode

INF, NAN = np.inf, np.nan
TINY = 1e-45  # the least denormal float32
FLOATS = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1e-3, 0.25, 3.75, 100.25, -7.999, 8388609.0, -8388608.5, 1e30, -1e30,
     TINY, -TINY, 1e-40, INF, -INF, NAN, 65504.0, 0.99999994, 1.0000001, -1.0, 1.0],
    np.float32,
)  # fmt: skip
HALVES = np.array([0.0, -0.0, 0.5, -1.5, 2.5, 3.75, 6e-8, 65504.0, INF, -INF, NAN, 0.1, -7.3], np.float16)
INTS = np.array([0, 1, -1, 2, 5, -5, 31, 32, 255, 256, 65535, -(2**31), 2**31 - 1, 0x12345678, -0x12345678], np.int32)
UNITS = np.linspace(-1, 1, 401, dtype=np.float32)
ANGLES = np.concatenate([np.linspace(-20, 20, 999), [0, -0.0, 1e-20, 1e5, -3e4, INF, -INF, NAN]]).astype(np.float32)
POSITIVE = np.concatenate([np.geomspace(1e-44, 3e38, 999), [0, -0.0, 1, 2, 4, 0.5, -1, INF, -INF, NAN]]).astype(
    np.float32
)
EXPONENTS = np.concatenate([np.linspace(-150, 128.5, 2001), [0, -0.0, 1, -1, 127, 128, -126, INF, -INF, NAN]]).astype(
    np.float32
)


def same(got, want):
    """Equal bit for bit, except for the bits of NaN."""
    want = np.asarray(want, got.dtype)
    if got.dtype.kind == "f":
        nans = np.isnan(want)
        np.testing.assert_array_equal(np.isnan(got), nans)
        got, want = np.where(nans, 0, got), np.where(nans, 0, want)
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), want.astype(got.dtype).view(f"u{got.itemsize}"))


def first_operand_unless_nan(x, y, choose):
    return np.where(np.isnan(x), y, np.where(np.isnan(y), x, choose(x, y)))


EXACT_FLOAT: dict[int, Callable[[np.ndarray], Any]] = {
    6: np.abs,
    7: lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1)) + 0.0,
    22: lambda x: x - np.floor(x),
    24: np.sqrt,
    26: np.rint,
    27: np.floor,
    28: np.ceil,
    29: np.trunc,
}


@pytest.mark.parametrize("values", [FLOATS, HALVES], ids=["float", "half"])
@pytest.mark.parametrize("opcode", EXACT_FLOAT, ids=lambda code: Opcode(code).name)
def test_exact_functions_of_one_number(opcode, values):
    with np.errstate(all="ignore"):
        want = EXACT_FLOAT[opcode](values)
    (got,) = dxil.operation("unary", opcode, [values], values.dtype.type)
    same(got + 0 if opcode == 7 else got, want)  # saturating a zero may lose its sign


@pytest.mark.parametrize("values", [FLOATS, HALVES], ids=["float", "half"])
@pytest.mark.parametrize(
    ("opcode", "function"),
    [
        (8, np.isnan),
        (9, np.isinf),
        (10, np.isfinite),
        (11, lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny)),
    ],
    ids=["IsNaN", "IsInf", "IsFinite", "IsNormal"],
)
def test_special_numbers(opcode, function, values):
    kind = dxil.LLVM_TYPES[values.dtype]
    suffix = "f16" if kind == "half" else "f32"
    code = f"%is = call i1 @dx.op.isSpecialFloat.{suffix}(i32 {opcode}, {kind} %a)\n%r = zext i1 %is to i32"
    (got,) = dxil.evaluate(code, [values], np.uint32)
    np.testing.assert_array_equal(got, function(values))


# Opcode, NumPy's function, values, the error that Direct3D allows in units in the last place.
CLOSE: list[tuple[int, Callable[[np.ndarray], Any], np.ndarray, int]] = [
    (12, np.cos, ANGLES, 1),
    (13, np.sin, ANGLES, 1),
    (14, np.tan, ANGLES, 2),
    (15, np.arccos, UNITS, 2),
    (16, np.arcsin, UNITS, 2),
    (17, np.arctan, FLOATS, 2),
    (18, np.cosh, ANGLES, 2),
    (19, np.sinh, ANGLES, 2),
    (20, np.tanh, ANGLES, 2),
    (21, np.exp2, EXPONENTS, 1),
    (23, np.log2, POSITIVE, 1),
    (25, lambda x: 1 / np.sqrt(x), POSITIVE, 1),
]


def ulps(got, want):
    """The distance of two arrays in numbers of floats."""

    def ordered(x):
        bits = x.view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)

    return np.abs(ordered(got) - ordered(want))


@pytest.mark.parametrize(("opcode", "function", "values", "limit"), CLOSE, ids=[Opcode(c[0]).name for c in CLOSE])
def test_transcendental_functions(opcode, function, values, limit):
    with np.errstate(all="ignore"):
        want = function(values.astype(np.float64)).astype(np.float32)
    (got,) = dxil.operation("unary", opcode, [values], np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    numbers = ~np.isnan(want)
    assert ulps(got[numbers], want[numbers]).max() <= limit


@pytest.mark.parametrize("opcode", [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 25], ids=lambda c: Opcode(c).name)
def test_transcendental_functions_of_halves(opcode):
    function = next(entry[1] for entry in CLOSE if entry[0] == opcode)
    values = np.array([0.1, 0.5, 0.9, 1.0, 0.001], np.float16)
    (got,) = dxil.operation("unary", opcode, [values], np.float16)
    np.testing.assert_allclose(got, function(values.astype(np.float64)), rtol=2e-3)


def pairs(values):
    a, b = np.meshgrid(values, values)
    return np.ascontiguousarray(a.ravel()), np.ascontiguousarray(b.ravel())


BINARY = [
    (35, "binary", FLOATS, lambda x, y: first_operand_unless_nan(x, y, np.maximum)),
    (36, "binary", FLOATS, lambda x, y: first_operand_unless_nan(x, y, np.minimum)),
    (35, "binary", HALVES, lambda x, y: first_operand_unless_nan(x, y, np.maximum)),
    (36, "binary", HALVES, lambda x, y: first_operand_unless_nan(x, y, np.minimum)),
    (37, "binary", INTS, np.maximum),
    (38, "binary", INTS, np.minimum),
    (39, "binary", INTS.view(np.uint32), np.maximum),
    (40, "binary", INTS.view(np.uint32), np.minimum),
    (39, "binary", INTS.astype(np.uint16), np.maximum),
    (37, "binary", INTS.astype(np.int64) << 20, np.maximum),
]


@pytest.mark.parametrize(("opcode", "family", "values", "function"), BINARY)
def test_the_greater_and_the_lesser(opcode, family, values, function):
    a, b = pairs(values)
    (got,) = dxil.operation(family, opcode, [a, b], values.dtype.type)
    same(got + 0 if got.dtype.kind == "f" else got, function(a, b) + 0)  # either of two zeros is right


def test_multiplications_of_64_bits():
    a, b = pairs(INTS)
    high, low = dxil.operation("binaryWithTwoOuts", 41, [a, b], np.int32, "%dx.types.twoi32")
    product = a.astype(np.int64) * b
    np.testing.assert_array_equal(high, product >> 32)
    np.testing.assert_array_equal(low.view(np.uint32), product & 0xFFFFFFFF)
    a, b = a.view(np.uint32), b.view(np.uint32)
    high, low = dxil.operation("binaryWithTwoOuts", 42, [a, b], np.uint32, "%dx.types.twoi32")
    product = a.astype(np.uint64) * b
    np.testing.assert_array_equal(high, product >> 32)
    np.testing.assert_array_equal(low, product & 0xFFFFFFFF)


def test_division_by_zero_is_all_ones():
    a, b = pairs(INTS.view(np.uint32))
    quotient, remainder = dxil.operation("binaryWithTwoOuts", 43, [a, b], np.uint32, "%dx.types.twoi32")
    safe = np.maximum(b, 1)
    np.testing.assert_array_equal(quotient, np.where(b == 0, 0xFFFFFFFF, a // safe))
    np.testing.assert_array_equal(remainder, np.where(b == 0, 0xFFFFFFFF, a % safe))


@pytest.mark.parametrize(("opcode", "sign"), [(44, 1), (45, -1)], ids=["UAddc", "USubb"])
def test_carry_and_borrow(opcode, sign):
    a, b = pairs(INTS.view(np.uint32))
    code = f"""%both = call %dx.types.i32c @dx.op.binaryWithCarryOrBorrow.i32(i32 {opcode}, i32 %a, i32 %b)
        %r = extractvalue %dx.types.i32c %both, 0
        %carry = extractvalue %dx.types.i32c %both, 1
        %r1 = zext i1 %carry to i32"""
    value, carry = dxil.evaluate(code, [a, b], np.uint32, results=2)
    wide = a.astype(np.int64) + sign * b.astype(np.int64)
    np.testing.assert_array_equal(value, wide & 0xFFFFFFFF)
    np.testing.assert_array_equal(carry, (wide < 0) | (wide > 0xFFFFFFFF))


def test_fmad_rounds_twice():
    """A fused multiply-add would give another number."""
    a = np.array([1 + 2**-12, 3.1, INF], np.float32)
    c = np.array([-1 - 2**-11, 1e-3, -INF], np.float32)
    (got,) = dxil.operation("tertiary", 46, [a, a, c], np.float32)
    with np.errstate(invalid="ignore"):
        same(got, a * a + c)
    assert got[0] != np.float64(a[0]) * a[0] + c[0]


def test_products_and_sums_are_not_contracted():
    a = np.full(64, 1 + 2**-12, np.float32)
    c = np.full(64, -1 - 2**-11, np.float32)
    (got,) = dxil.evaluate("%p = fmul fast float %a, %a\n%r = fadd fast float %p, %b", [a, c], np.float32)
    same(got, a * a + c)


def test_fma_of_doubles_rounds_once():
    a = np.array([1 + 2.0**-30, 3.0], np.float64)
    c = np.array([-1 - 2.0**-29, 1.0], np.float64)
    (got,) = dxil.operation("tertiary", 47, [a, a, c], np.float64)
    np.testing.assert_array_equal(got, [2.0**-60, 10.0])


@pytest.mark.parametrize("opcode", [48, 49])
def test_integer_multiply_add_wraps(opcode):
    a, b = pairs(INTS)
    (got,) = dxil.operation("tertiary", opcode, [a, b, a], np.int32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, a * b + a)


WORDS = np.array([0, 1, 2, 0x80000000, 0xFFFFFFFF, 0x00F0, 0x12345678, 0x7FFFFFFF, 0xFFFFFFFE], np.uint32)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_bits(bits):
    dtype = np.dtype(f"u{bits // 8}").type
    values = (WORDS.astype(np.uint64) << (bits - 32 if bits > 32 else 0)).astype(dtype)

    def by_text(function):
        return [function(format(int(value), f"0{bits}b")) for value in values]

    def run(opcode, result):
        suffix = f"i{bits}"
        call = f"%r = call {dxil.LLVM_TYPES[np.dtype(result)]} @dx.op.unaryBits.{suffix}(i32 {opcode}, {suffix} %a)"
        return dxil.evaluate(call, [values], result)[0]

    np.testing.assert_array_equal(run(30, dtype), by_text(lambda text: int(text[::-1], 2)))
    np.testing.assert_array_equal(run(31, np.int32), by_text(lambda text: text.count("1")))
    np.testing.assert_array_equal(run(32, np.int32), by_text(lambda text: text[::-1].find("1")))
    np.testing.assert_array_equal(run(33, np.int32), by_text(lambda text: text.find("1")))
    np.testing.assert_array_equal(run(34, np.int32), by_text(lambda text: text.find("10"[int(text[0])])))


def test_bit_fields():
    rng = np.random.default_rng(1)
    width, offset = pairs(np.array([0, 1, 5, 16, 31, 32, 40], np.uint32))
    value, base = rng.integers(0, 2**32, (2, len(width)), np.uint32)
    w, o = width & 31, offset & 31
    (got,) = dxil.operation("tertiary", 52, [width, offset, value], np.uint32)
    mask = ((1 << w.astype(np.uint64)) - 1).astype(np.uint32)
    np.testing.assert_array_equal(got, np.where(w == 0, 0, np.where(w + o < 32, value >> o & mask, value >> o)))
    (got,) = dxil.operation("tertiary", 51, [width, offset, value], np.int32)
    signed = value.view(np.int32)
    up, down, above = ((x & 31).astype(np.int32) for x in (np.where(w + o < 32, 32 - w - o, 0), 32 - w, o))
    want = np.where(w == 0, 0, np.where(w + o < 32, (signed << up) >> down, signed >> above))
    np.testing.assert_array_equal(got, want)
    (got,) = dxil.operation("quaternary", 53, [width, offset, value, base], np.uint32)
    field = (mask.astype(np.uint64) << o).astype(np.uint32)
    np.testing.assert_array_equal(got, (value << o & field) | (base & ~field))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_dot_products_add_in_order(count, dtype):
    values = np.random.default_rng(2).normal(size=(2 * count, 70)).astype(dtype)
    rows = [np.ascontiguousarray(row) for row in values]
    (got,) = dxil.operation(f"dot{count}", 52 + count, rows, dtype)
    total = rows[0] * rows[count]
    for place in range(1, count):
        total = total + rows[place] * rows[count + place]
    same(got, total)


def test_dot_products_of_packed_numbers():
    rng = np.random.default_rng(3)
    a, b, c = rng.integers(0, 2**32, (3, 70), np.uint32)
    for opcode, dtype in ((163, np.int8), (164, np.uint8)):
        (got,) = dxil.operation("dot4AddPacked", opcode, [a, b, c], np.uint32)
        products = b.view(dtype).reshape(-1, 4).astype(np.int64) * c.view(dtype).reshape(-1, 4)
        np.testing.assert_array_equal(got, (a + products.sum(1)) & 0xFFFFFFFF)


def test_dot_product_of_halves_sums_floats():
    a = np.array([0.5, 1], np.float32)
    halves = tuple(np.array(v, np.float16) for v in ([300, 1], [0.1, 2], [300, 3], [7, 4]))
    (got,) = dxil.operation("dot2AddHalf", 162, [a, *halves], np.float32)
    ax, ay, bx, by = (v.astype(np.float32) for v in halves)
    same(got, a + ax * bx + ay * by)


def test_bits_of_numbers_are_kept():
    nan = np.array([0x7FC12345, 0x3F800000, 0xFF800001, 0x80000000], np.uint32)
    (got,) = dxil.evaluate("%r = call float @dx.op.bitcastI32toF32(i32 126, i32 %a)", [nan], np.float32)
    np.testing.assert_array_equal(got.view(np.uint32), nan)
    (got,) = dxil.evaluate("%r = call i32 @dx.op.bitcastF32toI32(i32 127, float %a)", [got], np.uint32)
    np.testing.assert_array_equal(got, nan)


def test_doubles_from_halves_and_back():
    low, high = np.array([1, 0, 5], np.uint32), np.array([0x3FF00000, 0x7FF00000, 0x80000000], np.uint32)
    (made,) = dxil.operation("makeDouble", 101, [low, high], np.float64)
    np.testing.assert_array_equal(made.view(np.uint64), low.astype(np.uint64) | high.astype(np.uint64) << 32)
    first, second = dxil.operation("splitDouble", 102, [made], np.uint32, "%dx.types.splitdouble")
    np.testing.assert_array_equal(first, low)
    np.testing.assert_array_equal(second, high)


def test_legacy_half_conversions_round_to_nearest_even():
    values = np.array(
        [0, -0.0, 1, 1 + 2**-11, 1 + 3 * 2**-11, 65504, 65519.99, 65520, 1e9, -INF, 2**-24, 2**-25, 2**-25 * 1.001],
        np.float32,
    )
    (got,) = dxil.evaluate("%r = call i32 @dx.op.legacyF32ToF16(i32 130, float %a)", [values], np.uint32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, values.astype(np.float16).view(np.uint16))
    bits = np.array([0, 0x8000, 1, 0x3C00, 0x7BFF, 0x7C00, 0xFC00, 0xABCD3C00], np.uint32)
    (got,) = dxil.evaluate("%r = call float @dx.op.legacyF16ToF32(i32 131, i32 %a)", [bits], np.float32)
    same(got, bits.astype(np.uint16).view(np.float16))


def test_legacy_conversions_of_doubles_saturate():
    values = np.array([0.9, -0.9, 3e9, -3e9, 5e9, NAN, INF, -INF], np.float64)
    (got,) = dxil.evaluate("%r = call i32 @dx.op.legacyDoubleToSInt32(i32 133, double %a)", [values], np.int32)
    np.testing.assert_array_equal(got, [0, 0, 2**31 - 1, -(2**31), 2**31 - 1, 0, 2**31 - 1, -(2**31)])
    (got,) = dxil.evaluate("%r = call i32 @dx.op.legacyDoubleToUInt32(i32 134, double %a)", [values], np.uint32)
    np.testing.assert_array_equal(got, [0, 0, 3000000000, 0, 2**32 - 1, 0, 2**32 - 1, 0])


def test_every_operation_of_the_table_is_tested():
    tested = set(EXACT_FLOAT) | {c[0] for c in CLOSE} | {c[0] for c in BINARY}
    tested |= {8, 9, 10, 11, 30, 31, 32, 33, 34, 41, 42, 43, 44, 45, 46, 47, 48, 49, 51, 52, 53, 54, 55, 56}
    tested |= {101, 102, 126, 127, 130, 131, 133, 134, 162, 163, 164}
    same_as_others = {124, 125, 128, 129, 132}  # bits of 16 and 64, in test_instructions.py
    assert set(intrinsics.OPERATIONS) == tested | same_as_others


def test_every_code_has_a_name_and_one_translation() -> None:
    codes = [*intrinsics.OPERATIONS, *translate._HANDLERS]
    assert all(isinstance(code, Opcode) for code in codes)
    assert sorted(codes) == sorted(Opcode)
