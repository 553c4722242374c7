"""Turns the text of a kernel's module into native code: optimises it, writes the object file, loads it."""

from __future__ import annotations

import dataclasses
import mmap
from typing import Any

from dmlgraph.base.errors import plural
from dmlgraph.base.memory import not_enough_memory
from dmlgraph.devices.directml.software import llvm
from dmlgraph.devices.directml.software.errors import ShaderError


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much time compilation may spend."""

    level: int  # of LLVM's module pipeline, 1 to 3
    vectorise: bool
    codegen_level: int  # of instruction selection and register allocation, 0 to 3


FULL = Effort(level=2, vectorise=True, codegen_level=2)
REDUCED = Effort(level=1, vectorise=False, codegen_level=1)
LEAST = Effort(level=1, vectorise=False, codegen_level=0)

# The most instructions (inlined functions included) for each effort.  Measured: CPU seconds on one core, LLVM 22;
# "dense" is an artificial worst case of loads, divisions, conversions and stores that all depend on one another:
#
#   instructions  barriers                              FULL   REDUCED   LEAST
#         12,000        34  DirectML                     0.5       0.4     0.3
#         28,000        34  DirectML                     1.7       1.2     0.8
#         53,500         2  DirectML, its largest        2.1       1.9     1.0
#         22,400      0, 8  dense                   0.6, 1.5  0.3, 0.6  0.2, 0.4
#         75,000      0, 7  dense                  4.0, 10.2  1.7, 2.7  0.8, 1.9
#        225,000         7  dense                         87      11.6     7.8
#
# So all of DirectML's shaders get full optimisation.  The densest code with barriers takes about 35 µs per
# instruction even at the least effort: 20 s means over half a million instructions, ten times DirectML's largest
# shader.
FULL_LIMIT = 60_000
REDUCED_LIMIT = 150_000


def effort_for(instructions: int) -> Effort:
    """The effort for a kernel with this number of instructions."""
    if instructions <= FULL_LIMIT:
        return FULL
    return REDUCED if instructions <= REDUCED_LIMIT else LEAST


@dataclasses.dataclass(frozen=True)
class LoadedCode:
    """Native code in memory; `address` is that of the kernel.  It is valid as long as this object lives."""

    address: int
    engine: Any


# Memory that LLVM needs for a kernel, and for each of its instructions: twice the measured need of DirectML's
# kernels and of dense ones of 30,000 instructions.
KERNEL_BYTES = 32 << 20
INSTRUCTION_BYTES = 4 << 10


def reserve(instructions: int) -> None:
    """Allocates the memory that LLVM will need, and frees it again: LLVM ends the process if an allocation fails.

    Raises:
        NotEnoughMemoryError: this much memory is not available.
    """
    size = KERNEL_BYTES + INSTRUCTION_BYTES * instructions
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, MemoryError):
        shader = f"a shader of {plural(instructions, 'instruction', ',')}"
        purpose = f"compile {shader}, which takes up to {size >> 20:,} MiB"
        raise not_enough_memory(purpose, MemoryError()) from None


def object_code(text: str, effort: Effort) -> bytes:
    """The object file of a module."""
    binding = llvm.binding()
    machine = llvm.target_machine(effort.codegen_level)
    module = _parse(text)
    module.triple = binding.get_process_triple()
    module.data_layout = str(machine.target_data)
    options = binding.create_pipeline_tuning_options(speed_level=effort.level)
    options.loop_vectorization = options.slp_vectorization = effort.vectorise
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def load(code: bytes) -> LoadedCode:
    """Loads an object file, so that it can be called."""
    binding = llvm.binding()
    # An engine takes ownership of a target machine and a module; the module is not used here.  It is in the global
    # context because llvmlite would free a separate context before the engine that holds the module.
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), llvm.target_machine(FULL.codegen_level))
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return LoadedCode(engine.get_function_address("kernel"), engine)


def _parse(text: str) -> Any:
    binding = llvm.binding()
    try:
        module = binding.parse_assembly(text, llvm.context())
        module.verify()
    except RuntimeError as error:
        raise ShaderError(f"the shader's translation is not valid: {error}") from error
    return module
