"""Thread groups: thread ids, ranges of groups, shared memory, barriers, several threads at once."""

# ruff: noqa: E501  (LLVM takes an instruction on one line)

from __future__ import annotations

import concurrent.futures

import numpy as np
import pytest
from support.software import dxil
from support.software.dxil import CBV, UAV, Range

from dmlgraph.devices.directml.software.compiler import Compiler

STORE = (
    "call void @dx.op.rawBufferStore.i32(i32 140, %dx.types.Handle %h0, i32 {to}, i32 undef, i32 {value}, i32 undef, "
    "i32 undef, i32 undef, i8 1, i32 4)"
)
BARRIER = "call void @dx.op.barrier(i32 80, i32 9)"
INDEX = "%i = call i32 @dx.op.flattenedThreadIdInGroup.i32(i32 96)"


def store(to: str, value: str) -> str:
    return STORE.format(to=to, value=value)


def compile_(code: bytes):
    return Compiler().compile(code, (0,))


PLACES = """
    %g0 = call i32 @dx.op.groupId.i32(i32 94, i32 0)
    %g1 = call i32 @dx.op.groupId.i32(i32 94, i32 1)
    %g2 = call i32 @dx.op.groupId.i32(i32 94, i32 2)
    %t0 = call i32 @dx.op.threadIdInGroup.i32(i32 95, i32 0)
    %t1 = call i32 @dx.op.threadIdInGroup.i32(i32 95, i32 1)
    %t2 = call i32 @dx.op.threadIdInGroup.i32(i32 95, i32 2)
    %d0 = call i32 @dx.op.threadId.i32(i32 93, i32 0)
    %d1 = call i32 @dx.op.threadId.i32(i32 93, i32 1)
    %d2 = call i32 @dx.op.threadId.i32(i32 93, i32 2)
    %i = call i32 @dx.op.flattenedThreadIdInGroup.i32(i32 96)
    %r0 = mul i32 %g2, 3
    %r1 = add i32 %r0, %g1
    %r2 = mul i32 %r1, 2
    %r3 = add i32 %r2, %g0
    %r4 = mul i32 %r3, 30
    %r5 = add i32 %r4, %i
    %at = mul i32 %r5, 40
"""


@pytest.mark.parametrize("barrier", [False, True])
def test_threads_know_their_place(barrier):
    names = ["%g0", "%g1", "%g2", "%t0", "%t1", "%t2", "%d0", "%d1", "%d2", "%i"]
    lines = [PLACES, BARRIER if barrier else ""]
    for place, name in enumerate(names):
        lines += [f"%to{place} = add i32 %at, {4 * place}", store(f"%to{place}", name)]
    out = np.full((24, 30, 10), 99, np.uint32)
    dxil.compile_and_run(dxil.shader("\n".join([*lines, "ret void"]), threads=(2, 3, 5)), out, grid=(2, 3, 4))
    gz, gy, gx, tz, ty, tx = np.meshgrid(*map(np.arange, (4, 3, 2, 5, 3, 2)), indexing="ij")
    want = [gx, gy, gz, tx, ty, tz, 2 * gx + tx, 3 * gy + ty, 5 * gz + tz, (tz * 3 + ty) * 2 + tx]
    np.testing.assert_array_equal(out, np.stack(want, -1).reshape(24, 30, 10))


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("groups", [(0, 24), (5, 6), (3, 17), (7, 7), (23, 24)])
def test_a_range_of_groups(groups, barrier):
    lines = [PLACES, BARRIER if barrier else "", store("%at", "%d0"), "ret void"]
    out = np.full((24, 30, 10), 99, np.uint32)
    kernel = compile_(dxil.shader("\n".join(lines), threads=(2, 3, 5)))
    dxil.run(kernel, [dxil.view(out)], (2, 3, 4), groups)
    np.testing.assert_array_equal(np.flatnonzero((out[:, :, 0] != 99).all(1)), np.arange(*groups))
    assert (out[[i for i in range(24) if not groups[0] <= i < groups[1]]] == 99).all()


SHARED = '@"\\01?s@@3PAIA" = {0} addrspace(3) global [64 x i32] {1}, align 4'


