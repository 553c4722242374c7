"""The kernel around a shader: the loops over groups and threads, its constants, and its barriers.

A kernel is `void (SwView** views, const uint32_t grid[3], uint64_t first, uint64_t last, void* shared)`.

A shader without barriers becomes a function that is inlined into the loop over a group's threads.  One with
barriers becomes an LLVM coroutine that suspends itself at each of them; LLVM splits it into functions and a
frame for the values that live across a barrier.  A group then runs in rounds: each round resumes every thread once.
"""

from __future__ import annotations

import re

from dmlgraph.devices.directml.software import llvm
from dmlgraph.devices.directml.software.memory import INVARIANT, PARALLEL_LOOPS
from dmlgraph.devices.directml.software.metadata import Description, ResourceClass, ResourceRange
from dmlgraph.devices.directml.software.text import LABEL

VIEW_BYTES = 32  # of a SwView: pointer, size in bytes, then fields that only the runtime reads

# A shader's parameters.  The shader's own values cannot have such names.
PARAMETERS = (
    "ptr %sw.views, ptr %sw.constants, ptr %sw.shared, i32 %sw.group.x, i32 %sw.group.y, i32 %sw.group.z, "
    "i32 %sw.thread.x, i32 %sw.thread.y, i32 %sw.thread.z, i32 %sw.index"
)
_ARGUMENTS = "ptr %views, ptr %constants, ptr %shared, i32 %x, i32 %y, i32 %z, i32 %tx, i32 %ty, i32 %tz, i32 %index"


# ---- The shader as a function ----


def shader_function(body: list[str], prologue: list[str]) -> str:
    """A shader without barriers.

    Args:
        body: a label and what follows it.
        prologue: the instructions that come first.
    """
    label, *body = body
    lines = [f"define internal void @shader({PARAMETERS}) alwaysinline nounwind {{", label, *prologue, *body]
    return "\n".join([*lines, "}\n"])


# The first suspension, before the body, keeps the body out of the function that starts a thread: otherwise LLVM
# would optimise and compile the part up to the first barrier twice.
_COROUTINE_HEAD = """
  %sw.coroutine = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)
  %sw.frame.size = call i64 @llvm.coro.size.i64()
  %sw.frame = call ptr @frame(ptr %sw.frames, i64 %sw.frame.size, i32 %sw.index)
  %sw.handle = call ptr @llvm.coro.begin(token %sw.coroutine, ptr %sw.frame)"""

# The kernel owns the frames, so there is nothing to clean up.
_COROUTINE_TAIL = """sw.final:
  %sw.last = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %sw.last, label %sw.leave [ i8 0, label %sw.never
                                        i8 1, label %sw.leave ]
sw.never:
  unreachable
sw.leave:
  {end}
  ret ptr %sw.handle"""


def _suspend(name: str) -> list[str]:
    return [
        f"  %sw.state.{name} = call i8 @llvm.coro.suspend(token none, i1 false)",
        f"  switch i8 %sw.state.{name}, label %sw.leave [ i8 0, label %sw.resume.{name}",
        "                                               i8 1, label %sw.leave ]",
        f"sw.resume.{name}:",
    ]


BARRIER = "  ; barrier"  # marks the places in a shader's body where its threads wait for one another
_ALLOCATION = re.compile(r"  %\S+ = alloca ")
_PREDECESSOR = re.compile(r'%(?:"[^"]*"|[\w.$-]+)(?= \])')


