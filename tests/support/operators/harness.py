"""What the tests of the operators share: one-node graphs, comparisons, tables of values, and feature levels.

All computations use the public API and take a device's name.
"""

from __future__ import annotations

import dataclasses
import itertools
import string
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
import pytest
from support.operators import exact

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators import Operator, find

Array = np.ndarray[Any, Any]

DTYPES: tuple[DataTypeName, ...] = get_args(DataTypeName)
FLOATS: tuple[DataTypeName, ...] = ("float16", "float32")
SIGNED: tuple[DataTypeName, ...] = ("int8", "int16", "int32", "int64")
UNSIGNED: tuple[DataTypeName, ...] = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
INF, NAN = float("inf"), float("nan")


# Graphs of one node.


def array(values: Any, dtype: str) -> Array:
    """Numbers as an array of a data type; an array is returned unchanged."""
    return values if isinstance(values, np.ndarray) else np.array(values, dtype)


def operator_class(name: str) -> type[Operator]:
    found = find(name)
    assert found is not None, f"there is no operator '{name}'"
    return found


def add_node(graph: dg.Graph, operator: str, tensors: Sequence[Any] = (), **keywords: Any) -> tuple[dg.Value, ...]:
    """Adds the operator to a graph, by the function or method that users call; the node's name is `node`.

    Returns its outputs, without those that are left out.
    """
    name = operator_class(operator).function_name()
    function = getattr(graph, name) if operator_class(operator).is_source() else getattr(dg, name)
    result = function(*tensors, name="node", **keywords)
    outputs = result if isinstance(result, tuple) else (result,)
    return tuple(value for value in outputs if value is not None)


def build(
    operator: str,
    inputs: Sequence[Any] = (),
    *,
    target: dg.FeatureLevel | str | None = None,
    input_strides: Any = None,
    **keywords: Any,
) -> tuple[dg.Graph, dict[str, Array]]:
    """A graph of one node, and the arrays to run it on.

    Args:
        operator: its name.
        inputs: an array for each tensor, a list of arrays for an array of tensors, None for an absent one; a
            number stays a number.
        target: the graph's feature level.
        input_strides: sizes → the strides with which its inputs are declared; by default packed.
        keywords: attributes, and what is requested of the outputs.
    """
    graph = dg.Graph("test", target=target)
    feeds: dict[str, Array] = {}

    def declare(values: Any) -> Any:
        if values is None or isinstance(values, int):
            return values
        if isinstance(values, list):
            return [declare(each) for each in values]
        name = f"x{len(feeds)}"
        feeds[name] = values
        return graph.input(
            name, sizes=values.shape, dtype=values.dtype, strides=input_strides(values.shape) if input_strides else None
        )

    outputs = add_node(graph, operator, [declare(values) for values in inputs], **keywords)
    for index, value in enumerate(outputs):
        graph.output(f"y{index}", value)
    return graph, feeds


def run_all(
    operator: str, inputs: Sequence[Any] = (), *, device: DeviceName = "reference", **keywords: Any
) -> list[Array]:
    """All outputs of an operator on arrays."""
    graph, feeds = build(operator, inputs, **keywords)
    return list(graph.compile(device=device, fuse=False).run(feeds).values())


def run(operator: str, inputs: Sequence[Any] = (), *, device: DeviceName = "reference", **keywords: Any) -> Array:
    """The only output of an operator on arrays."""
    (output,) = run_all(operator, inputs, device=device, **keywords)
    return output


def refused(operator: str, inputs: Sequence[Any] = (), **keywords: Any) -> dg.OperatorError:
    """The error with which an operator is refused; it always names the node."""
    with pytest.raises(dg.OperatorError) as caught:
        build(operator, inputs, **keywords)
    assert caught.value.node == "node"
    return caught.value


# Comparing.


def bits_of(values: Array) -> Array:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def ulps(got: Array, expected: Array, floor: float = 0.0) -> Array:
    """The distance in values of the float type; NaNs count as equal, and so do zeros of both signs.

    Numbers nearer to zero than `floor` have the unit of `floor`.
    """

    def ordered(values: Array) -> Array:
        bits = bits_of(values)
        sign = bits >> (8 * values.itemsize - 1) != 0
        magnitude = (bits & ~(bits.dtype.type(1) << bits.dtype.type(8 * values.itemsize - 1))).astype(object)
        return np.where(sign, -magnitude, magnitude)

    distance = np.abs(ordered(got) - ordered(expected))
    distance = np.where(np.isnan(got) & np.isnan(expected), 0, distance)
    if not floor:
        return distance
    unit = float(np.spacing(got.dtype.type(floor)))
    near = np.abs(expected) < floor
    absolute = np.abs(got.astype(np.float64) - np.where(near, expected, 0).astype(np.float64)) / unit
    return np.where(near, absolute, distance.astype(np.float64))


