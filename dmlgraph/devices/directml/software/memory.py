"""The dx.op functions that read and write buffers, as LLVM functions.

A buffer is a pointer and a size in bytes, the first parameters of every function here; the range's metadata and the
view's format are compiled in.  Reads past the end give 0 and writes past it are dropped, component by component in
raw and structured buffers and element by element in typed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dmlgraph.devices.directml.software.formats import Format, Kind

FLOAT_BYTES = {"half": 2, "float": 4, "double": 8}

# Without native 16-bit types, these take four bytes in memory: (type in memory, from memory, to memory).
WIDENED = {"half": ("float", "fptrunc", "fpext"), "i16": ("i32", "trunc", "sext")}

# Alias scopes: constants, group-shared variables and buffers never overlap, so LLVM can keep values of one in
# registers while another is written.  Buffer accesses also belong to the access group that makes the loop over
# threads a parallel one.
METADATA = """
!0 = distinct !{}
!1 = !{!"llvm.loop.parallel_accesses", !0}
!2 = distinct !{!2, !1}
!3 = distinct !{!3, !1}
!4 = distinct !{!4, !1}
!5 = distinct !{!5}
!6 = distinct !{!6, !5}
!7 = distinct !{!7, !5}
!8 = distinct !{!8, !5}
!9 = !{!6}
!10 = !{!7}
!11 = !{!8}
!12 = !{!7, !8}
!13 = !{!6, !8}
!14 = !{!6, !7}
!15 = !{}
"""
BUFFER_ACCESS = "!alias.scope !9, !noalias !12, !llvm.access.group !0"
CONSTANT_ACCESS = "!alias.scope !10, !noalias !13"
SHARED_ACCESS = "!alias.scope !11, !noalias !14"
PARALLEL_LOOPS = ("!llvm.loop !2", "!llvm.loop !3", "!llvm.loop !4")  # over x, y and z
INVARIANT = "!invariant.load !15"

ATOMIC_OPERATIONS = ("add", "and", "or", "xor", "min", "max", "umin", "umax", "xchg")

# Called with (name, text) for each function that the present one calls.
Need = Callable[[str, str], None]


def type_bytes(name: str) -> int:
    """The size of an LLVM number type in bytes."""
    return FLOAT_BYTES.get(name) or int(name[1:]) // 8


def zero(name: str) -> str:
    return "0.0" if name in FLOAT_BYTES else "0"


def mask_bits(mask: int) -> list[int]:
    """The indices of the components in a mask."""
    return [place for place in range(8) if mask >> place & 1]


def structure(result: str, fields: Iterable[tuple[int, str, str]]) -> list[str]:
    """Lines that make the structure %r from (place, type, value), with zeros elsewhere."""
    lines, whole = [], "zeroinitializer"
    for place, name, value in fields:
        lines.append(f"%with.{place} = insertvalue {result} {whole}, {name} {value}, {place}")
        whole = f"%with.{place}"
    return [*lines, f"%r = select i1 true, {result} {whole}, {result} poison"]


STATUS = (4, "i32", "1")  # every tile of a buffer is mapped


# ---- Raw and structured buffers ----


def _element_offset(stride: int, index: str, within: str) -> list[str]:
    """Lines that compute %offset in bytes; a raw buffer counts as one of 1-byte elements."""
    return [
        f"%index = zext i32 {index} to i64",
        f"%start = mul i64 %index, {stride or 1}",
        f"%within = zext i32 {within} to i64",
        "%offset = add i64 %start, %within",
    ]


def _inside(size: int) -> list[str]:
    """Lines that branch on whether `size` bytes at %offset are in the buffer, and continue where they are."""
    return [
        f"%end = add i64 %offset, {size}",
        "%ok = icmp ule i64 %end, %size",
        "br i1 %ok, label %inside, label %outside",
        "inside:",
        "%p = getelementptr i8, ptr %base, i64 %offset",
    ]


def stored_type(name: str, native_16_bit: bool) -> str:
    """The type in memory of a value of this type."""
    return name if native_16_bit or name not in WIDENED else WIDENED[name][0]


def scalar_load(name: str, native_16_bit: bool) -> str:
    """The checked load of one number: @load.TYPE(base, size, offset)."""
    memory = stored_type(name, native_16_bit)
    convert = f"{WIDENED[name][1]} {memory} %m to {name}" if memory != name else f"bitcast {name} %m to {name}"
    lines = [
        "entry:",
        *_inside(type_bytes(memory)),
        f"%m = load {memory}, ptr %p, align 1, {BUFFER_ACCESS}",
        f"%v = {convert}",
        "br label %outside",
        "outside:",
        f"%r = phi {name} [ %v, %inside ], [ {zero(name)}, %entry ]",
        f"ret {name} %r",
    ]
    return _function(name, f"load.{name}", "ptr %base, i64 %size, i64 %offset", lines)


def scalar_store(name: str, native_16_bit: bool) -> str:
    """The checked store of one number: @store.TYPE(base, size, offset, value)."""
    memory = stored_type(name, native_16_bit)
    convert = f"{WIDENED[name][2]} {name} %v to {memory}" if memory != name else f"bitcast {name} %v to {name}"
    lines = [
        *_inside(type_bytes(memory)),
        f"%m = {convert}",
        f"store {memory} %m, ptr %p, align 1, {BUFFER_ACCESS}",
        "br label %outside",
        "outside:",
        "ret void",
    ]
    return _function("void", f"store.{name}", f"ptr %base, i64 %size, i64 %offset, {name} %v", lines)


def load(target: str, result: str, name: str, stride: int, mask: int, native: bool, need: Need) -> str:
    """@target(base, size, index, offset): the components in `mask` of a raw or structured buffer's element."""
    need(f"load.{name}", scalar_load(name, native))
    step = type_bytes(stored_type(name, native))
    lines = _element_offset(stride, "%a", "%b")
    for place in mask_bits(mask & 15):
        lines.append(f"%o{place} = add i64 %offset, {place * step}")
        lines.append(f"%v{place} = call {name} @load.{name}(ptr %base, i64 %size, i64 %o{place})")
    fields = [(place, name, f"%v{place}") for place in mask_bits(mask & 15)]
    lines += structure(result, [*fields, STATUS] if mask & 16 else fields)
    return _function(result, target, "ptr %base, i64 %size, i32 %a, i32 %b", [*lines, f"ret {result} %r"])


