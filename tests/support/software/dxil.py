"""Hand-written DXIL shaders: containers from LLVM text, and a way to run their kernels on NumPy arrays."""

from __future__ import annotations

import ctypes
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgraph.devices.directml.software import container, llvm
from dmlgraph.devices.directml.software.compiler import Compiler, Kernel
from dmlgraph.devices.directml.software.metadata import NATIVE_16_BIT

DXIL_LAYOUT = "e-m:e-p:32:32-i1:32-i8:32-i16:32-i32:32-i64:64-f16:32-f32:32-f64:64-n8:16:32:64"
NATIVE_LAYOUT = "e-m:e-p:32:32-i1:32-i8:8-i16:16-i32:32-i64:64-f16:16-f32:32-f64:64-n8:16:32:64"

STRUCTURES = """
%dx.types.Handle = type { ptr }
%dx.types.ResBind = type { i32, i32, i32, i8 }
%dx.types.ResourceProperties = type { i32, i32 }
%dx.types.Dimensions = type { i32, i32, i32, i32 }
%dx.types.twoi32 = type { i32, i32 }
%dx.types.i32c = type { i32, i1 }
%dx.types.splitdouble = type { i32, i32 }
%dx.types.CBufRet.i32 = type { i32, i32, i32, i32 }
%dx.types.CBufRet.f32 = type { float, float, float, float }
%dx.types.CBufRet.f16 = type { half, half, half, half }
%dx.types.CBufRet.f16.8 = type { half, half, half, half, half, half, half, half }
%dx.types.CBufRet.f64 = type { double, double }
%dx.types.ResRet.i32 = type { i32, i32, i32, i32, i32 }
%dx.types.ResRet.i16 = type { i16, i16, i16, i16, i32 }
%dx.types.ResRet.i64 = type { i64, i64, i64, i64, i32 }
%dx.types.ResRet.f16 = type { half, half, half, half, i32 }
%dx.types.ResRet.f32 = type { float, float, float, float, i32 }
%dx.types.ResRet.f64 = type { double, double, double, double, i32 }
"""

SRV, UAV, CBV = range(3)
TYPED, RAW, STRUCTURED = 10, 11, 12


@dataclasses.dataclass(frozen=True)
class Range:
    """A range of resources; `size` is a constant buffer's size in bytes, `stride` an element's."""

    resource_class: int
    shape: int = RAW
    stride: int = 0
    size: int = 0
    count: int = 1
    lower: int = 0


def shader(
    body: str,
    ranges: Sequence[Range] = (Range(UAV),),
    threads: tuple[int, int, int] = (1, 1, 1),
    *,
    native: bool = True,
    variables: str = "",
    attributes: str = "",
    model: str = "cs",
) -> bytes:
    """A container with a shader of one function.

    `body` may use %h0, %h1, ...: handles of the first register of each range.  Ranges are in the order of their
    classes, as in the metadata.
    """
    assert [each.resource_class for each in ranges] == sorted(each.resource_class for each in ranges)
    numbered: dict[int, list[tuple[int, Range]]] = {SRV: [], UAV: [], CBV: []}
    handles = []
    for place, each in enumerate(ranges):
        identifier = len(numbered[each.resource_class])
        numbered[each.resource_class].append((identifier, each))
        handles.append(
            f"%h{place} = call %dx.types.Handle @dx.op.createHandle(i32 57, i8 {each.resource_class}, "
            f"i32 {identifier}, i32 {each.lower}, i1 false)"
        )
    lines = [line for line in body.strip("\n").split("\n") if line.strip()]
    code = "\n".join([*("  " + line for line in handles), *lines])
    nodes: list[str] = []

    def node(*fields: str) -> str:
        nodes.append(f"!{len(nodes)} = !{{{', '.join(fields)}}}")
        return f"!{len(nodes) - 1}"

    lists = []
    for resource_class in (SRV, UAV, CBV):
        members = []
        for identifier, each in numbered[resource_class]:
            common = (f"i32 {identifier}", "ptr undef", '!"a, b"', "i32 0", f"i32 {each.lower}", f"i32 {each.count}")
            extra = node("i32 1", f"i32 {each.stride}") if each.stride else "null"
            if resource_class == SRV:
                members.append(node(*common, f"i32 {each.shape}", "i32 0", extra))
            elif resource_class == UAV:
                members.append(node(*common, f"i32 {each.shape}", "i1 false", "i1 false", "i1 false", extra))
            else:
                members.append(node(*common, f"i32 {each.size}", "null"))
        lists.append(node(*members) if members else "null")
    resources = node(*lists, "null")
    counts = node(*(f"i32 {count}" for count in threads))
    properties = node("i32 0", f"i64 {NATIVE_16_BIT if native else 0}", "i32 4", counts)
    entry = node("ptr @main", '!"main"', "null", resources, properties)
    kind = node(f'!"{model}"', "i32 6", "i32 2")
    text = "\n".join(
        [
            f'target datalayout = "{NATIVE_LAYOUT if native else DXIL_LAYOUT}"',
            'target triple = "dxil-ms-dx"',
            STRUCTURES,
            variables,
            f"define void @main() {attributes and '#0'} {{",
            code,
            "}",
            *_declarations(code),
            f"attributes #0 = {{ {attributes} }}" if attributes else "",
            f"!dx.resources = !{{{resources}}}",
            f"!dx.entryPoints = !{{{entry}}}",
            f"!dx.shaderModel = !{{{kind}}}",
            *nodes,
        ]
    )
    return pack(text)


