"""Convolutions, poolings and patches: operators with a sliding window."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.export.emitter import FLOAT32, INT64, Emitter, Symbol
from dmlgraph.formats.onnx.fills import filled
from dmlgraph.formats.onnx.node import Maybe, Node, counted
from dmlgraph.formats.onnx.refusals import Refusal, one_of, unsupported
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.graph.value import Value
from dmlgraph.operators.directml_enums import ConvolutionDirection, ConvolutionMode


@dataclasses.dataclass(slots=True)
class Window:
    """A sliding window over spatial dimensions.

    Attributes:
        spatial: the sizes of the input.
        kernel, strides, dilations: of the window.
        before, after: the padding.
    """

    spatial: list[int]
    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]

    @classmethod
    def of(
        cls,
        spatial: Sequence[int],
        kernel: Sequence[int],
        *,
        auto_pad: str = "NOTSET",
        dilations: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Window:
        """The window of ONNX's attributes, with the padding of `auto_pad`.

        Raises:
            Refusal: the attributes contradict one another.
        """
        count = len(spatial)
        strides = counted("strides", [1] * count if strides is None else strides, [count])
        dilations = counted("dilations", [1] * count if dilations is None else dilations, [count])
        pads = counted("pads", [0] * 2 * count if pads is None else pads, [2 * count])
        if len(kernel) != count:
            message = "needs a number for each spatial dimension"
            raise Refusal(message, code="count", field="kernel_shape", got=list(kernel), allowed=str(count))
        window = cls(
            list(spatial), list(kernel), strides, dilations, [max(each, 0) for each in pads[:count]], pads[count:]
        )
        if min(pads) < 0 or min([*strides, *dilations, *kernel]) < 1:
            raise Refusal(
                "a window's numbers must be positive", code="range", got=[*kernel, *strides, *dilations, *pads]
            )
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            window.pad_same(auto_pad == "SAME_UPPER")
        elif auto_pad == "VALID":
            window.before, window.after = [0] * count, [0] * count
        elif auto_pad not in ("NOTSET", ""):
            raise unsupported("auto_pad", "NOTSET, SAME_UPPER, SAME_LOWER, VALID", auto_pad)
        return window

    @property
    def reach(self) -> list[int]:
        """The elements from the first to the last of the window, by dimension."""
        return [(size - 1) * gap + 1 for size, gap in zip(self.kernel, self.dilations, strict=True)]

    def pad_same(self, upper: bool) -> None:
        """Pads so that each output size is the input's over the stride, rounded up."""
        for axis, (size, reach, stride) in enumerate(zip(self.spatial, self.reach, self.strides, strict=True)):
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            less, more = total // 2, total - total // 2
            self.before[axis], self.after[axis] = (less, more) if upper else (more, less)

    def round_up(self) -> None:
        """Pads the end so that a last, incomplete window counts if it begins inside the input."""
        for axis, (size, reach, stride) in enumerate(zip(self.spatial, self.reach, self.strides, strict=True)):
            padded = size + self.before[axis] + self.after[axis]
            count = -(-(padded - reach) // stride) + 1
            if (count - 1) * stride >= size + self.before[axis]:
                count -= 1
            self.after[axis] += max((count - 1) * stride + reach - padded, 0)

    def reach_further(self, extra: Sequence[int]) -> list[int]:
        """Takes elements from the padding behind the output; returns how many are missing: no window reaches them."""
        missing = [max(more - after, 0) for more, after in zip(extra, self.after, strict=True)]
        self.after = [max(after - more, 0) for more, after in zip(extra, self.after, strict=True)]
        return missing

    def fields(self, *, dilated: bool = True) -> dict[str, Any]:
        """The window as fields of DirectML's operators."""
        dilations = {"dilations": self.dilations} if dilated else {}
        return {"strides": self.strides, "start_padding": self.before, "end_padding": self.after, **dilations}

    def flat(self) -> Window:
        """A window over one dimension as one over two."""
        if len(self.spatial) != 1:
            return self
        first = (1, 1, 1, 1, 0, 0)  # of each attribute, along a dimension of size 1
        return Window(*([one, *rest] for one, rest in zip(first, dataclasses.astuple(self), strict=True)))


def _as_image(node: Node, x: Tensor) -> Value:
    """{N, C, W} as {N, C, 1, W}."""
    return node.reshaped(x, (*x.shape[:2], 1, x.shape[2]) if x.rank == 3 else x.sizes)


def _as_before(node: Node, made: Value, x: Tensor) -> Tensor:
    """The opposite of `_as_image` for a result."""
    return node.tensor(made, (*made.sizes[:2], made.sizes[3]) if x.rank == 3 else made.sizes)


def by_channel(node: Node, tensor: Maybe, rank: int) -> Value | None:
    """{C} as {1, C, 1, …}; one number as {1, 1, 1, …}."""
    return None if tensor is None else node.reshaped(tensor, (1, tensor.count, *(1,) * (rank - 2)))


def filter_window(x: Tensor, w: Tensor, *, kernel_shape: list[int] | None = None, **window: Any) -> Window:
    """The window of a convolution, which has the sizes of its filter {M, C, …}."""
    sizes = list(w.shape[2:])
    if kernel_shape not in (None, sizes):
        message = "differs from the sizes of the filter"
        raise Refusal(message, code="sizes", field="kernel_shape", got=kernel_shape, allowed=str(sizes))
    return Window.of(x.shape[2:], sizes, **window)


def window(node: Emitter) -> dict[str, Any]:
    """The window's attributes without what is the default; its sizes are those of a pooling."""
    pads = [*node.field("start_padding"), *node.field("end_padding")]
    found = {"strides": list(node.field("strides")), "dilations": list(getattr(node.operator, "dilations", ()))}
    given = {name: each for name, each in found.items() if set(each) - {1}} | ({"pads": pads} if any(pads) else {})
    kernel = getattr(node.operator, "window_size", None)
    return given if kernel is None else {"kernel_shape": list(kernel)} | given


def extended(node: Emitter, x: Symbol, more: Sequence[int]) -> Symbol:
    """x {N, C, spatial…} with zeros after its ends."""
    if not any(more):
        return x
    pads = [0] * (len(more) + 2) + [0, 0, *more]
    return node.call("Pad", x, node.ints(pads), node.number(0, x.dtype))


@imports(how="convolution")
def Conv(node: Node, X: Tensor, W: Tensor, B: Maybe = None, *, group: int = 1, **window: Any) -> Tensor:
    fields = filter_window(X, W, **window).fields()
    return node.tensor(node.convolution(X, W, by_channel(node, B, X.rank), group_count=group, **fields))


@exports("convolution", how="Conv, ConvTranspose")
def _convolution(node: Emitter) -> Symbol:
    backward = node.field("direction") is ConvolutionDirection.BACKWARD
    weights = node["filter"]
    if node.field("mode") is ConvolutionMode.CONVOLUTION:
        weights = _mirrored(node, weights)
    made = node.call(
        "ConvTranspose" if backward else "Conv",
        node["input"],
        weights,
        None if node.field("bias") is None else node.flat("bias", node.output.sizes[1]),
        group=node.field("group_count"),
        **window(node),
    )
    return node.activated(extended(node, made, node.field("output_padding")))


def _mirrored(node: Emitter, weights: Symbol) -> Symbol:
    """The filter reversed along its spatial dimensions."""
    spatial = range(2, node.desc("filter").rank)
    if node.known("filter") is not None:
        return node.constant(np.flip(node.known("filter"), tuple(spatial)))  # type: ignore[type-var]
    starts, ends = node.ints([-1] * len(spatial)), node.ints([-(2**63) + 1] * len(spatial))
    return node.call("Slice", weights, starts, ends, node.ints(spatial), starts)


@imports(how="convolution with direction: backward")
def ConvTranspose(
    node: Node,
    X: Tensor,
    W: Tensor,
    B: Maybe = None,
    *,
    output_padding: list[int] | None = None,
    auto_pad: str = "NOTSET",
    output_shape: list[int] | None = None,
    group: int = 1,
    **attributes: Any,
) -> Tensor:
    window = filter_window(X, W, auto_pad=auto_pad, **attributes)
    count = len(window.spatial)
    extra = node.ints("output_padding", output_padding, [0] * count, counts=[count])
    whole = [
        (size - 1) * stride + reach
        for size, stride, reach in zip(window.spatial, window.strides, window.reach, strict=True)
    ]
    wanted = node.ints("output_shape", output_shape, counts=[count, count + 2])
    if wanted is None and auto_pad.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(window.spatial, window.strides, strict=True)]
    if wanted is not None:
        wanted = wanted[-count:]
        for axis in range(count):
            total = whole[axis] + extra[axis] - wanted[axis]
            if total < 0:
                extra[axis], total = extra[axis] - total, 0
            less, more = total // 2, total - total // 2
            window.before[axis], window.after[axis] = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
    bias = by_channel(node, B, X.rank)
    beyond = window.reach_further(extra)
    made = node.convolution(
        X,
        W,
        None if any(beyond) else bias,
        direction="backward",
        output_padding=beyond,
        group_count=group,
        **window.fields(),
    )
    # DirectML's padding of the output has no bias.
    return node.tensor(node.add(made, bias) if bias is not None and any(beyond) else made)


