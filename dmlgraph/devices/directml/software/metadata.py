"""What a DXIL module's metadata says about a shader: its resources, its threads and its flags."""

from __future__ import annotations

import dataclasses
import enum
import re

from dmlgraph.devices.directml.software.errors import ShaderError


class ResourceClass(enum.IntEnum):
    """What a range binds."""

    SRV = 0
    UAV = 1
    CBV = 2
    SAMPLER = 3


class Shape(enum.IntEnum):
    """The DXIL resource kinds that are buffers."""

    TYPED_BUFFER = 10
    RAW_BUFFER = 11
    STRUCTURED_BUFFER = 12
    CBUFFER = 13


UNBOUNDED = 0xFFFFFFFF  # the register count of an unbounded range

NATIVE_16_BIT = 1 << 23  # shader flag: half and i16 take two bytes in memory, not four

# Tags in the property lists of resources and entry points.
STRUCTURE_STRIDE = 1
SHADER_FLAGS, THREAD_COUNTS = 0, 4


@dataclasses.dataclass(frozen=True)
class ResourceRange:
    """Consecutive registers of one class, as a shader declares them."""

    resource_class: ResourceClass
    id: int
    space: int
    lower: int
    count: int
    shape: int
    stride: int = 0  # bytes of a structured buffer's element, else 0
    size: int = 0  # bytes of a constant buffer, else 0

    @property
    def typed(self) -> bool:
        return self.shape == Shape.TYPED_BUFFER


@dataclasses.dataclass(frozen=True)
class Description:
    """A shader's entry point and the resources it declares."""

    entry: str
    threads: tuple[int, int, int]
    ranges: tuple[ResourceRange, ...]
    native_16_bit: bool
    flush_denormals: bool


_NODE = re.compile(r"^!(\d+) = (?:distinct )?!\{(.*)\}$", re.M)
_NAMED = re.compile(r"^!([\w.]+) = !\{!(\d+)", re.M)
_FIELD = re.compile(r'(?:"[^"]*"|[^,"])+')
_DENORMAL_MODE = re.compile(r'"fp32-denorm-mode"="(\w+)"')


def describe(text: str) -> Description:
    """The description in a module's text.  Raises ShaderError if it is not that of a compute shader."""
    try:
        return _describe(text)
    except (IndexError, KeyError, ValueError) as error:
        raise ShaderError("the shader's metadata is not valid DXIL") from error


def _describe(text: str) -> Description:
    nodes = _Nodes(text)
    fields = nodes.first("dx.entryPoints")
    if len(fields) < 5 or "@" not in fields[0]:
        raise ShaderError("the shader has no entry point")
    model = nodes.first("dx.shaderModel")
    if model and model[0] != '!"cs"':
        raise ShaderError("only compute shaders can be run", got=model[0].strip('!"'))
    properties = nodes.pairs(fields[4])
    threads = [_number(field) for field in nodes.fields(properties.get(THREAD_COUNTS, ""))]
    if len(threads) != 3 or 0 in threads:
        raise ShaderError("the shader does not say how many threads a group has")
    mode = _DENORMAL_MODE.search(text)
    return Description(
        entry=fields[0].split("@", 1)[1],
        threads=(threads[0], threads[1], threads[2]),
        ranges=tuple(
            _range(ResourceClass(number), nodes.fields(reference), nodes)
            for number, group in enumerate(nodes.first("dx.resources"))
            for reference in nodes.fields(group)
        ),
        native_16_bit=bool(_number(properties.get(SHADER_FLAGS, "i64 0")) & NATIVE_16_BIT),
        flush_denormals=mode is not None and mode[1] == "ftz",
    )


def _range(resource_class: ResourceClass, fields: list[str], nodes: _Nodes) -> ResourceRange:
    """A range from the fields of its node: id, variable, name, space, register, count, then those of its class."""
    identifier, space, lower, count = (_number(fields[place]) for place in (0, 3, 4, 5))
    shape, stride, size = 0, 0, 0
    if resource_class is ResourceClass.CBV:
        shape, size = Shape.CBUFFER, _number(fields[6])
    elif resource_class is not ResourceClass.SAMPLER:
        shape = _number(fields[6])
        properties = nodes.pairs(fields[8 if resource_class is ResourceClass.SRV else 10])
        if shape == Shape.STRUCTURED_BUFFER:
            stride = _number(properties.get(STRUCTURE_STRIDE, "i32 0"))
    return ResourceRange(resource_class, identifier, space, lower, count, shape, stride, size)


def _number(field: str) -> int:
    """The value of a field such as `i32 5`, unsigned."""
    return int(field.rsplit(maxsplit=1)[-1]) & 0xFFFFFFFF


class _Nodes:
    """The metadata nodes of a module, as lists of fields in LLVM's text."""

    def __init__(self, text: str) -> None:
        self._nodes = {match[1]: match[2] for match in _NODE.finditer(text)}
        self._named = {match[1]: match[2] for match in _NAMED.finditer(text)}

    def first(self, name: str) -> list[str]:
        """The fields of the first node of a named list; an empty list if the named list does not exist."""
        return self.fields(f"!{self._named[name]}") if name in self._named else []

    def fields(self, reference: str) -> list[str]:
        """The fields of the node that a reference such as `!12` names; an empty list for `null`."""
        return [field.strip() for field in _FIELD.findall(self._nodes.get(reference[1:], ""))]

    def pairs(self, reference: str) -> dict[int, str]:
        """A node of alternating tags and values."""
        fields = self.fields(reference)
        return dict(zip(map(_number, fields[::2]), fields[1::2], strict=False))
