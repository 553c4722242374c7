"""Operators of com.microsoft that are neither attention nor quantized, against ONNX Runtime's CPU."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from support.onnx.microsoft_cases import BOUNDS, SOFTWARE, Case, Chance, Makers
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

making = Makers()
FUSED: dict[str, list[float]] = {  # activations with parameters
    "Relu": [],
    "Tanh": [],
    "Sigmoid": [],
    "LeakyRelu": [0.2],
    "HardSigmoid": [0.3, 0.4],
}


# Activations.


@making(6)
def _gelu(chance: Chance) -> Case:
    return Case("Gelu", [chance.floats(chance.size(1, 4), 5)])


@making(6)
def _bias_gelu(chance: Chance) -> Case:
    return Case("BiasGelu", [chance.floats(chance.size(1, 4), 3, 5), chance.floats(5)])


@making(6)
def _fast_gelu(chance: Chance) -> Case:
    return Case("FastGelu", [chance.floats(chance.size(1, 4), 3, 5), chance.maybe(chance.floats(5))])


@making(6)
def _quick_gelu(chance: Chance) -> Case:
    return Case("QuickGelu", [chance.floats(chance.size(1, 4), 5)], chance.one({}, {"alpha": 0.7}))


# Products.


@making(24)
def _fused_matmul(chance: Chance) -> Case:
    rank, m, k, n = chance.size(2, 5), *(chance.size(1, 5) for _ in range(3))
    batch = [chance.size(1, 3) for _ in range(rank - 2)]
    attributes = {name: chance.flag() for name in ("transA", "transB")}
    attributes |= {name: chance.flag() for name in ("transBatchA", "transBatchB")} if rank > 2 else {}
    sides = []
    for name, rows, columns in (("A", m, k), ("B", k, n)):
        last = [columns, rows] if attributes[f"trans{name}"] else [rows, columns]
        turned = attributes.get(f"transBatch{name}", 0)
        sides.append(chance.floats(*([last[0], *batch, last[1]] if turned else [*batch, *last])))
    return Case("FusedMatMul", sides, attributes | chance.one({}, {"alpha": 0.3}))


@making(6)
def _transpose_matmul(chance: Chance) -> Case:
    a, b = chance.flag(), chance.flag()
    sides = [chance.floats(*((4, 3) if a else (3, 4))), chance.floats(*((5, 4) if b else (4, 5)))]
    return Case("TransposeMatMul", sides, {"transA": a, "transB": b, "alpha": 1.5})


@making(24)
def _fused_gemm(chance: Chance) -> Case:
    more: dict[str, list[float]] = {"Elu": [0.7], "Softplus": [], "Softsign": [], "ThresholdedRelu": [0.1]}
    name = chance.one(*FUSED, *more)
    names = ("activation_alpha", "activation_beta")
    parameters = dict(zip(names, (FUSED | more)[name], strict=False))
    a, b = chance.flag(), chance.flag()
    sides = [chance.floats(*((4, 3) if a else (3, 4))), chance.floats(*((5, 4) if b else (4, 5)))]
    c = chance.one(None, chance.floats(5), chance.floats(3, 1), chance.floats(3, 5))
    fields = {"transA": a, "transB": b, "alpha": 0.5, "beta": 2.0}
    return Case("FusedGemm", [*sides, c], {"activation": name, **parameters, **fields})


@making(32)
def _matmul_n_bits(chance: Chance) -> Case:
    bits, block, inner, columns = chance.one(2, 4, 8), chance.one(16, 32), chance.one(32, 40, 64), chance.size(1, 7)
    dtype = chance.one(np.float32, np.float32, np.float16) if bits == 4 else np.float32
    blocks = -(-inner // block)
    zeros = [None, chance.whole(np.uint8, columns, -(-blocks * bits // 8))]
    if bits != 8:  # ONNX Runtime's CPU has no others of 8 bits
        zeros.append((chance.floats(columns, blocks) * 3).astype(dtype))
    zero = chance.one(*zeros)
    known = chance.one((), (1,), (1, 2) if zero is None else (1, 2, 3))
    inputs = [
        chance.floats(*chance.one((3,), (2, 3), ()), inner, dtype=dtype),
        chance.whole(np.uint8, columns, blocks, block * bits // 8),
        chance.floats(columns, blocks, dtype=dtype),
        zero,
        None,
        chance.maybe(chance.floats(columns, dtype=dtype)),
    ]
    inputs[0] = inputs[0].reshape(-1, inner) if inputs[0].ndim == 1 else inputs[0]
    fields = {"K": inner, "N": columns, "bits": bits, "block_size": block}
    return Case("MatMulNBits", inputs, fields, known=known)


@making(24)
def _gather_block_quantized(chance: Chance) -> Case:
    """An embedding with rows of 64 numbers, and one or two dimensions of indices."""
    bits, block, rows = chance.one(4, 4, 8), chance.one(16, 32, 64), chance.size(3, 9)
    dtype = chance.one(np.float32, np.float16)
    blocks = 64 // block
    sizes = chance.one((chance.size(1, 4),), (2, chance.size(1, 3)))
    inputs = [
        chance.whole(np.uint8, rows, 64 * bits // 8),
        chance.below(rows, *sizes, dtype=chance.one(np.int32, np.int64)),
        chance.floats(rows, blocks, dtype=dtype),
        chance.maybe(chance.whole(np.uint8, rows, -(-blocks * bits // 8))),
    ]
    fields = {"bits": bits, "block_size": block, **chance.one({}, {"quantize_axis": -1, "gather_axis": 0})}
    return Case("GatherBlockQuantized", inputs, fields, known=chance.one((0, 2, 3), (0,)))


# Images, indices and shapes.


@making(24)
def _fused_conv(chance: Chance) -> Case:
    name = chance.one(*FUSED, "Clip", None)
    parameters = {**FUSED, "Clip": [-0.5, 0.5]}.get(name, [])
    group = chance.one(1, 2)
    x, w = chance.floats(2, 4, 5, 6), chance.floats(6, 4 // group, 3, 2)
    fields = {"strides": [1, chance.size(1, 2)], "pads": [1, 0, 1, chance.flag()], "group": group}
    out = (6 + 0 + fields["pads"][3] - 2) // fields["strides"][1] + 1
    b = chance.maybe(chance.floats(6))
    z = chance.floats(2, 6, 5, out) if b is not None and chance.flag() else None
    fields |= {"activation": name} if name else {}
    return Case("FusedConv", [x, w, b, z], fields | ({"activation_params": parameters} if parameters else {}))


@making(8)
def _conv_transpose_with_dynamic_pads(chance: Chance) -> Case:
    inputs = [chance.floats(1, 2, 4, 5), chance.floats(2, 3, 3, 3), np.array([1, 0, chance.flag(), 1])]
    fields = {"strides": [2, chance.size(1, 2)], "kernel_shape": [3, 3]}
    return Case("ConvTransposeWithDynamicPads", [*inputs, chance.maybe(chance.floats(3))], fields, known=(2,))


@making(12)
def _nhwc_max_pool(chance: Chance) -> Case:
    x = chance.whole(chance.one(np.int8, np.uint8), 2, 6, 7, 3)
    fields = {"kernel_shape": [2, 3], "strides": [chance.size(1, 2), 2], "ceil_mode": chance.flag()}
    return Case("NhwcMaxPool", [x], fields | chance.one({"pads": [0, 1, 1, 0]}, {"auto_pad": "SAME_UPPER"}))


@making(16)
def _crop_and_resize(chance: Chance) -> Case:
    rois = chance.numbers.uniform(-0.2, 1.2, (4, 4)).astype(np.float32)
    crop = np.array([chance.size(1, 4), chance.size(1, 5)], np.int32)
    inputs = [chance.floats(2, 3, 5, 6), rois, chance.below(2, 4), crop]
    fields = {"mode": chance.one("bilinear", "nearest"), "extrapolation_value": 0.5}
    return Case("CropAndResize", inputs, fields, known=(3,))


@making(8)
def _grid_sample(chance: Chance) -> Case:
    grid = chance.numbers.uniform(-1.3, 1.3, (2, 3, 4, 2)).astype(np.float32)
    fields = {
        "mode": chance.one("bilinear", "nearest", "bicubic"),
        "padding_mode": chance.one("zeros", "border", "reflection"),
        "align_corners": chance.flag(),
    }
    return Case("GridSample", [chance.floats(2, 3, 5, 4), grid], fields)


@making(6)
def _gather_nd(chance: Chance) -> Case:
    dtype = chance.one(np.int32, np.int64)
    return Case("GatherND", [chance.floats(3, 4, 5), chance.below(3, 2, chance.size(1, 3), dtype=dtype)])


@making(6)
def _pad(chance: Chance) -> Case:
    mode = chance.one("constant", "reflect", "edge")
    value = np.array([1.5], np.float32) if mode == "constant" else None
    pads = chance.below(3, *chance.one((4,), (1, 4)), dtype=np.int64)
    return Case("Pad", [chance.floats(4, 5), pads, value], {"mode": mode}, known=(1, 2) if value is not None else (1,))


@making(6)
def _trilu(chance: Chance) -> Case:
    inputs = [chance.floats(2, 4, 5), np.array(chance.size(-3, 3))]
    return Case("Trilu", inputs, {"upper": chance.flag()}, known=(1,))


@making(6)
def _range(chance: Chance) -> Case:
    dtype = chance.one(np.int16, np.int32, np.float32)
    inputs = [dtype(1), dtype(chance.size(4, 9)), chance.one(None, dtype(2))]
    inputs = [None if each is None else np.array(each) for each in inputs]
    return Case("Range", inputs, known=(0, 1) if inputs[2] is None else (0, 1, 2))


@making(4)
def _expand_dims(chance: Chance) -> Case:
    return Case("ExpandDims", [chance.floats(2, 3), np.array(chance.size(-3, 2), np.int32)], known=(1,))


# Normalizations.


@making(12)
def _layer_normalization(chance: Chance) -> Case:
    axis = chance.size(-3, 2)
    sizes = (2, 3, 4)[axis:]
    bias = chance.floats(*sizes)
    fields = {"axis": axis, "epsilon": 1e-3}
    inputs = [chance.floats(2, 3, 4), chance.floats(*sizes), bias]
    outputs = chance.one((True,), (True, True, True), (True, False, True))
    return Case("LayerNormalization", inputs, fields, domain="", opset=chance.size(9, 16), outputs=outputs)


@making(12)
def _simplified_layer_normalization(chance: Chance) -> Case:
    dtype = chance.one(np.float32, np.float16)
    inputs = [chance.floats(2, 3, 4, dtype=dtype), chance.floats(4, dtype=dtype)]
    outputs = chance.one((True,), (True, True))
    return Case(
        "SimplifiedLayerNormalization", inputs, {"axis": -1}, domain="", opset=chance.size(9, 21), outputs=outputs
    )


# Which outputs of a sum's normalization are asked for: y, its mean, its inverse deviation, the sum.
SUMS = [(True,), (True, False, False, True), (True, True, True, True), (True, True), (True, False, True)]


@making(16)
def _skip_layer_normalization(chance: Chance) -> Case:
    size = chance.one(1, 1e-4)  # small numbers show the epsilon
    skip = chance.floats(*chance.one((2, 3, 8), (1, 3, 8), (3, 8))) * np.float32(size)
    inputs = [chance.floats(2, 3, 8) * np.float32(size), skip, chance.floats(8)]
    inputs += [chance.maybe(chance.floats(8)), chance.maybe(chance.floats(8) * np.float32(size))]
    fields, outputs = chance.one({}, {"epsilon": 1e-3}), chance.one(*SUMS)
    return Case("SkipLayerNormalization", inputs, fields, outputs, bound=1e-4 if size < 1 else None)


@making(16)
def _skip_simplified_layer_normalization(chance: Chance) -> Case:
    dtype = chance.one(np.float32, np.float16)
    inputs = [chance.floats(2, 3, 8, dtype=dtype), chance.floats(2, 3, 8, dtype=dtype), chance.floats(8, dtype=dtype)]
    inputs.append(chance.maybe(chance.floats(8, dtype=dtype)))
    fields, outputs = chance.one({}, {"epsilon": 1e-3}), chance.one(*SUMS)
    bound = BOUNDS[np.dtype(dtype).name]  # the float32 deviation, too, is that of a rounded sum
    return Case("SkipSimplifiedLayerNormalization", inputs, fields, outputs, bound=bound)


@making(16)
def _embed_layer_normalization(chance: Chance) -> Case:
    segments = chance.flag()
    mask, places = chance.maybe(chance.below(2, 2, 3)), chance.one(None, chance.below(5, 1, 3), chance.below(5, 2, 3))
    inputs = [
        chance.below(7, 2, 3),
        chance.below(2, 2, 3) if segments else None,
        chance.floats(7, 8),
        chance.floats(5, 8),
        chance.floats(2, 8) if segments else None,
        chance.floats(8),
        chance.floats(8),
        mask,
        places,
    ]
    fields = chance.one({}, {"epsilon": 1e-3})
    return Case("EmbedLayerNormalization", inputs, fields, chance.one((True, True), (True, True, True)))


@pytest.mark.parametrize("name", list(making))
@pytest.mark.usefixtures("directml_path")
def test_random_cases_give_what_onnx_runtime_gives(name: str) -> None:
    making.check(name)


# Operators that ONNX Runtime's CPU lacks, against calculations in NumPy.

X = np.random.default_rng(1).normal(size=(2, 4, 6)).astype(np.float32)
GAMMA, BETA = np.random.default_rng(2).normal(size=(2, 6)).astype(np.float32)


def grouped(x: Any, gamma: Any, beta: Any, groups: int, epsilon: float) -> Any:
    """Group normalization of {N, H, W, C}."""
    split = x.astype(np.float64).reshape(*x.shape[:3], groups, -1)
    mean, variance = (each(split, axis=(1, 2, 4), keepdims=True) for each in (np.mean, np.var))
    return ((split - mean) / np.sqrt(variance + epsilon)).reshape(x.shape) * gamma + beta


@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_operators_of_other_processors(device: DeviceName) -> None:
    spectrum = np.fft.rfft(X.astype(np.float64))
    parts = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    for case, expected in [
        (Case("BiasAdd", [X, GAMMA, X * 2]), X * 3 + GAMMA),
        (Case("Rfft", [X]), parts),
        (Case("Irfft", [parts], {"signal_ndim": 1}), X),
    ]:
        case.check([expected], device)


@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_a_product_with_an_activation_is_that_of_onnx_runtime_s_product(device: DeviceName) -> None:
    """ONNX Runtime computes both in one on DirectML only."""
    chance = Chance(7)
    sides = [chance.floats(2, 4, 3), chance.floats(2, 4, 5)]
    attributes = {"transA": 1, "alpha": 0.5}
    (product,) = Case("FusedMatMul", sides, attributes).expected()
    wanted = np.where(product < 0, np.float32(0.2) * product, product)
    activation = {"activation": "LeakyRelu", "activation_alpha": 0.2}
    Case("FusedMatMulActivation", sides, attributes | activation).check([wanted], device)


def test_a_product_with_another_activation_is_refused() -> None:
    sides = [np.ones((2, 2), np.float32)] * 2
    with raises(dg.ModelError, "unsupported", node="n", field="activation", got="Softmax"):
        Case("FusedMatMulActivation", sides, {"activation": "Softmax", "activation_axis": 1}).graph()


@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_the_second_half_s_gelu_times_the_first(device: DeviceName) -> None:
    total = X + GAMMA
    (gelu,) = Case("Gelu", [np.ascontiguousarray(total[..., 3:])]).expected()
    Case("BiasSplitGelu", [X, GAMMA]).check([total[..., :3] * gelu], device)


@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("device", ["reference", "cpu", SOFTWARE])
@pytest.mark.usefixtures("directml_path")
def test_group_normalizations(device: DeviceName, last: int, activation: int) -> None:
    image, fields = X.reshape(2, 2, 2, 6), {"groups": 3, "activation": activation, "channels_last": last}

    def laid_out(x: Any) -> Any:
        return np.ascontiguousarray(x if last else x.transpose(0, 3, 1, 2))

    def wanted(x: Any) -> Any:
        made = grouped(x, GAMMA, BETA, 3, 1e-5)
        return laid_out((made / (1 + np.exp(-made)) if activation else made).astype(np.float32))

    Case("GroupNorm", [laid_out(image), GAMMA, BETA], fields).check([wanted(image)], device)
    skip = np.ascontiguousarray(image[:, 0, 0])
    total = image + skip[:, None, None] + BETA
    case = Case("SkipGroupNorm", [laid_out(image), GAMMA, BETA, skip, BETA], fields, (True, True))
    case.check([wanted(total), laid_out(total)], device)


# Levels and refusals.


def test_weights_of_4_bits_stay_so_where_the_level_has_them() -> None:
    chance = Chance(1)
    inputs = [chance.floats(2, 32), chance.whole(np.uint8, 5, 2, 8), chance.floats(5, 2)]
    case = Case("MatMulNBits", inputs, {"K": 32, "N": 5, "bits": 4, "block_size": 16}, known=(1,))
    kept, unpacked = case.graph(dg.FeatureLevel.V6_3), case.graph(dg.FeatureLevel.V6_2)
    assert "uint4" in {str(node.desc.dtype) for node in kept.nodes if hasattr(node, "desc")}
    assert "uint4" not in {str(node.desc.dtype) for node in unpacked.nodes if hasattr(node, "desc")}
    for graph in (kept, unpacked):
        (result,) = graph.compile("reference").run({"x0": inputs[0], "x2": inputs[2]}).values()
        np.testing.assert_allclose(result, case.expected()[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("block", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.usefixtures("directml_path")
def test_rows_are_rounded_to_8_bits_as_by_onnx_runtime(block: int, has_zeros: bool) -> None:
    """accuracy_level 4: what is left are the roundings of sums, far below those of A."""
    chance = Chance(block)
    depth, columns = 3 * block - 8, 21
    packed, scales = chance.whole(np.uint8, columns, 3, block // 2), chance.floats(columns, 3)
    inputs: list[Any] = [chance.floats(5, depth), packed, scales]
    if has_zeros:
        inputs.append(chance.whole(np.uint8, columns, 2))
    inputs[0][1, :block] = 0  # a block without a largest number
    fields = {"K": depth, "N": columns, "bits": 4, "block_size": block, "accuracy_level": 4}
    case = Case("MatMulNBits", inputs, fields, known=(1, 2, 3)[: 2 + has_zeros])
    (expected,) = case.expected()
    (exact,) = Case("MatMulNBits", inputs, fields | {"accuracy_level": 0}).expected()
    assert np.abs(expected - exact).max() > 1e-3 * np.abs(exact).max()
    assert "uint8" not in {str(node.desc.dtype) for node in case.graph().nodes if hasattr(node, "desc")}
    devices: list[DeviceName] = ["reference", "cpu", SOFTWARE]
    for device in devices:
        (got,) = case.graph().compile(device).run({"x0": inputs[0]}).values()
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 * np.abs(exact).max())


_BITS = {"K": 32, "N": 5, "bits": 4, "block_size": 16}
_PACKED: list[Any] = [np.zeros((2, 32), np.float32), np.zeros((5, 2, 8), np.uint8), np.ones((5, 2), np.float32)]
_TABLE: list[Any] = [np.zeros((3, 8), np.uint8), np.zeros(2, np.int32), np.ones((3, 1), np.float32)]
REFUSED = {
    "data": Case("GatherBlockQuantized", [_TABLE[0][None], *_TABLE[1:]], {"block_size": 16}),
    "gather_axis": Case("GatherBlockQuantized", _TABLE, {"block_size": 16, "gather_axis": 1}),
    "quantize_axis": Case("GatherBlockQuantized", _TABLE, {"block_size": 16, "quantize_axis": 0}),
    "block_size": Case("GatherBlockQuantized", _TABLE, {"block_size": 32}),
    "bits": Case("MatMulNBits", _PACKED, _BITS | {"bits": 3}),
    "accuracy_level": Case("MatMulNBits", _PACKED, _BITS | {"accuracy_level": 5}),
    "weight_prepacked": Case("MatMulNBits", _PACKED, _BITS | {"weight_prepacked": 1}),
    "g_idx": Case("MatMulNBits", [*_PACKED, None, np.arange(32, dtype=np.int32)[::-1] // 16], _BITS, known=(4,)),
    "block_size, K": Case("MatMulNBits", _PACKED, _BITS | {"block_size": 0}),
    "A": Case("MatMulNBits", [np.zeros((2, 31), np.float32), *_PACKED[1:]], _BITS),
    "activation": Case("FusedGemm", [X[0], X[0].T.copy()], {"activation": "Erf"}),
    "crop_size": Case(
        "CropAndResize", [X[None], X[0, :, :4], np.zeros(4, np.int32), np.zeros(2, np.int32)], known=(3,)
    ),
    "mode": Case(
        "CropAndResize", [X[None], X[0, :, :4], np.zeros(4, np.int32), np.ones(2, np.int32)], {"mode": "x"}, known=(3,)
    ),
    "normalized": Case("Rfft", [X], {"normalized": 1}),
    "X": Case("BiasSplitGelu", [X[..., :5], GAMMA[:5]]),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_has_no_counterpart_is_refused_by_its_field(field: str) -> None:
    with pytest.raises(dg.ModelError) as caught:
        REFUSED[field].graph()
    assert [problem.field for problem in caught.value.problems] == [field]


@pytest.mark.parametrize("operator", ["Unique", "NhwcConv", "Inverse", "BeamSearch", "PackedAttention"])
def test_operators_without_a_counterpart_are_named(operator: str) -> None:
    with pytest.raises(dg.ModelError, match=rf"there is no counterpart of com\.microsoft\.{operator}"):
        Case(operator, [X]).graph()


@pytest.mark.parametrize(
    ("operator", "inputs", "index"),
    [
        ("CropAndResize", [X[None], X[0, :, :4], np.zeros(4, np.int32), np.ones(2, np.int32)], 3),
        ("ConvTransposeWithDynamicPads", [X[None], X[None], np.zeros(4, np.int64)], 2),
        ("ExpandDims", [X, np.array(0, np.int32)], 1),
    ],
)
def test_values_that_must_be_known_are_asked_for(operator: str, inputs: list[Any], index: int) -> None:
    with pytest.raises(dg.ModelError) as caught:
        Case(operator, inputs).graph()
    problem = next(each for each in caught.value.problems if each.code == "unknown-value")
    assert (problem.hint or "").startswith(f"values={{'x{index}': …}}")


def test_a_model_s_file_is_read(tmp_path: pathlib.Path) -> None:
    case = Case("QuickGelu", [X])
    path = tmp_path / "model.onnx"
    path.write_bytes(case.model().SerializeToString())
    (result,) = dg.load(path).compile("cpu").run({"x0": X}).values()
    np.testing.assert_allclose(result, case.expected()[0], rtol=1e-5, atol=1e-6)
