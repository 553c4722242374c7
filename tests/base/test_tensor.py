"""Data types and tensor descriptions: sizes, strides, bytes, packing and unpacking."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.problems import expect, raises

from dmlgraph import DataType, TensorDesc, TensorError
from dmlgraph.base.tensor import MAX_ELEMENTS, broadcast_sizes, packed_strides

NUMPY_TYPES = {
    "float32": np.float32,
    "float16": np.float16,
    "uint32": np.uint32,
    "uint16": np.uint16,
    "uint8": np.uint8,
    "int32": np.int32,
    "int16": np.int16,
    "int8": np.int8,
    "float64": np.float64,
    "uint64": np.uint64,
    "int64": np.int64,
    "uint4": ml_dtypes.uint4,
    "int4": ml_dtypes.int4,
}

DTYPES = st.sampled_from(list(DataType))
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def desc(dtype: Any = "float32", sizes: Any = (2, 3), **more: Any) -> TensorDesc:
    return TensorDesc(dtype=dtype, sizes=sizes, **more)


def refused(**fields: Any) -> TensorError:
    with pytest.raises(TensorError) as caught:
        TensorDesc(**{"dtype": "float32", "sizes": [2, 3]} | fields)
    return caught.value


def reached(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The element offset of every coordinate, one by one."""
    coordinates = itertools.product(*map(range, sizes))
    return [sum(c * s for c, s in zip(each, strides, strict=True)) for each in coordinates]


# Data types.


def test_there_are_the_13_data_types_of_directml_with_its_values() -> None:
    assert [(str(dtype), dtype.value) for dtype in DataType] == [
        (name, value) for value, name in enumerate(NUMPY_TYPES, 1)
    ]


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_a_data_type_maps_to_its_numpy_type_and_back(name: str) -> None:
    dtype = DataType.parse(name)
    numpy = np.dtype(NUMPY_TYPES[name])
    assert dtype.numpy == numpy
    assert DataType.parse(NUMPY_TYPES[name]) is DataType.parse(numpy) is DataType.parse(dtype) is dtype
    assert dtype.bits == (4 if "int4" in name else numpy.itemsize * 8)
    assert dtype.is_float == name.startswith("float")
    assert dtype.is_signed == (not name.startswith("uint"))
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@pytest.mark.parametrize("name", [name for name in NUMPY_TYPES if not name.startswith("float")])
def test_an_integer_type_knows_its_range(name: str) -> None:
    info = ml_dtypes.iinfo(NUMPY_TYPES[name])
    assert DataType.parse(name).range == (int(info.min), int(info.max))


@pytest.mark.parametrize("value", ["bfloat16", "FLOAT32", "", np.dtype(">f4"), np.complex64, bool, object, 3, None, []])
def test_anything_else_is_no_data_type(value: object) -> None:
    with raises(TensorError, "unknown-dtype") as caught:
        DataType.parse(value)
    assert caught.value.field == "dtype"
    assert caught.value.got == value
    assert caught.value.allowed == ", ".join(NUMPY_TYPES)


def test_a_misspelt_data_type_gets_a_suggestion() -> None:
    assert refused(dtype="flaot32").hint == "did you mean 'float32'?"
    assert refused(dtype="Float16").hint == "did you mean 'float16'?"


# Valid and invalid descriptions.


def test_a_description_takes_any_sequence_of_integers() -> None:
    expected = desc(sizes=[2, 3], strides=[3, 1])
    for kind in (tuple, np.array, lambda each: [np.int32(number) for number in each]):
        made = desc(sizes=kind([2, 3]), strides=kind([3, 1]))
        assert made == expected
        assert hash(made) == hash(expected)
        assert [type(size) for size in made.sizes] == [int, int]


@pytest.mark.parametrize("value", [3, "23", b"23", {2: 3}, {2, 3}, None, [2, "3"], [2, 3.0], [2, True], [[2], [3]]])
def test_sizes_are_a_list_of_integers_and_nothing_else(value: object) -> None:
    error = refused(sizes=value)
    wrong = [index for index, each in enumerate(value) if type(each) is not int] if isinstance(value, list) else []
    if wrong:
        assert [(each.message, each.field) for each in error.problems] == [
            ("must be an integer", f"sizes.{index}") for index in wrong
        ]
    else:
        assert (error.code, error.field) == ("kind", "sizes")


