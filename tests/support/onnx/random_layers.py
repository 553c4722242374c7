"""Rules for random models: layers of networks, products, poolings, resizing."""

from __future__ import annotations

import numpy as np
from support.onnx.random_models import Maker, Sample, makes


@makes("Softmax LogSoftmax Hardmax")
def _softmax(m: Maker) -> Sample:
    shape = m.shape(1)
    m.give(m.numbers(shape))
    if len(shape) > 1 or m.opset >= 13:
        m.attributes["axis"] = m.one_of(None, m.axis(len(shape)))
    else:
        m.attributes["axis"] = 0
    return m.sample()


@makes("MatMul")
def _matmul(m: Maker) -> Sample:
    rows, depth, columns = m.whole(1, 5), m.whole(1, 6), m.whole(1, 5)
    batch = m.shape(0, 2, 3)
    a, b = [*m.broadcasting(batch), rows, depth], [*batch, depth, columns]
    if m.maybe():
        a, b = [*batch, rows, depth], [*m.broadcasting(batch), depth, columns]
    if m.maybe(0.15):
        a = [depth]
    if m.maybe(0.15):
        b = [depth]
    m.give(m.numbers(a))
    m.give(m.numbers(b))
    return m.sample()


@makes("Gemm")
def _gemm(m: Maker) -> Sample:
    rows, depth, columns = m.whole(1, 5), m.whole(1, 6), m.whole(1, 5)
    turns = m.one_of(None, 0, 1), m.one_of(None, 0, 1)
    m.give(m.numbers([depth, rows] if turns[0] else [rows, depth]))
    m.give(m.numbers([columns, depth] if turns[1] else [depth, columns]))
    if m.opset < 11 or m.maybe(0.7):
        m.give(m.numbers(m.one_of([rows, columns], [columns], [1, columns], [rows, 1], [1], [])))
    m.attributes = {
        "transA": turns[0],
        "transB": turns[1],
        "alpha": m.one_of(None, 0.5),
        "beta": m.one_of(None, 2.0, 0.0),
    }
    return m.sample()


