"""Views: bounds, formats, strides, constants, arrays of them, atomic operations."""

# ruff: noqa: E501  (LLVM takes an instruction on one line)

from __future__ import annotations

import numpy as np
import pytest
from support.software import dxil
from support.software.dxil import CBV, RAW, SRV, STRUCTURED, TYPED, UAV, Range

from dmlgraph.devices.directml.software.compiler import Compiler
from dmlgraph.devices.directml.software.errors import ShaderError
from dmlgraph.devices.directml.software.formats import FORMATS, Kind


def load4(
    name: str, handle: str, index: str, offset: str = "undef", operation: str = "bufferLoad", code: int = 68
) -> str:
    """Instructions that load %x, %y, %z and %w."""
    kind = {"f32": "float", "f16": "half"}.get(name, name)
    lines = [
        f"%l = call %dx.types.ResRet.{name} @dx.op.{operation}.{name}"
        f"(i32 {code}, %dx.types.Handle {handle}, i32 {index}, i32 {offset})"
    ]
    lines += [f"%{c} = extractvalue %dx.types.ResRet.{name} %l, {i}" for i, c in enumerate("xyzw")]
    assert kind
    return "\n".join(lines)


def store4(name: str, handle: str, index: str, offset: str = "undef", mask: int = 15, values: str = "xyzw") -> str:
    kind = {"f32": "float", "f16": "half"}.get(name, name)
    operands = ", ".join(f"{kind} %{value}" for value in values)
    return (
        f"call void @dx.op.bufferStore.{name}(i32 69, %dx.types.Handle {handle}, i32 {index}, i32 {offset}, "
        f"{operands}, i8 {mask})"
    )


def body(*lines: str) -> str:
    return "\n".join(["%id = call i32 @dx.op.threadId.i32(i32 93, i32 0)", *lines, "ret void"])


# ---- Bounds ----


def test_raw_loads_past_the_end_are_zero_by_component():
    code = body(
        "%at = mul i32 %id, 4", load4("i32", "%h0", "%at"), "%to = mul i32 %id, 16", store4("i32", "%h1", "%to")
    )
    source, out = np.array([1, 2, 3, 4, 5], np.uint32), np.full((8, 4), 99, np.uint32)
    dxil.compile_and_run(dxil.shader(code, [Range(SRV), Range(UAV)], (8, 1, 1)), source, out)
    padded = np.concatenate([source, np.zeros(8, np.uint32)])
    np.testing.assert_array_equal(out, [padded[i : i + 4] for i in range(8)])


def test_raw_stores_past_the_end_are_dropped_by_component():
    code = body("%x = add i32 %id, 1", store4("i32", "%h0", "%at", values="xxxx").replace("%at", "8"))
    memory = np.full(16, 7, np.uint32)
    kernel = Compiler().compile(dxil.shader(code), (0,))
    view = dxil.view(memory)
    view.size = 4 * 4
    dxil.run(kernel, [view])
    np.testing.assert_array_equal(memory, [7, 7, 1, 1] + [7] * 12)


@pytest.mark.parametrize("index", [0, 1, 2, 3, 2**31, 2**32 - 1])
def test_structures_past_the_end(index):
    """The multiplication with the stride must not wrap around."""
    code = body(load4("i32", "%h0", str(index - 2**32 if index >= 2**31 else index), "8"), store4("i32", "%h1", "0"))
    source, out = np.arange(1, 19, dtype=np.uint32), np.full(4, 99, np.uint32)
    ranges = [Range(SRV, STRUCTURED, 24), Range(UAV)]
    dxil.compile_and_run(dxil.shader(code, ranges), source, out)
    padded = np.concatenate([source, np.zeros(8, np.uint32)])
    np.testing.assert_array_equal(out, padded[6 * index + 2 : 6 * index + 6] if index < 3 else np.zeros(4))


def test_an_offset_far_past_the_end_does_not_wrap():
    code = body(load4("i32", "%h0", "-4"), store4("i32", "%h1", "-8"), store4("i32", "%h1", "0"))
    source, out = np.arange(1, 9, dtype=np.uint32), np.full(4, 99, np.uint32)
    dxil.compile_and_run(dxil.shader(code, [Range(SRV), Range(UAV)]), source, out)
    np.testing.assert_array_equal(out, 0)


