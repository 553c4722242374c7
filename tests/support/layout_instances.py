"""Every operator with data, for trials of layouts: from the tables of tests/operators, the examples, and larger ones.

instances(FeatureLevel.V6_2)          # one for each operator, data type and set of tensors
large_instances(FeatureLevel.V6_2)    # tensors of many dimensions, and of many elements
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import inspect
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import yaml
from support.operators.checks import OperatorTests
from support.operators.harness import build

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example, example_fields, is_plain
from dmlgraph.operators.declaration.bindings import Binding
from dmlgraph.operators.declaration.fields import Role

Array = np.ndarray[Any, Any]

OPERATORS = pathlib.Path(__file__).parents[1] / "operators"


@dataclasses.dataclass(frozen=True, eq=False)
class Instance:
    """One operator whose tensors are packed, and the data of its inputs, by port."""

    operator: Operator
    data: Mapping[int, Array]

    @property
    def dtype(self) -> str:
        """The data type of its first tensor."""
        return next(str(each.desc.dtype) for each in self.tensors() if each.desc is not None)

    def tensors(self) -> list[Binding]:
        """The bindings of the tensors that are present: inputs, then outputs."""
        both = [*self.operator.bindings(Role.INPUT), *self.operator.bindings(Role.OUTPUT)]
        return [each for each in both if each.desc is not None]


def instances(level: FeatureLevel) -> list[Instance]:
    """One instance for each operator, data type of its first tensor, and set of tensors that are present.

    Of several the one is taken whose tensors have the most dimensions that are not 1.
    """
    best: dict[Any, tuple[int, Instance]] = {}
    for instance in _legal(_small_instances(), level):
        tensors = instance.tensors()
        count = sum(size > 1 for each in tensors if each.desc for size in each.desc.sizes)
        key = (instance.operator.name, instance.dtype, tuple(each.path for each in tensors))
        if key not in best or best[key][0] < count:
            best[key] = (count, instance)
    return [instance for _, instance in best.values()]


def large_instances(level: FeatureLevel) -> list[Instance]:
    """Instances of most operators with tensors of many dimensions, and of many elements."""
    return list(_legal(_large_instances(), level))


def _legal(found: Iterable[Instance], level: FeatureLevel) -> Iterator[Instance]:
    return (each for each in found if not each.operator.level_problems(level))


# ---- From the tables and the examples


@functools.cache
def _small_instances() -> tuple[Instance, ...]:
    found = []
    for cls in _classes():
        for case in (cls.sample, *cls.cases):
            graph, feeds = build(cls.operator, case.inputs, **case.fields)
            found.append(_instance(graph, "node", feeds))
    rng = np.random.default_rng(3)
    for operator in REGISTRY.values():
        graph = dg.loads(example(operator))
        node = next(each for each in graph.nodes if isinstance(each, OperatorNode) and type(each.operator) is operator)
        feeds = {each.name: numbers(each.desc.dtype, each.desc.sizes, rng) for each in graph.inputs}
        found.append(_instance(graph, node.name, feeds))
    return tuple(found)


def _classes() -> Iterator[type[OperatorTests]]:
    """The classes with the tables of the operators."""
    for path in sorted(OPERATORS.glob("test_*.py")):
        for cls in vars(importlib.import_module(f"operators.{path.stem}")).values():
            if inspect.isclass(cls) and issubclass(cls, OperatorTests) and {"sample", "cases"} <= set(dir(cls)):
                yield cls


def numbers(dtype: dg.DataType, sizes: Sequence[int], rng: np.random.Generator, below: int = 2) -> Array:
    """Data that every operator accepts: floats above 0, and integers from 0 to `below` − 1."""
    if not dtype.is_float:
        return rng.integers(0, below, sizes).astype(dtype.numpy)
    return rng.uniform(0.25, 2, sizes).astype(dtype.numpy)


def _instance(graph: dg.Graph, name: str, feeds: Mapping[str, Array]) -> Instance:
    """The instance of a node that reads only inputs and constants."""
    node = graph.node(name)
    assert isinstance(node, OperatorNode)
    data = {}
    for source, _, port in graph.producers(name):
        desc = node.operator.input_descs[port]
        assert desc is not None
        values = feeds[source] if source in feeds else graph.node(source).data  # type: ignore[union-attr]
        data[port] = np.broadcast_to(_fitted(np.asarray(values), desc.sizes), desc.sizes)
    packed = {port: desc.like() for port, desc in enumerate(node.operator.input_descs) if desc is not None}
    return Instance(node.operator.with_inputs(packed), data)


def _fitted(values: Array, sizes: Sequence[int]) -> Array:
    """An array with the dimensions of the desc that the operator adapted: a vector goes along its axis."""
    try:
        np.broadcast_to(values, sizes)
    except ValueError:
        return values.reshape([size if size in values.shape else 1 for size in sizes])
    return values


# ---- Larger ones


MANY = ((2, 3, 2, 2, 2, 3, 2, 2), (2, 3, 2, 3, 2, 2), (2, 2, 3, 2, 4))  # dimensions that no strides can merge
LONG = ((3, 37, 65), (2, 3, 33, 64), (130, 68))  # rows that do and do not fill words and groups of threads


class _Maker:
    """Inputs with data for one operator."""

    def __init__(self) -> None:
        self.graph = dg.Graph("large")
        self.feeds: dict[str, Array] = {}
        self.rng = np.random.default_rng(7)

    def __call__(self, *sizes: int, dtype: str = "float32", below: int = 2, data: Array | None = None) -> dg.Value:
        name = f"x{len(self.feeds)}"
        self.feeds[name] = numbers(dg.DataType.parse(dtype), sizes, self.rng, below) if data is None else data
        return self.graph.input(name, sizes=sizes, dtype=self.feeds[name].dtype)

    def distinct(self, *sizes: int, dtype: str = "float32") -> dg.Value:
        """Numbers of which no two are equal."""
        count = int(np.prod(sizes))
        return self(*sizes, data=self.rng.permutation(count).reshape(sizes).astype(dtype))


Make = Callable[[_Maker], object]


@functools.cache
def _large_instances() -> tuple[Instance, ...]:
    found = []
    for make in _makes():
        maker = _Maker()
        with contextlib.suppress(dg.DmlGraphError):  # an operator does not have so many dimensions
            result = make(maker)
            first = next(each for each in (result if isinstance(result, tuple) else (result,)) if each is not None)
            found.append(_instance(maker.graph, first.node, maker.feeds))
    return tuple(found)


def _makes() -> Iterator[Make]:
    for operator in REGISTRY.values():
        if is_plain(operator) and operator.name not in _WITH_AXES:
            for sizes in (*MANY, *LONG):
                for dtype in ("float32",) if sizes in MANY else ("float32", "float16", "uint8"):
                    yield functools.partial(_plain, operator=operator, sizes=sizes, dtype=dtype)
    for sizes in (*MANY, *LONG):
        for make in _OVER_SIZES:
            yield functools.partial(_sized, make=make, sizes=sizes)
    yield from _LARGE


def _sized(x: _Maker, make: Callable[[_Maker, Sequence[int]], object], sizes: Sequence[int]) -> object:
    return make(x, sizes)


def _plain(x: _Maker, operator: type[Operator], sizes: Sequence[int], dtype: str) -> object:
    """An operator whose tensors all have the same sizes."""
    tensors: dict[str, dg.Value] = {}
    for field in operator.input_fields:
        row = operator.support().rows(operator.fields[field].name, FeatureLevel.V6_2)
        if row is None:
            raise dg.OperatorError("is not at this level")
        legal = [str(each) for each in row.dtypes]
        tensors[field] = x(*sizes, dtype=dtype if dtype in legal else legal[0], below=5)
    attributes = {name: yaml.safe_load(text) for name, text in example_fields(operator).items()}
    outputs = {"output": attributes.pop("output")} if "output" in attributes else {}
    return x.graph.add(operator, tensors, attributes, outputs)


_WITH_AXES = ("padding", "padding1", "cumulative_summation", "cumulative_product", "argmin", "argmax", "tile",
              "activation_softmax1", "activation_log_softmax1", "activation_hardmax1")  # fmt: skip


def _ones(sizes: Sequence[int], last: int = 1) -> list[int]:
    return [1] * (len(sizes) - 1) + [last]


def _zeros(sizes: Sequence[int], last: int = 0) -> list[int]:
    return [0] * (len(sizes) - 1) + [last]


_OVER_SIZES: tuple[Callable[[_Maker, Sequence[int]], object], ...] = (
    lambda x, s: dg.padding(
        x(*s), padding_mode="edge", padding_value=0, start_padding=_zeros(s, 1), end_padding=_zeros(s, 2)
    ),
    lambda x, s: dg.padding1(
        x(*s), padding_mode="reflection", start_padding=_zeros(s, 1), end_padding=_zeros(s, 1), padding_value=0
    ),
    lambda x, s: dg.cumulative_summation(x(*s), axis=-1),
    lambda x, s: dg.cumulative_summation(x(*s), axis=0),
    lambda x, s: dg.cumulative_product(x(*s), axis=-1),
    lambda x, s: dg.argmin(x.distinct(*s), axes=[-1]),
    lambda x, s: dg.argmax(x.distinct(*s), axes=[0, -1]),
    lambda x, s: dg.tile(x(*s), repeats=_ones(s, 2)),
    lambda x, s: dg.activation_softmax1(x(*s), axes=[-1]),
    lambda x, s: dg.activation_softmax1(x(*s), axes=[0]),
    lambda x, s: dg.activation_log_softmax1(x(*s), axes=[-1]),
    lambda x, s: dg.activation_hardmax1(x.distinct(*s), axes=[-1]),
    *(
        lambda x, s, function=function, axes=axes: dg.reduce(x.distinct(*s), function=function, axes=axes)
        for function in ("sum", "max", "argmax", "l2")
        for axes in ([-1], [0], [0, -1])
    ),
    lambda x, s: dg.slice(x(*s), offsets=_zeros(s, 1), sizes=[*s[:-1], s[-1] - 1], strides=_ones(s)),
    lambda x, s: dg.slice1(
        x(*s), input_window_offsets=_zeros(s), input_window_sizes=s, input_window_strides=_ones(s, -2)
    ),
    lambda x, s: dg.slice_grad(
        x(*s[:-1], 1), sizes=s, input_window_offsets=_zeros(s, 1), input_window_sizes=[*s[:-1], 1],
        input_window_strides=_ones(s),
    ),
    lambda x, s: dg.split(x(*s), axis=0, outputs=[1, s[0] - 1]),
    lambda x, s: dg.split(x(*s), axis=-1, outputs=[1, s[-1] - 1]),
    lambda x, s: dg.join([x(*s), x(*s)], axis=0),
    lambda x, s: dg.join([x(*s), x(*s)], axis=-1),
    lambda x, s: dg.gather(x(*s), x(*_ones(s, 3), dtype="uint32"), axis=0, index_dimensions=1),
    lambda x, s: dg.gather_elements(x(*s), x(*s, dtype="int32"), axis=-1),
    lambda x, s: dg.scatter_elements(
        x(*s), x(*s, data=np.broadcast_to(np.arange(s[-1], dtype="uint32")[::-1], s)), x(*s), axis=-1
    ),
    lambda x, s: dg.gather_nd(
        x(*s), x(*_ones(s)[:-2], 5, 2, dtype="uint32"), input_dimension_count=len(s), indices_dimension_count=2
    ),
    lambda x, s: dg.scatter_nd(
        x(*s), x(*_ones(s)[:-2], 2, 1, data=np.array([[1], [0]], "uint32").reshape(*_ones(s)[:-2], 2, 1)),
        x(*_ones(s)[:-2], 2, s[-1]), input_dimension_count=2, indices_dimension_count=2,
    ),
    lambda x, s: dg.one_hot(
        x(*s[:-1], 1, dtype="uint32", below=4), x(*_ones(s, 2)), sizes=[*s[:-1], 4], axis=-1
    ),
    lambda x, s: dg.reverse_subsequences(x(*s), x(*s[:-1], 1, dtype="uint32"), axis=-1),
    lambda x, s: dg.top_k(x.distinct(*s), axis=-1, k=2),
    lambda x, s: dg.top_k1(x.distinct(*s), axis=-1, k=2, axis_direction="increasing"),
    lambda x, s: dg.quantize_linear(x(*s), x(*s), x(*s, dtype="uint8")),
    lambda x, s: dg.dequantize_linear(x(*s, dtype="uint8", below=9), x(*s), x(*s, dtype="uint8")),
    lambda x, s: dg.dynamic_quantize_linear(x(*s), dtype="uint8"),
    lambda x, s: dg.nonzero_coordinates(x(*s, dtype="uint8")),
    lambda x, s: dg.mean_variance_normalization1(
        x(*s), x(*s), x(*s), axes=[-1], normalize_variance=True, epsilon=1e-5
    ),
    lambda x, s: dg.mean_variance_normalization1(x(*s), axes=[0, -1], normalize_variance=True, epsilon=1e-5),
    lambda x, s: dg.batch_normalization(
        x(*s), x(*s), x(*s), x(*s), x(*s), spatial=False, epsilon=1e-5
    ),
    lambda x, s: dg.lp_normalization(x(*s), axis=-1, epsilon=1e-5, p=2),
    lambda x, s: x.graph.diagonal_matrix1(x(*s), value=7, diagonal_fill_begin=0, diagonal_fill_end=1),
    lambda x, s: dg.resample1(x(*s), sizes=[*s[:-1], 2 * s[-1]], interpolation_mode="linear"),
    lambda x, s: dg.resample(x(*s), scales=_ones(s, 2), interpolation_mode="nearest_neighbor"),
    lambda x, s: dg.adam_optimizer(
        x(*s), x(*s), x(*s), x(*s), x(*_ones(s), dtype="uint32"), learning_rate=0.1, beta1=0.9, beta2=0.99, epsilon=1e-8
    ),
)  # fmt: skip

_LARGE: tuple[Make, ...] = (
    *(
        lambda x, b=batch, t=trans: dg.gemm(
            x(*b, *((48, 33) if t else (33, 48)), dtype="float32"), x(*b, *((20, 48) if t else (48, 20))),
            x(*b, 33, 20), beta=0.5, trans_a="transpose" if t else "none", trans_b="transpose" if t else "none",
        )
        for batch in ((), (3,), (2, 3)) for trans in (False, True)
    ),
    lambda x: dg.gemm(x(2, 3, 16, 16, dtype="float16"), x(2, 3, 16, 32, dtype="float16")),
    lambda x: dg.gemm(x(1, 64, dtype="float16"), x(64, 32, dtype="float16")),
    lambda x: dg.matrix_multiply_integer(
        x(2, 17, 32, dtype="uint8", below=9), b=x(2, 32, 12, dtype="int8", below=9)
    ),
    lambda x: dg.convolution(x(2, 8, 13, 12), x(16, 8, 3, 3), x(16), start_padding=[1, 1], end_padding=[1, 1]),
    lambda x: dg.convolution(x(2, 8, 13, 12), x(16, 8, 1, 1), x(16)),
    lambda x: dg.convolution(x(2, 8, 13, 12), x(8, 1, 3, 3), x(8), group_count=8, strides=[2, 2]),
    lambda x: dg.convolution(x(2, 8, 7, 6), x(8, 4, 3, 3), x(4), direction="backward", strides=[2, 2]),
    lambda x: dg.convolution(x(2, 4, 5, 6, 7), x(6, 4, 3, 2, 2), x(6)),
    lambda x: dg.convolution_integer(
        x(2, 4, 9, 9, dtype="uint8", below=9), filter=x(6, 4, 3, 3, dtype="int8", below=9)
    ),
    lambda x: dg.max_pooling2(x.distinct(2, 5, 12, 13), window_size=[3, 2], strides=[2, 2], output_indices=True),
    lambda x: dg.average_pooling1(x(2, 5, 12, 13), window_size=[3, 3], include_padding=True),
    lambda x: dg.lp_pooling1(x(2, 5, 12, 13), window_size=[3, 3], p=2),
    lambda x: dg.average_pooling1(x(2, 5, 12, 13), window_size=[12, 13], include_padding=True),
    lambda x: dg.max_pooling2(x.distinct(2, 5, 4, 12, 13), window_size=[2, 3, 2], strides=[1, 2, 2]),
    lambda x: dg.batch_normalization(
        x(4, 6, 9, 8), x(1, 6, 1, 1), x(1, 6, 1, 1), x(1, 6, 1, 1), x(1, 6, 1, 1), spatial=True, epsilon=1e-5
    ),
    lambda x: dg.batch_normalization_training(
        x(4, 6, 9, 8), x(1, 6, 1, 1), x(1, 6, 1, 1), x(4, 6, 9, 8), epsilon=1e-5
    ),
    lambda x: dg.batch_normalization_training_grad(
        x(4, 6, 9, 8), x(4, 6, 9, 8), x(1, 6, 1, 1), x(1, 6, 1, 1), x(1, 6, 1, 1), epsilon=1e-5
    ),
    lambda x: dg.local_response_normalization(
        x(2, 9, 8, 7), cross_channel=True, local_size=5, alpha=0.1, beta=0.75, bias=1
    ),
    lambda x: dg.multihead_attention(
        x(2, 9, 24), x(2, 7, 24), x(2, 7, 24), bias=x(72), relative_position_bias=x(2, 3, 9, 7), head_count=3,
        mask_type="none", scale=0.3, mask_filter_value=-1e4, output_present_key=False, output_present_value=False,
    ),
    lambda x: dg.multihead_attention(
        stacked_query_key_value=x(2, 9, 3, 3, 8), mask=x(2, 3, 9, 9, dtype="int32"), head_count=3,
        mask_type="boolean", scale=0.3, mask_filter_value=-1e4,
    ),
    lambda x: dg.roi_align(
        x(2, 3, 9, 8), x(5, 4), x(5, dtype="uint32"), sizes=[5, 3, 2, 3], reduction_function="average",
        interpolation_mode="linear", spatial_scale_x=1, spatial_scale_y=1, out_of_bounds_input_value=0,
        minimum_samples_per_output=1, maximum_samples_per_output=4,
    ),
    lambda x: dg.roi_align_grad(
        x(2, 3, 9, 8), x(5, 3, 2, 3), x(5, 4), x(5, dtype="uint32"), reduction_function="average",
        interpolation_mode="linear", spatial_scale_x=1, spatial_scale_y=1, input_pixel_offset=0.5,
        output_pixel_offset=-0.5, minimum_samples_per_output=1, maximum_samples_per_output=4,
        align_regions_to_corners=False, output_gradient=True, output_roi_gradient=True,
    ),
    lambda x: dg.depth_to_space1(x(2, 12, 5, 6), block_size=2, order="column_row_depth"),
    lambda x: dg.space_to_depth1(x(2, 3, 6, 8), block_size=2, order="depth_column_row"),
    lambda x: dg.upsample_2d(x(2, 3, 6, 8), scale_size=[2, 3], interpolation_mode="linear"),
    lambda x: dg.value_scale_2d(x(2, 3, 6, 8), scale=0.5, bias=[1, 2, 3]),
    lambda x: dg.rnn(
        x(1, 6, 5, 12), x(1, 1, 20, 12), x(1, 1, 20, 20), x(1, 1, 1, 40), x(1, 1, 5, 20),
        activation_descs=["activation_tanh"], direction="forward", output_sequence=True, output_single=True,
    ),
)  # fmt: skip
