"""Names in other libraries for operators, fields and devices: data for hints and documentation.

None of these names is an alias in graphs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

LIBRARIES = {"numpy": "NumPy", "torch": "PyTorch", "onnx": "ONNX", "webnn": "WebNN", "others": "TensorFlow and others"}


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """The equivalent of a function of another library.

    Attributes:
        operator: its name here; empty where DirectML has no such operator.
        fields: the fields with which it does the same.
        instead: what to do without an operator, or what else to know; a phrase.
        numpy, torch, onnx, webnn, others: the names in these libraries, separated by spaces.
    """

    operator: str
    fields: Mapping[str, object] = dataclasses.field(default_factory=dict)
    instead: str = ""
    numpy: str = ""
    torch: str = ""
    onnx: str = ""
    webnn: str = ""
    others: str = ""

    def names(self, library: str) -> list[str]:
        """The names in a library."""
        names: str = getattr(self, library)
        return names.split()


def _reduce(function: str, **names: str) -> Entry:
    return Entry("reduce", {"function": function}, **names)


def _fill(value: int, **names: str) -> Entry:
    return Entry("fill_value_constant", {"value": value}, **names)


OPERATORS = (
    # Arithmetic.
    Entry("abs", numpy="absolute fabs", others="magnitude"),
    Entry("subtract", torch="sub", onnx="Sub", webnn="sub"),
    Entry("multiply", torch="mul", onnx="Mul", webnn="mul"),
    Entry("divide", numpy="true_divide", torch="div", onnx="Div", webnn="div"),
    Entry("negate", numpy="negative", torch="neg", onnx="Neg", webnn="neg"),
    Entry("recip", numpy="reciprocal", torch="reciprocal", onnx="Reciprocal", webnn="reciprocal"),
    Entry("pow", numpy="power", others="float_power", webnn="pow"),
    Entry("modulus_floor", numpy="mod remainder", torch="remainder", onnx="Mod", others="floormod"),
    Entry("modulus_truncate", numpy="fmod", torch="fmod"),
    Entry("max", numpy="maximum fmax", torch="maximum", onnx="Max", webnn="max"),
    Entry("min", numpy="minimum fmin", torch="minimum", onnx="Min", webnn="min"),
    Entry("clip", torch="clamp", webnn="clamp", others="clip_by_value"),
    Entry("multiply", instead="with the same tensor twice", numpy="square", torch="square"),
    Entry("recip", instead="of the result of sqrt", torch="rsqrt"),
    Entry("exp", instead="of the input times ln(2)", numpy="exp2", torch="exp2"),
    Entry("exp", instead="then subtract 1", numpy="expm1", torch="expm1"),
    Entry("log", instead="then divide by ln(2) or ln(10)", numpy="log2 log10", torch="log2 log10"),
    Entry("log", instead="of the input plus 1", numpy="log1p", torch="log1p"),
    Entry("round", numpy="rint around"),
    Entry("round", {"rounding_mode": "toward_zero"}, numpy="trunc fix", torch="trunc"),
    Entry("divide", instead="then floor", numpy="floor_divide", torch="floor_divide"),
    Entry("atan_yx", numpy="arctan2 atan2", torch="atan2"),
    Entry("acos", numpy="arccos"),
    Entry("asin", numpy="arcsin"),
    Entry("atan", numpy="arctan"),
    Entry("acosh", numpy="arccosh"),
    Entry("asinh", numpy="arcsinh"),
    Entry("atanh", numpy="arctanh"),
    # Comparison, logic, bits.
    Entry("if", numpy="where select", torch="where", onnx="Where", webnn="where"),
    Entry("logical_equals", numpy="equal", torch="eq", onnx="Equal", webnn="equal"),
    Entry("logical_equals", instead="then logical_not", numpy="not_equal", torch="ne", others="NotEqual"),
    Entry("logical_greater_than", numpy="greater", torch="gt", onnx="Greater", webnn="greater"),
    Entry(
        "logical_greater_than_or_equal",
        numpy="greater_equal",
        torch="ge",
        onnx="GreaterOrEqual",
        webnn="greaterOrEqual",
    ),
    Entry("logical_less_than", numpy="less", torch="lt", onnx="Less", webnn="lesser"),
    Entry(
        "logical_less_than_or_equal",
        numpy="less_equal",
        torch="le",
        onnx="LessOrEqual",
        webnn="lesserOrEqual",
    ),
    Entry("logical_not", onnx="Not"),
    Entry("logical_and", onnx="And"),
    Entry("logical_or", onnx="Or"),
    Entry("logical_xor", onnx="Xor"),
    Entry("is_nan", numpy="isnan", torch="isnan", onnx="IsNaN"),
    Entry("is_infinity", numpy="isinf", torch="isinf", onnx="IsInf"),
    Entry("is_nan", instead="or is_infinity, then logical_not", numpy="isfinite", torch="isfinite"),
    Entry("bit_not", numpy="bitwise_not invert", torch="bitwise_not", onnx="BitwiseNot"),
    Entry("bit_and", numpy="bitwise_and", torch="bitwise_and", onnx="BitwiseAnd"),
    Entry("bit_or", numpy="bitwise_or", torch="bitwise_or", onnx="BitwiseOr"),
    Entry("bit_xor", numpy="bitwise_xor", torch="bitwise_xor", onnx="BitwiseXor"),
    Entry("bit_shift_left", numpy="left_shift", torch="bitwise_left_shift", onnx="BitShift"),
    Entry("bit_shift_right", numpy="right_shift", torch="bitwise_right_shift"),
    Entry("bit_count", numpy="bitwise_count", others="popcount"),
    # Activations whose names differ by more than the prefix.
    Entry("activation_softmax", webnn="softmax", onnx="Softmax", torch="softmax"),
    Entry("activation_swish", torch="silu"),
    Entry("activation_hard_swish", torch="hardswish", onnx="HardSwish", webnn="hardSwish"),
    Entry("activation_hard_sigmoid", torch="hardsigmoid", onnx="HardSigmoid", webnn="hardSigmoid"),
    Entry("activation_leaky_relu", torch="leaky_relu", onnx="LeakyRelu", webnn="leakyRelu"),
    Entry("activation_parameterized_relu", torch="prelu", onnx="PRelu", webnn="prelu"),
    Entry("activation_scaled_elu", torch="selu", onnx="Selu"),
    Entry("activation_thresholded_relu", onnx="ThresholdedRelu"),
    Entry("activation_log_softmax", torch="log_softmax", onnx="LogSoftmax"),
    Entry("activation_shrink", torch="hardshrink softshrink", onnx="Shrink"),
    Entry("identity", numpy="copy positive", torch="clone", onnx="Identity", webnn="identity"),
    # Matrices, windows, attention.
    Entry(
        "gemm",
        numpy="matmul dot inner",
        torch="matmul mm bmm linear addmm",
        onnx="MatMul",
        webnn="matmul",
        others="Dense",
    ),
    Entry("matrix_multiply_integer", onnx="MatMulInteger"),
    Entry("quantized_linear_matrix_multiply", onnx="QLinearMatMul"),
    Entry("convolution", numpy="convolve", torch="conv1d conv2d conv3d", onnx="Conv", webnn="conv2d", others="Conv2D"),
    Entry(
        "convolution",
        {"direction": "backward"},
        torch="conv_transpose1d conv_transpose2d conv_transpose3d",
        onnx="ConvTranspose",
        webnn="convTranspose2d",
        others="Conv2DTranspose",
    ),
    Entry("convolution_integer", onnx="ConvInteger"),
    Entry("quantized_linear_convolution", onnx="QLinearConv"),
    Entry(
        "average_pooling",
        torch="avg_pool1d avg_pool2d avg_pool3d",
        onnx="AveragePool GlobalAveragePool",
        webnn="averagePool2d",
        others="avg_pool avgpool AveragePooling2D GlobalAveragePooling2D",
    ),
    Entry(
        "max_pooling",
        torch="max_pool1d max_pool2d max_pool3d",
        onnx="MaxPool GlobalMaxPool",
        webnn="maxPool2d",
        others="maxpool MaxPooling2D GlobalMaxPooling2D",
    ),
    Entry("lp_pooling", torch="lp_pool1d lp_pool2d", onnx="LpPool GlobalLpPool", webnn="l2Pool2d"),
    Entry("max_unpooling", torch="max_unpool2d", onnx="MaxUnpool"),
    Entry("multihead_attention", torch="scaled_dot_product_attention MultiheadAttention", onnx="Attention"),
    Entry("roi_pooling", onnx="MaxRoiPool"),
    # Normalisation and reduction.
    Entry("batch_normalization", torch="batch_norm", onnx="BatchNormalization", webnn="batchNormalization"),
    Entry(
        "mean_variance_normalization1",
        torch="layer_norm instance_norm group_norm",
        onnx="LayerNormalization InstanceNormalization GroupNormalization MeanVarianceNormalization",
        webnn="layerNormalization instanceNormalization",
    ),
    Entry("mean_variance_normalization2", {"use_mean": False}, torch="rms_norm RMSNorm", onnx="RMSNormalization"),
    Entry("lp_normalization", torch="normalize", onnx="LpNormalization"),
    Entry("local_response_normalization", torch="local_response_norm", onnx="LRN"),
    _reduce("sum", numpy="sum", torch="sum", onnx="ReduceSum Sum", webnn="reduceSum"),
    _reduce("average", numpy="average mean", torch="mean", onnx="ReduceMean", webnn="reduceMean"),
    _reduce("multiply", numpy="prod", torch="prod", onnx="ReduceProd", webnn="reduceProduct"),
    _reduce("max", numpy="amax max", torch="amax", onnx="ReduceMax", webnn="reduceMax"),
    _reduce("min", numpy="amin min", torch="amin", onnx="ReduceMin", webnn="reduceMin"),
    Entry("reduce", {"function": "max"}, "of truth values", numpy="any", torch="any"),
    Entry("reduce", {"function": "min"}, "of truth values", numpy="all", torch="all"),
    Entry("reduce", {"function": "sum"}, "of truth values", numpy="count_nonzero", torch="count_nonzero"),
    Entry(
        "reduce",
        {"function": "average"},
        "of the squared differences from the average",
        numpy="var std",
        torch="var std",
    ),
    _reduce("l1", onnx="ReduceL1", webnn="reduceL1"),
    _reduce("l2", torch="norm", onnx="ReduceL2", webnn="reduceL2"),
    _reduce("sum_square", onnx="ReduceSumSquare", webnn="reduceSumSquare"),
    _reduce("log_sum", onnx="ReduceLogSum", webnn="reduceLogSum"),
    _reduce("log_sum_exp", torch="logsumexp", onnx="ReduceLogSumExp", webnn="reduceLogSumExp"),
    Entry("cumulative_summation", numpy="cumsum", torch="cumsum", onnx="CumSum", webnn="cumulativeSum"),
    Entry("cumulative_product", numpy="cumprod", torch="cumprod"),
    # Moving elements.
    Entry("join", numpy="concatenate concat hstack vstack", torch="cat concat", onnx="Concat", webnn="concat"),
    Entry("split", numpy="array_split", torch="chunk", onnx="Split", webnn="split"),
    Entry("slice", torch="narrow", onnx="Slice", webnn="slice", others="strided_slice"),
    Entry("padding", numpy="pad", torch="pad", onnx="Pad", webnn="pad"),
    Entry("tile", numpy="repeat", torch="repeat", onnx="Tile", webnn="tile"),
    Entry("gather", numpy="take", torch="index_select embedding", onnx="Gather", webnn="gather"),
    Entry("gather_elements", numpy="take_along_axis", onnx="GatherElements", webnn="gatherElements"),
    Entry("gather_nd", onnx="GatherND", webnn="gatherND"),
    Entry("scatter_elements", numpy="put_along_axis", torch="scatter", onnx="ScatterElements Scatter"),
    Entry("scatter_nd", onnx="ScatterND", webnn="scatterND"),
    Entry("nonzero_coordinates", numpy="nonzero argwhere flatnonzero", torch="nonzero", onnx="NonZero"),
    Entry("one_hot", onnx="OneHot"),
    Entry("top_k", numpy="sort argsort", torch="topk sort argsort", onnx="TopK"),
    Entry("resample", torch="interpolate upsample", onnx="Resize Upsample", webnn="resample2d"),
    Entry("depth_to_space", torch="pixel_shuffle", onnx="DepthToSpace"),
    Entry("space_to_depth", torch="pixel_unshuffle", onnx="SpaceToDepth"),
    Entry("reverse_subsequences", numpy="flip", torch="flip", onnx="ReverseSequence", webnn="reverse"),
    Entry(
        "diagonal_matrix1",
        {"value": 0, "diagonal_fill_begin": 1, "diagonal_fill_end": 2**31 - 1},
        "with the tensor as its input",
        numpy="tril",
        torch="tril",
        onnx="Trilu",
        webnn="triangular",
    ),
    Entry(
        "diagonal_matrix1",
        {"value": 0, "diagonal_fill_begin": -(2**31), "diagonal_fill_end": 0},
        "with the tensor as its input",
        numpy="triu",
        torch="triu",
    ),
    Entry("diagonal_matrix", numpy="eye", torch="eye", onnx="EyeLike"),
    # Types and quantisation.
    Entry("cast", numpy="astype", torch="to type", onnx="Cast CastLike", webnn="cast"),
    Entry("quantize_linear", torch="quantize_per_tensor", onnx="QuantizeLinear", webnn="quantizeLinear"),
    Entry("dequantize_linear", onnx="DequantizeLinear", webnn="dequantizeLinear"),
    Entry("dynamic_quantize_linear", onnx="DynamicQuantizeLinear"),
    # Sources.
    Entry("fill_value_constant", numpy="full fill", torch="full", onnx="ConstantOfShape", others="constant"),
    _fill(0, numpy="zeros", torch="zeros"),
    _fill(1, numpy="ones", torch="ones"),
    Entry("fill_value_sequence", numpy="arange linspace", torch="arange linspace", onnx="Range", others="iota"),
    Entry("random_generator", numpy="random rand", torch="rand", onnx="RandomUniform"),
    # Views.
    Entry("reshape", torch="view", onnx="Reshape", webnn="reshape", others="reinterpret"),
    Entry("reshape", {"sizes": [-1]}, numpy="ravel", torch="ravel"),
    Entry("flatten", torch="Flatten", onnx="Flatten"),
    Entry("transpose", numpy="permute_dims", torch="permute", onnx="Transpose", webnn="transpose"),
    Entry(
        "transpose",
        numpy="swapaxes moveaxis rollaxis matrix_transpose",
        torch="t swapaxes swapdims moveaxis movedim",
        others="swap_axes",
    ),
    Entry("squeeze", onnx="Squeeze"),
    Entry("expand_dims", torch="unsqueeze", onnx="Unsqueeze"),
    Entry("broadcast_to", torch="expand expand_as", onnx="Expand", webnn="expand"),
    Entry("join", instead="whose inputs get the new dimension by expand_dims", numpy="stack", torch="stack"),
    # DirectML has no operator for these.
    Entry("", instead="leave it out: it changes nothing in a network that runs", torch="dropout", onnx="Dropout"),
    Entry("", instead="multiply the input by activation_tanh of activation_softplus of it", torch="mish", onnx="Mish"),
    Entry("", instead="join two slices", numpy="roll", torch="roll"),
    Entry("", instead="multiply tensors of the sizes [n, 1] and [1, m]", numpy="outer", torch="outer ger"),
    Entry("", instead="write it as a sum of products with gemm, multiply and reduce", numpy="einsum", onnx="Einsum"),
)

# What other packages have beside functions, by what it is here; names are separated by spaces.
THINGS = {
    "the operators are functions of the package itself, such as dg.activation_relu(x)": (
        "nn functional F layers keras ops linalg special torch onnx np numpy tf jnp"
    ),
    "graph.constant(name, array), or graph.input(name, sizes=…, dtype=…) for what every run is given": (
        "Tensor tensor array asarray as_tensor from_numpy Parameter Variable const"
    ),
    "graph.input(name, sizes=…, dtype=…)": "input placeholder input_tensor InputSpec add_input",
    "graph.output(name, value)": "output add_output mark_output",
    "dg.Graph(name)": "Module Sequential Model GraphBuilder MLGraphBuilder Builder Network",
    "graph.compile(device=…)": "compile jit build optimize script trace",
    "graph.compile(device=…).run({name: array})": "run Session InferenceSession predict execute forward",
    "graph.compile(device=…).run({name: array})[output]: a graph has numbers only when it runs": (
        "numpy item tolist eval cpu detach data"
    ),
    "dg.load(path)": "load_model from_onnx from_file read read_model",
    "dg.save(graph, path)": "save_model export to_onnx to_file write",
    "dg.gradient": "grad backward autograd value_and_grad",
    "dg.losses": "loss cross_entropy mse_loss CrossEntropyLoss MSELoss",
    "leave it out: building a graph computes nothing": "no_grad inference_mode requires_grad train",
}

# Other names for values of enumerations, and other values.
MEMBERS = {
    "mean": "average",
    "avg": "average",
    "prod": "multiply",
    "product": "multiply",
    "logsum": "log_sum",
    "logsumexp": "log_sum_exp",
    "sumsquare": "sum_square",
    "norm": "l2",
    "bilinear": "linear",
    "nearest": "nearest_neighbor",
    "reflect": "reflection",
    "replicate": "edge",
    "zeros": "constant",
    "reverse": "backward",
    "trunc": "toward_zero",
    "t": "transpose",
    "true": "transpose",
    "false": "none",
}

# Other names for devices.
DEVICES = {
    **dict.fromkeys(
        ("cuda", "gpu", "dml", "dx12", "d3d12", "rocm", "hip", "mps", "xpu", "vulkan", "webgpu"), "directml"
    ),
    **dict.fromkeys(("warp", "swiftshader", "llvmpipe"), "directml:software"),
    **dict.fromkeys(("numpy", "ref"), "reference"),
    **dict.fromkeys(("host", "native", "processor"), "cpu"),
    **dict.fromkeys(("default", "best"), "auto"),
}


def plain(name: str) -> str:
    """A name in lower case without underscores, for lookup: `max_pool2d` and `maxPool2d` are the same."""
    return name.lower().replace("_", "")


def things() -> dict[str, str]:
    """What stands here for what other packages have beside functions, by its name there."""
    return {name: here for here, names in THINGS.items() for name in names.split()}


def entries() -> dict[str, Entry]:
    """The operators' entries by their plain names in other libraries; the first one counts."""
    found: dict[str, Entry] = {}
    for entry in OPERATORS:
        for library in LIBRARIES:
            for name in entry.names(library):
                found.setdefault(plain(name), entry)
    return found