def test_typed_elements_past_the_end():
    code = body(load4("i32", "%h0", "%id"), store4("i32", "%h1", "%id"))
    source, out = np.arange(1, 6, dtype=np.uint16), np.full(6, 99, np.uint16)
    view = dxil.view(out)
    view.size = 8
    kernel = Compiler().compile(dxil.shader(code, [Range(SRV, TYPED), Range(UAV, TYPED)], (8, 1, 1)), (57, 57))
    dxil.run(kernel, [dxil.view(source), view])
    np.testing.assert_array_equal(out, [1, 2, 3, 4, 99, 99])


@pytest.mark.parametrize("shape", [RAW, TYPED])
def test_unbound_views_read_zero_and_drop_writes(shape):
    code = body(
        load4("i32", "%h0", "%id"), store4("i32", "%h1", "%id"), "%to = mul i32 %id, 16", store4("i32", "%h2", "%to")
    )
    out = np.full((4, 4), 99, np.uint32)
    ranges = [Range(SRV, shape), Range(UAV, shape), Range(UAV)]
    dxil.compile_and_run(dxil.shader(code, ranges, (4, 1, 1)), None, None, out)
    np.testing.assert_array_equal(out, [[0, 0, 0, 1 if shape == TYPED else 0]] * 4)  # R32's alpha is 1


# ---- Formats ----

NUMBERS = np.array([0, 1, 0.5, -1, -0.25, 2, -2, 1e6, -1e6, np.nan, 0.1], np.float32)


@pytest.mark.parametrize("number", FORMATS)
def test_formats(number):
    """Loading and storing every format: missing components are 0, 0, 0 and 1."""
    form = FORMATS[number]
    bits = {8: 1, 16: 2, 32: 4}[form.bits]
    prefix = {Kind.FLOAT: "f", Kind.SINT: "i", Kind.SNORM: "i"}.get(form.kind, "u")
    dtype = np.dtype(f"{prefix}{bits}")
    name = "f32" if form.register == "float" else "i32"
    rng = np.random.default_rng(number)
    raw = rng.integers(0, 256, (5, form.size), np.uint8)
    memory = raw.view(dtype).copy()
    if form.kind is Kind.FLOAT:
        memory = rng.normal(size=memory.shape).astype(dtype)
    code = body(load4(name, "%h0", "%id"), "%to = mul i32 %id, 16", store4(name, "%h1", "%to"))
    out = np.zeros((5, 4), np.float32 if name == "f32" else dtype.kind + "4")
    program = dxil.shader(code, [Range(SRV, TYPED), Range(UAV)], (5, 1, 1))
    dxil.compile_and_run(program, memory, out, formats=(number, 0))
    want = np.zeros_like(out)
    want[:, 3] = 1
    scale = {Kind.UNORM: 2**form.bits - 1, Kind.SNORM: 2 ** (form.bits - 1) - 1}.get(form.kind, 1)
    want[:, : form.components] = (
        np.maximum(memory.astype(want.dtype) / want.dtype.type(scale), -1) if scale > 1 else memory
    )
    np.testing.assert_array_equal(out, want)

    if name == "f32":
        values = np.ascontiguousarray(np.resize(NUMBERS, (11, 4)).T.reshape(11, 4))
    else:
        values = np.resize(
            np.array([0, 1, -1, 255, 256, 70000, -70000, 2**31 - 1, -(2**31), 127, -129], np.int32), (11, 4)
        )
        values = values.view(out.dtype)
    code = body("%from = mul i32 %id, 16", load4(name, "%h0", "%from"), store4(name, "%h1", "%id"))
    stored = np.zeros((11, form.components), dtype)
    program = dxil.shader(code, [Range(SRV), Range(UAV, TYPED)], (11, 1, 1))
    dxil.compile_and_run(program, np.ascontiguousarray(values), stored, formats=(0, number))
    np.testing.assert_array_equal(stored, converted(values[:, : form.components], form, dtype))


def converted(values, form, dtype):
    """Direct3D's conversion of register values to a format: integers are clamped, floats round to nearest even."""
    if form.kind is Kind.FLOAT:
        with np.errstate(over="ignore"):
            return values.astype(dtype)
    if form.kind in (Kind.UINT, Kind.SINT):
        info = np.iinfo(dtype)
        return np.clip(values.astype(np.int64), info.min, info.max).astype(dtype)
    most = np.float32(2 ** (form.bits - (form.kind is Kind.SNORM)) - 1)
    unit = np.clip(np.nan_to_num(values, nan=0), -1 if form.kind is Kind.SNORM else 0, 1)
    return np.rint(unit * most).astype(dtype)


