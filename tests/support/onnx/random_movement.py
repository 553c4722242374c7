"""Rules for random models: operators that move elements or speak of shapes."""

from __future__ import annotations

import numpy as np
import onnx
from support.onnx.random_models import Maker, Sample, makes


@makes("Where", since=9)
def _where(m: Maker) -> Sample:
    shape = m.shape(1)
    m.give(m.numbers(m.broadcasting(shape), dtype="bool"))
    m.give(m.numbers(m.broadcasting(shape)))
    m.give(m.numbers(shape))
    return m.sample(exact=True)


@makes("Reshape")
def _reshape(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    m.give(m.numbers(shape))
    to = [0 if m.maybe(0.3) else size for size in shape] if m.maybe(0.3) else list(m.rng.permutation(shape))
    if 0 not in to and m.maybe():
        to[m.whole(0, len(to) - 1)] = -1
    m.fix(to)
    return m.sample(exact=True)


@makes("Flatten")
def _flatten(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    m.give(m.numbers(shape))
    m.attributes["axis"] = m.one_of(None if len(shape) > 1 else 0, m.whole(0, len(shape)), m.axis(len(shape)))
    return m.sample(exact=True)


@makes("Transpose")
def _transpose(m: Maker) -> Sample:
    shape = m.shape(1, 5)
    m.give(m.numbers(shape))
    m.attributes["perm"] = m.one_of(None, m.rng.permutation(len(shape)).tolist())
    return m.sample(exact=True)


@makes("Squeeze Unsqueeze")
def _squeeze(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    if m.operator == "Squeeze":
        places = m.axes(len(shape))
        for place in places:
            shape[place] = 1
        given = None if m.maybe(0.2) else places
    else:
        count = m.whole(1, 2)
        rank = len(shape) + count
        given = sorted(m.rng.permutation(rank)[:count].tolist())
        given = [each - rank if m.opset >= 11 and m.maybe() else each for each in given]
    m.give(m.numbers(shape))
    if m.opset >= 13:
        if given is not None:
            m.fix(given)
    else:
        m.attributes["axes"] = given
    return m.sample(exact=True)


@makes("Concat")
def _concat(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    axis = m.axis(len(shape))
    for _ in range(m.whole(1, 4)):
        m.give(m.numbers([*shape[:axis], m.whole(1, 4), *shape[axis:][1:]]))
    m.attributes["axis"] = axis
    return m.sample(exact=True)


@makes("Split")
def _split(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    axis = m.axis(len(shape))
    parts = [m.whole(1, 3) for _ in range(m.whole(1, 3))]
    even = m.maybe(0.4)
    shape[axis] = parts[0] * len(parts) if even else sum(parts)
    m.give(m.numbers(shape))
    m.attributes["axis"] = axis
    if even:
        if m.opset >= 18:
            m.attributes["num_outputs"] = len(parts)
    elif m.opset >= 13:
        m.fix(parts)
    else:
        m.attributes["split"] = parts
    return m.sample(len(parts), exact=True)


@makes("Slice Slice")
def _slice(m: Maker) -> Sample:
    shape = [m.whole(2, 6) for _ in range(m.whole(1, 4))]
    m.give(m.numbers(shape))
    axes = sorted(m.rng.permutation(len(shape))[: m.whole(1, len(shape))].tolist())
    starts, ends, steps = [], [], []
    for axis in axes:
        size = shape[axis]
        first = m.whole(0, size - 1)
        last = m.whole(first, size - 1)
        step = m.whole(1, 3)
        if m.opset >= 10 and m.maybe(0.4):
            starts.append(m.one_of(last, last - size, size + 5 if last == size - 1 else last))
            ends.append(m.one_of(first - 1 if first else -(2**31), -(2**40) if first == 0 else first - 1))
            steps.append(-step)
        else:
            starts.append(m.one_of(first, first - size))
            ends.append(m.one_of(last + 1, 2**31 - 1))
            steps.append(step)
    if m.opset < 10:
        m.attributes = {"starts": starts, "ends": ends, "axes": axes}
        return m.sample(exact=True)
    m.fix(starts)
    m.fix(ends)
    m.fix([axis - len(shape) if m.maybe(0.3) and m.opset >= 11 else axis for axis in axes])
    if any(step != 1 for step in steps) or m.maybe():
        m.fix(steps)
    return m.sample(exact=True)


@makes("Pad Pad")
def _pad(m: Maker) -> Sample:
    shape = [m.whole(3, 5) for _ in range(m.whole(1, 4))]
    m.give(m.numbers(shape))
    mode = m.one_of("constant", "reflect", "edge", *(["wrap"] if m.opset >= 19 else []))
    axes = list(range(len(shape)))
    if m.opset >= 18 and m.maybe(0.3):
        axes = sorted(m.rng.permutation(len(shape))[: m.whole(1, len(shape))].tolist())
    pads = [m.whole(0, 2) for _ in [*axes, *axes]]
    if m.maybe(0.2) and mode in ("constant", "edge"):
        pads[0] = -1
    m.attributes["mode"] = m.one_of(mode, None if mode == "constant" else mode)
    if m.opset < 11:
        m.attributes |= {"pads": pads, "value": m.one_of(None, 1.5) if mode == "constant" else None}
        return m.sample(exact=True)
    m.fix(pads)
    if mode == "constant" and m.maybe():
        m.fix(np.float32(1.5), "float32")
    elif len(axes) < len(shape):
        m.skip()
    if len(axes) < len(shape):
        if len(m.inputs) == 2:
            m.skip()
        m.fix(axes)
    return m.sample(exact=True)


@makes("Expand", since=8)
def _expand(m: Maker) -> Sample:
    to = m.shape(1, 4)
    shape = m.broadcasting(to)
    m.give(m.numbers(shape))
    m.fix([1 if m.maybe(0.2) and index >= len(to) - len(shape) else size for index, size in enumerate(to)])
    return m.sample(exact=True)


@makes("Tile")
def _tile(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    m.give(m.numbers(shape))
    m.fix([m.whole(1, 3) for _ in shape])
    return m.sample(exact=True)


@makes("Gather Gather")
def _gather(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    axis = m.axis(len(shape))
    m.give(m.numbers(shape, dtype=m.one_of("float32", "int64", "int32", "uint8")))
    low = -shape[axis] if m.opset >= 11 else 0
    m.give(m.rng.integers(low, shape[axis], m.shape(0, 3)).astype(m.one_of("int32", "int64")))
    m.attributes["axis"] = m.one_of(axis, None if axis == 0 else axis)
    return m.sample(exact=True)


@makes("GatherElements", since=11)
def _gather_elements(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    axis = m.axis(len(shape))
    m.give(m.numbers(shape))
    sizes = [m.whole(1, size) for size in shape]
    sizes[axis] = m.whole(1, 6)
    m.give(m.rng.integers(-shape[axis], shape[axis], sizes).astype(m.one_of("int32", "int64")))
    m.attributes["axis"] = axis
    return m.sample(exact=True)


@makes("GatherND", since=11)
def _gather_nd(m: Maker) -> Sample:
    shape = m.shape(2, 4)
    batch = m.whole(0, 1) if m.opset >= 12 else 0
    depth = m.whole(1, len(shape) - batch)
    m.give(m.numbers(shape))
    sizes = [*shape[:batch], *m.shape(1, 2)]
    parts = [m.rng.integers(-size, size, sizes) for size in shape[batch : batch + depth]]
    m.give(np.stack(parts, -1).astype("int64"))
    if batch:
        m.attributes["batch_dims"] = batch
    return m.sample(exact=True)


@makes("ScatterElements", since=11)
def _scatter_elements(m: Maker) -> Sample:
    shape = m.shape(1, 3)
    axis = m.axis(len(shape))
    m.give(m.numbers(shape))
    sizes = list(shape)
    indices = np.stack([m.rng.permutation(shape[axis]) for _ in range(int(np.prod(sizes)) // shape[axis])])
    rest = [size for index, size in enumerate(shape) if index != axis % len(shape)]
    indices = np.moveaxis(indices.reshape(*rest, shape[axis]), -1, axis)
    m.give(np.where(m.rng.random(indices.shape) < 0.3, indices - shape[axis], indices).astype("int64"))
    m.give(m.numbers(shape))
    m.attributes["axis"] = axis
    return m.sample(exact=True)


@makes("ScatterND", since=11)
def _scatter_nd(m: Maker) -> Sample:
    shape = m.shape(1, 3)
    depth = m.whole(1, len(shape))
    m.give(m.numbers(shape))
    places = np.stack(np.unravel_index(m.rng.permutation(int(np.prod(shape[:depth]))), shape[:depth]), -1)
    count = m.whole(1, len(places))
    m.give(places[:count].astype("int64"))
    m.give(m.numbers([count, *shape[depth:]]))
    return m.sample(exact=True)


@makes("OneHot", since=9)
def _one_hot(m: Maker) -> Sample:
    shape = m.shape(1, 3)
    depth = m.whole(2, 5)
    m.give(m.rng.integers(-depth if m.opset >= 11 else 0, depth, shape).astype(np.int64))
    m.fix(depth)
    m.give(np.array([0.5, 2.0], np.float32))
    m.attributes["axis"] = m.one_of(None, m.whole(-len(shape) - 1, len(shape)))
    return m.sample(exact=True)


@makes("TopK")
def _top_k(m: Maker) -> Sample:
    shape = m.shape(1, 3)
    axis = m.axis(len(shape))
    m.give(m.rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32))
    count = m.whole(1, shape[axis])
    m.attributes["axis"] = axis
    if m.opset < 10:
        m.attributes["k"] = count
    else:
        m.fix([count])
    if m.opset >= 11:
        m.attributes["largest"] = m.one_of(None, 0, 1)
    return m.sample(2, exact=True)


@makes("DepthToSpace SpaceToDepth")
def _depth_to_space(m: Maker) -> Sample:
    block = m.whole(1, 3)
    if m.operator == "DepthToSpace":
        m.give(m.numbers([2, block * block * m.whole(1, 3), *m.shape(2, 2)]))
        if m.opset >= 11:
            m.attributes["mode"] = m.one_of(None, "DCR", "CRD")
    else:
        m.give(m.numbers([2, m.whole(1, 3), block * m.whole(1, 3), block * m.whole(1, 3)]))
    m.attributes["blocksize"] = block
    return m.sample(exact=True)


@makes("Trilu", since=14)
def _trilu(m: Maker) -> Sample:
    shape = m.shape(2, 4)
    m.give(m.numbers(shape))
    if m.maybe(0.6):
        m.fix(m.whole(-3, 3))
    m.attributes["upper"] = m.one_of(None, 0, 1)
    return m.sample(exact=True)


@makes("ReverseSequence", since=10)
def _reverse_sequence(m: Maker) -> Sample:
    steps, batch = m.whole(1, 5), m.whole(1, 4)
    turned = m.maybe()
    m.give(m.numbers([batch, steps, 3] if turned else [steps, batch, 3]))
    m.give(m.rng.integers(1, steps + 1, [batch]).astype(np.int64))
    m.attributes = {"batch_axis": 0, "time_axis": 1} if turned else {}
    return m.sample(exact=True)


@makes("EyeLike Shape Size ConstantOfShape", since=9)
def _about_shapes(m: Maker) -> Sample:
    if m.operator == "ConstantOfShape":
        m.fix(m.shape(1, 3))
        if m.maybe():
            m.attributes["value"] = onnx.numpy_helper.from_array(np.array([3], m.one_of("float32", "int64")))
        return m.sample(exact=True)
    m.give(m.numbers(m.shape(2, 2) if m.operator == "EyeLike" else m.shape(1, 3)))
    if m.operator == "EyeLike":
        m.attributes["k"] = m.one_of(None, -1, 1)
    if m.operator == "Shape" and m.opset >= 15:
        m.attributes = {"start": m.one_of(None, 0, -1), "end": m.one_of(None, -1, 9)}
    return m.sample(exact=True)