def shader_coroutine(body: list[str], prologue: list[str], allocations: list[str]) -> str:
    """A shader with barriers.

    Its local variables move before the first suspension, where LLVM looks for them.

    Suspending ends a basic block.  The code after it gets a new label, which replaces the label of the block
    in phi instructions that name it as a predecessor.
    """
    label, *body = body
    block = "%" + label.rstrip(":")
    renamed = {block: "%sw.resume.start"}
    lines = [*_suspend("start"), *prologue]
    for number, line in enumerate(body):
        if found := LABEL.match(line):
            block = "%" + found[1]
        if _ALLOCATION.match(line):
            allocations = [*allocations, line]
        elif line == BARRIER:
            lines += _suspend(str(number))
            renamed[block] = f"%sw.resume.{number}"
        elif line.startswith("  ret void"):
            lines.append("  br label %sw.final")
        else:
            lines.append(line)
    lines = [_PREDECESSOR.sub(lambda m: renamed.get(m[0], m[0]), line) if " = phi " in line else line for line in lines]
    head = f"define internal ptr @shader({PARAMETERS}, ptr %sw.frames) presplitcoroutine nounwind {{"
    tail = _COROUTINE_TAIL.format(end=llvm.dialect().coroutine_end)
    return "\n".join([head, label, *allocations, _COROUTINE_HEAD, *lines, tail, "}\n"])


# ---- The start of a shader ----


def dispatch_ids(description: Description) -> list[str]:
    """Instructions that compute a thread's place in the whole dispatch: %sw.dispatch.x, y and z."""
    lines = []
    for axis, count in zip("xyz", description.threads, strict=True):
        lines += [
            f"  %sw.first.{axis} = mul i32 %sw.group.{axis}, {count}",
            f"  %sw.dispatch.{axis} = add i32 %sw.first.{axis}, %sw.thread.{axis}",
        ]
    return lines


def views(description: Description) -> list[str]:
    """Instructions that read the views: %sw.view.N, and for single registers %sw.base.N and %sw.size.N."""
    lines = []
    for slot, each in enumerate(description.ranges):
        if each.resource_class in (ResourceClass.SRV, ResourceClass.UAV):
            lines += [
                f"  %sw.slot.{slot} = getelementptr ptr, ptr %sw.views, i64 {slot}",
                f"  %sw.view.{slot} = load ptr, ptr %sw.slot.{slot}, {INVARIANT}",
            ]
            if each.count == 1:
                lines += view_fields(f"%sw.view.{slot}", f"%sw.base.{slot}", f"%sw.size.{slot}")
        elif each.resource_class is ResourceClass.CBV:
            offset = _constants_offset(description.ranges, slot)
            lines.append(f"  %sw.base.{slot} = getelementptr i8, ptr %sw.constants, i64 {offset}")
    return lines


def view_fields(view: str, base: str, size: str) -> list[str]:
    """Instructions that read a view's pointer and size."""
    return [
        f"  {base} = load ptr, ptr {view}, {INVARIANT}",
        f"  {size}.at = getelementptr i8, ptr {view}, i64 8",
        f"  {size} = load i64, ptr {size}.at, {INVARIANT}",
    ]


# ---- Constants ----


