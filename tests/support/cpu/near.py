"""What the tests of products and windows share: an operator on `cpu`, compared with `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dmlgraph.base.levels import NEWEST
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.desc import GraphDesc, GraphInput, GraphOutput, InputEdge, OperatorDescNode, OutputEdge
from dmlgraph.devices.cpu.executable import CpuExecutable
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.operators import find
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]

UNIT = 2.0**-24  # half a unit in the last place of float32, relative


def _packed(x: Array) -> Array:
    return x


def _transposed(x: Array) -> Array:
    return np.asfortranarray(x)


def _spaced(x: Array) -> Array:
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
    wide[..., 1::2] = x
    return wide[..., 1::2]


def _swapped(x: Array) -> Array:
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if x.ndim > 1 else x


def _repeated(axis: int) -> Callable[[Array], Array]:
    def repeat(x: Array) -> Array:
        where = axis % x.ndim
        return np.broadcast_to(x.take([0], where), x.shape)

    return repeat


LAYOUTS = {
    "packed": _packed,
    "transposed": _transposed,
    "spaced": _spaced,
    "swapped": _swapped,
    "first repeated": _repeated(0),
    "last repeated": _repeated(-1),
}
layouts = st.sampled_from(sorted(LAYOUTS))
seeds = st.integers(0, 2**32 - 1)


def desc(sizes: tuple[int, ...], dtype: str = "float32") -> TensorDesc:
    return TensorDesc(dtype=DataType.parse(dtype), sizes=sizes)


def make(name: str, **fields: Any) -> Any:
    """An operator from its name and fields, with input descriptions that fit together."""
    cls = find(name)
    assert cls is not None
    inputs = {field: fields.get(field) for field in cls.input_fields}
    return cls(**fields | cls.adapt(inputs, fields))


def filled(operator: Operator, seed: int, layout: str = "packed") -> list[Any]:
    """Arrays for the inputs: normally distributed floats of two magnitudes, or integers of the whole 8-bit range."""
    random = np.random.default_rng(seed)

    def one(tensor: TensorDesc) -> Array:
        if tensor.dtype.is_float:
            numbers = random.standard_normal(tensor.sizes) * random.choice([1, 8], tensor.sizes)
            return numbers.astype(tensor.dtype.numpy)
        low, high = tensor.dtype.range
        return random.integers(max(low, -128), min(high, 255), tensor.sizes, endpoint=True).astype(tensor.dtype.numpy)

    return [None if tensor is None else LAYOUTS[layout](one(tensor)) for tensor in operator.input_descs]


def _packed_desc(tensor: Any) -> Any:
    """The description of a field without strides, or its list of them."""
    return tuple(map(_packed_desc, tensor)) if isinstance(tensor, tuple) else tensor and tensor.like()


def compiled(
    operator: Operator, constants: Mapping[int, Array] | None = None, threads: int | None = None
) -> CpuExecutable:
    """The operator alone on `cpu`, with packed inputs; `constants` has data of inputs by port."""
    constants = constants or {}
    operator = operator.replace(**{field: _packed_desc(operator.tensors[field]) for field in operator.input_fields})
    inputs = [(port, tensor) for port, tensor in enumerate(operator.input_descs) if tensor is not None]
    outputs = [(port, tensor) for port, tensor in enumerate(operator.output_descs) if tensor is not None]
    graph = GraphDesc(
        "one",
        NEWEST,
        tuple(
            GraphInput(f"x{port}", tensor.like(), ConstantData(constants[port]) if port in constants else None)
            for port, tensor in inputs
        ),
        tuple(GraphOutput(f"y{port}", tensor) for port, tensor in outputs),
        (OperatorDescNode("node", operator),),
        tuple(InputEdge(slot, 0, port) for slot, (port, _) in enumerate(inputs)),
        tuple(OutputEdge(0, port, slot) for slot, (port, _) in enumerate(outputs)),
        (),
    )
    return CpuExecutable(graph, "cpu", "asked", threads=threads)


def run(operator: Operator, *arrays: Array | None, threads: int | None = None) -> tuple[Array, ...]:
    """The outputs; checks their sizes and types, and that the inputs are unchanged."""
    before = [None if each is None else each.copy() for each in arrays]
    given = {f"x{port}": each for port, each in enumerate(arrays) if each is not None}
    with compiled(operator, threads=threads) as executable:
        outputs = tuple(executable.run(given).values())
    for each, was in zip(arrays, before, strict=True):
        if each is not None:
            np.testing.assert_array_equal(each, was, "an input was overwritten")
    wanted = [tensor for tensor in operator.output_descs if tensor is not None]
    assert [(each.shape, each.dtype) for each in outputs] == [(each.sizes, each.dtype.numpy) for each in wanted]
    return outputs


def check_exact(operator: Operator, arrays: Sequence[Array | None]) -> None:
    for got, expected in zip(run(operator, *arrays), operator.evaluate(*arrays), strict=True):
        np.testing.assert_array_equal(got, expected)


def check_near(operator: Operator, arrays: Sequence[Array | None], terms: int, magnitudes: Array | None = None) -> None:
    """Runs the operator and compares its result, as `compare` does."""
    (got,) = run(operator, *arrays)
    compare(got, operator, arrays, terms, magnitudes)


def compare(
    got: Array,
    operator: Operator,
    arrays: Sequence[Array | None],
    terms: int,
    magnitudes: Array | None = None,
    roundings: int = 1,
) -> None:
    """Checks a result to (terms + 3) units of the sum of the terms' magnitudes, computed from the inputs' magnitudes.

    A float16 result is rounded once more, to half a unit in its last place, so it may be the neighbouring number; the
    next one if there are two `roundings`.  NaN and infinity must be where the reference's are.
    """
    (expected,) = operator.evaluate(*arrays)
    with np.errstate(all="ignore"):
        if magnitudes is None:
            (magnitudes,) = operator.evaluate(*(None if each is None else np.abs(each) for each in arrays))
            if magnitudes.dtype == np.float16 and all(each is None or np.isfinite(each).all() for each in arrays):
                # Sums of magnitudes may be beyond float16's range where the sums are not: not by more than twice, here.
                magnitudes = np.where(np.isinf(magnitudes), 2.0**17, magnitudes.astype(np.float64))
        bound = (terms + 3) * (UNIT * np.abs(magnitudes.astype(np.float64)) + 2.0**-149)
        if expected.dtype == np.float16:
            units = np.maximum(*(np.abs(np.spacing(each).astype(np.float64)) for each in (expected, got)))
            bound = bound + roundings * units
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        error = np.abs(np.where(same, 0, got.astype(np.float64)) - np.where(same, 0, expected.astype(np.float64)))
    # Not `error > bound`: the error is NaN if only one result is, and must not pass.
    worst = ~(same | (np.isfinite(expected) & np.isfinite(bound) & (error <= bound)))
    assert not worst.any(), f"{operator}: {got[worst][:3]} instead of {expected[worst][:3]}, bound {bound[worst][:3]}"