def _window(m: Maker, spatial: list[int], kernel: list[int], *, dilated: bool = True) -> None:
    """Attributes of a window that fits."""
    m.attributes["strides"] = m.one_of(None, [m.whole(1, 3) for _ in spatial])
    dilations = [m.whole(1, 2) for _ in spatial] if dilated and m.maybe(0.3) else None
    m.attributes["dilations"] = dilations
    if m.maybe(0.3):
        m.attributes["auto_pad"] = m.one_of("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
        if m.attributes["auto_pad"].startswith("SAME"):
            # ONNX Runtime reads elsewhere where a stride is longer than the window.
            strides = m.attributes["strides"] or kernel
            m.attributes |= {"dilations": None, "strides": [min(each) for each in zip(strides, kernel, strict=True)]}
    elif m.maybe(0.7):
        m.attributes["pads"] = [m.whole(0, size - 1) for size in [*kernel, *kernel]]


@makes("Conv Conv Conv")
def _conv(m: Maker) -> Sample:
    rank = m.one_of(1, 2, 2, 3)
    group = m.one_of(1, 1, 2, 3)
    inner, outer = m.whole(1, 3), m.whole(1, 3)
    kernel = [m.whole(1, 3) for _ in range(rank)]
    spatial = [m.whole(6, 9) for _ in range(rank)]
    m.give(m.numbers([m.whole(1, 2), group * inner, *spatial]))
    m.give(m.numbers([group * outer, inner, *kernel]))
    if m.maybe():
        m.give(m.numbers([group * outer]))
    _window(m, spatial, kernel)
    m.attributes |= {"group": m.one_of(group, group if group > 1 else None)}
    m.attributes["kernel_shape"] = m.one_of(None, kernel)
    return m.sample()


@makes("ConvTranspose ConvTranspose")
def _conv_transpose(m: Maker) -> Sample:
    rank = m.one_of(1, 2, 2, 3)
    group = m.one_of(1, 1, 2)
    inner, outer = m.whole(1, 3), m.whole(1, 3)
    kernel = [m.whole(1, 3) for _ in range(rank)]
    spatial = [m.whole(2, 5) for _ in range(rank)]
    strides = [m.whole(1, 3) for _ in range(rank)]
    m.give(m.numbers([m.whole(1, 2), group * inner, *spatial]))
    m.give(m.numbers([group * inner, outer, *kernel]))
    if m.maybe():
        m.give(m.numbers([group * outer]))
    m.attributes = {"strides": strides, "group": group, "kernel_shape": m.one_of(None, kernel)}
    way = m.one_of("pads", "auto", "shape", "none")
    if way == "pads":
        m.attributes["pads"] = [m.whole(0, (size - 1) // 2) for size in [*kernel, *kernel]]
        if m.maybe():
            m.attributes["output_padding"] = [m.whole(0, stride - 1) for stride in strides]
    elif way == "auto":
        m.attributes["auto_pad"] = m.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
        m.attributes["strides"] = [min(each) for each in zip(strides, kernel, strict=True)]
        if m.maybe():
            m.attributes["output_padding"] = [m.whole(0, stride - 1) for stride in m.attributes["strides"]]
        if m.attributes["auto_pad"] != "VALID" and m.maybe(0.3):
            m.attributes["dilations"] = [m.whole(1, 2) for _ in strides]
    elif way == "shape":
        m.attributes["output_shape"] = [
            (size - 1) * stride + length - m.whole(0, (length - 1) // 2) * 2
            for size, stride, length in zip(spatial, strides, kernel, strict=True)
        ]
    return m.sample()


@makes("MaxPool MaxPool AveragePool AveragePool LpPool")
def _pool(m: Maker) -> Sample:
    rank = m.one_of(1, 2, 2, 3)
    kernel = [m.whole(1, 3) for _ in range(rank)]
    spatial = [m.whole(6, 9) for _ in range(rank)]
    m.give(m.numbers([m.whole(1, 2), m.whole(1, 3), *spatial]))
    first = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[m.operator]
    _window(m, spatial, kernel, dilated=m.opset >= first)
    m.attributes["kernel_shape"] = kernel
    if m.opset >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[m.operator] and "auto_pad" not in m.attributes:
        m.attributes["ceil_mode"] = m.one_of(None, 0, 1)
    if m.operator == "AveragePool":
        m.attributes["count_include_pad"] = m.one_of(None, 0, 1)
    if m.operator == "LpPool":
        m.attributes["p"] = m.one_of(None, 1, 2)
    return m.sample(m.one_of(1, 2) if m.operator == "MaxPool" and m.opset >= 8 else 1)


@makes("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def _global_pool(m: Maker) -> Sample:
    m.opset = min(m.opset, 21)  # the newest that ONNX Runtime has of each
    m.give(m.numbers([2, 3, *m.shape(1, 3)]))
    return m.sample()


@makes("BatchNormalization")
def _batch_normalization(m: Maker) -> Sample:
    channels = m.whole(1, 4)
    m.give(m.numbers([2, channels, *m.shape(0, 3)]))
    for kind in ("", "", "", "positive"):
        m.give(m.numbers([channels], kind))
    m.attributes["epsilon"] = m.one_of(None, 1e-3)
    return m.sample()


@makes("InstanceNormalization")
def _instance_normalization(m: Maker) -> Sample:
    channels = m.whole(1, 4)
    m.give(m.numbers([2, channels, *m.shape(0, 2, 6), m.whole(3, 6)]))
    m.give(m.numbers([channels]))
    m.give(m.numbers([channels]))
    m.attributes["epsilon"] = m.one_of(None, 1e-3)
    return m.sample()


@makes("LayerNormalization", since=17)
def _layer_normalization(m: Maker) -> Sample:
    shape = m.shape(1, 4)
    axis = m.axis(len(shape))
    m.give(m.numbers(shape))
    m.give(m.numbers(shape[axis:]))
    if m.maybe():
        m.give(m.numbers(shape[axis:]))
    m.attributes = {"axis": axis, "epsilon": m.one_of(None, 1e-3)}
    return m.sample()


@makes("GroupNormalization", since=21)
def _group_normalization(m: Maker) -> Sample:
    groups, each = m.whole(1, 3), m.whole(1, 3)
    m.give(m.numbers([2, groups * each, *m.shape(1, 2)]))
    m.give(m.numbers([groups * each]))
    m.give(m.numbers([groups * each]))
    m.attributes = {"num_groups": groups, "epsilon": m.one_of(None, 1e-3)}
    return m.sample()


@makes("LRN")
def _lrn(m: Maker) -> Sample:
    m.give(m.numbers([2, m.whole(1, 6), *m.shape(2, 2)]))
    m.attributes = {"size": m.one_of(1, 3, 5), "alpha": m.one_of(None, 0.1), "bias": m.one_of(None, 2.0)}
    return m.sample()


@makes("LpNormalization")
def _lp_normalization(m: Maker) -> Sample:
    shape = m.shape(1)
    m.give(m.numbers(shape))
    m.attributes = {"p": m.one_of(None, 1, 2), "axis": m.one_of(None, m.axis(len(shape)))}
    return m.sample()


@makes("Resize Resize Resize", since=10)
def _resize(m: Maker) -> Sample:
    shape = [m.whole(1, 2), m.whole(1, 2), *(m.whole(2, 6) for _ in range(m.one_of(1, 2, 2, 3)))]
    spatial = shape[2:]
    m.give(m.numbers(shape))
    to = [m.whole(1, 9) for _ in spatial]
    scales = [1.0, 1.0, *(new / old for new, old in zip(to, spatial, strict=True))]
    if m.opset == 10:
        m.fix(scales, "float32")
        m.attributes["mode"] = m.one_of(None, "nearest", "linear") if len(spatial) < 3 else "nearest"
        return m.sample()
    mode = m.one_of("nearest", "linear", "linear", *(["cubic"] if len(spatial) == 2 else []))
    m.attributes["mode"] = mode
    m.attributes["coordinate_transformation_mode"] = m.one_of(
        None, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"
    )
    if mode == "nearest":
        m.attributes["nearest_mode"] = m.one_of(None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        m.attributes["cubic_coeff_a"] = m.one_of(None, -0.5)
        m.attributes["exclude_outside"] = m.one_of(None, 0, 1)
    if m.opset >= 18 and mode != "nearest" and m.maybe(0.3):
        m.attributes["antialias"] = 1
    m.fix([], "float32")
    # Where float32 scales decide a tie, DirectML rounds otherwise.
    by_sizes = mode == "nearest" and m.attributes["coordinate_transformation_mode"] == "align_corners"
    if m.maybe() and not by_sizes:
        m.fix(scales, "float32")
    else:
        m.fix([], "float32") if m.opset < 13 else m.skip()
        m.fix([*shape[:2], *to])
    return m.sample()


@makes("Upsample", since=9)
def _upsample(m: Maker) -> Sample:
    m.opset = 9
    m.give(m.numbers([1, 2, *m.shape(2, 2)]))
    m.fix([1.0, 1.0, m.whole(1, 3), m.whole(1, 3)], "float32")
    m.attributes["mode"] = m.one_of(None, "nearest", "linear")
    return m.sample()


@makes("LSTM GRU RNN")
def _recurrent(m: Maker) -> Sample:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[m.operator]
    steps, batch, numbers, hidden = m.whole(1, 4), m.whole(1, 3), m.whole(1, 4), m.whole(1, 4)
    direction = m.one_of(None, "forward", "reverse", "bidirectional")
    directions = 2 if direction == "bidirectional" else 1
    m.give(m.numbers([steps, batch, numbers]))
    m.give(m.numbers([directions, gates * hidden, numbers]))
    m.give(m.numbers([directions, gates * hidden, hidden]))
    if m.maybe():
        m.give(m.numbers([directions, 2 * gates * hidden]))
    else:
        m.skip()
    if m.maybe(0.3):
        m.give(m.rng.integers(1, steps + 1, [batch]).astype(np.int32))
    else:
        m.skip()
    states = 2 if m.operator == "LSTM" else 1
    if m.maybe():
        for _ in range(states):
            m.give(m.numbers([directions, batch, hidden]))
    elif m.operator == "LSTM" and m.maybe(0.3):
        m.skip()
        m.skip()
        m.give(m.numbers([directions, 3 * hidden]))
    m.attributes = {"direction": direction, "hidden_size": hidden}
    if m.operator == "GRU":
        m.attributes["linear_before_reset"] = m.one_of(None, 0, 1)
    if m.maybe(0.2):
        m.attributes["clip"] = 0.5
    return m.sample(1 + states)


@makes("Einsum", since=12)
def _einsum(m: Maker) -> Sample:
    a, b, c, d = (m.whole(1, 4) for _ in range(4))
    equation, shapes = m.one_of(
        ("ij,jk->ik", [[a, b], [b, c]]),
        ("bij,bjk->bik", [[d, a, b], [d, b, c]]),
        ("bhid,bhjd->bhij", [[d, a, b, c], [d, a, c, c]]),
        ("ij->ji", [[a, b]]),
        ("ij->i", [[a, b]]),
        ("i,j->ij", [[a], [b]]),
        ("...ij,...jk->...ik", [[d, a, b], [d, b, c]]),
        ("ij,ij->", [[a, b], [a, b]]),
        ("ii->i", [[a, a]]),
        ("bc,bcd->bd", [[a, b], [a, b, c]]),
        ("ij,jk", [[a, b], [b, c]]),
        ("abc,cd,de->abe", [[a, b, c], [c, d], [d, a]]),
    )
    for shape in shapes:
        m.give(m.numbers(shape))
    m.attributes["equation"] = equation
    return m.sample()


@makes("MatMulInteger", since=10)
def _matmul_integer(m: Maker) -> Sample:
    rows, depth, columns = m.whole(1, 5), m.whole(1, 6), m.whole(1, 5)
    batch = m.shape(0, 2, 3)
    kind = m.one_of("uint8", "int8")
    m.give(m.numbers([*batch, rows, depth], dtype=kind))
    several = m.maybe()
    m.give(m.numbers([*(batch if several else []), depth, columns], dtype=kind))
    if m.maybe():
        m.give(np.array(2, kind))
        if m.maybe():
            m.give(m.rng.integers(0, 4, [] if several else m.one_of([], [columns])).astype(kind))
    return m.sample(exact=True)


@makes("ConvInteger", since=10)
def _conv_integer(m: Maker) -> Sample:
    kernel = [m.whole(1, 3), m.whole(1, 3)]
    spatial = [m.whole(6, 9), m.whole(6, 9)]
    m.give(m.numbers([1, 2, *spatial], dtype="uint8"))
    m.give(m.numbers([3, 2, *kernel], dtype="uint8"))
    if m.maybe():
        m.give(np.array(2, np.uint8))
        if m.maybe():
            m.give(np.array(1, np.uint8))
    _window(m, spatial, kernel)
    return m.sample(exact=True)


@makes("RoiAlign RoiAlign", since=10)
def _roi_align(m: Maker) -> Sample:
    """Half of them with corners in quarters: their samples meet the edges exactly."""
    m.opset = min(m.opset, 16)  # the newest that ONNX Runtime has
    batch, height, width, regions = m.whole(1, 2), m.whole(1, 8), m.whole(1, 8), m.whole(1, 9)
    half = m.opset == 16 and m.maybe()
    samples = m.whole(0, 3)
    low = m.rng.uniform(-3, max(height, width) + 2, (regions, 2))
    high = low + m.rng.uniform(-1, max(height, width) + 4, (regions, 2))
    if half and not samples:  # ONNX Runtime fails for inverted ones
        high = np.maximum(low, high)
    corners = np.concatenate([low, high], 1)
    scale = m.one_of(1.0, 0.25, 0.3)
    corners = np.round(corners * 4) / 4 if m.maybe() and scale != 0.3 else corners
    m.give(m.numbers([batch, m.whole(1, 3), height, width]))
    m.give((corners / scale).astype(np.float32))
    m.give(m.rng.integers(0, batch, regions))
    m.attributes = {
        "output_height": m.one_of(None, m.whole(1, 4)),
        "output_width": m.one_of(None, m.whole(1, 4)),
        "sampling_ratio": m.one_of(samples, None if samples == 0 else samples),
        "spatial_scale": m.one_of(scale, None if scale == 1 else scale),
    }
    if m.opset == 16:
        m.attributes["coordinate_transformation_mode"] = "half_pixel" if half else "output_half_pixel"
    return m.sample()


@makes("GridSample", since=16)
def _grid_sample(m: Maker) -> Sample:
    m.give(m.numbers([1, 2, m.whole(2, 5), m.whole(2, 5)]))
    m.give(np.tanh(m.numbers([1, m.whole(1, 4), m.whole(1, 4), 2])).astype(np.float32) * 1.2)
    linear, cubic = ("linear", "cubic") if m.opset >= 20 else ("bilinear", "bicubic")
    m.attributes = {
        "mode": m.one_of(None, linear, "nearest", cubic),
        "padding_mode": m.one_of(None, "zeros", "border", "reflection"),
        "align_corners": m.one_of(None, 0, 1),
    }
    return m.sample()