def test_halves_and_short_integers_in_typed_views():
    code = body(load4("f16", "%h0", "%id"), store4("f16", "%h1", "%id"))
    source, out = np.array([0.1, 70000, -2, np.inf], np.float32), np.zeros(4, np.float16)
    dxil.compile_and_run(
        dxil.shader(code, [Range(SRV, TYPED), Range(UAV, TYPED)], (4, 1, 1)), source, out, formats=(41, 54)
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, source.astype(np.float16))
    code = body(load4("i16", "%h0", "%id"), store4("i16", "%h1", "%id"))
    source, out = np.array([1, 65535, 40000, 7], np.uint16), np.zeros(4, np.uint16)
    dxil.compile_and_run(
        dxil.shader(code, [Range(SRV, TYPED), Range(UAV, TYPED)], (4, 1, 1)), source, out, formats=(57, 57)
    )
    np.testing.assert_array_equal(out, source)


def test_a_format_that_is_not_supported_is_named():
    code = dxil.shader(body(load4("f32", "%h0", "%id")), [Range(SRV, TYPED)])
    with pytest.raises(ShaderError, match="DXGI format 26 "):
        Compiler().compile(code, (26,))


# ---- Widths ----


def test_minimum_precision_takes_four_bytes():
    code = body(
        "%at = mul i32 %id, 4", load4("f16", "%h0", "%at"), store4("f16", "%h2", "%at", mask=1),
        load4("i16", "%h1", "%at").replace("%l", "%m").replace("%x ", "%p ").replace("%y ", "%q ")
        .replace("%z ", "%s ").replace("%w ", "%t "), store4("i16", "%h3", "%at", mask=1, values="pppp"),
    )  # fmt: skip
    floats, integers = np.array([1.5, 0.1, 65504], np.float32), np.array([1, -2, 70000], np.int32)
    out, ints = np.zeros(3, np.float32), np.zeros(3, np.int32)
    ranges = [Range(SRV), Range(SRV), Range(UAV), Range(UAV)]
    dxil.compile_and_run(dxil.shader(code, ranges, (3, 1, 1), native=False), floats, integers, out, ints)
    np.testing.assert_array_equal(out, floats.astype(np.float16))
    np.testing.assert_array_equal(ints, integers.astype(np.int16))


def test_a_store_mask_leaves_the_rest_alone():
    code = body("%x = add i32 %id, 5", store4("i32", "%h0", "0", mask=0b1010, values="xxxx"))
    out = np.full(4, 9, np.uint32)
    dxil.compile_and_run(dxil.shader(code), out)
    np.testing.assert_array_equal(out, [9, 5, 9, 5])


def test_the_status_of_a_load_says_mapped():
    code = body(
        "%l = call %dx.types.ResRet.i32 @dx.op.bufferLoad.i32(i32 68, %dx.types.Handle %h0, i32 0, i32 undef)",
        "%s = extractvalue %dx.types.ResRet.i32 %l, 4",
        "%m = call i1 @dx.op.checkAccessFullyMapped.i32(i32 71, i32 %s)",
        "%x = zext i1 %m to i32",
        store4("i32", "%h1", "0", mask=1, values="xxxx"),
    )
    out = np.zeros(1, np.uint32)
    dxil.compile_and_run(dxil.shader(code, [Range(SRV), Range(UAV)]), np.ones(4, np.uint32), out)
    assert out[0] == 1


def test_dimensions():
    lines = []
    for place in range(3):
        lines += [
            f"%d{place} = call %dx.types.Dimensions @dx.op.getDimensions(i32 72, %dx.types.Handle %h{place}, i32 undef)",
            f"%x{place} = extractvalue %dx.types.Dimensions %d{place}, 0",
            store4("i32", "%h3", str(4 * place), mask=1, values="xxxx").replace("%x,", f"%x{place},"),
        ]
    out = np.zeros(3, np.uint32)
    ranges = [Range(SRV, TYPED), Range(SRV, RAW), Range(SRV, STRUCTURED, 12), Range(UAV)]
    source = np.zeros(50, np.uint16)
    dxil.compile_and_run(dxil.shader(body(*lines), ranges), source, source, source, out, formats=(57, 0, 0, 0))
    np.testing.assert_array_equal(out, [50, 100, 8])


