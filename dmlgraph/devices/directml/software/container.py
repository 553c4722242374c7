"""Reads the LLVM module in the DXIL part of a DXBC container.

A container is a header (magic `DXBC`, 16 bytes of digest, version, size in bytes, part count, part offsets)
and parts, each with a four-character name, a size and data.  The `DXIL` part holds a program header (version, size
in words, magic `DXIL`, version, offset and size of the bitcode) and LLVM 3.7 bitcode.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import Any

from dmlgraph.devices.directml.software import llvm
from dmlgraph.devices.directml.software.errors import ShaderError
from dmlgraph.devices.directml.software.text import with_names

BITCODE_MAGIC = b"BC\xc0\xde"

# Shaders without native 16-bit types state a 32-bit alignment for i8, which current LLVM refuses to read.  The data
# layout is not used otherwise, so its text is replaced by an accepted one of the same length.
REFUSED_LAYOUT, ACCEPTED_LAYOUT = "-i8:32-", "-i8:08-"


@dataclasses.dataclass(frozen=True)
class GlobalVariable:
    """A variable of a module: `text` is its definition, `size` its size in bytes on this host."""

    text: str
    size: int


@dataclasses.dataclass(frozen=True)
class Module:
    """A module as text: see `text.with_names`."""

    text: str
    variables: tuple[GlobalVariable, ...]


def read_module(container: bytes) -> Module:
    """The module of a container.  Raises ShaderError if it has no module that LLVM can read."""
    binding = llvm.binding()
    bitcode = replace_characters(find_bitcode(container), REFUSED_LAYOUT, ACCEPTED_LAYOUT)
    try:
        module = binding.parse_bitcode(bitcode, llvm.context())
    except RuntimeError as error:
        raise ShaderError(f"the shader's bitcode is damaged: {error}") from error
    variables = tuple(_variable(each) for each in module.global_variables)
    return Module(with_names(str(module)), variables)


def _variable(value: Any) -> GlobalVariable:
    return GlobalVariable(str(value).strip(), llvm.data_layout().get_abi_size(value.global_value_type))


def find_bitcode(container: bytes) -> bytes:
    """The bitcode of a container's DXIL part."""
    for name, part in _parts(container):
        if name == b"DXIL":
            if len(part) < 24:
                raise ShaderError("the shader's DXIL part is truncated")
            offset, size = struct.unpack_from("<2I", part, 16)
            bitcode = part[8 + offset : 8 + offset + size]
            if len(bitcode) != size or not bitcode.startswith(BITCODE_MAGIC):
                raise ShaderError("the shader's DXIL part does not hold LLVM bitcode")
            return bitcode
    raise ShaderError("the shader has no DXIL part", hint="compile it for shader model 6.0 or newer")


def _parts(container: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(container) < 32 or container[:4] != b"DXBC":
        raise ShaderError("the shader is not a DXBC container")
    (count,) = struct.unpack_from("<I", container, 28)
    if len(container) < 32 + 4 * count:
        raise ShaderError("the shader's container is truncated")
    for offset in struct.unpack_from(f"<{count}I", container, 32):
        header = container[offset : offset + 8]
        if len(header) < 8:
            raise ShaderError("the shader's container is truncated")
        (size,) = struct.unpack_from("<I", header, 4)
        yield header[:4], container[offset + 8 : offset + 8 + size]


def replace_characters(bitcode: bytes, old: str, new: str) -> bytes:
    """Replaces the first `old` in bitcode by `new`, which has the same length.

    Each character of an unabbreviated record is two six-bit chunks, at any bit offset of the stream.
    """
    old_bits, new_bits = _chunks(old), _chunks(new)
    pattern = old_bits.to_bytes(12 * len(old) // 8, "little")  # whole bytes only: enough to find it
    stream = int.from_bytes(bitcode, "little")
    for shift in range(8):
        at = (stream >> shift).to_bytes(len(bitcode), "little").find(pattern)
        if at >= 0:
            return (stream ^ (old_bits ^ new_bits) << (8 * at + shift)).to_bytes(len(bitcode), "little")
    return bitcode


def _chunks(text: str) -> int:
    """A string as variable-width integers of six-bit chunks: five bits of value, and one that says more follow."""
    bits = 0
    for position, character in enumerate(text.encode()):
        low, high = character & 31, character >> 5
        bits |= (low | 32 | high << 6) << (12 * position)
    return bits