@pytest.mark.parametrize("variable", [SHARED.format("external", ""), SHARED.format("internal", "undef")])
def test_threads_see_what_others_wrote_before_a_barrier(variable):
    body = f"""
        {INDEX}
        %g = call i32 @dx.op.groupId.i32(i32 94, i32 0)
        %v = add i32 %i, %g
        %p = getelementptr inbounds [64 x i32], ptr addrspace(3) @"\\01?s@@3PAIA", i32 0, i32 %i
        store i32 %v, ptr addrspace(3) %p, align 4
        {BARRIER}
        %j = sub i32 63, %i
        %q = getelementptr inbounds [64 x i32], ptr addrspace(3) @"\\01?s@@3PAIA", i32 0, i32 %j
        %w = load i32, ptr addrspace(3) %q, align 4
        %base = mul i32 %g, 64
        %n = add i32 %base, %i
        %to = mul i32 %n, 4
        {store("%to", "%w")}
        ret void"""
    out = np.zeros((5, 64), np.uint32)
    code = dxil.shader(
        body, threads=(64, 1, 1), variables=variable.replace("global [64 x i32] ,", "global [64 x i32],")
    )
    assert Compiler().describe(code).shared_bytes == 256
    dxil.compile_and_run(code, out, grid=(5, 1, 1))
    np.testing.assert_array_equal(out, np.arange(63, -1, -1) + np.arange(5)[:, None])


REDUCTION = f"""
entry:
        {INDEX}
        %g = call i32 @dx.op.groupId.i32(i32 94, i32 0)
        %d = call i32 @dx.op.threadId.i32(i32 93, i32 0)
        %p = getelementptr inbounds [128 x i32], ptr addrspace(3) @sums, i32 0, i32 %i
        store i32 %d, ptr addrspace(3) %p, align 4
        br label %loop
loop:
        %half = phi i32 [ 64, %entry ], [ %next, %join ]
        {BARRIER}
        %active = icmp ult i32 %i, %half
        br i1 %active, label %add, label %join
add:
        %k = add i32 %i, %half
        %q = getelementptr inbounds [128 x i32], ptr addrspace(3) @sums, i32 0, i32 %k
        %x = load i32, ptr addrspace(3) %p, align 4
        %y = load i32, ptr addrspace(3) %q, align 4
        %sum = add i32 %x, %y
        store i32 %sum, ptr addrspace(3) %p, align 4
        br label %join
join:
        %again = phi i32 [ %half, %loop ], [ %half, %add ]
        %next = lshr i32 %again, 1
        %more = icmp ne i32 %next, 0
        br i1 %more, label %loop, label %done
done:
        {BARRIER}
        %total = load i32, ptr addrspace(3) getelementptr inbounds ([128 x i32], ptr addrspace(3) @sums, i32 0, i32 0), align 4
        %first = icmp eq i32 %i, 0
        br i1 %first, label %write, label %end
write:
        %to = mul i32 %g, 4
        {store("%to", "%total")}
        br label %end
end:
        ret void"""


def reduction() -> bytes:
    body = REDUCTION.replace("\nentry:\n", "\n").replace("%entry", "%start")
    variables = "@sums = addrspace(3) global [128 x i32] undef, align 4"
    return dxil.shader(f"  br label %start\nstart:\n{body}", threads=(128, 1, 1), variables=variables)


def test_barriers_in_a_loop():
    out = np.zeros(37, np.uint32)
    dxil.compile_and_run(reduction(), out, grid=(37, 1, 1))
    np.testing.assert_array_equal(out, np.arange(37 * 128).reshape(37, 128).sum(1))


def test_groups_run_on_several_threads_with_shared_memory_of_their_own():
    kernel = compile_(reduction())
    out = np.zeros(4000, np.uint32)

    def part(number):
        dxil.run(kernel, [dxil.view(out)], (4000, 1, 1), (number * 500, number * 500 + 500))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(part, range(8)))
    np.testing.assert_array_equal(out, np.arange(4000 * 128).reshape(4000, 128).sum(1))