def store(target: str, name: str, stride: int, mask: int, native: bool, need: Need) -> str:
    """@target(base, size, index, offset, four values): stores the components in `mask`."""
    need(f"store.{name}", scalar_store(name, native))
    step = type_bytes(stored_type(name, native))
    lines = _element_offset(stride, "%a", "%b")
    for place in mask_bits(mask & 15):
        lines.append(f"%o{place} = add i64 %offset, {place * step}")
        value = "%" + "cdef"[place]
        lines.append(f"call void @store.{name}(ptr %base, i64 %size, i64 %o{place}, {name} {value})")
    return _function("void", target, _store_parameters(name), [*lines, "ret void"])


def _store_parameters(name: str) -> str:
    return f"ptr %base, i64 %size, i32 %a, i32 %b, {name} %c, {name} %d, {name} %e, {name} %f"


# ---- Typed buffers ----


def _typed_element(view: Format) -> list[str]:
    return [
        "%index = zext i32 %a to i64",
        f"%offset = mul i64 %index, {view.size}",
        *_inside(view.size),
    ]


def typed_load(target: str, result: str, name: str, view: Format, mask: int) -> str:
    """@target(base, size, index, unused): components of an element; missing ones are those of 0, 0, 0, 1."""
    present = [place for place in mask_bits(mask & 15) if place < view.components]
    lines = ["entry:", *_typed_element(view)]
    for place in present:
        bits = f"i{view.bits}" if view.kind is not Kind.FLOAT else _float_type(view.bits)
        lines.append(f"%p{place} = getelementptr {bits}, ptr %p, i64 {place}")
        lines.append(f"%m{place} = load {bits}, ptr %p{place}, align 1, {BUFFER_ACCESS}")
        lines += _from_memory(view, f"%m{place}", f"%x{place}")
        lines += _to_overload(view.register, name, f"%x{place}", f"%y{place}")
    lines += ["br label %outside", "outside:"]
    for place in present:
        lines.append(f"%v{place} = phi {name} [ %y{place}, %inside ], [ {zero(name)}, %entry ]")
    fields = [(place, name, f"%v{place}") for place in present]
    if mask & 8 and view.components < 4:
        fields.append((3, name, "1.0" if name in FLOAT_BYTES else "1"))
    lines += structure(result, [*fields, STATUS] if mask & 16 else fields)
    return _function(result, target, "ptr %base, i64 %size, i32 %a, i32 %b", [*lines, f"ret {result} %r"])