# ---- Constants ----


def row(name: str, index: str, fields: str) -> list[str]:
    lines = [
        f"%row = call %dx.types.CBufRet.{name} @dx.op.cbufferLoadLegacy.{name}(i32 59, %dx.types.Handle %h1, i32 {index})"
    ]
    return lines + [f"%{c} = extractvalue %dx.types.CBufRet.{name} %row, {i}" for i, c in enumerate(fields)]


@pytest.mark.parametrize("bound", [44, 40, 13, 0, 4096])
def test_constants_past_the_end_are_zero(bound):
    """Past the end of the view, and past the last row of the declaration."""
    code = body(*row("i32", "%id", "xyzw"), "%to = mul i32 %id, 16", store4("i32", "%h0", "%to"))
    source, out = np.arange(1, 4097, dtype=np.uint8).astype(np.uint8), np.zeros((6, 4), np.uint32)
    kernel = Compiler().compile(dxil.shader(code, [Range(UAV), Range(CBV, size=44)], (6, 1, 1)), (0, 0))
    view = dxil.view(source)
    view.size = bound
    dxil.run(kernel, [dxil.view(out), view])
    want = np.zeros(96, np.uint8)
    known = min(bound, 44)
    want[:known] = source[:known]
    np.testing.assert_array_equal(out, want.view(np.uint32).reshape(6, 4))


@pytest.mark.parametrize("index", [5, -1])
def test_rows_far_past_the_end_are_zero(index):
    code = body(*row("i32", str(index), "xyzw"), store4("i32", "%h0", "0"))
    out = np.full(4, 9, np.uint32)
    dxil.compile_and_run(dxil.shader(code, [Range(UAV), Range(CBV, size=32)]), out, np.ones(64, np.uint32))
    np.testing.assert_array_equal(out, 0)


def test_constants_of_other_types():
    code = body(*row("f16.8", "0", "xyzwabcd"), store4("f16", "%h0", "0"), store4("f16", "%h0", "8", values="abcd"))
    code = code.replace("@dx.op.cbufferLoadLegacy.f16.8", "@dx.op.cbufferLoadLegacy.f16")
    source, out = np.arange(8, dtype=np.float16), np.zeros(8, np.float16)
    dxil.compile_and_run(dxil.shader(code, [Range(UAV), Range(CBV, size=16)]), out, source)
    np.testing.assert_array_equal(out, source)
    code = body(*row("f16", "0", "xyzw"), store4("f16", "%h0", "0"))
    source, out = np.arange(1, 5, dtype=np.float32), np.zeros(4, np.float32)
    dxil.compile_and_run(dxil.shader(code, [Range(UAV), Range(CBV, size=16)], native=False), out, source)
    np.testing.assert_array_equal(out, source)
    code = body(*row("f64", "1", "xy"), "%a = fptrunc double %x to float", "%b = fptrunc double %y to float",
                store4("f32", "%h0", "0", mask=3, values="abaa"))  # fmt: skip
    source, out = np.array([1, 2, 3, 4], np.float64), np.zeros(2, np.float32)
    dxil.compile_and_run(dxil.shader(code, [Range(UAV), Range(CBV, size=32)]), out, source)
    np.testing.assert_array_equal(out, [3, 4])


def test_constants_by_byte_offset():
    code = body(
        "%x = call i32 @dx.op.cbufferLoad.i32(i32 58, %dx.types.Handle %h1, i32 12, i32 4)",
        store4("i32", "%h0", "0", mask=1, values="xxxx"),
    )
    out = np.zeros(1, np.uint32)
    dxil.compile_and_run(dxil.shader(code, [Range(UAV), Range(CBV, size=16)]), out, np.arange(4, dtype=np.uint32))
    assert out[0] == 3


# ---- Arrays of views ----


def test_an_array_of_views_is_indexed():
    code = body(
        "%reg = add i32 %id, 2",
        "%v = call %dx.types.Handle @dx.op.createHandle(i32 57, i8 0, i32 0, i32 %reg, i1 true)",
        load4("i32", "%v", "4"),
        "%to = mul i32 %id, 4",
        store4("i32", "%h1", "%to", mask=1),
    )
    kernel = Compiler().compile(dxil.shader(code, [Range(SRV, count=3, lower=2), Range(UAV)], (5, 1, 1)), (0, 0))
    sources = [np.array([0, 10 + i], np.uint32) for i in range(3)]
    out = np.full(5, 9, np.uint32)
    dxil.run(kernel, [[dxil.view(source) for source in sources], dxil.view(out)])
    np.testing.assert_array_equal(out, [10, 11, 12, 0, 0])