def test_variables_have_places_of_their_own():
    """Also through constant expressions, in instructions and as operands of phi."""
    variables = """
        @a = addrspace(3) global [3 x i32] undef, align 4
        @ab = internal addrspace(3) global [5 x i8] undef, align 4
        @c = external addrspace(3) global [2 x [2 x float]], align 4"""
    body = f"""
        {INDEX}
        store i32 11, ptr addrspace(3) getelementptr inbounds ([3 x i32], ptr addrspace(3) @a, i32 0, i32 2), align 4
        store i8 22, ptr addrspace(3) @ab, align 1
        store i8 33, ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @ab, i32 4), align 1
        store float 4.0, ptr addrspace(3) getelementptr inbounds ([2 x [2 x float]], ptr addrspace(3) @c, i32 0, i32 1, i32 1), align 4
        {BARRIER}
        %first = icmp eq i32 %i, 0
        br i1 %first, label %one, label %two
one:
        br label %both
two:
        br label %both
both:
        %p = phi ptr addrspace(3) [ getelementptr inbounds ([3 x i32], ptr addrspace(3) @a, i32 0, i32 2), %one ], [ @c, %two ]
        %x = load i32, ptr addrspace(3) %p, align 4
        %y8 = load i8, ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @ab, i32 4), align 1
        %y = zext i8 %y8 to i32
        %z = load i32, ptr addrspace(3) getelementptr inbounds ([2 x [2 x float]], ptr addrspace(3) @c, i32 0, i32 1, i32 1), align 4
        {store("0", "%x")}
        {store("4", "%y")}
        {store("8", "%z")}
        ret void"""
    out = np.zeros(3, np.uint32)
    code = dxil.shader(body, variables=variables)
    assert Compiler().describe(code).shared_bytes == 16 * 3
    dxil.compile_and_run(code, out)
    np.testing.assert_array_equal(out, [11, 33, np.float32(4).view(np.uint32)])


def test_atomic_operations_on_shared_memory():
    body = f"""
        {INDEX}
        store i32 0, ptr addrspace(3) @n, align 4
        {BARRIER}
        %old = atomicrmw add ptr addrspace(3) @n, i32 %i seq_cst
        %x = cmpxchg ptr addrspace(3) @n, i32 -1, i32 5 monotonic monotonic
        {BARRIER}
        %v = load i32, ptr addrspace(3) @n, align 4
        %to = mul i32 %i, 4
        {store("%to", "%v")}
        ret void"""
    out = np.zeros(100, np.uint32)
    variables = "@n = addrspace(3) global i32 undef, align 4"
    dxil.compile_and_run(dxil.shader(body, threads=(100, 1, 1), variables=variables), out)
    np.testing.assert_array_equal(out, 4950)


def test_local_arrays_live_across_barriers():
    """Each thread has its own local variables before and after a barrier, numbered ones too."""
    body = f"""
        {INDEX}
        %1 = alloca [8 x i32], align 4
        %2 = and i32 %i, 7
        %3 = getelementptr inbounds [8 x i32], ptr %1, i32 0, i32 %2
        store i32 %i, ptr %3, align 4
        {BARRIER}
        call void @dx.op.tempRegStore.i32(i32 1, i32 1, i32 %i)
        {BARRIER}
        %4 = load i32, ptr %3, align 4
        %5 = call i32 @dx.op.tempRegLoad.i32(i32 0, i32 1)
        %6 = add i32 %4, %5
        %7 = mul i32 %i, 4
        {store("%7", "%6")}
        ret void"""
    out = np.zeros(70, np.uint32)
    dxil.compile_and_run(dxil.shader(body, threads=(70, 1, 1)), out)
    np.testing.assert_array_equal(out, 2 * np.arange(70))


def test_a_barrier_that_only_some_threads_reach_does_not_hang():
    body = f"""
        {INDEX}
        %some = icmp ult i32 %i, 3
        br i1 %some, label %wait, label %end
wait:
        {BARRIER}
        %to = mul i32 %i, 4
        {store("%to", "7")}
        br label %end
end:
        ret void"""
    out = np.zeros(5, np.uint32)
    dxil.compile_and_run(dxil.shader(body, threads=(5, 1, 1)), out)
    np.testing.assert_array_equal(out, [7, 7, 7, 0, 0])


def test_a_fence_alone_does_not_wait():
    body = f"""
        {INDEX}
        call void @dx.op.barrier(i32 80, i32 2)
        %to = mul i32 %i, 4
        {store("%to", "%i")}
        ret void"""
    out = np.zeros(5, np.uint32)
    dxil.compile_and_run(dxil.shader(body, threads=(5, 1, 1)), out)
    np.testing.assert_array_equal(out, np.arange(5))


def test_constants_are_read_after_barriers():
    body = f"""
        {INDEX}
        {BARRIER}
        %row = call %dx.types.CBufRet.i32 @dx.op.cbufferLoadLegacy.i32(i32 59, %dx.types.Handle %h1, i32 0)
        %x = extractvalue %dx.types.CBufRet.i32 %row, 2
        %v = add i32 %x, %i
        %to = mul i32 %i, 4
        {store("%to", "%v")}
        ret void"""
    out = np.zeros(5, np.uint32)
    code = dxil.shader(body, [Range(UAV), Range(CBV, size=16)], (5, 1, 1))
    dxil.compile_and_run(code, out, np.array([0, 0, 30, 0], np.uint32))
    np.testing.assert_array_equal(out, 30 + np.arange(5))
