"""LLVM's instructions give Direct3D's results where LLVM leaves them undefined, and IEEE's everywhere."""

# ruff: noqa: E501  (LLVM takes an instruction on one line)

from __future__ import annotations

import numpy as np
import pytest
from support.software import dxil

INF, NAN = np.inf, np.nan
LEAST = {np.int16: -(2**15), np.int32: -(2**31), np.int64: -(2**63)}
INTEGERS = [np.int16, np.int32, np.int64]


def pairs(values):
    a, b = np.meshgrid(values, values)
    return np.ascontiguousarray(a.ravel()), np.ascontiguousarray(b.ravel())


def edges(dtype):
    info = np.iinfo(dtype)
    return np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, *([-1, -2, -7] if info.min else [])], dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_signed_division_never_traps(dtype):
    """Division by zero gives all ones; the least number divided by -1 is itself."""
    kind = dxil.LLVM_TYPES[np.dtype(dtype)]
    a, b = pairs(edges(dtype))
    (quotient,) = dxil.evaluate(f"%r = sdiv {kind} %a, %b", [a, b], dtype)
    (remainder,) = dxil.evaluate(f"%r = srem {kind} %a, %b", [a, b], dtype)
    for x, y, q, m in zip(a.tolist(), b.tolist(), quotient.tolist(), remainder.tolist(), strict=True):
        if y == 0:
            want = -1, -1
        elif (x, y) == (LEAST[dtype], -1):
            want = x, 0
        else:
            size = abs(x) // abs(y)
            whole = size if (x < 0) == (y < 0) else -size
            want = whole, x - whole * y
        assert (q, m) == want, (x, y)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_unsigned_division_by_zero_is_all_ones(dtype):
    kind = dxil.LLVM_TYPES[np.dtype(dtype)]
    a, b = pairs(edges(dtype))
    (quotient,) = dxil.evaluate(f"%r = udiv {kind} %a, %b", [a, b], dtype)
    (remainder,) = dxil.evaluate(f"%r = urem {kind} %a, %b", [a, b], dtype)
    ones, safe = np.iinfo(dtype).max, np.maximum(b, 1)
    np.testing.assert_array_equal(quotient, np.where(b == 0, ones, a // safe))
    np.testing.assert_array_equal(remainder, np.where(b == 0, ones, a % safe))


@pytest.mark.parametrize("divisor", [0, -1, 3])
def test_division_by_a_constant(divisor):
    values = edges(np.int32)
    (got,) = dxil.evaluate(f"%r = sdiv i32 %a, {divisor}", [values], np.int32)
    if divisor == 0:
        want = np.full_like(values, -1)
    elif divisor == -1:
        want = np.where(values == LEAST[np.int32], values, -values)
    else:
        want = np.trunc(values / divisor).astype(np.int32)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("operation", ["shl", "lshr", "ashr"])
def test_shifts_use_the_low_bits_of_their_count(operation, dtype):
    kind, bits = dxil.LLVM_TYPES[np.dtype(dtype)], 8 * np.dtype(dtype).itemsize
    values = edges(dtype)
    counts = np.array([0, 1, bits - 1, bits, bits + 3, -1, 5, 2 * bits, 64, 100, 3], dtype)
    (got,) = dxil.evaluate(f"%r = {operation} {kind} %a, %b", [values, counts], dtype)
    by = counts & (bits - 1)
    unsigned = np.dtype(f"u{bits // 8}")
    want = {
        "shl": lambda: values << by,
        "lshr": lambda: values.view(unsigned) >> by.view(unsigned),
        "ashr": lambda: values >> by,
    }[operation]()
    np.testing.assert_array_equal(got, want.view(dtype))


def test_integers_wrap_whatever_the_flags_say():
    values = edges(np.int32)
    (got,) = dxil.evaluate(
        "%s = add nsw i32 %a, %a\n%c = icmp slt i32 %s, %a\n%r = zext i1 %c to i32", [values], np.int32
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, values + values < values)


@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("target", [np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_conversions_to_integers_saturate(source, target):
    info = np.iinfo(target)
    numbers = [
        0.0,
        -0.0,
        0.9,
        -0.9,
        1.5,
        -1.5,
        200.7,
        -200.7,
        32767.5,
        40000.0,
        3e9,
        -3e9,
        1e10,
        2e19,
        -2e19,
        INF,
        -INF,
    ]
    with np.errstate(over="ignore"):
        values = np.array([*numbers, NAN], source)
    kinds = dxil.LLVM_TYPES[np.dtype(source)], dxil.LLVM_TYPES[np.dtype(target)]
    name = "fptosi" if info.min else "fptoui"
    (got,) = dxil.evaluate(f"%r = {name} {kinds[0]} %a to {kinds[1]}", [values], target)
    for value, result in zip(values.tolist(), got.tolist(), strict=True):
        if np.isnan(value):
            assert result == 0
        elif np.isinf(value):
            assert result == (info.max if value > 0 else info.min)
        else:
            assert result == min(max(int(value), info.min), info.max), value


def test_doubles_become_halves_with_one_rounding():
    tie = 1 + 2.0**-11
    values = np.array(
        [0, -0.0, 1, tie, tie + 2.0**-40, tie - 2.0**-40, -tie - 2.0**-40, 65519.999999, 65520, 1e300, -1e300, 1e-300, INF,
         -INF, NAN, 2.0**-25 + 2.0**-60, 2.0**-25, 6e-8, 5e-324]
    )  # fmt: skip
    values = np.concatenate([values, np.random.default_rng(1).normal(size=500) * 2.0 ** np.arange(-25, 25).repeat(10)])
    with np.errstate(over="ignore"):
        want = values.astype(np.float16)
    (got,) = dxil.evaluate("%r = fptrunc double %a to half", [values], np.float16)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(got.view(np.uint16)[numbers], want.view(np.uint16)[numbers])


def test_every_half_becomes_a_float_and_back():
    values = np.arange(65536, dtype=np.uint16).view(np.float16)
    values = values[~np.isnan(values)]
    (wide,) = dxil.evaluate("%r = fpext half %a to float", [values], np.float32)
    np.testing.assert_array_equal(wide, values.astype(np.float32))
    (back,) = dxil.evaluate("%r = fptrunc float %a to half", [wide], np.float16)
    np.testing.assert_array_equal(back.view(np.uint16), values.view(np.uint16))


@pytest.mark.parametrize("operation", ["fadd", "fsub", "fmul", "fdiv"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arithmetic_rounds_as_ieee_says(operation, dtype):
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=700) * 10.0 ** rng.integers(-4, 4, 700) for _ in range(2))
    a, b = a.astype(dtype), b.astype(dtype)
    function = {"fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide}[operation]
    (got,) = dxil.evaluate(f"%r = {operation} fast {dxil.LLVM_TYPES[np.dtype(dtype)]} %a, %b", [a, b], dtype)
    with np.errstate(over="ignore", divide="ignore"):
        np.testing.assert_array_equal(got, function(a, b))


DENORMALS = np.array([1e-40, -1e-40, 1.5e-38, 3e-39, 1e-45], np.float32)


@pytest.mark.parametrize("mode", ["", '"fp32-denorm-mode"="any"', '"fp32-denorm-mode"="preserve"'])
def test_denormals_are_kept(mode):
    (got,) = dxil.evaluate(
        "%r = fmul float %a, %b", [DENORMALS, np.full(5, 0.5, np.float32)], np.float32, attributes=mode
    )
    np.testing.assert_array_equal(got, DENORMALS * np.float32(0.5))
    assert np.count_nonzero(got) == 4


def test_denormals_are_flushed_where_the_shader_says_so():
    mode = '"fp32-denorm-mode"="ftz"'
    twice = [DENORMALS, np.full(5, 2, np.float32)]
    (got,) = dxil.evaluate("%r = fmul float %a, %b", twice, np.float32, attributes=mode)
    np.testing.assert_array_equal(got, [0, 0, DENORMALS[2] * 2, 0, 0])  # the third is normal
    half = [np.array([1.5e-38], np.float32), np.array([0.5], np.float32)]
    (got,) = dxil.evaluate("%r = fmul float %a, %b", half, np.float32, attributes=mode)
    assert got[0] == 0
    assert half[0][0] * half[1][0] != 0, "the mode must not outlive the kernel"


def test_comparisons_see_what_is_not_a_number():
    a, b = pairs(np.array([0, 1, NAN, INF], np.float32))
    (got,) = dxil.evaluate("%c = fcmp fast ult float %a, %b\n%r = zext i1 %c to i32", [a, b], np.uint32)
    np.testing.assert_array_equal(got, ~(a >= b))


@pytest.mark.parametrize(
    ("code", "dtype", "result"),
    [
        ("%r = call half @dx.op.bitcastI16toF16(i32 124, i16 %a)", np.int16, np.float16),
        ("%r = call i16 @dx.op.bitcastF16toI16(i32 125, half %a)", np.float16, np.int16),
        ("%r = call double @dx.op.bitcastI64toF64(i32 128, i64 %a)", np.int64, np.float64),
        ("%r = call i64 @dx.op.bitcastF64toI64(i32 129, double %a)", np.float64, np.int64),
    ],
)
def test_bitcasts(code, dtype, result):
    values = np.array([0, 1, -2, 15360, -32768]).astype(dtype)
    (got,) = dxil.evaluate(code, [values], result)
    np.testing.assert_array_equal(got.view(dtype), values)


def test_double_to_float():
    values = np.array([1 / 3, 1e300, -1e-300, 16777217.0])
    (got,) = dxil.evaluate("%r = call float @dx.op.legacyDoubleToFloat(i32 132, double %a)", [values], np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, values.astype(np.float32))


def test_local_arrays_and_constant_tables():
    body = """
        %id = call i32 @dx.op.threadId.i32(i32 93, i32 0)
        %5 = alloca [4 x i32], align 4
        %6 = and i32 %id, 3
        %7 = getelementptr inbounds [4 x i32], ptr %5, i32 0, i32 %6
        store i32 %id, ptr %7, align 4
        %8 = getelementptr inbounds [4 x i32], ptr @table, i32 0, i32 %6
        %9 = load i32, ptr %8, align 4
        %10 = load i32, ptr %7, align 4
        %11 = mul nsw i32 %9, %10
        %12 = mul i32 %id, 4
        call void @dx.op.rawBufferStore.i32(i32 140, %dx.types.Handle %h0, i32 %12, i32 undef, i32 %11, i32 undef, i32 undef, i32 undef, i8 1, i32 4)
        ret void"""
    body = body.replace("%5", "%1").replace("%6", "%2").replace("%7", "%3").replace("%8", "%4").replace("%9", "%5")
    body = body.replace("%10", "%6").replace("%11", "%7").replace("%12", "%8")
    table = "@table = internal unnamed_addr constant [4 x i32] [i32 10, i32 20, i32 30, i32 40], align 4"
    out = np.zeros(8, np.uint32)
    dxil.compile_and_run(dxil.shader(body, threads=(8, 1, 1), variables=table), out)
    np.testing.assert_array_equal(out, np.arange(8) * np.tile([10, 20, 30, 40], 2))


def test_temporary_registers():
    body = """
        %id = call i32 @dx.op.threadId.i32(i32 93, i32 0)
        call void @dx.op.tempRegStore.i32(i32 1, i32 3, i32 %id)
        %f = call float @dx.op.tempRegLoad.f32(i32 0, i32 3)
        call void @dx.op.tempRegStore.f32(i32 1, i32 0, float %f)
        %v = call i32 @dx.op.tempRegLoad.i32(i32 0, i32 0)
        %to = mul i32 %id, 4
        call void @dx.op.bufferStore.i32(i32 69, %dx.types.Handle %h0, i32 %to, i32 undef, i32 %v, i32 undef, i32 undef, i32 undef, i8 1)
        ret void"""
    out = np.zeros(8, np.uint32)
    dxil.compile_and_run(dxil.shader(body, threads=(8, 1, 1)), out)
    np.testing.assert_array_equal(out, np.arange(8))
