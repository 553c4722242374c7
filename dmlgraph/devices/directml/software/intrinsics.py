"""The dx.op functions that only compute: a table by operation code.

A body is LLVM text that computes %r from the operands %a, %b, ... that follow the operation code.  `$R` is the type
of the result, `$A` and `$B` are those of the first two operands.

Results follow Direct3D and are reproducible: tests compare them bit for bit with IEEE arithmetic, so nothing
is contracted, reassociated or approximated.  In particular FMad rounds twice, once after the product and once
after the sum, which DXIL allows; only Fma (double) is fused.  Conversions from float to half round to nearest,
ties to even.  Transcendental functions are those of the C library, within 2 ULP.
"""

from __future__ import annotations

from dmlgraph.devices.directml.software.opcodes import Opcode

INFINITY = "0x7FF0000000000000"


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


OPERATIONS: dict[int, str] = {
    Opcode.FAbs: _llvm("fabs"),
    # NaN becomes 0, as Direct3D requires.
    Opcode.Saturate: "%x = call $A @llvm.maxnum($A %a, $A 0.0)\n%r = call $A @llvm.minnum($A %x, $A 1.0)",
    Opcode.IsNaN: "%r = fcmp uno $A %a, %a",
    Opcode.IsInf: _MAGNITUDE + f"%r = fcmp oeq $A %magnitude, {INFINITY}",
    Opcode.IsFinite: _MAGNITUDE + f"%r = fcmp olt $A %magnitude, {INFINITY}",
    Opcode.IsNormal: f"%r = call i1 @llvm.is.fpclass($A %a, i32 {_NORMAL_CLASS})",
    Opcode.Cos: _llvm("cos"),
    Opcode.Sin: _llvm("sin"),
    Opcode.Tan: _llvm("tan"),
    Opcode.Acos: _llvm("acos"),
    Opcode.Asin: _llvm("asin"),
    Opcode.Atan: _llvm("atan"),
    Opcode.Hcos: _llvm("cosh"),
    Opcode.Hsin: _llvm("sinh"),
    Opcode.Htan: _llvm("tanh"),
    Opcode.Exp: _llvm("exp2"),
    Opcode.Frc: "%floor = call $A @llvm.floor($A %a)\n%r = fsub $A %a, %floor",
    Opcode.Log: _llvm("log2"),
    Opcode.Sqrt: _llvm("sqrt"),
    Opcode.Rsqrt: "%root = call $A @llvm.sqrt($A %a)\n%r = fdiv $A 1.0, %root",
    Opcode.Round_ne: _llvm("roundeven"),
    Opcode.Round_ni: _llvm("floor"),
    Opcode.Round_pi: _llvm("ceil"),
    Opcode.Round_z: _llvm("trunc"),
    Opcode.Bfrev: _llvm("bitreverse"),
    Opcode.Countbits: "%count = call $A @llvm.ctpop($A %a)\n" + _to_i32("zext", "%count"),
    Opcode.FirstbitLo: _first_bit("cttz"),
    Opcode.FirstbitHi: _first_bit("ctlz"),
    # The first bit that differs from the sign.
    Opcode.FirstbitSHi: (
        _first_bit(
            "ctlz",
            "%x",
            "%negative = icmp slt $A %a, 0\n%not = xor $A %a, -1\n%x = select i1 %negative, $A %not, $A %a",
        )
    ),
    # If one operand is NaN, the other one is the result.
    Opcode.FMax: _llvm("maxnum", 2),
    Opcode.FMin: _llvm("minnum", 2),
    Opcode.IMax: _llvm("smax", 2),
    Opcode.IMin: _llvm("smin", 2),
    Opcode.UMax: _llvm("umax", 2),
    Opcode.UMin: _llvm("umin", 2),
    Opcode.IMul: _multiply_wide("sext"),
    Opcode.UMul: _multiply_wide("zext"),
    Opcode.UDiv: _DIVIDE,
    Opcode.UAddc: _with_carry("uadd"),
    Opcode.USubb: _with_carry("usub"),
    Opcode.FMad: _FLOAT_MULTIPLY_ADD,
    Opcode.Fma: _llvm("fma", 3),
    Opcode.IMad: _MULTIPLY_ADD,
    Opcode.UMad: _MULTIPLY_ADD,
    Opcode.Ibfe: _extract_bits("ashr"),
    Opcode.Ubfe: _extract_bits("lshr"),
    Opcode.Bfi: _INSERT_BITS,
    Opcode.Dot2: _dot(2),
    Opcode.Dot3: _dot(3),
    Opcode.Dot4: _dot(4),
    Opcode.MakeDouble: (
        """
        %low = zext i32 %a to i64
        %wide = zext i32 %b to i64
        %high = shl i64 %wide, 32
        %bits = or i64 %low, %high
        %r = bitcast i64 %bits to double"""
    ),
    Opcode.SplitDouble: (
        """
        %bits = bitcast double %a to i64
        %shifted = lshr i64 %bits, 32
        %low = trunc i64 %bits to i32
        %high = trunc i64 %shifted to i32"""
        + _pair("%low", "%high")
    ),
    Opcode.BitcastI16toF16: _BITCAST,
    Opcode.BitcastF16toI16: _BITCAST,
    Opcode.BitcastI32toF32: _BITCAST,
    Opcode.BitcastF32toI32: _BITCAST,
    Opcode.BitcastI64toF64: _BITCAST,
    Opcode.BitcastF64toI64: _BITCAST,
    Opcode.LegacyF32ToF16: (
        "%half = fptrunc float %a to half\n%bits = bitcast half %half to i16\n%r = zext i16 %bits to i32"
    ),
    Opcode.LegacyF16ToF32: (
        "%bits = trunc i32 %a to i16\n%half = bitcast i16 %bits to half\n%r = fpext half %half to float"
    ),
    Opcode.LegacyDoubleToFloat: "%r = fptrunc double %a to float",
    Opcode.LegacyDoubleToSInt32: "%r = call i32 @llvm.fptosi.sat(double %a)",
    Opcode.LegacyDoubleToUInt32: "%r = call i32 @llvm.fptoui.sat(double %a)",
    Opcode.Dot2AddHalf: _DOT_HALVES,
    Opcode.Dot4AddI8Packed: _dot_bytes("sext"),
    Opcode.Dot4AddU8Packed: _dot_bytes("zext"),
}


def body(code: int, result: str, operands: list[str]) -> str | None:
    """The body of an operation for these types; None for a code that is not in the table."""
    text = OPERATIONS.get(code)
    if text is None:
        return None
    first, second = (*operands, "", "")[:2]
    return text.replace("$R", result).replace("$A", first).replace("$B", second)