@pytest.mark.parametrize("value", [1, "11", [1, "1"], [1, 0.5], [False, 1]])
def test_strides_are_a_list_of_integers_and_nothing_else(value: object) -> None:
    error = refused(strides=value)
    wrong = [index for index, each in enumerate(value) if type(each) is not int] if isinstance(value, list) else []
    if wrong:
        assert [(each.message, each.field) for each in error.problems] == [
            ("must be an integer", f"strides.{index}") for index in wrong
        ]
    else:
        assert (error.code, error.field) == ("kind", "strides")


@pytest.mark.parametrize("value", ["yes", "true", 1, 0.0, None])
def test_owned_is_true_or_false_and_nothing_else(value: object) -> None:
    assert refused(owned=value).field == "owned"


def test_a_description_has_1_to_8_dimensions() -> None:
    assert desc(sizes=[1]).rank == 1
    assert desc(sizes=[2] * 8).rank == 8
    for sizes in ([], [1] * 9):
        error = refused(sizes=sizes)
        expect(error, "rank", allowed="1 to 8 sizes")
        assert (error.field, error.got, error.allowed) == ("sizes", sizes, "1 to 8 sizes")


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "a size must be at least 1; empty tensors do not exist in DirectML; got 0; allowed: 1 or more"),
        (-1, "a size must be at least 1; got -1; allowed: 1 or more (sizes are not inferred: write the number)"),
        (-3, "a size must be at least 1; got -3; allowed: 1 or more"),
    ],
)
def test_a_size_is_at_least_1(size: int, said: str) -> None:
    error = refused(sizes=[2, size, 3])
    assert str(error).endswith(f": {said}")
    assert (error.field, error.got, error.allowed) == ("sizes.1", size, "1 or more")


def test_a_description_has_at_most_2_to_the_32_minus_1_elements() -> None:
    assert desc(sizes=[3, 5, 17, 257, 65537]).element_count == 2**32 - 1
    error = refused(sizes=[2**16, 2**16])
    expect(error, "too-large", got=[65536, 65536])
    assert (error.field, error.allowed) == ("sizes", "at most 4294967295")


def test_there_is_one_stride_for_each_size() -> None:
    error = refused(strides=[1])
    assert error.code == "strides"
    assert (error.field, error.got, error.allowed) == ("strides", [1], "2 strides")


@pytest.mark.parametrize("stride", [-1, 2**32])
def test_a_stride_is_not_negative_and_has_32_bits(stride: int) -> None:
    error = refused(strides=[3, stride], sizes=[2, 1])
    assert error.code == "strides"
    assert (error.field, error.got, error.allowed) == ("strides.1", stride, "0 to 4294967295")


def test_strides_reach_at_most_2_to_the_32_minus_1_elements() -> None:
    assert desc(sizes=[2, 1], strides=[MAX_ELEMENTS - 1, 0]).span == MAX_ELEMENTS
    error = refused(sizes=[2, 1], strides=[MAX_ELEMENTS, 0])
    expect(error, "strides", got=[4294967295, 0])
    assert error.field == "strides"


def test_an_unknown_member_gets_a_suggestion() -> None:
    error = refused(size=[1])
    expect(error, "unknown-field", field="size", allowed="dtype, sizes, strides, owned")
    assert error.hint == "did you mean 'sizes'?"


def test_what_is_missing_is_named_all_at_once() -> None:
    with pytest.raises(TensorError) as caught:
        TensorDesc()
    assert [(problem.field, problem.message) for problem in caught.value.problems] == [
        ("dtype", "must be given"),
        ("sizes", "must be given"),
    ]


def test_a_description_cannot_be_changed() -> None:
    tensor = desc()
    with pytest.raises(Exception, match="frozen"):
        tensor.sizes = (1,)
    assert tensor == desc()


def test_descriptions_are_equal_when_all_they_say_is() -> None:
    different = [
        desc(),
        desc(dtype="float16"),
        desc(sizes=[3, 2]),
        desc(strides=[3, 1]),
        desc(owned=True),
    ]
    assert len(set(different)) == len(different)
    measured = desc()
    assert measured.total_bytes == 24
    assert measured.span == 6
    assert measured == desc()  # cached properties do not count
    assert len({measured, desc()}) == 1


def test_a_description_prints_in_one_line() -> None:
    assert str(desc()) == "float32 [2,3]"
    assert str(desc(strides=[0, 1], owned=True)) == "float32 [2,3] strides [0,1] owned"


# Bytes.


