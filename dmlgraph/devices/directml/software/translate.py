"""Translates the text of a DXIL module to that of a kernel's module."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Sequence

from dmlgraph.devices.directml.software import groups, intrinsics, llvm, memory, text
from dmlgraph.devices.directml.software.container import Module
from dmlgraph.devices.directml.software.declarations import declared
from dmlgraph.devices.directml.software.errors import ShaderError
from dmlgraph.devices.directml.software.formats import format_of
from dmlgraph.devices.directml.software.metadata import UNBOUNDED, Description, ResourceClass, ResourceRange, Shape
from dmlgraph.devices.directml.software.opcodes import Opcode

_TYPES = {"f16": "half", "f32": "float", "f64": "double"}

_CALL = re.compile(r"  (?:(%\S+) = )?(?:tail )?call (\S+) @dx\.op\.(\w+)((?:\.\w+)*)\((.*)\)$")
_OTHER_CALL = re.compile(r"  (?:%\S+ = )?(?:\w+ )?call [^@]*@(?!dx\.op\.|llvm\.)([^\s(]+)\(")
_OPERAND = re.compile(r"(?:[^,{\s]|\{[^}]*\})(?:[^,{]|\{[^}]*\})*")
_COMPONENT = re.compile(r"extractvalue \S+ (%[\w.$-]+), (\d+)")
_CALLEE = re.compile(r" call \S+ @([\w.]+)\(")
_OPERATION = re.compile(r"  (?:%\S+ = )?(?:tail )?([a-z]+) ")
_BARRIER = re.compile(rf"@dx\.op\.barrier\(i32 {Opcode.Barrier:d}, i32 (\d+)\)")

READS, WRITES = 1, 2  # what a shader does with a range: SwAccess of shader_abi.h
SYNC_THREAD_GROUP = 1  # barrier mode: the threads of a group wait for one another

Lines = list[str]


@dataclasses.dataclass(frozen=True)
class Buffer:
    """A handle: the slot of its range, and the values that hold its pointer and its size in bytes."""

    slot: int
    base: str
    size: str


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of dx.op.FAMILY.OVERLOAD: `operands` are (type, value) without the operation code."""

    value: str | None
    result: str
    family: str
    overload: str
    code: int
    operands: list[tuple[str, str]]

    @classmethod
    def parse(cls, match: re.Match[str]) -> Call:
        value, result, family, overload, operands = match.groups()
        pairs = []
        for operand in _OPERAND.findall(operands):
            kind, _, name = operand.strip().partition(" ")
            # A missing coordinate is undefined; for a buffer it means 0.
            pairs.append((kind, "0" if name in ("undef", "poison") and kind == "i32" else name))
        return cls(value, result, family, overload, int(pairs[0][1]), pairs[1:])

    @property
    def variable(self) -> str:
        """What the result is assigned to; ShaderError where that is nothing."""
        if self.value is None:
            raise ShaderError(f"the result of {self} is not assigned")
        return self.value

    def constant(self, place: int) -> int:
        """A constant operand, unsigned."""
        value = self.operands[place][1]
        if not re.fullmatch(r"-?\d+", value):
            raise ShaderError(f"operand {place + 1} of {self} must be a constant", got=value)
        return int(value)

    def redirected(self, target: str, operands: Sequence[tuple[str, str]]) -> str:
        """The same call of another function."""
        assignment = f"{self.value} = " if self.value else ""
        arguments = ", ".join(f"{kind} {value}" for kind, value in operands)
        return f"  {assignment}call {self.result} @{target}({arguments})"

    def __str__(self) -> str:
        return f"dx.op.{self.family} (opcode {self.code})"


