"""An operator's fields become the bytes of its C struct; the tests read them back at the reference data's offsets."""

from __future__ import annotations

import ctypes
import itertools
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgraph import _native

REFERENCE = Path(__file__).resolve().parents[1] / "reference" / "directml_operators.json"
OPERATORS: list[dict[str, Any]] = json.loads(REFERENCE.read_text(encoding="utf-8"))["operators"]
every_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator["name"])

KINDS = {
    "UINT": "u32",
    "INT": "i32",
    "FLOAT": "f32",
    "float": "f32",
    "BOOL": "bool",
    "DML_SCALAR_UNION": "scalar",
    "DML_SIZE_2D": "size_2d",
    "const UINT*": "u32s",
    "const INT*": "i32s",
    "const FLOAT*": "f32s",
    "const DML_SCALE_BIAS*": "scale_bias",
}


def kind_of(field: dict[str, Any]) -> str:
    if field["c_type"] == "const DML_TENSOR_DESC*":
        return "tensors" if field["kind"].endswith("_array") else "tensor"
    if field["c_type"] == "const DML_OPERATOR_DESC*":
        return "operators" if field["kind"].endswith("_array") else "operator"
    return KINDS.get(field["c_type"], "enum")


def kinds_of(operator: dict[str, Any]) -> list[str]:
    return [kind_of(field) for field in operator["fields"]]


class Tensor(NamedTuple):
    """The fields of a TensorDesc, to compare with those that are read back."""

    data_type: int
    flags: int
    sizes: list[int]
    strides: list[int] | None
    total_bytes: int
    alignment: int

    def native(self) -> _native.TensorDesc:
        return _native.TensorDesc(*self)


class Operator(NamedTuple):
    type: int
    fields: list[tuple[str, Any]]

    def native(self) -> _native.OperatorDesc:
        return _native.OperatorDesc(self.type, [(kind, native(value)) for kind, value in self.fields])


def native(value: Any) -> Any:
    """The value in the form that the native module takes."""
    if isinstance(value, Tensor | Operator):
        return value.native()
    if isinstance(value, list):
        return [native(element) for element in value]
    return value


class Reader:
    """Reads C structs, and refuses addresses outside the packed block."""

    def __init__(self, packed: _native.PackedDesc) -> None:
        self.start = packed.block_address
        self.end = self.start + len(packed.block)

    def read(self, layout: str, address: int) -> tuple[Any, ...]:
        size = struct.calcsize(layout)
        assert self.start <= address <= self.end - size, "a pointer leaves the block"
        assert address % max(struct.calcsize(code) for code in layout.strip("=").lstrip("0123456789")) == 0
        return struct.unpack(layout, ctypes.string_at(address, size))

    def array(self, code: str, address: int, count: int) -> list[Any]:
        if count == 0:
            assert address == 0
            return []
        return list(self.read(f"={count}{code}", address))

    def tensor(self, address: int) -> Tensor:
        kind, pointer = self.pair(address)
        assert kind == 1  # DML_TENSOR_TYPE_BUFFER
        (data_type,) = self.read("=I", pointer)
        (flags,) = self.read("=I", pointer + 4)
        (rank,) = self.read("=I", pointer + 8)
        (sizes,) = self.read("=Q", pointer + 16)
        (strides,) = self.read("=Q", pointer + 24)
        (total_bytes,) = self.read("=Q", pointer + 32)
        (alignment,) = self.read("=I", pointer + 40)
        return Tensor(
            data_type,
            flags,
            self.array("I", sizes, rank),
            self.array("I", strides, rank) if strides else None,
            total_bytes,
            alignment,
        )

    def operator(self, address: int, kinds: list[str]) -> Operator:
        """A DML_OPERATOR_DESC whose struct has fields of these kinds."""
        type_, pointer = self.pair(address)
        _, _, offsets = _native.struct_layout(kinds)
        return Operator(type_, self.fields(pointer, kinds, offsets))

    def pair(self, address: int) -> tuple[int, int]:
        return self.read("=I", address)[0], self.read("=Q", address + 8)[0]

    def fields(self, struct_address: int, kinds: list[str], offsets: list[int]) -> list[tuple[str, Any]]:
        pairs = zip(kinds, offsets, strict=True)
        return [(kind, self.field(kind, struct_address + offset)) for kind, offset in pairs]

    def field(self, kind: str, address: int) -> Any:
        simple = {"u32": "=I", "enum": "=I", "i32": "=i", "f32": "=f", "u64": "=Q"}
        if kind in simple:
            return self.read(simple[kind], address)[0]
        if kind == "bool":
            (number,) = self.read("=I", address)
            assert number in (0, 1)
            return bool(number)
        if kind == "scalar":
            return self.read("=Q", address)[0].to_bytes(8, "little")
        if kind == "size_2d":
            return tuple(self.read("=2I", address))
        (pointer,) = self.read("=Q", address)
        if kind in ("u32s", "i32s", "f32s"):
            return self.array({"u": "I", "i": "i", "f": "f"}[kind[0]], pointer, COUNT)
        if kind == "tensors":
            return [self.tensor(pointer + 16 * i) for i in range(COUNT)]
        if kind == "operators":
            return [self.operator(pointer + 16 * i, NESTED_KINDS) for i in range(COUNT)]
        if pointer == 0:
            return None
        if kind == "scale_bias":
            return tuple(self.read("=2f", pointer))
        if kind == "tensor":
            return self.tensor(pointer)
        return self.operator(pointer, NESTED_KINDS)