def constant_rows(each: ResourceRange) -> int:
    """The number of 16-byte rows in a constant buffer."""
    return -(-each.size // 16)


def _constants_offset(ranges: tuple[ResourceRange, ...], slot: int) -> int:
    """The offset of the copy of a constant buffer; a row of zeros follows each copy."""
    before = (each for each in ranges[:slot] if each.resource_class is ResourceClass.CBV)
    return sum(16 * constant_rows(each) + 16 for each in before)


# A view that is too short is first padded with zeros in a second buffer, so that the copy always has the same
# length; LLVM turns such a copy into registers.
_COPY_CONSTANTS = """
define internal void @copy.constants(ptr %to, ptr %padded, ptr %slot, i64 %size) alwaysinline nounwind {
entry:
  %view = load ptr, ptr %slot
  %base = load ptr, ptr %view
  %size.at = getelementptr i8, ptr %view, i64 8
  %bound = load i64, ptr %size.at
  %whole = icmp uge i64 %bound, %size
  br i1 %whole, label %copy, label %pad
pad:
  call void @llvm.memset(ptr %padded, i8 0, i64 %size, i1 false)
  call void @llvm.memcpy(ptr %padded, ptr %base, i64 %bound, i1 false)
  br label %copy
copy:
  %from = phi ptr [ %base, %entry ], [ %padded, %pad ]
  call void @llvm.memcpy(ptr %to, ptr %from, i64 %size, i1 false)
  ret void
}
"""


def _copy_constants(description: Description) -> list[str]:
    """Instructions that copy the constant buffers to %constants.

    Nothing else has the address of the copy, so LLVM knows that stores to buffers do not change it.
    """
    ranges = description.ranges
    sizes = [each.size for each in ranges if each.resource_class is ResourceClass.CBV]
    total = _constants_offset(ranges, len(ranges))
    lines = [
        f"  %constants = alloca [{total} x i8], align 16",
        f"  %padded = alloca [{max(sizes, default=0)} x i8], align 16",
        f"  call void @llvm.memset(ptr %constants, i8 0, i64 {total}, i1 false)",
    ]
    for slot, each in enumerate(ranges):
        if each.resource_class is ResourceClass.CBV:
            lines += [
                f"  %to.{slot} = getelementptr i8, ptr %constants, i64 {_constants_offset(ranges, slot)}",
                f"  %slot.{slot} = getelementptr ptr, ptr %views, i64 {slot}",
                f"  call void @copy.constants(ptr %to.{slot}, ptr %padded, ptr %slot.{slot}, i64 {each.size})",
            ]
    return lines


# ---- The kernel ----

_KERNEL_PARAMETERS = "ptr %views, ptr %grid, i64 %first, i64 %last, ptr %shared"

_KERNEL = """
define {linkage} void @{name}({parameters}) nounwind {attributes} {{
entry:
{constants}
{prepare}
  %width.32 = load i32, ptr %grid
  %width = zext i32 %width.32 to i64
  %height.at = getelementptr i32, ptr %grid, i64 1
  %height.32 = load i32, ptr %height.at
  %height = zext i32 %height.32 to i64
  %some = icmp ult i64 %first, %last
  br i1 %some, label %group, label %return
group:
  %number = phi i64 [ %first, %entry ], [ %next.number, %next.group ]
  %row = udiv i64 %number, %width
  %before.row = mul i64 %row, %width
  %x.64 = sub i64 %number, %before.row
  %slice = udiv i64 %row, %height
  %before.slice = mul i64 %slice, %height
  %y.64 = sub i64 %row, %before.slice
  %x = trunc i64 %x.64 to i32
  %y = trunc i64 %y.64 to i32
  %z = trunc i64 %slice to i32
  br label %thread.slices
thread.slices:
  %tz = phi i32 [ 0, %group ], [ %next.tz, %next.slice ]
  %first.row = mul i32 %tz, {rows}
  br label %thread.rows
thread.rows:
  %ty = phi i32 [ 0, %thread.slices ], [ %next.ty, %next.row ]
  %thread.row = add i32 %first.row, %ty
  %first.index = mul i32 %thread.row, {columns}
  br label %threads
threads:
  %tx = phi i32 [ 0, %thread.rows ], [ %next.tx, %threads ]
  %index = add i32 %first.index, %tx
{run}
  %next.tx = add nuw nsw i32 %tx, 1
  %more.x = icmp ult i32 %next.tx, {columns}
  br i1 %more.x, label %threads, label %next.row, {loops[0]}
next.row:
  %next.ty = add nuw nsw i32 %ty, 1
  %more.y = icmp ult i32 %next.ty, {rows}
  br i1 %more.y, label %thread.rows, label %next.slice, {loops[1]}
next.slice:
  %next.tz = add nuw nsw i32 %tz, 1
  %more.z = icmp ult i32 %next.tz, {slices}
  br i1 %more.z, label %thread.slices, label %next.group, {loops[2]}
next.group:
{finish}
  %next.number = add i64 %number, 1
  %more = icmp ult i64 %next.number, %last
  br i1 %more, label %group, label %return
return:
{release}
  ret void
}}
"""

# The frames of a group's threads are one allocation, made when the first thread states the size of a frame and
# shared by all groups of a call.  Each frame starts on its own cache line.
_FRAMES = """
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
define internal ptr @frame(ptr %frames, i64 %size, i32 %index) alwaysinline nounwind {{
entry:
  %rounded = add i64 %size, 63
  %bytes = and i64 %rounded, -64
  %present = load ptr, ptr %frames
  %missing = icmp eq ptr %present, null
  br i1 %missing, label %allocate, label %done
allocate:
  %total = mul i64 %bytes, {threads}
  %new = call ptr @aligned_alloc(i64 64, i64 %total)
  store ptr %new, ptr %frames
  br label %done
done:
  %first = phi ptr [ %present, %entry ], [ %new, %allocate ]
  %index.64 = zext i32 %index to i64
  %offset = mul i64 %index.64, %bytes
  %r = getelementptr i8, ptr %first, i64 %offset
  ret ptr %r
}}
define internal void @run.rounds(ptr %handles) alwaysinline nounwind {{
entry:
  br label %round
round:
  br label %threads
threads:
  %i = phi i32 [ 0, %round ], [ %next, %continue ]
  %ran = phi i1 [ false, %round ], [ %runs, %continue ]
  %place = getelementptr ptr, ptr %handles, i32 %i
  %handle = load ptr, ptr %place
  %done = call i1 @llvm.coro.done(ptr %handle)
  br i1 %done, label %continue, label %resume
resume:
  call void @llvm.coro.resume(ptr %handle)
  br label %continue
continue:
  %runs = phi i1 [ %ran, %threads ], [ true, %resume ]
  %next = add nuw nsw i32 %i, 1
  %more = icmp ult i32 %next, {threads}
  br i1 %more, label %threads, label %end
end:
  br i1 %runs, label %round, label %return
return:
  ret void
}}
"""

_START_THREAD = f"""  %handle = call ptr @shader({_ARGUMENTS}, ptr %frames)
  %place = getelementptr ptr, ptr %handles, i32 %index
  store ptr %handle, ptr %place"""

# Bits of the SSE control register: treat denormal operands and results as zeros.
_FLUSH_BITS = 0x8040

# The arithmetic is in a separate function, because LLVM does not know that this register affects it.  The
# register also makes double and, in part, half arithmetic flush, which shader model 6.2 cannot request;
# shaders that request flushing and also use those types get zeros where Direct3D keeps denormals.
_FLUSHING_KERNEL = f"""
define void @kernel({_KERNEL_PARAMETERS}) nounwind {{
  %saved.at = alloca i32
  %flushing.at = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %saved.at)
  %saved = load i32, ptr %saved.at
  %flushing = or i32 %saved, {_FLUSH_BITS}
  store i32 %flushing, ptr %flushing.at
  call void @llvm.x86.sse.ldmxcsr(ptr %flushing.at)
  call void @groups({_KERNEL_PARAMETERS})
  call void @llvm.x86.sse.ldmxcsr(ptr %saved.at)
  ret void
}}
"""


def kernel(description: Description, barriers: bool) -> str:
    """The kernel that runs @shader for every thread of a range of groups.

    float32 denormals are kept, as in IEEE and NumPy, unless the shader requests flushing: Direct3D leaves the choice
    to the device if a shader does not say (its mode "any").
    """
    columns, rows, slices = description.threads
    count = columns * rows * slices
    parts = [_COPY_CONSTANTS]
    if barriers:
        parts.append(_FRAMES.format(threads=count))
    if description.flush_denormals:
        parts.append(_FLUSHING_KERNEL)
    parts.append(
        _KERNEL.format(
            linkage="internal" if description.flush_denormals else "",
            name="groups" if description.flush_denormals else "kernel",
            attributes="noinline" if description.flush_denormals else "",
            parameters=_KERNEL_PARAMETERS,
            constants="\n".join(_copy_constants(description)),
            prepare=f"  %frames = alloca ptr\n  store ptr null, ptr %frames\n  %handles = alloca [{count} x ptr]"
            if barriers
            else "",
            columns=columns,
            rows=rows,
            slices=slices,
            run=_START_THREAD if barriers else f"  call void @shader({_ARGUMENTS})",
            loops=PARALLEL_LOOPS,
            finish="  call void @run.rounds(ptr %handles)" if barriers else "",
            release="  %allocated = load ptr, ptr %frames\n  call void @free(ptr %allocated)" if barriers else "",
        )
    )
    return "".join(parts)