class Translation:
    """The translation of one module.  `formats` is the DXGI formats of the views of its ranges."""

    def __init__(self, module: Module, description: Description, formats: Sequence[int]) -> None:
        self.description = description
        self._formats = formats
        self._source = module.text
        shared = [(text.shared_name(each.text), each.size) for each in module.variables]
        self._shared = text.SharedMemory([(name, size) for name, size in shared if name])
        self._buffers: dict[str, Buffer] = {}  # by handle value
        self._definitions: dict[str, str] = {}  # by name
        self._unsupported: dict[str, None] = {}
        self._temporaries = 0
        self.accesses = [0] * len(description.ranges)  # READS and WRITES of each range; known after `run`
        self._names = 0
        self._body: Lines = []
        # The components that are read of the structures that loads return; others are not loaded.
        self._components: dict[str, int] = collections.defaultdict(int)
        for value, component in _COMPONENT.findall(module.text):
            self._components[value] |= 1 << int(component)

    @property
    def shared_bytes(self) -> int:
        """Bytes of group-shared memory."""
        return self._shared.size

    @property
    def barriers(self) -> int:
        """How many barriers synchronise the threads of a group."""
        return sum(int(mode) & SYNC_THREAD_GROUP for mode in _BARRIER.findall(self._source))

    @property
    def instructions(self) -> int:
        """About how many instructions the kernel has after inlining.  Known after `run`."""
        sizes: dict[str, int] = {}

        def size(lines: Sequence[str]) -> int:
            total = len(lines)
            for line in lines:
                if (match := _CALLEE.search(line)) and match[1] in self._definitions:
                    name = match[1]
                    if name not in sizes:
                        sizes[name] = size(self._definitions[name].split("\n"))
                    total += sizes[name]
            return total

        return size(self._body)

    def run(self) -> str:
        """The text of the kernel's module.  Raises ShaderError with all operations that cannot be translated."""
        head, body = self._split()
        lines: Lines = []
        for line in body:
            lines += self._instruction(line)
        if self._unsupported:
            names = list(self._unsupported)
            raise ShaderError(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not supported")
        self._body = lines
        prologue = [
            *groups.dispatch_ids(self.description),
            *groups.views(self.description),
            *self._shared.addresses,
        ]
        allocations = [f"  %sw.temporaries = alloca [{self._temporaries} x i32]"] if self._temporaries else []
        if self.barriers:
            shader = groups.shader_coroutine(lines, prologue, allocations)
        else:
            shader = groups.shader_function(lines, [*allocations, *prologue])
        kernel = groups.kernel(self.description, bool(self.barriers))
        module = "\n".join([*head, shader, *self._definitions.values(), kernel, memory.METADATA])
        return declared(module, llvm.dialect().lacking)

    def _split(self) -> tuple[Lines, Lines]:
        """The types and constants of the module, and the body of its only function, which begins with a label."""
        head: Lines = []
        body: Lines = []
        inside = seen = False
        for line in self._source.split("\n"):
            if line.startswith("define "):
                if seen:
                    raise ShaderError("shaders of more than one function are not supported")
                if f"@{self.description.entry}()" not in line:
                    raise ShaderError(f"the shader's function is not its entry point {self.description.entry}")
                inside = seen = True
            elif line == "}":
                inside = False
            elif text.is_dropped(line):
                continue
            elif inside:
                body.append(line)
            elif text.shared_name(line) is None:
                head.append(text.clean(line))
        if not body:
            raise ShaderError("the shader has no function")
        if not text.LABEL.match(body[0]):
            body.insert(0, f"{text.ENTRY}:")
        return head, body

    def _instruction(self, line: str) -> Lines:
        """One line of the shader's body."""
        shared = "addrspace(3)" in line
        line = text.clean(line)
        found = _OPERATION.match(line)
        operation = found[1] if found else ""
        if operation == "call":
            return self._any_call(line)
        line = self._shared.replace(line)
        if operation in text.GUARDED:
            line = text.guard(line, self._need)
        elif shared and operation in ("load", "store"):
            line = f"{line}, {memory.SHARED_ACCESS}"
        return [line]

    def _any_call(self, line: str) -> Lines:
        if match := _CALL.match(line):
            return self._call(Call.parse(match))
        if match := _OTHER_CALL.match(line):
            raise ShaderError(f"the shader calls {match[1]}, which is not supported")
        return [line]

    def _need(self, name: str, definition: str) -> None:
        self._definitions.setdefault(name, definition)

    def _unique(self) -> int:
        """A number for a name that the shader's values do not have."""
        self._names += 1
        return self._names

    # ---- dx.op ----

    def _call(self, call: Call) -> Lines:
        if handler := _HANDLERS.get(call.code):
            return handler(self, call)
        kinds = [kind for kind, _ in call.operands]
        body = intrinsics.body(call.code, call.result, kinds)
        if body is None:
            self._unsupported[str(call)] = None
            return []
        name = f"{call.family}{call.overload}.{call.code}"
        parameters = ", ".join(f"{kind} %{letter}" for kind, letter in zip(kinds, "abcdefgh", strict=False))
        self._need(
            name,
            f"define internal {call.result} @{name}({parameters}) alwaysinline nounwind {{\n"
            f"{body}\n  ret {call.result} %r\n}}\n",
        )
        return [call.redirected(name, call.operands)]

    def _temporary_load(self, call: Call) -> Lines:
        place = self._temporary(call)
        address = f"%sw.temporary.{self._unique()}"
        return [
            f"  {address} = getelementptr i32, ptr %sw.temporaries, i32 {place}",
            f"  {call.value} = load {call.result}, ptr {address}",
        ]

    def _temporary_store(self, call: Call) -> Lines:
        place = self._temporary(call)
        kind, value = call.operands[1]
        address = f"%sw.temporary.{self._unique()}"
        return [
            f"  {address} = getelementptr i32, ptr %sw.temporaries, i32 {place}",
            f"  store {kind} {value}, ptr {address}",
        ]

    def _temporary(self, call: Call) -> int:
        place = call.constant(0)
        self._temporaries = max(self._temporaries, place + 1)
        return place

    def _barrier(self, call: Call) -> Lines:
        if call.constant(0) & SYNC_THREAD_GROUP:
            return [groups.BARRIER]
        # It orders memory between groups, which run on different processor cores; a group's threads share one core.
        return ["  fence acq_rel"]

    # ---- Handles ----

    def _create_handle(self, call: Call) -> Lines:
        """Operands: class, range id, register, non-uniform."""
        resource_class, identifier = call.constant(0), call.constant(1)
        return self._bind(
            call,
            call.operands[2][1],
            lambda each: (each.resource_class, each.id) == (resource_class, identifier),
        )

    def _create_handle_from_binding(self, call: Call) -> Lines:
        """Operands: { first register, last register, space, class }, register, non-uniform."""
        numbers = [int(number) for number in re.findall(r"i\d+ (\d+)", call.operands[0][1])] or [0, 0, 0, 0]
        wanted = (numbers[3], numbers[2], numbers[0])
        return self._bind(
            call, call.operands[1][1], lambda each: (each.resource_class, each.space, each.lower) == wanted
        )

    def _bind(self, call: Call, register: str, matches: Callable[[ResourceRange], bool]) -> Lines:
        slot, each = next(
            ((slot, each) for slot, each in enumerate(self.description.ranges) if matches(each)), (None, None)
        )
        if slot is None or each is None:
            raise ShaderError(f"{call} uses a resource that the shader does not declare")
        if each.count == 1:
            self._buffers[call.variable] = Buffer(slot, f"%sw.base.{slot}", f"%sw.size.{slot}")
            return []
        if each.resource_class is ResourceClass.CBV:
            raise ShaderError("arrays of constant buffers are not supported")
        prefix = f"%sw.array.{self._unique()}"
        self._buffers[call.variable] = Buffer(slot, f"{prefix}.base", f"{prefix}.size")
        limit = UNBOUNDED if each.count == UNBOUNDED else each.count
        return [  # a register past the range's end is an empty buffer
            f"  {prefix}.place = sub i32 {register}, {each.lower}",
            f"  {prefix}.ok = icmp ult i32 {prefix}.place, {limit}",
            f"  {prefix}.safe = select i1 {prefix}.ok, i32 {prefix}.place, i32 0",
            f"  {prefix}.wide = zext i32 {prefix}.safe to i64",
            f"  {prefix}.view = getelementptr [{groups.VIEW_BYTES} x i8], ptr %sw.view.{slot}, i64 {prefix}.wide",
            *groups.view_fields(f"{prefix}.view", f"{prefix}.base", f"{prefix}.bytes"),
            f"  {prefix}.size = select i1 {prefix}.ok, i64 {prefix}.bytes, i64 0",
        ]

    def _annotate_handle(self, call: Call) -> Lines:
        self._buffers[call.variable] = self._buffer(call)
        return []

    def _buffer(self, call: Call) -> Buffer:
        """The buffer of the handle that is the call's first operand."""
        handle = call.operands[0][1]
        if handle not in self._buffers:
            raise ShaderError(f"{call} uses a handle that no supported operation created")
        return self._buffers[handle]

    def _range(self, call: Call) -> ResourceRange:
        return self.description.ranges[self._buffer(call).slot]

    def _on_buffer(self, call: Call, target: str, operands: Sequence[tuple[str, str]]) -> Lines:
        """A call of a function that takes a buffer's pointer and size first."""
        buffer = self._buffer(call)
        return [call.redirected(target, [("ptr", buffer.base), ("i64", buffer.size), *operands])]

    # ---- Buffers ----

    def _check_buffer(self, call: Call, name: str) -> ResourceRange:
        """The range of a buffer operation on numbers of this type."""
        each = self._range(call)
        if each.shape not in (Shape.TYPED_BUFFER, Shape.RAW_BUFFER, Shape.STRUCTURED_BUFFER):
            raise ShaderError(f"{call} uses a texture; only buffers are supported")
        if each.typed and name not in ("float", "half", "i32", "i16"):
            raise ShaderError(f"{call} uses {name} in a typed buffer, which is not supported")
        return each

    def _load(self, call: Call) -> Lines:
        """Operands: handle, index, offset, ...; the offset within a structured buffer's element."""
        name = _element_type(call.result)
        each = self._check_buffer(call, name)
        slot = self._buffer(call).slot
        self.accesses[slot] |= READS
        mask = self._components[call.value or ""]
        target = f"{call.family}{call.overload}.{slot}.{mask}"
        if target not in self._definitions:
            if each.typed:
                definition = memory.typed_load(target, call.result, name, format_of(self._formats[slot]), mask)
            else:
                definition = memory.load(
                    target, call.result, name, each.stride, mask, self.description.native_16_bit, self._need
                )
            self._need(target, definition)
        return self._on_buffer(call, target, call.operands[1:3])

    def _store(self, call: Call) -> Lines:
        """Operands: handle, index, offset, four values, mask, ..."""
        name = call.operands[3][0]
        each = self._check_buffer(call, name)
        slot, mask = self._buffer(call).slot, call.constant(7)
        self.accesses[slot] |= WRITES
        target = f"{call.family}{call.overload}.{slot}.{mask}"
        if target not in self._definitions:
            if each.typed:
                definition = memory.typed_store(target, name, format_of(self._formats[slot]), mask)
            else:
                native = self.description.native_16_bit
                definition = memory.store(target, name, each.stride, mask, native, self._need)
            self._need(target, definition)
        return self._on_buffer(call, target, call.operands[1:7])

    def _element_bytes(self, call: Call) -> int:
        """The bytes that an index counts: those of an element; 0 for a raw buffer, whose index counts bytes."""
        each = self._range(call)
        return format_of(self._formats[self._buffer(call).slot]).size if each.typed else each.stride

    def _atomic(self, call: Call) -> Lines:
        """Operands: handle, operation, three coordinates, value."""
        each = self._check_buffer(call, call.result)
        self.accesses[self._buffer(call).slot] |= READS | WRITES
        operation = memory.ATOMIC_OPERATIONS[call.constant(1)]
        target = f"{call.family}{call.overload}.{self._buffer(call).slot}.{operation}"
        stride = self._element_bytes(call)
        self._need(target, memory.atomic(target, call.result, stride, each.typed, operation))
        return self._on_buffer(call, target, [*call.operands[2:4], call.operands[5]])

    def _compare_exchange(self, call: Call) -> Lines:
        """Operands: handle, three coordinates, expected value, new value."""
        each = self._check_buffer(call, call.result)
        self.accesses[self._buffer(call).slot] |= READS | WRITES
        target = f"{call.family}{call.overload}.{self._buffer(call).slot}"
        stride = self._element_bytes(call)
        self._need(target, memory.compare_exchange(target, call.result, stride, each.typed))
        return self._on_buffer(call, target, [*call.operands[1:3], *call.operands[4:6]])

    def _dimensions(self, call: Call) -> Lines:
        self._check_buffer(call, "i32")
        target = f"{call.family}.{self._buffer(call).slot}"
        unit = self._element_bytes(call) or 1
        self._need(target, memory.dimensions(target, call.result, unit, self._range(call).stride))
        return self._on_buffer(call, target, [])

    def _is_mapped(self, call: Call) -> Lines:
        return [f"  {call.value} = icmp ne i32 {call.operands[0][1]}, 0"]

    # ---- Constant buffers ----

    def _constants(self, call: Call) -> Lines:
        """Operands: handle, row (dx.op.cbufferLoadLegacy) or byte offset (dx.op.cbufferLoad), ..."""
        each = self._range(call)
        if each.resource_class is not ResourceClass.CBV:
            raise ShaderError(f"{call} uses a resource that is not a constant buffer")
        rows, native = groups.constant_rows(each), self.description.native_16_bit
        buffer, mask = self._buffer(call), self._components[call.value or ""]
        target = f"{call.family}{call.overload}.{buffer.slot}.{mask}"
        if call.result.startswith("%"):
            name = _element_type(call.result)
            definition = memory.constants_row(target, call.result, name, rows, mask, native)
        else:
            definition = memory.constant(target, call.result, rows, native)
        self._need(target, definition)
        return [call.redirected(target, [("ptr", buffer.base), call.operands[1]])]


def _element_type(structure: str) -> str:
    """The type of a structure's elements: float for %dx.types.ResRet.f32."""
    suffix = structure.strip('%"').split(".")[3]
    return _TYPES.get(suffix, suffix)


def _axis(source: str) -> Callable[[Translation, Call], Lines]:
    """A handler for the index of a thread or a group along one axis."""

    def handler(_: Translation, call: Call) -> Lines:
        return [f"  {call.value} = bitcast i32 %sw.{source}.{'xyz'[call.constant(0)]} to i32"]

    return handler


# Operations that only compute are in intrinsics.OPERATIONS.  Wave operations are missing on purpose: the adapter
# reports that it has no waves, and shaders that use waves rely on their width.
_HANDLERS: dict[int, Callable[[Translation, Call], Lines]] = {
    Opcode.TempRegLoad: Translation._temporary_load,
    Opcode.TempRegStore: Translation._temporary_store,
    Opcode.CreateHandle: Translation._create_handle,
    Opcode.CBufferLoad: Translation._constants,
    Opcode.CBufferLoadLegacy: Translation._constants,
    Opcode.BufferLoad: Translation._load,
    Opcode.BufferStore: Translation._store,
    Opcode.CheckAccessFullyMapped: Translation._is_mapped,
    Opcode.GetDimensions: Translation._dimensions,
    Opcode.AtomicBinOp: Translation._atomic,
    Opcode.AtomicCompareExchange: Translation._compare_exchange,
    Opcode.Barrier: Translation._barrier,
    Opcode.ThreadId: _axis("dispatch"),
    Opcode.GroupId: _axis("group"),
    Opcode.ThreadIdInGroup: _axis("thread"),
    Opcode.FlattenedThreadIdInGroup: lambda _, call: [f"  {call.value} = bitcast i32 %sw.index to i32"],
    Opcode.RawBufferLoad: Translation._load,
    Opcode.RawBufferStore: Translation._store,
    Opcode.AnnotateHandle: Translation._annotate_handle,
    Opcode.CreateHandleFromBinding: Translation._create_handle_from_binding,
}
