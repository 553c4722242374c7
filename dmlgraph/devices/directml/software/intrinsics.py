"""The dx.op functions that only compute: a table by operation code.

A body is LLVM text that computes %r from the operands %a, %b, ... that follow the operation code.  `$R` is the type
of the result, `$A` and `$B` are those of the first two operands.

Results follow Direct3D and are reproducible: tests compare them bit for bit with IEEE arithmetic, so nothing
is contracted, reassociated or approximated.  In particular FMad rounds twice, once after the product and once
after the sum, which DXIL allows; only Fma (double) is fused.  Conversions from float to half round to nearest,
ties to even.  Transcendental functions are those of the C library, within 2 ULP.
"""

from __future__ import annotations

import dataclasses

INFINITY = "0x7FF0000000000000"


@dataclasses.dataclass(frozen=True)
class Operation:
    """`name` as in DXIL's list of operation codes."""

    name: str
    body: str


def _llvm(name: str, operands: int = 1) -> str:
    arguments = ", ".join(f"$A %{letter}" for letter in "abc"[:operands])
    return f"%r = call $R @llvm.{name}({arguments})"


def _pair(first: str, second: str, types: tuple[str, str] = ("i32", "i32")) -> str:
    """A structure of two values."""
    return f"""
        %p = insertvalue $R poison, {types[0]} {first}, 0
        %r = insertvalue $R %p, {types[1]} {second}, 1"""


def _to_i32(extend: str, value: str) -> str:
    """%r as an i32: the result type of some operations, whatever the width of their operand."""
    return f"%wide = {extend} $A {value} to i128\n%r = trunc i128 %wide to i32"


def _first_bit(counter: str, value: str = "%a", prepare: str = "") -> str:
    """The index of the first set bit, counted by `counter` from one end, or -1 if no bit is set."""
    return f"""
        {prepare}
        %places = call $A @llvm.{counter}($A {value}, i1 false)
        %none = icmp eq $A {value}, 0
        %place = select i1 %none, $A -1, $A %places
        """ + _to_i32("sext", "%place")


def _multiply_wide(extend: str) -> str:
    return f"""
        %x = {extend} i32 %a to i64
        %y = {extend} i32 %b to i64
        %product = mul i64 %x, %y
        %shifted = lshr i64 %product, 32
        %high = trunc i64 %shifted to i32
        %low = trunc i64 %product to i32""" + _pair("%high", "%low")


def _with_carry(name: str) -> str:
    return f"""
        %s = call {{ i32, i1 }} @llvm.{name}.with.overflow(i32 %a, i32 %b)
        %sum = extractvalue {{ i32, i1 }} %s, 0
        %carry = extractvalue {{ i32, i1 }} %s, 1""" + _pair("%sum", "%carry", ("i32", "i1"))


def _extract_bits(shift: str) -> str:
    """Bits of %c: the low five bits of %a are their number, those of %b the offset of the first."""
    return f"""
        %width = and i32 %a, 31
        %offset = and i32 %b, 31
        %end = add i32 %width, %offset
        %fits = icmp ult i32 %end, 32
        %up = sub i32 32, %end
        %left = select i1 %fits, i32 %up, i32 0
        %raised = shl i32 %c, %left
        %down = sub i32 32, %width
        %right = and i32 %down, 31
        %inside = {shift} i32 %raised, %right
        %above = {shift} i32 %c, %offset
        %bits = select i1 %fits, i32 %inside, i32 %above
        %empty = icmp eq i32 %width, 0
        %r = select i1 %empty, i32 0, i32 %bits"""


_INSERT_BITS = """
        %width = and i32 %a, 31
        %offset = and i32 %b, 31
        %one = shl i32 1, %width
        %ones = sub i32 %one, 1
        %mask = shl i32 %ones, %offset
        %raised = shl i32 %c, %offset
        %new = and i32 %raised, %mask
        %rest = xor i32 %mask, -1
        %old = and i32 %d, %rest
        %r = or i32 %new, %old"""