def typed_store(target: str, name: str, view: Format, mask: int) -> str:
    """@target(base, size, index, unused, four values): stores the components that the format has."""
    lines = _typed_element(view)
    for place in mask_bits(mask & 15):
        if place < view.components:
            bits = f"i{view.bits}" if view.kind is not Kind.FLOAT else _float_type(view.bits)
            lines.append(f"%p{place} = getelementptr {bits}, ptr %p, i64 {place}")
            lines += _to_register(view, name, "%" + "cdef"[place], f"%x{place}")
            lines += _to_memory(view, f"%x{place}", f"%m{place}")
            lines.append(f"store {bits} %m{place}, ptr %p{place}, align 1, {BUFFER_ACCESS}")
    lines += ["br label %outside", "outside:", "ret void"]
    return _function("void", target, _store_parameters(name), lines)


def _float_type(bits: int) -> str:
    return "float" if bits == 32 else "half"


def _from_memory(view: Format, memory: str, value: str) -> list[str]:
    """Lines that convert a component's bits to a float or i32."""
    name = f"i{view.bits}"
    match view.kind:
        case Kind.FLOAT if view.bits == 16:
            return [f"{value} = fpext half {memory} to float"]
        case Kind.FLOAT:
            return [f"{value} = bitcast float {memory} to float"]
        case Kind.UINT | Kind.SINT if view.bits == 32:
            return [f"{value} = bitcast i32 {memory} to i32"]
        case Kind.UINT:
            return [f"{value} = zext {name} {memory} to i32"]
        case Kind.SINT:
            return [f"{value} = sext {name} {memory} to i32"]
        case Kind.UNORM:
            return [
                f"{value}.f = uitofp {name} {memory} to float",
                f"{value} = fdiv float {value}.f, {(1 << view.bits) - 1}.0",
            ]
        case Kind.SNORM:  # both of the two lowest values mean -1
            return [
                f"{value}.f = sitofp {name} {memory} to float",
                f"{value}.q = fdiv float {value}.f, {(1 << view.bits - 1) - 1}.0",
                f"{value} = call float @llvm.maxnum(float {value}.q, float -1.0)",
            ]


def _to_memory(view: Format, value: str, memory: str) -> list[str]:
    """Lines that convert a float or i32 to a component's bits.  Integers are clamped to the format's range."""
    name = f"i{view.bits}"
    most = (1 << view.bits) - 1
    half = most >> 1
    match view.kind:
        case Kind.FLOAT if view.bits == 16:
            return [f"{memory} = fptrunc float {value} to half"]
        case Kind.FLOAT:
            return [f"{memory} = bitcast float {value} to float"]
        case Kind.UINT | Kind.SINT if view.bits == 32:
            return [f"{memory} = bitcast i32 {value} to i32"]
        case Kind.UINT:
            return [
                f"{memory}.c = call i32 @llvm.umin(i32 {value}, i32 {most})",
                f"{memory} = trunc i32 {memory}.c to {name}",
            ]
        case Kind.SINT:
            return [
                f"{memory}.l = call i32 @llvm.smax(i32 {value}, i32 {-half - 1})",
                f"{memory}.c = call i32 @llvm.smin(i32 {memory}.l, i32 {half})",
                f"{memory} = trunc i32 {memory}.c to {name}",
            ]
        case Kind.UNORM:
            return [
                f"{memory}.l = call float @llvm.maxnum(float {value}, float 0.0)",
                f"{memory}.c = call float @llvm.minnum(float {memory}.l, float 1.0)",
                f"{memory}.s = fmul float {memory}.c, {most}.0",
                f"{memory}.r = call float @llvm.roundeven(float {memory}.s)",
                f"{memory} = fptoui float {memory}.r to {name}",
            ]
        case Kind.SNORM:
            return [
                f"{memory}.n = fcmp uno float {value}, {value}",
                f"{memory}.v = select i1 {memory}.n, float 0.0, float {value}",
                f"{memory}.l = call float @llvm.maxnum(float {memory}.v, float -1.0)",
                f"{memory}.c = call float @llvm.minnum(float {memory}.l, float 1.0)",
                f"{memory}.s = fmul float {memory}.c, {half}.0",
                f"{memory}.r = call float @llvm.roundeven(float {memory}.s)",
                f"{memory} = fptosi float {memory}.r to {name}",
            ]


def _to_overload(register: str, name: str, value: str, result: str) -> list[str]:
    """Lines that convert a float or i32 to the shader's type; between float and i32, the bits stay the same."""
    wide = "float" if name in FLOAT_BYTES else "i32"
    if name == wide:
        return [f"{result} = bitcast {register} {value} to {wide}"]
    return [
        f"{result}.w = bitcast {register} {value} to {wide}",
        f"{result} = {WIDENED[name][1]} {wide} {result}.w to {name}",
    ]