def assert_same(got: Array, expected: Array, ulp: int = 0, floor: float = 0.0) -> None:
    """Asserts the same data type, sizes and values: exactly (−0.0 is not 0.0, all NaNs are equal), or to `ulp` units.

    `floor` is that of `ulps`.
    """
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
    elif ulp:
        assert ulps(got, expected, floor).max() <= ulp, f"got {got}, expected {expected}"
    else:
        same = (bits_of(got) == bits_of(expected)) | (np.isnan(got) & np.isnan(expected))
        assert same.all(), f"got {got}, expected {expected}"


# Tables of values.


def values(rng: np.random.Generator, sizes: Any, dtype: str) -> Array:
    """Small numbers of a data type, with repetitions; floats are quarters, so that sums of them are exact."""
    numbers = rng.integers(0 if dtype.startswith("u") else -8, 9, sizes)
    return (numbers / 4 if dtype.startswith("float") else numbers).astype(dtype)


@dataclasses.dataclass(frozen=True)
class Case:
    """A row of an operator's table: the inputs and the results; `why` is the test's name."""

    why: str
    inputs: tuple[Any, ...]
    gives: tuple[Array, ...]
    fields: dict[str, Any]


def case(why: str, inputs: Sequence[Any], gives: Any, of: str = "float32", to: str = "", **fields: Any) -> Case:
    """A row: inputs of one data type, and the output of the same type or of `to`; numbers, or arrays of any type.

    Several outputs are a tuple; a list of arrays is an array of tensors.
    """
    outputs = gives if isinstance(gives, tuple) else (gives,)

    def tensor(values: Any) -> Any:
        if values is None or (isinstance(values, list) and all(isinstance(each, np.ndarray) for each in values)):
            return values
        return array(values, of)

    return Case(
        f"{why} ({of})",
        tuple(tensor(values) for values in inputs),
        tuple(array(values, to or of) for values in outputs),
        fields,
    )


def source_case(why: str, gives: Any, dtype: str, **fields: Any) -> Case:
    """A row of an operator without inputs; its output is requested with the sizes and the data type of `gives`."""
    output = array(gives, dtype)
    return Case(f"{why} ({dtype})", (), (output,), {"sizes": output.shape, "dtype": dtype, **fields})


def each_dtype(dtypes: Sequence[str], why: str, inputs: Sequence[Any], gives: Any, **fields: Any) -> list[Case]:
    """The same row for several data types."""
    return [case(why, inputs, gives, dtype, **fields) for dtype in dtypes]


def rounded_cases(why: str, function: Any, numbers: Sequence[float], **fields: Any) -> list[Case]:
    """Rows for float16 and float32 whose outputs are the exact results, rounded once."""
    rows = []
    for dtype in FLOATS:
        xs = exact.values(numbers, dtype)
        outputs = exact.round_all(map(function, xs), dtype)
        rows.append(case(why, [[float(x) for x in xs]], outputs, dtype, **fields))
    return rows


# Feature levels.

_TYPES = {name[0].upper() + name.strip(string.ascii_lowercase): name for name in DTYPES}
_ALL8 = "F32 F16 I32 I16 I8 U32 U16 U8"
_SHORT = {"ALL8": _ALL8, "ALL10": f"{_ALL8} I64 U64", "ALL11": f"{_ALL8} I64 U64 F64"}


@dataclasses.dataclass(frozen=True)
class Legal:
    """The data types and numbers of dimensions that a tensor may have at a level."""

    ranks: range
    dtypes: tuple[DataTypeName, ...]


def parse_levels(text: str) -> dict[dg.FeatureLevel, Legal]:
    """Reads `1.0: 4-5D F32 F16 | 2.1: 4D ALL8`: from each level on, the numbers of dimensions and the data types."""
    table = {}
    for entry in text.split("|"):
        level, _, what = entry.partition(":")
        ranks, *types = what.split()
        least, _, greatest = ranks.removesuffix("D").partition("-")
        names = " ".join(_SHORT.get(each, each) for each in types).split()
        table[dg.FeatureLevel.parse(level.strip())] = Legal(
            range(int(least), int(greatest or least) + 1), tuple(_TYPES[each] for each in names)
        )
    return table


def at_level(table: Mapping[dg.FeatureLevel, Legal], level: dg.FeatureLevel) -> Legal | None:
    """The entry of a table that is valid at a level."""
    since = max((each for each in table if each <= level), default=None)
    return None if since is None else table[since]


# Layouts.


def transposed(sizes: Sequence[int]) -> list[int]:
    """Strides with the first dimension innermost."""
    strides = list(itertools.accumulate(sizes[:-1], lambda product, size: product * size, initial=1))
    return [int(stride) for stride in strides]


def spread(sizes: Sequence[int]) -> list[int]:
    """Row-major strides with a gap after every element and another one after every row."""
    strides = [2]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size + 1)
    return strides


LAYOUTS = {"transposed": transposed, "spread": spread}