@pytest.mark.parametrize(
    ("dtype", "sizes", "strides", "expected"),
    [
        ("float32", [1], None, 4),
        ("float16", [3], None, 8),  # 6, in whole 4 bytes
        ("uint8", [1, 1, 5], None, 8),
        ("uint4", [5], None, 4),  # 20 bits are 3 bytes
        ("int4", [9], None, 8),  # 36 bits are 5 bytes
        ("float64", [3], None, 24),
        ("float32", [2, 3], [3, 1], 24),
        ("float32", [2, 3], [4, 1], 28),  # the last element is number 6
        ("float32", [2, 3], [1, 2], 24),
        ("float32", [1000, 1000], [0, 0], 4),  # one element, read a million times
        ("float16", [4, 3], [0, 1], 8),
        ("uint8", [1, 7], [99, 1], 8),  # a stride that is never stepped does not count
        ("uint4", [2, 3], [8, 2], 8),  # the last element is number 12: 13 nibbles are 7 bytes
        ("uint64", [2**29], None, 2**32),
    ],
)
def test_total_bytes_is_directmls_formula(
    dtype: str, sizes: list[int], strides: list[int] | None, expected: int
) -> None:
    assert desc(dtype, sizes, strides=strides).total_bytes == expected


@given(DTYPES, SIZES, st.data())
def test_total_bytes_covers_the_last_element_and_no_more_than_the_rounding(
    dtype: DataType, sizes: tuple[int, ...], data: st.DataObject
) -> None:
    strides = data.draw(st.tuples(*[st.integers(0, 20)] * len(sizes)))
    tensor = desc(dtype, sizes, strides=strides)
    last = max(reached(sizes, strides))
    assert tensor.span == last + 1
    assert tensor.total_bytes == math.ceil((last + 1) * dtype.bits / 32) * 4


@given(SIZES)
def test_packed_strides_number_the_elements_row_major(sizes: tuple[int, ...]) -> None:
    assert reached(sizes, packed_strides(sizes)) == list(range(math.prod(sizes)))
    assert desc(sizes=sizes).effective_strides == desc(sizes=sizes).packed_strides == packed_strides(sizes)
    assert desc(sizes=sizes, strides=[0] * len(sizes)).effective_strides == (0,) * len(sizes)


# Overlap.


@given(SIZES, st.data())
def test_a_description_overlaps_itself_exactly_when_two_coordinates_share_an_address(
    sizes: tuple[int, ...], data: st.DataObject
) -> None:
    strides = data.draw(st.tuples(*[st.integers(0, 12)] * len(sizes)))
    offsets = reached(sizes, strides)
    assert desc(sizes=sizes, strides=strides).overlaps_itself == (len(set(offsets)) < len(offsets))


def test_interleaved_strides_do_not_overlap() -> None:
    assert not desc(sizes=[2, 3], strides=[1, 2]).overlaps_itself
    assert not desc(sizes=[2, 2], strides=[3, 2]).overlaps_itself  # 0 2 3 5
    assert desc(sizes=[3, 4], strides=[3, 2]).overlaps_itself  # 6 = 2 · 3 = 3 · 2


def test_packed_descriptions_do_not_overlap_however_large() -> None:
    assert not desc(sizes=[2**16, 2**15]).overlaps_itself
    assert not desc(sizes=[2**16, 2**15], strides=[2**15, 1]).overlaps_itself


# Broadcasting.


def test_broadcasting_reads_the_same_buffer_with_zero_strides() -> None:
    tensor = desc(sizes=[3, 1], owned=True)
    wide = tensor.broadcast_to((2, 3, 4))
    assert wide == desc(sizes=[2, 3, 4], strides=[0, 1, 0], owned=True)
    assert wide.total_bytes == tensor.total_bytes
    assert tensor.broadcast_to((3, 1)) is tensor


@given(DTYPES, SIZES, st.data())
def test_broadcasting_gives_what_numpy_gives(dtype: DataType, sizes: tuple[int, ...], data: st.DataObject) -> None:
    small = tuple(data.draw(st.sampled_from([1, size])) for size in sizes)[data.draw(st.integers(0, len(sizes) - 1)) :]
    array = np.arange(math.prod(small)).reshape(small).astype(np.uint8).astype(dtype.numpy)
    tensor = desc(dtype, small)
    read = tensor.broadcast_to(sizes).unpack(tensor.pack(array))
    np.testing.assert_array_equal(read.astype(np.float64), np.broadcast_to(array.astype(np.float64), sizes))