COUNT = 3  # elements of every sequence
NESTED_KINDS = ["tensor", "tensor", "f32", "f32"]  # a fused activation with two parameters


def distinctive(kinds: list[str], *, optionals: bool) -> list[tuple[str, Any]]:
    """Fields whose numbers are all different, so that a swap of any two is noticed."""
    numbers = itertools.count(0x01020304, 0x4107)
    floats = itertools.count(1.5, 0.25)

    def tensor() -> Tensor:
        sizes = [next(numbers) for _ in range(4)]
        strides = [next(numbers) for _ in range(4)] if optionals else None
        return Tensor(next(numbers), next(numbers), sizes, strides, next(numbers) << 31, next(numbers))

    def nested() -> Operator:
        return Operator(
            next(numbers), [("tensor", None), ("tensor", None), ("f32", next(floats)), ("f32", next(floats))]
        )

    makers: dict[str, Callable[[], Any]] = {
        "tensor": lambda: tensor() if optionals else None,
        "tensors": lambda: [tensor() for _ in range(COUNT)],
        "u32": lambda: next(numbers),
        "enum": lambda: next(numbers),
        "i32": lambda: -next(numbers),
        "f32": lambda: next(floats),
        "bool": lambda: next(numbers) % 2 == 0,
        "u64": lambda: next(numbers) << 31,
        "scalar": lambda: (next(numbers) << 31).to_bytes(8, "little"),
        "u32s": lambda: [next(numbers) for _ in range(COUNT)],
        "i32s": lambda: [-next(numbers) for _ in range(COUNT)],
        "f32s": lambda: [next(floats) for _ in range(COUNT)],
        "scale_bias": lambda: (next(floats), next(floats)) if optionals else None,
        "size_2d": lambda: (next(numbers), next(numbers)),
        "operator": lambda: nested() if optionals else None,
        "operators": lambda: [nested() for _ in range(COUNT)],
    }
    return [(kind, makers[kind]()) for kind in kinds]


def test_reference_has_every_operator() -> None:
    assert len(OPERATORS) == 177


@every_operator
def test_layout_is_that_of_the_header(operator: dict[str, Any]) -> None:
    size, alignment, offsets = _native.struct_layout(kinds_of(operator))
    assert (size, alignment) == (operator["struct_size"], operator["struct_align"])
    assert offsets == [field["offset"] for field in operator["fields"]]


@every_operator
@pytest.mark.parametrize("optionals", [True, False], ids=["all", "nulls"])
def test_bytes_read_back(operator: dict[str, Any], optionals: bool) -> None:
    fields = distinctive(kinds_of(operator), optionals=optionals)
    given = Operator(operator["enum_value"], fields).native()
    packed = given.pack()
    offsets = [field["offset"] for field in operator["fields"]]
    assert packed.type == operator["enum_value"]
    assert packed.address == packed.block_address
    assert Reader(packed).fields(packed.address, kinds_of(operator), offsets) == fields
    assert given.layout() == _native.struct_layout(kinds_of(operator))


SEQUENCES = ["u32s", "i32s", "f32s", "tensors", "operators"]


@pytest.mark.parametrize("kind", SEQUENCES)
def test_empty_sequence_is_null(kind: str) -> None:
    packed = _native.OperatorDesc(1, [("u32", 0), (kind, [])]).pack()
    assert packed.block == bytes(16)


def test_padding_is_zero() -> None:
    packed = _native.OperatorDesc(1, [("u32", 0xFFFFFFFF), ("u64", 0), ("bool", True)]).pack()
    assert packed.block == struct.pack("=IIQII", 0xFFFFFFFF, 0, 0, 1, 0)