_DIVIDE = """
        %zero = icmp eq i32 %b, 0
        %divisor = select i1 %zero, i32 1, i32 %b
        %q = udiv i32 %a, %divisor
        %m = urem i32 %a, %divisor
        %quotient = select i1 %zero, i32 -1, i32 %q
        %remainder = select i1 %zero, i32 -1, i32 %m""" + _pair("%quotient", "%remainder")

_MULTIPLY_ADD = "%product = mul $A %a, %b\n%r = add $A %product, %c"
_FLOAT_MULTIPLY_ADD = "%product = fmul $A %a, %b\n%r = fadd $A %product, %c"
_BITCAST = "%r = bitcast $A %a to $R"
_MAGNITUDE = "%magnitude = call $A @llvm.fabs($A %a)\n"
_NORMAL_CLASS = 264  # negative and positive normal numbers, in the bits of llvm.is.fpclass


def _dot(count: int) -> str:
    """The sum of `count` products, added in order."""
    x, y = "abcdefgh"[:count], "abcdefgh"[count : 2 * count]
    lines = [f"%sum0 = fmul $A %{x[0]}, %{y[0]}"]
    for i in range(1, count):
        total = "%r" if i == count - 1 else f"%sum{i}"
        lines.append(f"%product{i} = fmul $A %{x[i]}, %{y[i]}")
        lines.append(f"{total} = fadd $A %sum{i - 1}, %product{i}")
    return "\n".join(lines)


_DOT_HALVES = """
        %ax = fpext half %b to float
        %ay = fpext half %c to float
        %bx = fpext half %d to float
        %by = fpext half %e to float
        %x = fmul float %ax, %bx
        %y = fmul float %ay, %by
        %first = fadd float %a, %x
        %r = fadd float %first, %y"""


def _dot_bytes(extend: str) -> str:
    """%a plus the products of the four bytes in %b and in %c."""
    return f"""
        %x8 = bitcast i32 %b to <4 x i8>
        %y8 = bitcast i32 %c to <4 x i8>
        %x = {extend} <4 x i8> %x8 to <4 x i32>
        %y = {extend} <4 x i8> %y8 to <4 x i32>
        %products = mul <4 x i32> %x, %y
        %sum = call i32 @llvm.vector.reduce.add(<4 x i32> %products)
        %r = add i32 %a, %sum"""


