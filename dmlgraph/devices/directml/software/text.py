"""Adapts the LLVM text of a DXIL module to a CPU, line by line.

Address spaces, alignments, metadata and attributes are removed, as are the flags that let LLVM assume what
Direct3D does not guarantee (fast-math, no wrap-around, exact, in bounds).  Integer divisions, shifts and
conversions that are undefined in LLVM get Direct3D's results.
"""

from __future__ import annotations

import re
from collections.abc import Callable

DROPPED = re.compile(
    r"\s*$|;|!|target |source_filename|attributes |declare |@llvm\.|%dx\.types\.Handle = "
    r"|\s+#dbg_|\s+(?:tail )?call void @llvm\.(?:lifetime|dbg)"
)
_ANNOTATIONS = re.compile(r"(?:, align \d+)?(?:,? ![\w.]+ ![\w.]+)*(?: #\d+)?$")
_FLAG = (
    r"(?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|nuw|nsw|exact|disjoint|nneg|samesign|inbounds|nusw"
    r"|inrange\([^)]*\)) )+"
)
_FLAGS = re.compile(rf"(  %\S+ = (?:tail )?[a-z]+ ){_FLAG}")
_ADDRESS_FLAGS = re.compile(rf"(?<=getelementptr ){_FLAG}")
_ADDRESS_SPACE = re.compile(r" addrspace\(\d+\)")

LABEL = re.compile(r'("[^"]*"|[\w.$-]+):')
_NUMBER = re.compile(r"%(\d+)\b|^(\d+):", re.MULTILINE)
ENTRY = "sw.0"  # the label of a first block that LLVM numbers, which does not print it


def with_names(text: str) -> str:
    """A module in which values, blocks and types have names in place of numbers.

    Numbers have to follow one another in LLVM 15, and some instructions go.
    """
    return _NUMBER.sub(lambda match: f"%sw.{match[1]}" if match[1] else f"sw.{match[2]}:", text)


def is_dropped(line: str) -> bool:
    """Whether a line has no meaning for a CPU: comments, metadata, attributes, declarations of the module."""
    return DROPPED.match(line) is not None


def clean(line: str) -> str:
    """A line without annotations, flags and address spaces."""
    if not line.startswith(" "):
        label = LABEL.match(line)
        return label[0] if label else line  # the rest of a label's line is a comment
    if ", align " in line or " !" in line or " #" in line:
        line = _ANNOTATIONS.sub("", line, count=1)
    if match := _FLAGS.match(line):
        line = match[1] + line[match.end() :]
    if "getelementptr " in line:  # an instruction, or constant expressions as operands of another one
        line = _ADDRESS_FLAGS.sub("", line)
    if "addrspace" in line:
        line = _ADDRESS_SPACE.sub("", line).replace("addrspacecast", "bitcast")
    return line


# ---- Instructions that need a guard ----

_ARITHMETIC = re.compile(r"  (%\S+) = (udiv|urem|sdiv|srem|shl|lshr|ashr) (i\d+) (\S+), (\S+)$")
_TO_INTEGER = re.compile(r"  (%\S+) = (fptosi|fptoui) (half|float|double) (\S+) to (i\d+)$")
_DOUBLE_TO_HALF = re.compile(r"  (%\S+) = fptrunc double (\S+) to half$")
_INTEGER = re.compile(r"-?\d+$")

GUARDED = frozenset(("udiv", "urem", "sdiv", "srem", "shl", "lshr", "ashr", "fptosi", "fptoui", "fptrunc"))


def guard(line: str, need: Callable[[str, str], None]) -> str:
    """An instruction, one of GUARDED, with Direct3D's result for every operand.

    Calls `need(name, text)` for each function that the result calls.
    """
    if match := _ARITHMETIC.match(line):
        result, operation, width, left, right = match.groups()
        if _harmless(operation, int(width[1:]), right):
            return line
        name = f"{operation}.{width}"
        need(name, _guarded(operation, width, name))
        return f"  {result} = call {width} @{name}({width} {left}, {width} {right})"
    if match := _TO_INTEGER.match(line):
        result, operation, source, value, target = match.groups()
        name = f"{operation}.{source}.{target}"
        need(name, _saturating(operation, source, target, name))
        return f"  {result} = call {target} @{name}({source} {value})"
    if match := _DOUBLE_TO_HALF.match(line):
        need("double.to.half", DOUBLE_TO_HALF)
        return f"  {match[1]} = call half @double.to.half(double {match[2]})"
    return line


def _harmless(operation: str, width: int, right: str) -> bool:
    """Whether the right operand is a constant that needs no guard."""
    if not _INTEGER.match(right):
        return False
    value = int(right)
    if operation in ("shl", "lshr", "ashr"):
        return 0 <= value < width
    return value not in (0, -1)