@pytest.mark.parametrize("sizes", [(3,), (2, 4), (3, 2), (1, 3)])
def test_sizes_that_do_not_broadcast_are_refused(sizes: tuple[int, ...]) -> None:
    with raises(TensorError, "sizes", field="sizes", got=(2, 3)) as caught:
        desc().broadcast_to(sizes)
    assert caught.value.allowed == str(list(sizes))


def test_sizes_are_broadcast_together_like_numpys() -> None:
    assert broadcast_sizes((2, 1, 4), (3, 1), (1,)) == (2, 3, 4)
    with pytest.raises(TensorError) as caught:
        broadcast_sizes((2, 3), (4,))
    assert caught.value.got == "[2, 3] and [4]"


# Packing.


def test_4_bit_numbers_lie_two_to_a_byte_low_nibble_first() -> None:
    unsigned = np.array([1, 2, 3, 4, 5], ml_dtypes.uint4)
    assert desc("uint4", [5]).pack(unsigned).tobytes() == bytes([0x21, 0x43, 0x05, 0x00])
    signed = np.array([-8, 7, -1], ml_dtypes.int4)
    assert desc("int4", [3]).pack(signed).tobytes() == bytes([0x78, 0x0F, 0x00, 0x00])
    buffer = np.array([0x78, 0x0F, 0, 0], np.uint8)
    assert desc("int4", [3]).unpack(buffer).astype(int).tolist() == [-8, 7, -1]
    assert desc("uint4", [3]).unpack(buffer).astype(int).tolist() == [8, 7, 15]


def test_elements_are_little_endian_and_bytes_nothing_reaches_are_zero() -> None:
    array = np.array([[1, 2], [3, 4]], np.uint16)
    packed = desc("uint16", [2, 2], strides=[3, 1]).pack(array)
    assert packed.view(np.uint8).tolist() == [1, 0, 2, 0, 0, 0, 3, 0, 4, 0, 0, 0]


@st.composite
def strided(draw: st.DrawFn) -> TensorDesc:
    """A description whose elements do not overlap: dimensions in random order, with gaps between them."""
    sizes = draw(SIZES)
    strides = [0] * len(sizes)
    step = 1
    for axis in draw(st.permutations(range(len(sizes)))):
        strides[axis] = step * draw(st.integers(1, 2))
        step = strides[axis] * sizes[axis]
    return desc(draw(DTYPES), sizes, strides=draw(st.sampled_from([strides, None])))


@given(strided(), st.randoms(use_true_random=False))
def test_what_is_packed_unpacks_bit_for_bit(tensor: TensorDesc, random: Any) -> None:
    assert not tensor.overlaps_itself
    count, dtype = tensor.element_count, tensor.dtype
    if dtype.bits == 4:
        array = np.array([random.randrange(16) for _ in range(count)], np.uint8).astype(dtype.numpy)
    else:
        array = np.frombuffer(random.randbytes(count * dtype.bits // 8), dtype.numpy)
    array = array.reshape(tensor.sizes)
    buffer = tensor.pack(array)
    assert len(buffer) == tensor.total_bytes
    assert tensor.unpack(buffer).tobytes() == array.tobytes()


@given(strided())
def test_an_element_lies_where_the_strides_say(tensor: TensorDesc) -> None:
    numbers = np.arange(tensor.element_count) % 15 + 1  # without zeros, so that every element shows
    buffer = tensor.pack(numbers.astype(np.uint8).astype(tensor.dtype.numpy).reshape(tensor.sizes))
    if tensor.dtype.bits == 4:
        elements = np.array([nibble for byte in buffer.tolist() for nibble in (byte & 15, byte >> 4)])
        expected = numbers
    else:
        elements = buffer.view(tensor.dtype.numpy)
        expected = numbers.astype(tensor.dtype.numpy)
    places = reached(tensor.sizes, tensor.effective_strides)
    np.testing.assert_array_equal(elements[places], expected)
    assert np.count_nonzero(elements) == tensor.element_count


def test_like_is_packed_and_not_owned() -> None:
    assert desc(strides=[0, 1], owned=True).like(dtype="int8") == desc("int8")


def test_a_data_type_is_equal_to_its_names() -> None:
    dtype: Any = DataType.FLOAT32
    assert [dtype == other for other in ("float32", np.float32, np.dtype("float32"), DataType.FLOAT32)] == [True] * 4
    assert [dtype == other for other in ("float16", "float", np.float64, np.dtype("int32"), int, list, None, 1)] == [
        False
    ] * 8
    assert dtype in {"float32"}
    assert np.dtype("float32") == dtype
    assert {dtype: 1}["float32"] == 1