_CALL = re.compile(r"call (\S+) @(dx\.op\.[\w.]+)\((.*)\)")
_OPERAND = re.compile(r"(?:[^,{]|\{[^}]*\})+")


def _declarations(code: str) -> list[str]:
    found: dict[str, str] = {}
    for result, name, operands in _CALL.findall(code):
        types = [operand.split()[0] for operand in _OPERAND.findall(operands)]
        found[name] = f"declare {result} @{name}({', '.join(types)})"
    return list(found.values())


def pack(text: str) -> bytes:
    """A container with the bitcode of a module."""
    legal = text.replace(DXIL_LAYOUT, DXIL_LAYOUT.replace("-i8:32-", "-i8:08-"))
    bitcode = llvm.binding().parse_assembly(legal, llvm.context()).as_bitcode()
    if legal != text:  # LLVM does not write this layout itself
        bitcode = container.replace_characters(bitcode, "-i8:08-", "-i8:32-")
    return wrap(bitcode)


def wrap(bitcode: bytes) -> bytes:
    """A container with a DXIL part of this bitcode."""
    program = bytes(8) + b"DXIL" + bytes(4) + (16).to_bytes(4, "little") + len(bitcode).to_bytes(4, "little") + bitcode
    part = b"DXIL" + len(program).to_bytes(4, "little") + program
    head = b"DXBC" + bytes(20) + (36 + len(part)).to_bytes(4, "little") + (1).to_bytes(4, "little")
    return head + (36).to_bytes(4, "little") + part


class View(ctypes.Structure):
    """SwView."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("stride", ctypes.c_uint32),
        ("format", ctypes.c_uint32),
        ("counter", ctypes.c_uint64),
    )


KERNEL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p
)


def view(data: NDArray[np.generic] | None) -> View:
    if data is None:
        return View(None, 0, 1, 0, 0)
    assert data.flags.c_contiguous
    return View(data.ctypes.data, data.nbytes, 1, 0, 0)


def run(
    kernel: Kernel,
    views: Sequence[View | Sequence[View]],
    grid: tuple[int, int, int] = (1, 1, 1),
    groups: tuple[int, int] | None = None,
) -> None:
    """Run groups first <= i < last of a grid, or all; `views` are in the order of the shader's ranges."""
    arrays = [(View * 1)(v) if isinstance(v, View) else (View * len(v))(*v) for v in views]
    table = (ctypes.c_void_p * max(1, len(arrays)))(*(ctypes.addressof(array) for array in arrays))
    first, last = groups if groups else (0, grid[0] * grid[1] * grid[2])
    shared = np.zeros(kernel.shared_bytes + 128, np.uint8)
    aligned = (shared.ctypes.data + 63) & ~63
    KERNEL(kernel.address)(ctypes.addressof(table), (ctypes.c_uint32 * 3)(*grid), first, last, aligned)