def _guarded(operation: str, width: str, name: str) -> str:
    """A function for an operation that is undefined in LLVM for some operands.

    Shifts use the low bits of their count.  Division by zero gives all ones for both quotient and remainder: this is
    Direct3D's rule for unsigned numbers; it has no rule for signed ones.  The least number divided by -1 wraps
    around to itself, with remainder 0; the processor would trap.
    """
    head = f"define internal {width} @{name}({width} %a, {width} %b) alwaysinline {{\n"
    if operation in ("shl", "lshr", "ashr"):
        return (
            head
            + f"""
        %count = and {width} %b, {int(width[1:]) - 1}
        %r = {operation} {width} %a, %count
        ret {width} %r\n}}\n"""
        )
    signed = operation[0] == "s"
    overflow = f"""
        %least = icmp eq {width} %a, {-(1 << int(width[1:]) - 1)}
        %minus.one = icmp eq {width} %b, -1
        %wraps = and i1 %least, %minus.one
        %unsafe = or i1 %zero, %wraps"""
    return (
        head
        + f"""
        %zero = icmp eq {width} %b, 0
        {overflow if signed else ""}
        %divisor = select i1 {"%unsafe" if signed else "%zero"}, {width} 1, {width} %b
        %value = {operation} {width} %a, %divisor
        %r = select i1 %zero, {width} -1, {width} %value
        ret {width} %r\n}}\n"""
    )


def _saturating(operation: str, source: str, target: str, name: str) -> str:
    """A function that converts to an integer: the nearest one if the value is out of range, 0 for NaN.

    Halves are converted to float first, which represents them exactly: for vectors of halves, LLVM 22 converts NaN to
    the least number.
    """
    wide = "float" if source == "half" else source
    extend = "fpext half %a to float" if source == "half" else f"bitcast {source} %a to {source}"
    return f"""
define internal {target} @{name}({source} %a) alwaysinline {{
        %wide = {extend}
        %r = call {target} @llvm.{operation}.sat({wide} %wide)
        ret {target} %r
}}
"""


# Rounds once.  LLVM would call a runtime function that a process may not have, and rounding to float on the
# way would round twice.  A float that is rounded to odd (if it is inexact, its last bit is set) keeps what the
# second rounding needs, since it has more than two bits more than a half.
DOUBLE_TO_HALF = """
define internal half @double.to.half(double %a) alwaysinline {
        %near = fptrunc double %a to float
        %back = fpext float %near to double
        %size = call double @llvm.fabs(double %a)
        %back.size = call double @llvm.fabs(double %back)
        %beyond = fcmp ogt double %back.size, %size
        %short = fcmp olt double %back.size, %size
        %inexact = or i1 %beyond, %short
        %bits = bitcast float %near to i32
        %less = sext i1 %beyond to i32
        %toward.zero = add i32 %bits, %less
        %last = zext i1 %inexact to i32
        %odd = or i32 %toward.zero, %last
        %single = bitcast i32 %odd to float
        %r = fptrunc float %single to half
        ret half %r
}
"""


# ---- Group-shared variables ----

_VARIABLE = re.compile(r'(@(?:"[^"]*"|[\w.$-]+)) = .*?addrspace\(3\)')


def shared_name(definition: str) -> str | None:
    """The name of a group-shared variable, from a variable's definition; None for any other variable."""
    match = _VARIABLE.match(definition)
    return match[1] if match and not match[1].startswith("@llvm.") else None


class SharedMemory:
    """Gives each group-shared variable a place in the memory block that is passed to a kernel.

    Kernels run groups on several threads at once, so these variables cannot be globals of the module.  Their
    addresses, and constant expressions of them, become values that are computed at the start of a thread.
    """

    ALIGNMENT = 16

    def __init__(self, variables: list[tuple[str, int]]) -> None:
        """`variables` are names and sizes in bytes."""
        self.size = 0
        self.addresses: list[str] = []  # instructions
        self._values: dict[str, str] = {}  # by constant expression
        for name, size in variables:
            self._value_of(name, f"getelementptr i8, ptr %sw.shared, i64 {self.size}")
            self.size += -(-size // self.ALIGNMENT) * self.ALIGNMENT
        names = "|".join(re.escape(name) for name, _ in variables)
        self._used = re.compile(rf"(?:{names})(?![\w.$-])") if variables else None

    def replace(self, line: str) -> str:
        """Replaces the shared variables in a clean line by values."""
        while self._used and (match := self._used.search(line)):
            start, end = _expression_around(line, *match.span())
            line = line[:start] + self._value(line[start:end]) + line[end:]
        return line

    def _value(self, expression: str) -> str:
        """The value for a variable or a constant expression of one."""
        if expression in self._values:
            return self._values[expression]
        operation, operands = expression.split("(", 1)
        operation = operation.strip()
        inner = self.replace(operands[:-1])
        return self._value_of(expression, f"{operation} {inner}")

    def _value_of(self, expression: str, instruction: str) -> str:
        value = self._values[expression] = f"%sw.shared.{len(self._values)}"
        self.addresses.append(f"  {value} = {instruction}")
        return value


_OPENING = re.compile(r"(getelementptr|bitcast|ptrtoint|inttoptr) \($")


def _expression_around(line: str, start: int, end: int) -> tuple[int, int]:
    """Start and end of the innermost constant expression around a name, or of the name if there is none."""
    depth = 0
    for position in range(start - 1, -1, -1):
        if line[position] == ")":
            depth += 1
        elif line[position] == "(":
            if depth == 0:
                opening = _OPENING.search(line[: position + 1])
                return (opening.start(), line.index(")", end) + 1) if opening else (start, end)
            depth -= 1
    return start, end