# Poolings.


def _pooled(x: Tensor, *, kernel_shape: list[int], ceil_mode: int = 0, **attributes: Any) -> Window:
    window = Window.of(x.shape[2:], kernel_shape, **attributes)
    if ceil_mode:
        window.round_up()
    return window


@imports(how="average_pooling1; with ceil_mode and count_include_pad: multiply")
def AveragePool(node: Node, X: Tensor, *, count_include_pad: int = 0, ceil_mode: int = 0, **attributes: Any) -> Tensor:
    window = _pooled(X, ceil_mode=ceil_mode, **attributes)
    included = bool(count_include_pad)
    flat = window.flat()
    made = node.average_pooling1(_as_image(node, X), window_size=flat.kernel, include_padding=included, **flat.fields())
    result = _as_before(node, made, X)
    padding = _pooled(X, **attributes).after
    if included and padding != window.after:
        result = node.tensor(node.multiply(result, Tensor.of(_uncounted(window, padding).astype(X.dtype))))
    return result


def _uncounted(window: Window, after: Sequence[int]) -> Array:
    """What makes means over whole windows means without the padding beyond `after`, which ceil_mode adds: {1, 1, …}."""
    factors: Array = np.ones((1, 1))
    for axis, size in enumerate(window.kernel):
        padded = window.spatial[axis] + window.before[axis] + window.after[axis]
        firsts = np.arange(0, padded - window.reach[axis] + 1, window.strides[axis])
        places = firsts[:, None] + np.arange(size) * window.dilations[axis]
        counted = places < window.spatial[axis] + window.before[axis] + after[axis]
        factors = factors[..., None] * (size / counted.sum(1))
    return factors