def test_packed_desc_outlives_its_source() -> None:
    packed = _native.OperatorDesc(1, [("u32s", list(range(1000)))]).pack()
    others = [_native.OperatorDesc(1, [("u32s", [7] * 1000)]).pack() for _ in range(100)]
    (pointer,) = struct.unpack("=Q", ctypes.string_at(packed.address, 8))
    assert list(struct.unpack("=1000I", ctypes.string_at(pointer, 4000))) == list(range(1000))
    assert len({other.address for other in others} | {packed.address}) == 101


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8), st.integers(0, 2**64 - 1), st.booleans())
def test_any_tensor_reads_back(sizes: list[int], total_bytes: int, strided: bool) -> None:
    tensor = Tensor(3, 1, sizes, sizes[::-1] if strided else None, total_bytes, 16)
    packed = _native.OperatorDesc(1, [("tensor", tensor.native())]).pack()
    assert Reader(packed).field("tensor", packed.address) == tensor


@given(st.floats(width=32, allow_nan=False))
def test_float_keeps_its_bits(number: float) -> None:
    assert _native.OperatorDesc(1, [("f32", number)]).pack().block == struct.pack("=f", number)


TENSOR = _native.TensorDesc(1, 0, [1], None, 4)
FLAT = _native.OperatorDesc(1, [("operator", None)])
NESTING = _native.OperatorDesc(1, [("operator", FLAT)])


@pytest.mark.parametrize(
    ("error", "kind", "value", "message"),
    [
        (TypeError, "tensor", 3, "field 1 (tensor): expected a TensorDesc, got 3"),
        (TypeError, "tensors", TENSOR, "field 1 (tensors): expected a sequence, got"),
        (TypeError, "tensors", [None], "field 1 (tensors), element 0: expected a TensorDesc, got None"),
        (TypeError, "u32", 1.0, "field 1 (u32): expected an integer from 0 to 4294967295, got 1.0"),
        (TypeError, "u32", True, "field 1 (u32): expected an integer from 0 to 4294967295, got True"),
        (ValueError, "u32", -1, "field 1 (u32): expected an integer from 0 to 4294967295, got -1"),
        (
            ValueError,
            "enum",
            2**32,
            "field 1 (enum): expected an integer from 0 to 4294967295, got 4294967296",
        ),
        (ValueError, "i32", 2**31, "field 1 (i32): expected an integer from -2147483648 to 2147483647"),
        (ValueError, "u64", 2**64, "field 1 (u64): expected an integer from 0 to 18446744073709551615"),
        (TypeError, "f32", "1", "field 1 (f32): expected a number, got '1'"),
        (ValueError, "f32", 1e39, "field 1 (f32): expected a number in the range of float32, got 1e+39"),
        (TypeError, "bool", 1, "field 1 (bool): expected True or False, got 1"),
        (TypeError, "scalar", 1, "field 1 (scalar): expected 8 bytes, got 1"),
        (ValueError, "scalar", b"1234", "field 1 (scalar): expected 8 bytes, got b'1234'"),
        (
            ValueError,
            "u32s",
            [1, -1],
            "field 1 (u32s), element 1: expected an integer from 0 to 4294967295, got -1",
        ),
        (TypeError, "u32s", "12", "field 1 (u32s): expected a sequence, got '12'"),
        (TypeError, "scale_bias", 1.0, "field 1 (scale_bias): expected a sequence, got 1.0"),
        (ValueError, "scale_bias", (1.0,), "field 1 (scale_bias): expected (scale, bias), got (1.0,)"),
        (ValueError, "size_2d", (1, 2, 3), "field 1 (size_2d): expected (width, height), got (1, 2, 3)"),
        (TypeError, "operator", TENSOR, "field 1 (operator): expected an OperatorDesc, got"),
        (
            ValueError,
            "operator",
            NESTING,
            "field 1 (operator): expected an operator that does not contain an operator",
        ),
        (
            TypeError,
            "operators",
            [None],
            "field 1 (operators), element 0: expected an OperatorDesc, got None",
        ),
        (ValueError, "u33", 1, "field 1 (kind): expected one of tensor, tensors, u32"),
        (TypeError, 3, 1, "field 1 (kind): expected the name of a kind, got 3"),
    ],
)
def test_wrong_field_is_named(error: type[Exception], kind: Any, value: Any, message: str) -> None:
    with pytest.raises(error) as caught:
        _native.OperatorDesc(1, [("u32", 0), (kind, value)])
    assert str(caught.value).startswith(message)


def test_wrong_pair_is_named() -> None:
    with pytest.raises(TypeError, match=r"field 0 \(kind, value\): expected a pair"):
        _native.OperatorDesc(1, [("u32", 0, 0)])  # type: ignore[list-item]


def test_strides_are_as_many_as_sizes() -> None:
    with pytest.raises(ValueError, match=r"strides: expected as many strides as sizes \(2\), got \[1\]"):
        _native.TensorDesc(1, 0, [2, 3], [1], 24)
