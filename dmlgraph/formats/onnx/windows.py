"""Convolutions, poolings and patches: operators with a sliding window."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.graph.value import Value


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
    def of(cls, node: Node, spatial: Sequence[int], kernel: Sequence[int]) -> Window:
        """A node's window, with the padding of its `auto_pad`.

        Raises:
            Refusal: the attributes contradict one another.
        """
        count = len(spatial)
        strides = node.ints("strides", default=[1] * count, counts=[count]) or []
        dilations = node.ints("dilations", default=[1] * count, counts=[count]) or []
        pads = node.ints("pads", default=[0] * 2 * count, counts=[2 * count]) or []
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
        auto = str(node.attribute("auto_pad", "NOTSET"))
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            window.pad_same(auto == "SAME_UPPER")
        elif auto == "VALID":
            window.before, window.after = [0] * count, [0] * count
        elif auto not in ("NOTSET", ""):
            raise node.refuse("auto_pad", "NOTSET, SAME_UPPER, SAME_LOWER, VALID")
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
        return Window(
            [1, *self.spatial],
            [1, *self.kernel],
            [1, *self.strides],
            [1, *self.dilations],
            [0, *self.before],
            [0, *self.after],
        )


def _as_image(node: Node, x: Tensor) -> Value:
    """{N, C, W} as {N, C, 1, W}."""
    return node.dml.reshaped(x, (*x.shape[:2], 1, x.shape[2]) if x.rank == 3 else x.sizes)


def _as_before(node: Node, made: Value, x: Tensor) -> Tensor:
    """The opposite of `_as_image` for a result."""
    return node.tensor(made, (*made.sizes[:2], made.sizes[3]) if x.rank == 3 else made.sizes)


def _bias(node: Node, tensor: Tensor | None, rank: int) -> Value | None:
    """{C} as {1, C, 1, …}."""
    return None if tensor is None else node.dml.reshaped(tensor, (1, tensor.count, *(1,) * (rank - 2)))


def filter_window(node: Node, x: Tensor, w: Tensor) -> Window:
    """The window of a convolution, which has the sizes of its filter {M, C, …}."""
    kernel, sizes = node.ints("kernel_shape", default=w.shape[2:]), list(w.shape[2:])
    if kernel != sizes:
        message = "differs from the sizes of the filter"
        raise Refusal(message, code="sizes", field="kernel_shape", got=kernel, allowed=str(sizes))
    return Window.of(node, x.shape[2:], sizes)


@imports("Conv", how="convolution")
def _conv(node: Node) -> Result:
    x, w = node[0], node[1]
    window = filter_window(node, x, w)
    made = node.dml.convolution(
        x, w, _bias(node, node.get(2), x.rank), group_count=node.attribute("group", 1), **window.fields()
    )
    return node.tensor(made)


@imports("ConvTranspose", how="convolution with direction: backward")
def _conv_transpose(node: Node) -> Result:
    x, w = node[0], node[1]
    window = filter_window(node, x, w)
    count = len(window.spatial)
    extra = node.ints("output_padding", default=[0] * count, counts=[count]) or []
    whole = [
        (size - 1) * stride + reach
        for size, stride, reach in zip(window.spatial, window.strides, window.reach, strict=True)
    ]
    auto, wanted = str(node.attribute("auto_pad", "NOTSET")), node.ints("output_shape", counts=[count, count + 2])
    if wanted is None and auto.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(window.spatial, window.strides, strict=True)]
    if wanted is not None:
        wanted = wanted[-count:]
        for axis in range(count):
            total = whole[axis] + extra[axis] - wanted[axis]
            if total < 0:
                extra[axis], total = extra[axis] - total, 0
            less, more = total // 2, total - total // 2
            window.before[axis], window.after[axis] = (less, more) if auto == "SAME_UPPER" else (more, less)
    bias = _bias(node, node.get(2), x.rank)
    beyond = window.reach_further(extra)
    made = node.dml.convolution(
        x,
        w,
        None if any(beyond) else bias,
        direction="backward",
        output_padding=beyond,
        group_count=node.attribute("group", 1),
        **window.fields(),
    )
    # DirectML's padding of the output has no bias.
    return node.tensor(node.dml.add(made, bias) if bias is not None and any(beyond) else made)


def _pooled(node: Node) -> Window:
    x = node[0]
    window = Window.of(node, x.shape[2:], node.required("kernel_shape"))
    if node.attribute("ceil_mode", 0):
        window.round_up()
    return window


@imports("AveragePool", how="average_pooling1; with ceil_mode and count_include_pad: multiply")
def _average_pool(node: Node) -> Result:
    x, window = node[0], _pooled(node)
    included = bool(node.attribute("count_include_pad", 0))
    flat = window.flat()
    made = node.dml.average_pooling1(
        _as_image(node, x), window_size=flat.kernel, include_padding=included, **flat.fields()
    )
    result = _as_before(node, made, x)
    padding = Window.of(node, x.shape[2:], window.kernel).after
    if included and padding != window.after:
        result = node.tensor(node.dml.multiply(result, Tensor.of(_uncounted(window, padding).astype(x.dtype))))
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


@imports("LpPool", how="lp_pooling1")
def _lp_pool(node: Node) -> Result:
    x, flat = node[0], _pooled(node).flat()
    made = node.dml.lp_pooling1(_as_image(node, x), window_size=flat.kernel, p=node.attribute("p", 2), **flat.fields())
    return _as_before(node, made, x)


@imports("MaxPool", how="max_pooling2; storage_order: arithmetic on the indices")
def _max_pool(node: Node) -> Result:
    x, flat = node[0], _pooled(node).flat()
    indexed = node.wants(1)
    by_column = indexed and bool(node.attribute("storage_order", 0))
    if by_column and x.rank != 4:
        raise node.refuse("storage_order", "0, or two spatial dimensions")
    asked = {"output_indices": {"dtype": "uint64"}} if indexed else {}
    made = node.dml.max_pooling2(_as_image(node, x), window_size=flat.kernel, **flat.fields(), **asked)
    if not indexed:
        return _as_before(node, made, x)
    indices = _by_column(node, made.output_indices, x) if by_column else made.output_indices
    return [_as_before(node, made.output, x), _as_before(node, indices, x)]


def _by_column(node: Node, indices: Value, x: Tensor) -> Value:
    """Indices in a tensor {N, C, H, W} counted row by row → column by column within each plane."""
    rows, columns = x.shape[2:]

    def number(value: int) -> Tensor:
        return Tensor.of(np.full((1, 1, 1, 1), value, np.uint32))

    if x.count > np.iinfo(np.uint32).max:
        raise node.refuse("storage_order", "0 for so many elements")
    indices = node.dml.converted(indices, "uint32")
    place = node.dml.modulus_truncate(indices, number(rows * columns))
    column = node.dml.modulus_truncate(place, number(columns))
    row = node.dml.divide(node.dml.subtract(place, column), number(columns))
    moved = node.dml.add(node.dml.multiply(column, number(rows)), row)
    made: Value = node.dml.add(node.dml.subtract(indices, place), moved)
    return made


@imports("MaxUnpool", since=9, how="max_unpooling")
def _max_unpool(node: Node) -> Result:
    x = node[0]
    window = Window.of(node, x.shape[2:], node.required("kernel_shape"))
    parts = zip(window.spatial, window.strides, window.kernel, window.before, window.after, strict=True)
    spatial = [(size - 1) * stride + kernel - before - after for size, stride, kernel, before, after in parts]
    shape = node.ints("output_shape", 2) or [*x.shape[:2], *spatial]
    if shape[2:] != spatial:
        raise Refusal("an output of another size would move the indices", field="output_shape", got=shape)
    places = node.dml.converted(node[1], "uint64")
    return node.tensor(node.dml.max_unpooling(x, places, sizes=shape))


@imports("GlobalAveragePool", how="reduce")
@imports("GlobalMaxPool", how="reduce")
@imports("GlobalLpPool", how="reduce")
def _global_pool(node: Node) -> Result:
    x = node[0]
    function = {"GlobalAveragePool": "average", "GlobalMaxPool": "max"}.get(node.operator)
    if function is None:
        p = node.attribute("p", 2)
        if p not in (1, 2):
            raise node.refuse("p", "1, 2")
        function = f"l{p}"
    return node.tensor(node.dml.reduce(x, function=function, axes=list(range(2, x.rank))))


@imports("Col2Im", since=18, how="fold; below level 6.4 slice_grad and add for each tap")
def _fold(node: Node) -> Result:
    x, image, block = node[0], node.ints("image_shape", 1) or [], node.ints("block_shape", 2) or []
    window = Window.of(node, image, block)
    sizes = [x.shape[0], x.shape[1] // math.prod(block), *image]
    if not node.dml.has("fold"):
        return node.tensor(_folded_by_taps(node, window, sizes))
    return node.tensor(node.dml.fold(x, sizes=sizes, window_sizes=block, **window.fields()))


def _folded_by_taps(node: Node, window: Window, sizes: Sequence[int]) -> Value:
    """The sum of what each tap of the window adds: its elements, the strides apart, in an image of zeros."""
    dml, x = node.dml, node[0]
    padded = [sum(each) for each in zip(window.before, window.spatial, window.after, strict=True)]
    counts = [
        (size - reach) // stride + 1 for size, reach, stride in zip(padded, window.reach, window.strides, strict=True)
    ]
    if min(counts) < 1 or math.prod(counts) != x.shape[-1] or x.shape[1] % math.prod(window.kernel):
        message = "the input does not have the blocks of such an image"
        raise Refusal(message, code="sizes", got=list(x.shape), allowed=f"{max(math.prod(counts), 0)} blocks")
    taps = dml.reshaped(x, (*sizes[:2], math.prod(window.kernel), *counts))
    parts = dml.split(taps, axis=2, outputs=[1] * taps.sizes[2]) if taps.sizes[2] > 1 else [taps]
    total: Value | None = None
    for part, tap in zip(parts, itertools.product(*map(range, window.kernel)), strict=True):
        made = dml.slice_grad(
            dml.reshaped(part, (*sizes[:2], *counts)),
            sizes=[*sizes[:2], *padded],
            input_window_offsets=[0, 0, *(at * gap for at, gap in zip(tap, window.dilations, strict=True))],
            input_window_sizes=[
                *sizes[:2],
                *((count - 1) * stride + 1 for count, stride in zip(counts, window.strides, strict=True)),
            ],
            input_window_strides=[1, 1, *window.strides],
        )
        total = made if total is None else dml.add(total, made)
    cut = [slice(None)] * 2 + [
        slice(before, before + size) for before, size in zip(window.before, window.spatial, strict=True)
    ]
    whole: Value = dml.value(sliced(dml, node.tensor(total), cut))
    return whole