@exports("average_pooling", "average_pooling1", how="AveragePool")
def _average(node: Emitter) -> Symbol:
    return node.widely(
        "AveragePool",
        node["input"],
        count_include_pad=int(node.field("include_padding")),
        **window(node),
    )


@imports(how="lp_pooling1")
def LpPool(node: Node, X: Tensor, *, p: int = 2, **attributes: Any) -> Tensor:
    flat = _pooled(X, **attributes).flat()
    made = node.lp_pooling1(_as_image(node, X), window_size=flat.kernel, p=p, **flat.fields())
    return _as_before(node, made, X)


@exports("lp_pooling", "lp_pooling1", how="LpPool")
def _lp(node: Emitter) -> Symbol:
    return node.call("LpPool", node["input"], p=node.field("p"), **window(node))


@imports(how="max_pooling2; storage_order: arithmetic on the indices")
def MaxPool(node: Node, X: Tensor, *, storage_order: int = 0, **attributes: Any) -> Tensor | list[Tensor]:
    flat = _pooled(X, **attributes).flat()
    indexed = node.wants(1)
    by_column = indexed and bool(storage_order)
    if by_column and X.rank != 4:
        raise unsupported("storage_order", "0, or two spatial dimensions", storage_order)
    asked = {"output_indices": {"dtype": "uint64"}} if indexed else {}
    made = node.max_pooling2(_as_image(node, X), window_size=flat.kernel, **flat.fields(), **asked)
    if not indexed:
        return _as_before(node, made, X)
    indices = _by_column(node, made.output_indices, X) if by_column else made.output_indices
    return [_as_before(node, made.output, X), _as_before(node, indices, X)]


def _by_column(node: Node, indices: Value, x: Tensor) -> Value:
    """Indices in a tensor {N, C, H, W} counted row by row → column by column within each plane."""
    rows, columns = x.shape[2:]

    def number(value: int) -> Tensor:
        return Tensor.of(np.full((1, 1, 1, 1), value, np.uint32))

    if x.count > np.iinfo(np.uint32).max:
        raise unsupported("storage_order", "0 for so many elements", 1)
    indices = node.converted(indices, "uint32")
    place = node.modulus_truncate(indices, number(rows * columns))
    column = node.modulus_truncate(place, number(columns))
    row = node.divide(node.subtract(place, column), number(columns))
    moved = node.add(node.multiply(column, number(rows)), row)
    return node.add(node.subtract(indices, place), moved)


@exports("max_pooling", "max_pooling1", "max_pooling2", how="MaxPool")
def _maximum(node: Emitter) -> Symbol | list[Symbol]:
    indices = getattr(node.operator, "output_indices", None)
    if indices is None:
        return node.widely("MaxPool", node["input"], **window(node))
    greatest, places = _maxima(node)
    return [node.cast(greatest, node.dtype), node.cast(places, indices.dtype.numpy)]