OPERATIONS = {
    6: Operation("FAbs", _llvm("fabs")),
    # NaN becomes 0, as Direct3D requires.
    7: Operation("Saturate", "%x = call $A @llvm.maxnum($A %a, $A 0.0)\n%r = call $A @llvm.minnum($A %x, $A 1.0)"),
    8: Operation("IsNaN", "%r = fcmp uno $A %a, %a"),
    9: Operation("IsInf", _MAGNITUDE + f"%r = fcmp oeq $A %magnitude, {INFINITY}"),
    10: Operation("IsFinite", _MAGNITUDE + f"%r = fcmp olt $A %magnitude, {INFINITY}"),
    11: Operation("IsNormal", f"%r = call i1 @llvm.is.fpclass($A %a, i32 {_NORMAL_CLASS})"),
    12: Operation("Cos", _llvm("cos")),
    13: Operation("Sin", _llvm("sin")),
    14: Operation("Tan", _llvm("tan")),
    15: Operation("Acos", _llvm("acos")),
    16: Operation("Asin", _llvm("asin")),
    17: Operation("Atan", _llvm("atan")),
    18: Operation("Hcos", _llvm("cosh")),
    19: Operation("Hsin", _llvm("sinh")),
    20: Operation("Htan", _llvm("tanh")),
    21: Operation("Exp", _llvm("exp2")),
    22: Operation("Frc", "%floor = call $A @llvm.floor($A %a)\n%r = fsub $A %a, %floor"),
    23: Operation("Log", _llvm("log2")),
    24: Operation("Sqrt", _llvm("sqrt")),
    25: Operation("Rsqrt", "%root = call $A @llvm.sqrt($A %a)\n%r = fdiv $A 1.0, %root"),
    26: Operation("Round_ne", _llvm("roundeven")),
    27: Operation("Round_ni", _llvm("floor")),
    28: Operation("Round_pi", _llvm("ceil")),
    29: Operation("Round_z", _llvm("trunc")),
    30: Operation("Bfrev", _llvm("bitreverse")),
    31: Operation("Countbits", "%count = call $A @llvm.ctpop($A %a)\n" + _to_i32("zext", "%count")),
    32: Operation("FirstbitLo", _first_bit("cttz")),
    33: Operation("FirstbitHi", _first_bit("ctlz")),
    # The first bit that differs from the sign.
    34: Operation(
        "FirstbitSHi",
        _first_bit(
            "ctlz",
            "%x",
            "%negative = icmp slt $A %a, 0\n%not = xor $A %a, -1\n%x = select i1 %negative, $A %not, $A %a",
        ),
    ),
    # If one operand is NaN, the other one is the result.
    35: Operation("FMax", _llvm("maxnum", 2)),
    36: Operation("FMin", _llvm("minnum", 2)),
    37: Operation("IMax", _llvm("smax", 2)),
    38: Operation("IMin", _llvm("smin", 2)),
    39: Operation("UMax", _llvm("umax", 2)),
    40: Operation("UMin", _llvm("umin", 2)),
    41: Operation("IMul", _multiply_wide("sext")),
    42: Operation("UMul", _multiply_wide("zext")),
    43: Operation("UDiv", _DIVIDE),
    44: Operation("UAddc", _with_carry("uadd")),
    45: Operation("USubb", _with_carry("usub")),
    46: Operation("FMad", _FLOAT_MULTIPLY_ADD),
    47: Operation("Fma", _llvm("fma", 3)),
    48: Operation("IMad", _MULTIPLY_ADD),
    49: Operation("UMad", _MULTIPLY_ADD),
    51: Operation("Ibfe", _extract_bits("ashr")),
    52: Operation("Ubfe", _extract_bits("lshr")),
    53: Operation("Bfi", _INSERT_BITS),
    54: Operation("Dot2", _dot(2)),
    55: Operation("Dot3", _dot(3)),
    56: Operation("Dot4", _dot(4)),
    101: Operation(
        "MakeDouble",
        """
        %low = zext i32 %a to i64
        %wide = zext i32 %b to i64
        %high = shl i64 %wide, 32
        %bits = or i64 %low, %high
        %r = bitcast i64 %bits to double""",
    ),
    102: Operation(
        "SplitDouble",
        """
        %bits = bitcast double %a to i64
        %shifted = lshr i64 %bits, 32
        %low = trunc i64 %bits to i32
        %high = trunc i64 %shifted to i32"""
        + _pair("%low", "%high"),
    ),
    124: Operation("BitcastI16toF16", _BITCAST),
    125: Operation("BitcastF16toI16", _BITCAST),
    126: Operation("BitcastI32toF32", _BITCAST),
    127: Operation("BitcastF32toI32", _BITCAST),
    128: Operation("BitcastI64toF64", _BITCAST),
    129: Operation("BitcastF64toI64", _BITCAST),
    130: Operation(
        "LegacyF32ToF16",
        "%half = fptrunc float %a to half\n%bits = bitcast half %half to i16\n%r = zext i16 %bits to i32",
    ),
    131: Operation(
        "LegacyF16ToF32",
        "%bits = trunc i32 %a to i16\n%half = bitcast i16 %bits to half\n%r = fpext half %half to float",
    ),
    132: Operation("LegacyDoubleToFloat", "%r = fptrunc double %a to float"),
    133: Operation("LegacyDoubleToSInt32", "%r = call i32 @llvm.fptosi.sat(double %a)"),
    134: Operation("LegacyDoubleToUInt32", "%r = call i32 @llvm.fptoui.sat(double %a)"),
    162: Operation("Dot2AddHalf", _DOT_HALVES),
    163: Operation("Dot4AddI8Packed", _dot_bytes("sext")),
    164: Operation("Dot4AddU8Packed", _dot_bytes("zext")),
}


def body(code: int, result: str, operands: list[str]) -> str | None:
    """The body of an operation for these types; None for a code that is not in the table."""
    if code not in OPERATIONS:
        return None
    first, second = (*operands, "", "")[:2]
    text = OPERATIONS[code].body
    return text.replace("$R", result).replace("$A", first).replace("$B", second)
