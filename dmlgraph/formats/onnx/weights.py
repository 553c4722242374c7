"""Weights inside a model's file stay there, so that they are read once, from the mapped file.

A tensor whose numbers are in the message itself is read three times: with the file, into the message, and from it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import Any

import onnx

from dmlgraph.files.mapped_arrays import LEAST

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # how protobuf encodes a field
_RAW_DATA = onnx.TensorProto.RAW_DATA_FIELD_NUMBER
_TENSOR: Mapping[int, Any] = {}
# From the model to tensors, by the numbers of fields: initializers, and the tensors of nodes' attributes.
_MODEL = {
    onnx.ModelProto.GRAPH_FIELD_NUMBER: {
        onnx.GraphProto.INITIALIZER_FIELD_NUMBER: _TENSOR,
        onnx.GraphProto.NODE_FIELD_NUMBER: {
            onnx.NodeProto.ATTRIBUTE_FIELD_NUMBER: {onnx.AttributeProto.T_FIELD_NUMBER: _TENSOR}
        },
    }
}


class Places:
    """Where in a model's file the large weights are that its message no longer holds.

    A place stands in `raw_data` itself: whatever else the tensor says, and in which order, means what it did.  It has a
    random beginning, so that no file holds one.

    Args:
        path: the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._begin = secrets.token_bytes(16)

    def write(self, offset: int, length: int) -> bytes:
        """A place, for `raw_data`."""
        return self._begin + offset.to_bytes(8) + length.to_bytes(8)

    def read(self, raw: bytes) -> tuple[int, int] | None:
        """The offset and the length, if `raw` is a place."""
        if len(raw) != 32 or not raw.startswith(self._begin):
            return None
        return int.from_bytes(raw[16:24]), int.from_bytes(raw[24:])


def without_weights(data: memoryview, places: Places) -> bytes:
    """A model's message with places for large weights; `data` is all of the file.

    Raises:
        ValueError: it is damaged.
    """
    return _rewritten(data, 0, len(data), _MODEL, places)


def _rewritten(data: memoryview, start: int, end: int, fields: Mapping[int, Any], places: Places) -> bytes:
    """The message between two offsets."""
    parts: list[bytes | memoryview] = []
    at = kept = start
    while at < end:
        begin = at
        tag, at = _varint(data, at, end)
        number, encoding = tag >> 3, tag & 7
        if encoding != _BYTES:
            at = _behind(data, at, end, encoding)
            continue
        size, at = _varint(data, at, end)
        first, at = at, at + size
        if at > end:
            raise ValueError("the message ends too early")
        if fields is _TENSOR:
            if number != _RAW_DATA or size < LEAST:
                continue
            inner = places.write(first, size)
        elif size >= LEAST and number in fields:
            inner = _rewritten(data, first, at, fields[number], places)
        else:
            continue
        parts += [data[kept:begin], _written(tag), _written(len(inner)), inner]
        kept = at
    return b"".join([*parts, data[kept:end]])


def _behind(data: memoryview, at: int, end: int, encoding: int) -> int:
    """The offset behind a value that has no length of its own."""
    if encoding == _VARINT:
        return _varint(data, at, end)[1]
    if encoding in (_FIXED64, _FIXED32):
        return at + (8 if encoding == _FIXED64 else 4)
    raise ValueError("the message has a field of an unknown encoding")


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number, and the offset behind it."""
    number = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    raise ValueError("the message ends within a number, or the number is too long")


def _written(number: int) -> bytes:
    """A number as protobuf writes it."""
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])
