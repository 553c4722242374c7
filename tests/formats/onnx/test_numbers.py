"""Numbers of models arrive bit by bit, in every form in which ONNX files hold them.

Messages are written here byte by byte: what the package onnx writes is only one of the forms.
"""

from __future__ import annotations

import pathlib
from typing import Any

import hypothesis.strategies as st
import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import HealthCheck, Phase, given, settings
from onnx import AttributeProto, TensorProto
from support.problems import raises

import dmlgraph as dg
from dmlgraph.files.mapped_arrays import LEAST
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import read
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.nodes import ConstantNode

# The wire format.


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def field(number: int, value: int | bytes) -> bytes:
    """A number as a varint, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fixed(number: int, value: bytes) -> bytes:
    """4 or 8 bytes without a length."""
    return varint(number << 3 | (5 if len(value) == 4 else 1)) + value


def group(number: int, inside: bytes) -> bytes:
    return varint(number << 3 | 3) + inside + varint(number << 3 | 4)


UNKNOWN = [b"", field(900, 7), field(901, b"abc"), fixed(902, b"1234"), fixed(903, b"12345678")]
UNKNOWN.append(group(904, UNKNOWN[1] + group(905, UNKNOWN[2])))

# The forms of a tensor's numbers.

BITS = {"bool": 8, "float": 32, "double": 64, "float16": 16, "uint4": 4, "int4": 4}
WITHOUT_COUNTERPART = {"bfloat16": 16, "float4e2m1": 4, "uint2": 2, "int2": 2} | dict.fromkeys(
    ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0"), 8
)
BITS |= WITHOUT_COUNTERPART
BITS |= {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
FIELDS = {"float": 4, "double": 10, "int64": 7, "uint64": 11, "uint32": 11}  # of others int32_data, 5
SPECIAL = {64: [1 << 63, 1], 32: [0x7FC01234, 0x7F800001, 1 << 31, 1], 16: [0x7E12, 0x7C01, 0x7F81, 1 << 15, 1]}
FORMS = ["raw", "raw twice", "packed", "unpacked", "mixed", "external", "at an offset"]
PLACES = ["initializer", "default of an input", "attribute", "function", "branch", "initializer of a body"]


def element_size(name: str) -> int:
    return max(BITS[name] // 8, 1)


def typed(data: bytes, name: str, form: str) -> bytes:
    """The numbers in their typed field: together, one by one, or half of them in either form."""
    number, size = FIELDS.get(name, 5), element_size(name)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    half = {"packed": len(pieces), "unpacked": 0, "mixed": len(pieces) // 2}[form]
    if name in ("float", "double"):
        return field(number, b"".join(pieces[:half])) + b"".join(fixed(number, each) for each in pieces[half:])
    whole = [int.from_bytes(each, "little", signed=name in ("int8", "int16", "int32", "int64")) for each in pieces]
    return field(number, b"".join(map(varint, whole[:half]))) + b"".join(field(number, each) for each in whole[half:])


def external(**said: str) -> bytes:
    return b"".join(field(13, field(1, key.encode()) + field(2, value.encode())) for key, value in said.items())


@st.composite
def bits_of(draw: st.DrawFn, name: str) -> tuple[int, bytes]:
    """A number of elements, on either side of what is mapped, and the bytes of numbers that are easily changed."""
    least = -(-LEAST * 8 // BITS[name])
    count = draw(st.sampled_from([1, 2, 3, *[7] * 6, least - 1, least, least + 5]))
    size, step = -(-count * BITS[name] // 8), element_size(name)
    data = bytearray(np.random.default_rng(draw(st.integers(0, 99))).bytes(size))
    for at, number in enumerate(SPECIAL.get(BITS[name], [])[:count]):
        data[at * step : (at + 1) * step] = number.to_bytes(step, "little")
    if name == "bool":
        data = bytearray(each & 1 for each in data)
    if count * BITS[name] % 8:
        data[-1] &= (1 << count * BITS[name] % 8) - 1
    return count, bytes(data)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, int, bytes, list[bytes]]:
    """A type, a number of elements, their bytes, and the parts of the tensor's message."""
    name, form = draw(st.sampled_from(sorted(BITS))), draw(st.sampled_from(FORMS))
    count, data = draw(bits_of(name))
    parts = [
        field(1, count) if draw(st.booleans()) else field(1, varint(count)),
        field(2, TensorProto.DataType.Value(name.upper())),
        field(8, b"w"),
        *draw(st.lists(st.sampled_from(UNKNOWN), max_size=2)),
    ]
    location: int | None = 0 if draw(st.booleans()) else None
    if form in ("raw", "raw twice"):
        parts.append(field(9, data))
    elif form in ("external", "at an offset"):
        said = {"location": "w.bin", "offset": "8"} if form == "at an offset" else {"location": "w.bin"}
        optional = {"length": str(len(data)), "checksum": "ab" * 20}
        said |= {key: value for key, value in optional.items() if draw(st.booleans())}
        parts.append(external(**said))
        location = 1
        parts += [field(9, b"not these")] if draw(st.booleans()) else []
    else:
        parts.append(typed(data, name, form))
    parts += [] if location is None else [field(14, location)]
    parts = draw(st.permutations(parts))
    if form == "raw twice":  # the last one counts
        parts.insert(0, field(9, draw(st.sampled_from([b"", b"1234", bytes(LEAST)]))))
    return name, count, data, list(parts)