def _maxima(node: Emitter) -> list[Symbol]:
    """The maxima, perhaps in a wider type, and their indices in the whole input."""
    x = node["input"]
    wide = node.cast(x, node.wide_for("MaxPool", x.dtype))
    return node.calls("MaxPool", wide, dtypes=[wide.dtype, INT64], **window(node))


@exports("max_pooling_grad", how="MaxPool, ScatterElements")
def _maximum_gradient(node: Emitter) -> Symbol:
    count = node.desc("input_gradient").element_count
    _, places = _maxima(node)
    gradient = node.flat("input_gradient", count)
    gradient = node.cast(gradient, FLOAT32) if gradient.bits == 16 else gradient  # sums are rounded once
    return _scattered(node, gradient, node.reshape(places, (count,)), reduction="add")


@imports(since=9, how="max_unpooling")
def MaxUnpool(
    node: Node,
    X: Tensor,
    I: Tensor,  # noqa: E741 - ONNX's name
    output_shape: Maybe = None,
    *,
    kernel_shape: list[int],
    **attributes: Any,
) -> Tensor:
    window = Window.of(X.shape[2:], kernel_shape, **attributes)
    parts = zip(window.spatial, window.strides, window.kernel, window.before, window.after, strict=True)
    spatial = [(size - 1) * stride + kernel - before - after for size, stride, kernel, before, after in parts]
    shape = node.ints("output_shape", output_shape) or [*X.shape[:2], *spatial]
    if shape[2:] != spatial:
        raise Refusal("an output of another size would move the indices", field="output_shape", got=shape)
    places = node.converted(I, "uint64")
    return node.tensor(node.max_unpooling(X, places, sizes=shape))


@imports(how="reduce")
def GlobalAveragePool(node: Node, X: Tensor) -> Tensor:
    return _global_pool(node, X, "average")


@imports(how="reduce")
def GlobalMaxPool(node: Node, X: Tensor) -> Tensor:
    return _global_pool(node, X, "max")


@imports(how="reduce")
def GlobalLpPool(node: Node, X: Tensor, *, p: int = 2) -> Tensor:
    one_of("p", p, (1, 2))
    return _global_pool(node, X, f"l{p}")


def _global_pool(node: Node, x: Tensor, function: str) -> Tensor:
    return node.tensor(node.reduce(x, function=function, axes=list(range(2, x.rank))))