def test_handles_from_bindings():
    code = body(
        "%b = call %dx.types.Handle @dx.op.createHandleFromBinding(i32 217, %dx.types.ResBind { i32 0, i32 0, i32 0, i8 1 }, i32 0, i1 false)",
        "%v = call %dx.types.Handle @dx.op.annotateHandle(i32 216, %dx.types.Handle %b, %dx.types.ResourceProperties { i32 4107, i32 0 })",
        "%x = add i32 %id, 8",
        store4("i32", "%v", "0", mask=1, values="xxxx"),
    )
    out = np.zeros(1, np.uint32)
    dxil.compile_and_run(dxil.shader(code), out)
    assert out[0] == 8


# ---- Atomic operations ----

ATOMICS = [np.add, np.bitwise_and, np.bitwise_or, np.bitwise_xor, "smin", "smax", np.minimum, np.maximum, "exchange"]


@pytest.mark.parametrize("operation", range(9))
def test_atomic_operations(operation):
    code = body(
        "%v = sub i32 3, %id",
        f"%x = call i32 @dx.op.atomicBinOp.i32(i32 78, %dx.types.Handle %h0, i32 {operation}, i32 4, i32 undef, i32 undef, i32 %v)",
        "%to = mul i32 %id, 4",
        store4("i32", "%h1", "%to", mask=1, values="xxxx"),
    )
    memory, before = np.array([1, 6, 1], np.uint32), np.zeros(8, np.uint32)
    dxil.compile_and_run(dxil.shader(code, [Range(UAV), Range(UAV)], (8, 1, 1)), memory, before)
    function = {"smin": lambda x, y: min(x, y, key=np.int32), "smax": lambda x, y: max(x, y, key=np.int32),
                "exchange": lambda _, y: y}.get(ATOMICS[operation], ATOMICS[operation])  # fmt: skip
    value, seen = np.uint32(6), []
    with np.errstate(over="ignore"):
        for operand in (3 - np.arange(8)).astype(np.uint32):
            seen.append(value)
            value = (
                np.uint32(function(value.view(np.int32), operand.view(np.int32)).view(np.uint32))
                if operation in (4, 5)
                else function(value, operand)
            )
    np.testing.assert_array_equal(before, seen)
    np.testing.assert_array_equal(memory, [1, value, 1])


def test_atomic_operations_past_the_end_do_nothing():
    code = body(
        "%x = call i32 @dx.op.atomicBinOp.i32(i32 78, %dx.types.Handle %h0, i32 0, i32 2, i32 0, i32 undef, i32 5)",
        "%y = call i32 @dx.op.atomicCompareExchange.i32(i32 79, %dx.types.Handle %h0, i32 9, i32 4, i32 undef, i32 0, i32 5)",
        store4("i32", "%h1", "0", mask=3, values="xyxx"),
    )
    memory, out = np.array([7, 7, 8], np.uint32), np.full(2, 99, np.uint32)
    kernel = Compiler().compile(dxil.shader(code, [Range(UAV, STRUCTURED, 4), Range(UAV)]), (0, 0))
    view = dxil.view(memory)
    view.size = 8
    dxil.run(kernel, [view, dxil.view(out)])
    np.testing.assert_array_equal(memory, [7, 7, 8])
    np.testing.assert_array_equal(out, 0)


def test_compare_and_exchange():
    code = body(
        "%x = call i32 @dx.op.atomicCompareExchange.i32(i32 79, %dx.types.Handle %h0, i32 0, i32 undef, i32 undef, i32 %id, i32 9)",
        "%to = mul i32 %id, 4",
        store4("i32", "%h1", "%to", mask=1, values="xxxx"),
    )
    memory, out = np.array([2], np.uint32), np.zeros(4, np.uint32)
    dxil.compile_and_run(dxil.shader(code, [Range(UAV), Range(UAV)], (4, 1, 1)), memory, out)
    np.testing.assert_array_equal(out, [2, 2, 2, 9])
    assert memory[0] == 9