def _to_register(view: Format, name: str, value: str, result: str) -> list[str]:
    """The opposite of `_to_overload`; the format says whether an integer has a sign."""
    wide = "float" if name in FLOAT_BYTES else "i32"
    if name == wide:
        return [f"{result} = bitcast {wide} {value} to {view.register}"]
    extend = "zext" if name == "i16" and view.kind is Kind.UINT else WIDENED[name][2]
    return [
        f"{result}.w = {extend} {name} {value} to {wide}",
        f"{result} = bitcast {wide} {result}.w to {view.register}",
    ]


# ---- Constant buffers ----


def constants_row(target: str, result: str, name: str, rows: int, mask: int, native: bool) -> str:
    """@target(base, row): components of a row of 16 bytes; rows past the last one are zeros."""
    memory = stored_type(name, native)
    lines = [
        f"%row = call i32 @llvm.umin(i32 %a, i32 {rows})",
        "%p = getelementptr [16 x i8], ptr %base, i32 %row",
    ]
    for place in mask_bits(mask):
        lines += [
            f"%p{place} = getelementptr {memory}, ptr %p, i64 {place}",
            *_constant(memory, name, f"%p{place}", f"%v{place}"),
        ]
    lines += structure(result, [(place, name, f"%v{place}") for place in mask_bits(mask)])
    return _function(result, target, "ptr %base, i32 %a", [*lines, f"ret {result} %r"])


def constant(target: str, name: str, rows: int, native: bool) -> str:
    """@target(base, offset): one number; past the last row it is zero."""
    memory = stored_type(name, native)
    lines = [
        f"%at = call i32 @llvm.umin(i32 %a, i32 {16 * rows})",
        "%p = getelementptr i8, ptr %base, i32 %at",
        *_constant(memory, name, "%p", "%r"),
    ]
    return _function(name, target, "ptr %base, i32 %a", [*lines, f"ret {name} %r"])


def _constant(memory: str, name: str, pointer: str, value: str) -> list[str]:
    lines = [f"{value}.m = load {memory}, ptr {pointer}, align 1, {CONSTANT_ACCESS}"]
    convert = WIDENED[name][1] if memory != name else "bitcast"
    return [*lines, f"{value} = {convert} {memory} {value}.m to {name}"]


# ---- Atomic operations and sizes ----


def atomic(target: str, name: str, stride: int, typed: bool, operation: str) -> str:
    """@target(base, size, index, offset, value): the number before `operation`; 0 past the end."""
    instruction = f"%v = atomicrmw {operation} ptr %p, {name} %c seq_cst"
    return _atomic(target, name, stride, typed, f"{name} %c", [instruction])


def compare_exchange(target: str, name: str, stride: int, typed: bool) -> str:
    """@target(base, size, index, offset, expected, value): the number before; 0 past the end."""
    return _atomic(
        target,
        name,
        stride,
        typed,
        f"{name} %c, {name} %d",
        [
            f"%x = cmpxchg ptr %p, {name} %c, {name} %d seq_cst seq_cst",
            f"%v = extractvalue {{ {name}, i1 }} %x, 0",
        ],
    )


def _atomic(target: str, name: str, stride: int, typed: bool, values: str, instructions: list[str]) -> str:
    lines = [
        "entry:",
        *_element_offset(stride, "%a", "0" if typed else "%b"),
        *_inside(type_bytes(name)),
        *instructions,
        "br label %outside",
        "outside:",
        f"%r = phi {name} [ %v, %inside ], [ 0, %entry ]",
        f"ret {name} %r",
    ]
    return _function(name, target, f"ptr %base, i64 %size, i32 %a, i32 %b, {values}", lines)


def dimensions(target: str, result: str, unit: int, stride: int) -> str:
    """@target(base, size): the number of units in the buffer, then the stride."""
    lines = [
        f"%units = udiv i64 %size, {unit}",
        "%count = trunc i64 %units to i32",
        *structure(result, [(0, "i32", "%count"), (1, "i32", str(stride))]),
        f"ret {result} %r",
    ]
    return _function(result, target, "ptr %base, i64 %size", lines)


def _function(result: str, name: str, parameters: str, lines: list[str]) -> str:
    body = "\n  ".join(lines)
    return f"define internal {result} @{name}({parameters}) alwaysinline nounwind {{\n  {body}\n}}\n"