@imports(since=18, how="fold; below level 6.4 slice_grad and add for each tap")
def Col2Im(node: Node, input: Tensor, image_shape: Tensor, block_shape: Tensor, **attributes: Any) -> Tensor:
    image, block = node.ints("image_shape", image_shape, []), node.ints("block_shape", block_shape, [])
    window = Window.of(image, block, **attributes)
    sizes = [input.shape[0], input.shape[1] // math.prod(block), *image]
    if not node.has("fold"):
        return node.tensor(_folded_by_taps(node, input, window, sizes))
    return node.tensor(node.fold(input, sizes=sizes, window_sizes=block, **window.fields()))


def _folded_by_taps(node: Node, x: Tensor, window: Window, sizes: Sequence[int]) -> Value:
    """The sum of what each tap of the window adds: its elements, the strides apart, in an image of zeros."""
    padded = [sum(each) for each in zip(window.before, window.spatial, window.after, strict=True)]
    counts = [
        (size - reach) // stride + 1 for size, reach, stride in zip(padded, window.reach, window.strides, strict=True)
    ]
    if min(counts) < 1 or math.prod(counts) != x.shape[-1] or x.shape[1] % math.prod(window.kernel):
        message = "the input does not have the blocks of such an image"
        raise Refusal(message, code="sizes", got=list(x.shape), allowed=f"{max(math.prod(counts), 0)} blocks")
    taps = node.reshaped(x, (*sizes[:2], math.prod(window.kernel), *counts))
    parts = node.split(taps, axis=2, outputs=[1] * taps.sizes[2]) if taps.sizes[2] > 1 else [taps]
    total: Value | None = None
    for part, tap in zip(parts, itertools.product(*map(range, window.kernel)), strict=True):
        made = node.slice_grad(
            node.reshaped(part, (*sizes[:2], *counts)),
            sizes=[*sizes[:2], *padded],
            input_window_offsets=[0, 0, *(at * gap for at, gap in zip(tap, window.dilations, strict=True))],
            input_window_sizes=[
                *sizes[:2],
                *((count - 1) * stride + 1 for count, stride in zip(counts, window.strides, strict=True)),
            ],
            input_window_strides=[1, 1, *window.strides],
        )
        total = made if total is None else node.add(total, made)
    cut = [slice(None)] * 2 + [
        slice(before, before + size) for before, size in zip(window.before, window.spatial, strict=True)
    ]
    return node.value(sliced(node, node.tensor(total), cut))


@exports("fold", how="Col2Im")
def _fold(node: Emitter) -> Symbol:
    spatial, block = node.ints(node.output.sizes[2:]), node.ints(node.field("window_sizes"))
    return node.call("Col2Im", node["input"], spatial, block, **window(node))


@exports("max_unpooling", how="ScatterElements")
def _unpool(node: Emitter) -> Symbol:
    count = node.desc("input").element_count
    places = node.cast(node.flat("indices", count), INT64)
    return _scattered(node, node.flat("input", count), places)


def _scattered(node: Emitter, x: Symbol, places: Symbol, **attributes: Any) -> Symbol:
    """Zeros with the elements of a vector at places of the output, counted row-major."""
    count = node.output.element_count
    zeros = filled(node, 0, (count,), x.dtype)
    made = node.call("ScatterElements", zeros, places, x, axis=0, **attributes)
    return node.cast(node.reshape(made, node.output.sizes, (count,)), node.dtype)


@exports("average_pooling_grad", how="Div, ConvTranspose")
def _average_gradient(node: Emitter) -> Symbol:
    """Each element, over the number of its window's, is spread by a filter of ones."""
    sizes, pooled = node.output.sizes, node.desc("input_gradient").sizes
    kernel = list(node.field("window_size"))
    planes = sizes[0] * sizes[1]
    shares = node["input_gradient"] / node.number(_divisors(node, kernel), node.dtype)
    shares = node.reshape(shares, (planes, 1, *pooled[2:]), pooled)
    ones = node.number(np.ones((1, 1, *kernel)), node.dtype)
    made = node.call("ConvTranspose", shares, ones, **window(node) | {"kernel_shape": None})
    parts = zip(sizes[2:], pooled[2:], node.field("strides"), kernel, _padding(node), strict=True)
    more = [size - ((count - 1) * stride + taps - padding) for size, count, stride, taps, padding in parts]
    return node.reshape(extended(node, made, more), sizes)


def _padding(node: Emitter) -> list[int]:
    """The padding at both ends together, by dimension."""
    return [sum(pair) for pair in zip(node.field("start_padding"), node.field("end_padding"), strict=True)]


def _divisors(node: Emitter, kernel: Sequence[int]) -> Any:
    """How many elements of each window count."""
    if node.field("include_padding"):
        return np.prod(kernel)
    inside = np.ones((1, 1))
    dimensions = zip(
        node.output.sizes[2:],
        node.desc("input_gradient").sizes[2:],
        node.field("strides"),
        kernel,
        node.field("start_padding"),
        strict=True,
    )
    for size, count, stride, taps, start in dimensions:
        first = np.arange(count) * stride - start
        inside = np.multiply.outer(inside, np.minimum(first + taps, size) - np.maximum(first, 0))
    return inside


# Patches.


@exports("unfold", how="Pad, Gather")
def _unfold(node: Emitter) -> Symbol:
    """The padded image as one dimension, and the places of every patch's elements in it."""
    sizes = node.desc("input").sizes
    starts, ends = node.field("start_padding"), node.field("end_padding")
    padded = [start + size + end for start, size, end in zip(starts, sizes[2:], ends, strict=True)]
    x = node["input"]
    if any((*starts, *ends)):
        x = node.call("Pad", x, node.ints([0, 0, *starts, 0, 0, *ends]), node.number(0, x.dtype))
    flat = node.reshape(x, (*sizes[:2], int(np.prod(padded))))
    places = node.constant(_patches(node, padded), INT64)
    return node.reshape(node.call("Gather", flat, places, axis=2), node.output.sizes)


def _patches(node: Emitter, padded: Sequence[int]) -> Any:
    """The row-major places in the padded image: {window elements, blocks}."""
    taps, blocks = [], []
    for size, window_size, stride, dilation in zip(
        padded, node.field("window_sizes"), node.field("strides"), node.field("dilations"), strict=True
    ):
        taps.append(np.arange(window_size) * dilation)
        blocks.append(np.arange(0, size - dilation * (window_size - 1), stride))
    within = np.ravel_multi_index(np.meshgrid(*taps, indexing="ij"), padded).ravel()
    starts = np.ravel_multi_index(np.meshgrid(*blocks, indexing="ij"), padded).ravel()
    return within[:, None] + starts
