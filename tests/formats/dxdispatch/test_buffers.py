"""Initial values of buffers: the bytes of every initialiser, files, and mistakes."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from support.problems import expect, raises

from dmlgraph.base.errors import OperatorError
from dmlgraph.formats.dxdispatch.buffers import Buffer, read_buffer
from dmlgraph.formats.dxdispatch.text import parse


def read(text: str, folder: pathlib.Path | None = None) -> Buffer:
    return read_buffer(parse(text, "f"), folder)


def content(text: str, dtype: Any, folder: pathlib.Path | None = None) -> list[Any]:
    buffer = read(text, folder)
    assert buffer.size is not None
    values: list[Any] = buffer.content(0, buffer.size).view(dtype).tolist()
    return values


def of(dtype: str, values: str, more: str = "") -> str:
    return f'{{"initialValuesDataType": "{dtype}", "initialValues": {values}{more}}}'


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        (of("FLOAT32", "[1, 2.5, -3]"), "f4", [1, 2.5, -3]),
        (
            of("DML_TENSOR_DATA_TYPE_FLOAT16", '["inf", "-INF", 0.1, 4]'),
            "f2",
            [np.inf, -np.inf, float(np.float16(0.1)), 4],
        ),
        (of("UINT8", "[1, 255]"), "u1", [1, 255, 0, 0]),  # rounded up to 4 bytes
        (of("INT64", "[-9223372036854775808, 9223372036854775807]"), "i8", [-(2**63), 2**63 - 1]),
        (of("UINT64", "[18446744073709551615]"), "u8", [2**64 - 1]),
        (of("INT16", '{"valueCount": 3, "value": -2}'), "i2", [-2, -2, -2, 0]),
        (of("FLOAT32", '{"valueCount": 4, "valueStart": 1, "valueDelta": 2.5}'), "f4", [1, 3.5, 6, 8.5]),
        (of("UINT8", '{"valueCount": 4, "valueStart": 254, "valueDelta": 1}'), "u1", [254, 255, 0, 1]),  # wraps
        (of("FLOAT32", "[1]", ', "sizeInBytes": 12'), "f4", [1, 0, 0]),
        (of("FLOAT32", "[1]", ', "sizeInBytes": 12, "initialValuesOffsetInBytes": 4'), "f4", [0, 1, 0]),
        (
            '{"initialValues": [{"type": "UINT16", "value": 6}, {"name": "a", "type": "INT8", "value": -1}, '
            '{"type": "UINT8", "value": 2}]}',
            "u2",
            [6, 0x02FF],
        ),
        (of("UNKNOWN", '[{"type": "FLOAT32", "value": 2.5}]'), "f4", [2.5]),
    ],
)
def test_an_initialiser_gives_its_bytes(text: str, dtype: str, expected: list[Any]):
    assert content(text, dtype) == expected


@pytest.mark.parametrize("dtype", ["FLOAT16", "FLOAT32", "FLOAT64"])
def test_a_sequence_accumulates_as_the_runner_does(dtype: str):
    numpy = np.dtype(dtype.lower())
    value, expected = numpy.type(1), []
    for _ in range(3000):
        expected.append(value)
        value = numpy.type(value + numpy.type(0.1))
    text = of(dtype, '{"valueCount": 3000, "valueStart": 1, "valueDelta": 0.1}')
    assert content(text, numpy) == expected


def test_a_large_buffer_is_made_only_as_far_as_it_is_read():
    buffer = read(of("FLOAT64", '{"valueCount": 500000000, "valueStart": 0, "valueDelta": 1}'))
    assert buffer.size == 4_000_000_000
    assert buffer.content(8, 24).view("f8").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "is_blank"),
    [
        (of("FLOAT32", '{"valueCount": 4, "value": 0}'), True),
        ('{"initialValues": "deferred"}', True),
        (of("FLOAT32", '{"valueCount": 4, "value": -0.0}'), False),
        (of("FLOAT32", "[0, 0]"), False),
        (of("FLOAT32", '{"valueCount": 4, "valueStart": 0, "valueDelta": 0}'), False),
    ],
)
def test_a_constant_zero_declares_room_only(text: str, is_blank: bool):
    assert read(text).is_blank is is_blank


def test_files_hold_initial_values(tmp_path: pathlib.Path):
    array = np.array([[1, 2], [3, 4]], np.float16)
    (tmp_path / "sub").mkdir()
    np.save(tmp_path / "sub" / "a.npy", array)
    np.save(tmp_path / "big.npy", array.astype(">f4"))
    (tmp_path / "a.dat").write_bytes(array.tobytes())
    assert content('{"initialValues": {"sourcePath": "sub/a.npy"}}', "f2", tmp_path) == [1, 2, 3, 4]
    assert content(r'{"initialValues": {"sourcePath": "sub\\a.npy"}}', "f2", tmp_path) == [1, 2, 3, 4]
    assert content('{"initialValues": {"sourcePath": "big.npy"}}', "f4", tmp_path) == [1, 2, 3, 4]
    assert content(of("FLOAT16", '{"sourcePath": "a.dat"}'), "f2", tmp_path) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", 'must be an object; got []; (such as {"initialValues": […], …})'),
        ("{}", "field 'initialValues': must be given"),
        (of("FLOAT", "[1]"), "field 'initialValuesDataType': is not an enumerator of DML_TENSOR_DATA_TYPE; got FLOAT"),
        (of("UINT4", "[1]"), "field 'initialValuesDataType': is not an enumerator"),
        (of("FLOAT32", "[]"), "field 'initialValues': must hold at least one value"),
        (of("FLOAT32", "3"), "field 'initialValues': is not an initialiser; got 3"),
        (of("FLOAT32", "{}"), "field 'initialValues': is not an initialiser"),
        (of("FLOAT32", '{"value": 1, "valueStart": 1}'), "field 'initialValues': is more than one initialiser"),
        (of("FLOAT32", '{"value": 1}'), "field 'initialValues.valueCount': must be given"),
        (
            of("FLOAT32", '{"value": 1, "valueCount": 0}'),
            "field 'initialValues.valueCount': must be a whole number; got 0",
        ),
        (of("FLOAT32", '{"valueStart": 1, "valueCount": 2}'), "field 'initialValues.valueDelta': must be given"),
        ('{"initialValues": {"value": 1, "valueCount": 1}}', "field 'initialValues': needs an initialValuesDataType"),
        ('{"initialValues": [1]}', "field 'initialValues.0': must be an object"),
        ('{"initialValues": [{"type": "UNKNOWN", "value": 1}]}', "field 'initialValues.0.type': must be known"),
        (of("FLOAT32", '[1, "one"]'), "field 'initialValues.1': is not a number; got one"),
        (of("UINT8", "[1, 256]"), "field 'initialValues.1': does not fit in uint8; got 256"),
        (of("INT32", "[0.5]"), "field 'initialValues.0': int32 holds whole numbers only"),
        (
            of("FLOAT32", "[1, 2]", ', "sizeInBytes": 4'),
            "field 'sizeInBytes': is too small for the initial values; got 4",
        ),
        (of("FLOAT32", "[1]", ', "sizeInBytes": -4'), "field 'sizeInBytes': must be a whole number; got -4"),
        (of("FLOAT32", '{"sourcePath": "a.npy"}'), "field 'initialValues.sourcePath': a document that is not a file"),
    ],
)
def test_a_mistake_is_told_with_its_field(text: str, message: str):
    with pytest.raises(OperatorError) as caught:
        read(text)
    assert str(caught.value).startswith(message.replace("; (", " ("))


@pytest.mark.parametrize(
    ("initial", "code", "got"),
    [
        ('{"sourcePath": "../a.npy"}', "outside-folder", "../a.npy"),
        ('{"sourcePath": "/a.dat"}', "outside-folder", "/a.dat"),
        ('{"sourcePath": "missing.bin"}', "unreadable", "missing.bin"),
        ('{"sourcePath": "objects.npy"}', "array-file", "objects.npy"),
        ('{"sourcePath": "half.npy"}', "dtype", "half.npy"),
        ('{"sourcePath": "text.npy"}', "array-file", "text.npy"),
        ('{"sourcePath": "empty.dat"}', "empty-file", "empty.dat"),
        ('{"sourcePath": "dog.jpg"}', "unsupported", "dog.jpg"),
        ('{"sourcePath": 3}', "kind", 3),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: pathlib.Path, initial: str, code: str, got: object):
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "half.npy", np.zeros(2, np.float16))
    np.save(tmp_path.parent / "a.npy", np.zeros(2, np.float32))
    (tmp_path / "text.npy").write_text("text", encoding="utf-8")
    (tmp_path / "empty.dat").write_bytes(b"")
    with pytest.raises(OperatorError) as caught:
        read(of("FLOAT32", initial), tmp_path)
    expect(caught.value, code, field="initialValues.sourcePath", got=got)


def test_bytes_without_a_type_are_refused(tmp_path: pathlib.Path):
    (tmp_path / "a.dat").write_bytes(b"1234")
    with raises(OperatorError, "missing", field="initialValues.sourcePath", got="a.dat"):
        read('{"initialValues": {"sourcePath": "a.dat"}}', tmp_path)