# A model around the tensor.


def node(operator: str, inputs: list[str], outputs: list[str], *more: bytes, **attributes: Any) -> bytes:
    return onnx.helper.make_node(operator, inputs, outputs, **attributes).SerializeToString() + b"".join(more)


def attribute(name: str, kind: int, *values: bytes) -> bytes:
    number = {int(AttributeProto.TENSOR): 5, int(AttributeProto.GRAPH): 6}[kind]
    return field(5, field(1, name.encode()) + field(20, kind) + b"".join(field(number, each) for each in values))


def info(number: int, name: str, *dtype_and_shape: Any) -> bytes:
    made = onnx.helper.make_tensor_value_info(name, *dtype_and_shape) if dtype_and_shape else None
    return field(number, (made or onnx.helper.make_empty_tensor_value_info(name)).SerializeToString())


def model_of(name: str, count: int, parts: list[bytes], place: str, is_split: bool) -> bytes:
    """A model whose output `y` is the tensor; `is_split`: messages that merge come in two parts."""
    tensor = b"".join(parts)
    half = len(parts) // 2
    halves = [b"".join(parts[:half]), b"".join(parts[half:])] if is_split else [tensor]
    made = node("Constant", [], ["w"], attribute("value", AttributeProto.TENSOR, *halves))
    constant = field(1, made)
    initial = field(5, tensor)
    same, functions = field(1, node("Identity", ["w"], ["y"])), b""
    dtype = TensorProto.DataType.Value(name.upper())
    scalars = {"yes": np.array(True), "one": np.array(1)}
    known = [field(5, onnx.numpy_helper.from_array(each, key).SerializeToString()) for key, each in scalars.items()]
    if place == "initializer":
        graph = [same, initial]
    elif place == "default of an input":
        graph = [same, initial, info(11, "w", dtype, [count])]
    elif place == "attribute":
        graph = [constant, same]
    elif place == "function":
        graph = [field(1, node("f", [], ["y"], domain="local"))]
        opsets = field(9, field(1, b"") + field(2, 21))
        functions = field(25, field(1, b"f") + field(5, b"w") + field(7, made) + opsets + field(10, b"local"))
    elif place == "branch":
        branch = attribute("then_branch", AttributeProto.GRAPH, constant + info(12, "w"))
        other = attribute("else_branch", AttributeProto.GRAPH, constant + info(12, "w"))
        graph = [field(1, node("If", ["yes"], ["y"], branch, other)), *known]
    else:
        inner = field(1, node("Identity", ["c"], ["d"])) + field(1, node("Identity", ["w"], ["v"])) + initial
        inner += (
            info(11, "i", TensorProto.INT64, []) + info(11, "c", TensorProto.BOOL, []) + info(12, "d") + info(12, "v")
        )
        graph = [field(1, node("Loop", ["one", ""], ["y"], attribute("body", AttributeProto.GRAPH, inner))), *known]
    graph += [info(12, "y"), field(2, b"g")]
    halves = [b"".join(graph[:1]), b"".join(graph[1:])] if is_split else [b"".join(graph)]
    opsets = b"".join(field(8, field(1, domain) + field(2, 21)) for domain in (b"", b"local"))
    return functions + b"".join(field(7, each) for each in halves) + opsets + field(1, 10)


class Seen(Importer):
    """Notes the constants of a model."""

    def constant(self, tensor: ir.TensorProtocol, name: str = "") -> Tensor:
        made = super().constant(tensor, name)
        self.__dict__.setdefault("seen", []).append(made.known)
        return made


def bits(array: np.ndarray, name: str) -> bytes:
    """The numbers as `raw_data` has them."""
    if BITS[name] < 8:  # several in one byte, the first one lowest
        each = 8 // BITS[name]
        parts = array.ravel().view(np.uint8) & (1 << BITS[name]) - 1
        parts = np.append(parts, np.zeros(-parts.size % each, np.uint8)).reshape(-1, each)
        return (parts << np.arange(each, dtype=np.uint8) * BITS[name]).sum(axis=1).astype(np.uint8).tobytes()
    return array.tobytes()


@settings(
    max_examples=100, phases=[Phase.explicit, Phase.generate], deadline=None, suppress_health_check=list(HealthCheck)
)
@given(tensors(), st.sampled_from(PLACES), st.booleans())
def test_numbers_arrive_bit_by_bit_in_every_form(
    tmp_path: pathlib.Path, made: tuple[str, int, bytes, list[bytes]], place: str, is_split: bool
) -> None:
    name, count, data, parts = made
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(name, count, parts, place, is_split))
    begin = b"12345678" if b"offset" in b"".join(parts) else b""
    (tmp_path / "w.bin").write_bytes(begin + data + b"more")
    importer = Seen(read(path), dims={}, values={}, target=None, convert={})
    if name not in WITHOUT_COUNTERPART:
        graph = importer.read()
        (constant,) = (each for each in graph.nodes if isinstance(each, ConstantNode))
        assert bits(constant.data, name) == data
    else:
        with raises(dg.ModelError, "unknown-dtype", node="y"):
            importer.read()
    assert [each for each in importer.__dict__["seen"] if each.size == count and bits(each, name) == data]