def compile_and_run(
    code: bytes,
    *buffers: NDArray[np.generic] | None,
    grid: tuple[int, int, int] = (1, 1, 1),
    formats: tuple[int, ...] | None = None,
) -> None:
    """Run the whole grid of a shader on buffers, in the order of the shader's ranges."""
    kernel = Compiler().compile(code, formats or (0,) * len(buffers))
    run(kernel, [view(each) for each in buffers], grid)


# ---- One operation on many values ----

_RET = {"half": "f16", "float": "f32", "double": "f64"}
LLVM_TYPES = {
    np.dtype(np.float16): "half",
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.int16): "i16",
    np.dtype(np.uint16): "i16",
    np.dtype(np.int32): "i32",
    np.dtype(np.uint32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.uint64): "i64",
}


def evaluate(
    code: str, inputs: Sequence[NDArray[np.generic]], dtype: type[np.generic], results: int = 1, attributes: str = ""
) -> list[NDArray[Any]]:
    """Run instructions on all rows of values at once, one thread per row.

    `code` computes %r (and %r1 if there are two results) from %a, %b, ...; $i is the size of the inputs.
    """
    count = len(inputs[0])
    lines = [
        "%id = call i32 @dx.op.threadId.i32(i32 93, i32 0)",
        f"%in = icmp ult i32 %id, {count}",
        "br i1 %in, label %work, label %end",
        "work:",
    ]
    ranges = []
    for place, (letter, values) in enumerate(zip("abcdefgh", inputs, strict=False)):
        kind = LLVM_TYPES[values.dtype]
        suffix = _RET.get(kind, kind)
        lines += [
            f"%at.{letter} = mul i32 %id, {values.itemsize}",
            f"%load.{letter} = call %dx.types.ResRet.{suffix} @dx.op.rawBufferLoad.{suffix}(i32 139, "
            f"%dx.types.Handle %h{place}, i32 %at.{letter}, i32 undef, i8 1, i32 {values.itemsize})",
            f"%{letter} = extractvalue %dx.types.ResRet.{suffix} %load.{letter}, 0",
        ]
        ranges.append(Range(SRV))
    lines += code.strip().split("\n")
    out = [np.zeros(count, dtype) for _ in range(results)]
    kind = LLVM_TYPES[np.dtype(dtype)]
    suffix = _RET.get(kind, kind)
    for place, (name, values) in enumerate(zip(("%r", "%r1"), out, strict=False)):
        lines += [
            f"%to.{place} = mul i32 %id, {values.itemsize}",
            f"call void @dx.op.rawBufferStore.{suffix}(i32 140, %dx.types.Handle %h{len(inputs) + place}, "
            f"i32 %to.{place}, i32 undef, {kind} {name}, {kind} undef, {kind} undef, {kind} undef, i8 1, i32 4)",
        ]
        ranges.append(Range(UAV))
    lines += ["br label %end", "end:", "ret void"]
    body = "\n".join(line if line.endswith(":") else f"  {line.strip()}" for line in lines)
    code_bytes = shader(body, ranges, (64, 1, 1), attributes=attributes)
    compile_and_run(code_bytes, *inputs, *out, grid=(-(-count // 64), 1, 1))
    return out


def operation(
    family: str,
    opcode: int,
    inputs: Sequence[NDArray[np.generic]],
    dtype: type[np.generic],
    structure: str | None = None,
) -> list[NDArray[Any]]:
    """Run dx.op.FAMILY on every row of inputs; with `structure`, returns both fields of its result."""
    kinds = [LLVM_TYPES[values.dtype] for values in inputs]
    operands = ", ".join(f"{kind} %{letter}" for kind, letter in zip(kinds, "abcdefgh", strict=False))
    suffix = _RET.get(kinds[0], kinds[0])
    result = structure or LLVM_TYPES[np.dtype(dtype)]
    call = f"call {result} @dx.op.{family}.{suffix}(i32 {opcode}, {operands})"
    if structure is None:
        return evaluate(f"%r = {call}", inputs, dtype)
    code = f"%both = {call}\n%r = extractvalue {structure} %both, 0\n%r1 = extractvalue {structure} %both, 1"
    return evaluate(code, inputs, dtype, results=2)
