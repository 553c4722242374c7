"""Intrinsics get full names and declarations, which every release of LLVM takes."""

from __future__ import annotations

import pytest

from dmlgraph.devices.directml.software import llvm
from dmlgraph.devices.directml.software.declarations import declared

MODULE = """define void @kernel(ptr %p, float %x, double %d, half %h, i32 %i, i64 %n, <4 x i32> %v) {{
  {call}
  ret void
}}"""
FULL = [
    ("%r = call float @llvm.fabs(float %x)", "float @llvm.fabs.f32(float)"),
    ("%r = call half @llvm.maxnum(half %h, half 0.0)", "half @llvm.maxnum.f16(half, half)"),
    ("%r = call float @llvm.sqrt.f32(float %x)", "float @llvm.sqrt.f32(float)"),
    ("%r = call i32 @llvm.fptosi.sat(double %d)", "i32 @llvm.fptosi.sat.i32.f64(double)"),
    ("%r = call i32 @llvm.cttz(i32 %i, i1 false)", "i32 @llvm.cttz.i32(i32, i1)"),
    ("%r = call i1 @llvm.is.fpclass(half %h, i32 264)", "i1 @llvm.is.fpclass.f16(half, i32)"),
    (
        "%r = call { i32, i1 } @llvm.uadd.with.overflow(i32 %i, i32 1)",
        "{ i32, i1 } @llvm.uadd.with.overflow.i32(i32, i32)",
    ),
    ("%r = call i32 @llvm.vector.reduce.add(<4 x i32> %v)", "i32 @llvm.vector.reduce.add.v4i32(<4 x i32>)"),
    ("call void @llvm.memset(ptr %p, i8 0, i64 %n, i1 false)", "void @llvm.memset.p0.i64(ptr, i8, i64, i1)"),
    ("call void @llvm.memcpy(ptr %p, ptr %p, i64 %n, i1 false)", "void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"),
    ("%r = call i64 @llvm.coro.size.i64()", "i64 @llvm.coro.size.i64()"),
    ("call void @llvm.x86.sse.ldmxcsr(ptr %p)", "void @llvm.x86.sse.ldmxcsr(ptr)"),
]


def verified(text: str) -> str:
    """A module as LLVM prints it, which has read it and found no fault."""
    module = llvm.binding().parse_assembly(text, llvm.context())
    module.verify()
    return str(module)


@pytest.mark.parametrize(("call", "declaration"), FULL)
def test_an_intrinsic_has_its_full_name(call: str, declaration: str) -> None:
    text = declared(MODULE.format(call=call), ())
    assert f"declare {declaration}\n" in text
    assert f"@{declaration.partition('@')[2].partition('(')[0]}(" in text.partition("\n}")[0]
    verified(text)


@pytest.mark.parametrize(("kind", "value"), [("half", "%h"), ("float", "%x"), ("double", "%d")])
def test_what_llvm_lacks_is_a_function_of_the_c_library(kind: str, value: str) -> None:
    calls = f"%r = call {kind} @llvm.tan({kind} {value})\n  %s = call float @llvm.tan(float %x)"
    text = verified(declared(MODULE.format(call=calls), ("tan",)))
    assert "@llvm." not in text
    assert "declare float @tanf(float)" in text
    assert ("declare double @tan(double)" in text) == (kind == "double")
    assert ("call float @tanf(float %wide)" in text) == (kind == "half")


def test_an_intrinsic_is_declared_once() -> None:
    calls = "%r = call float @llvm.fabs(float %x)\n  %s = call float @llvm.fabs(float %r)"
    text = declared(MODULE.format(call=calls), ())
    assert text.count("declare") == 1
    verified(text)
