"""The operators as functions of their tensors.

Made by tools/generate.py from the operators' classes: change those, not this file.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from dmlgraph.base.expressions import Expression, Real, Size
from dmlgraph.operators import Operator, OutputSpec, ScaleBias
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataTypeLike, TensorDesc
from dmlgraph.graph.value import Value

Tensor = Value | Expression | int | float | np.ndarray[Any, Any]
Output = TensorDesc | OutputSpec | Mapping[str, Any]

__all__ = [
    "abs", "acos", "acosh", "activation_celu", "activation_elu", "activation_gelu", "activation_hard_sigmoid",
    "activation_hard_swish", "activation_hardmax", "activation_hardmax1", "activation_identity",
    "activation_leaky_relu", "activation_linear", "activation_log_softmax", "activation_log_softmax1",
    "activation_parameterized_relu", "activation_parametric_softplus", "activation_relu", "activation_relu_grad",
    "activation_scaled_elu", "activation_scaled_tanh", "activation_shrink", "activation_sigmoid", "activation_softmax",
    "activation_softmax1", "activation_softplus", "activation_softsign", "activation_swish", "activation_tanh",
    "activation_thresholded_relu", "adam_optimizer", "add", "add1", "argmax", "argmin", "asin", "asinh", "atan",
    "atan_yx", "atanh", "average_pooling", "average_pooling1", "average_pooling_grad", "batch_normalization",
    "batch_normalization_grad", "batch_normalization_training", "batch_normalization_training_grad", "bit_and",
    "bit_count", "bit_not", "bit_or", "bit_shift_left", "bit_shift_right", "bit_xor", "broadcast_to", "cast", "ceil",
    "clip", "clip1", "clip_grad", "clip_grad1", "constant_pow", "convolution", "convolution_integer", "cos", "cosh",
    "cumulative_product", "cumulative_summation", "depth_to_space", "depth_to_space1", "dequantize",
    "dequantize_linear", "difference_square", "divide", "dynamic_quantize_linear", "erf", "exp", "expand_dims",
    "flatten", "floor", "fold", "gather", "gather_elements", "gather_nd", "gather_nd1", "gemm", "gru", "identity",
    "if_", "is_infinity", "is_nan", "join", "local_response_normalization", "local_response_normalization_grad", "log",
    "logical_and", "logical_equals", "logical_greater_than", "logical_greater_than_or_equal", "logical_less_than",
    "logical_less_than_or_equal", "logical_not", "logical_or", "logical_xor", "lp_normalization", "lp_pooling",
    "lp_pooling1", "lstm", "matrix_multiply_integer", "matrix_multiply_integer_to_float", "max", "max_pooling",
    "max_pooling1", "max_pooling2", "max_pooling_grad", "max_unpooling", "mean", "mean_variance_normalization",
    "mean_variance_normalization1", "mean_variance_normalization2", "min", "modulus_floor", "modulus_truncate",
    "multihead_attention", "multihead_attention1", "multiply", "negate", "nonzero_coordinates", "one_hot", "padding",
    "padding1", "pow", "quantize", "quantize_linear", "quantized_linear_add", "quantized_linear_average_pooling",
    "quantized_linear_convolution", "quantized_linear_matrix_multiply", "random_generator", "recip", "reduce",
    "resample", "resample1", "resample2", "resample3", "resample_grad", "resample_grad1", "reshape",
    "reverse_subsequences", "rnn", "roi_align", "roi_align1", "roi_align_grad", "roi_pooling", "round",
    "scatter_elements", "scatter_nd", "sign", "sin", "sinh", "slice", "slice1", "slice_grad", "space_to_depth",
    "space_to_depth1", "split", "sqrt", "squeeze", "stop_gradient", "subscript", "subtract", "tan", "tanh", "threshold",
    "tile", "top_k", "top_k1", "transpose", "unfold", "upsample_2d", "value_scale_2d"
]

class AdamOptimizerOutputs(NamedTuple):
    """The outputs of adam_optimizer; one that is left out is None."""

    output_parameters: Value
    output_first_moment: Value
    output_second_moment: Value

class BatchNormalizationGradOutputs(NamedTuple):
    """The outputs of batch_normalization_grad; one that is left out is None."""

    output_gradient: Value
    output_scale_gradient: Value
    output_bias_gradient: Value

class BatchNormalizationTrainingOutputs(NamedTuple):
    """The outputs of batch_normalization_training; one that is left out is None."""

    output: Value
    output_mean: Value
    output_variance: Value

class BatchNormalizationTrainingGradOutputs(NamedTuple):
    """The outputs of batch_normalization_training_grad; one that is left out is None."""

    output_gradient: Value
    output_scale_gradient: Value
    output_bias_gradient: Value

class DynamicQuantizeLinearOutputs(NamedTuple):
    """The outputs of dynamic_quantize_linear; one that is left out is None."""

    output: Value
    output_scale: Value
    output_zero_point: Value

class GruOutputs(NamedTuple):
    """The outputs of gru; one that is left out is None."""

    output_sequence: Value
    output_single: Value

class LstmOutputs(NamedTuple):
    """The outputs of lstm; one that is left out is None."""

    output_sequence: Value | None
    output_single: Value | None
    output_cell_single: Value | None

class MaxPooling1Outputs(NamedTuple):
    """The outputs of max_pooling1; one that is left out is None."""

    output: Value
    output_indices: Value

class MaxPooling2Outputs(NamedTuple):
    """The outputs of max_pooling2; one that is left out is None."""

    output: Value
    output_indices: Value

class MultiheadAttentionOutputs(NamedTuple):
    """The outputs of multihead_attention; one that is left out is None."""

    output: Value
    output_present_key: Value | None
    output_present_value: Value | None

class MultiheadAttention1Outputs(NamedTuple):
    """The outputs of multihead_attention1; one that is left out is None."""

    output: Value
    output_present_key: Value | None
    output_present_value: Value | None

class NonzeroCoordinatesOutputs(NamedTuple):
    """The outputs of nonzero_coordinates; one that is left out is None."""

    output_count: Value
    output_coordinates: Value

class RandomGeneratorOutputs(NamedTuple):
    """The outputs of random_generator; one that is left out is None."""

    output: Value
    output_state: Value

class RnnOutputs(NamedTuple):
    """The outputs of rnn; one that is left out is None."""

    output_sequence: Value
    output_single: Value

class RoiAlignGradOutputs(NamedTuple):
    """The outputs of roi_align_grad; one that is left out is None."""

    output_gradient: Value
    output_roi_gradient: Value

class TopKOutputs(NamedTuple):
    """The outputs of top_k; one that is left out is None."""

    output_value: Value
    output_index: Value

class TopK1Outputs(NamedTuple):
    """The outputs of top_k1; one that is left out is None."""

    output_value: Value
    output_index: Value

def abs(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """|x|; the least integer is unchanged, because its opposite does not exist, but −128 in int8 becomes 127."""

def acos(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The angle in radians whose cosine is x; NaN outside [-1, 1]."""

def acosh(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The inverse of cosh, ln(x + √(x² − 1)), NaN below 1, evaluated literally in float32 (measured)."""

def activation_celu(
    input: Tensor, *, alpha: Real = 1.0, output: Output | None = None, name: str | None = None
) -> Value:
    """max(0, x) + min(0, alpha · (e^(x / alpha) − 1)); 0 for NaN (measured)."""

def activation_elu(input: Tensor, *, alpha: Real = 1.0, output: Output | None = None, name: str | None = None) -> Value:
    """x; alpha · (e^x − 1) below zero."""

def activation_gelu(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The Gaussian error linear unit: ½ x (1 + erf(x / √2))."""

def activation_hard_sigmoid(
    input: Tensor, *, alpha: Real = 0.2, beta: Real = 0.5, output: Output | None = None, name: str | None = None
) -> Value:
    """max(0, min(alpha · x + beta, 1)); 0 for NaN (measured)."""

def activation_hard_swish(
    input: Tensor, *, alpha: Real, beta: Real, output: Output | None = None, name: str | None = None
) -> Value:
    """x times a hard sigmoid of x: x · max(0, min(alpha · x + beta, 1))."""

def activation_hardmax(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """1 at the first greatest element of each row, else 0."""

def activation_hardmax1(
    input: Tensor, *, axes: Size | Sequence[Size] | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """1 at the first greatest element over all of `axes` together (by default the last), row-major, else 0."""

def activation_identity(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The input, unchanged."""

def activation_leaky_relu(
    input: Tensor, *, alpha: Real = 0.01, output: Output | None = None, name: str | None = None
) -> Value:
    """x; alpha · x below zero."""

def activation_linear(
    input: Tensor, *, alpha: Real, beta: Real, output: Output | None = None, name: str | None = None
) -> Value:
    """A straight line: alpha · x + beta."""

def activation_log_softmax(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """ln(e^x / Σ e^x) along the last axis."""

def activation_log_softmax1(
    input: Tensor, *, axes: Size | Sequence[Size] | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """ln(e^x / Σ e^x); the sum is over all of `axes` together, by default over the last axis."""

def activation_parameterized_relu(
    input: Tensor, slope: Tensor, *, output: Output | None = None, name: str | None = None
) -> Value:
    """x; slope · x below zero.  The slope is a tensor that broadcasts to the input."""

def activation_parametric_softplus(
    input: Tensor, *, alpha: Real, beta: Real, output: Output | None = None, name: str | None = None
) -> Value:
    """A softplus with any slope and height: alpha · ln(1 + e^(beta · x))."""

def activation_relu(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The rectified linear unit: max(0, x)."""

def activation_relu_grad(
    input: Tensor, input_gradient: Tensor, *, output_gradient: Output | None = None, name: str | None = None
) -> Value:
    """The gradient where the input is above zero."""

def activation_scaled_elu(
    input: Tensor,
    *,
    alpha: Real = 1.6732631921768188,
    gamma: Real = 1.0507010221481323,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """gamma · x; gamma · alpha · (e^x − 1) below zero."""

def activation_scaled_tanh(
    input: Tensor, *, alpha: Real = 1.0, beta: Real = 0.5, output: Output | None = None, name: str | None = None
) -> Value:
    """The hyperbolic tangent, scaled: alpha · tanh(beta · x)."""

def activation_shrink(
    input: Tensor, *, bias: Real = 0.0, threshold: Real = 0.5, output: Output | None = None, name: str | None = None
) -> Value:
    """x − bias above the threshold, x + bias below −threshold, else 0."""

def activation_sigmoid(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The logistic function: 1 / (1 + e^−x)."""

def activation_softmax(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """e^x / Σ e^x along the last axis."""

def activation_softmax1(
    input: Tensor, *, axes: Size | Sequence[Size] | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """e^x / Σ e^x; the sum is over all of `axes` together, by default over the last axis."""

def activation_softplus(
    input: Tensor, *, steepness: Real = 1.0, output: Output | None = None, name: str | None = None
) -> Value:
    """ln(1 + e^(steepness · x)) / steepness; below feature level 6.4 the steepness is at least 1."""

def activation_softsign(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """x mapped to numbers between −1 and 1: x / (1 + |x|)."""

def activation_swish(
    input: Tensor, *, sigmoid_input_scale: Real, output: Output | None = None, name: str | None = None
) -> Value:
    """x times a sigmoid of x: x / (1 + e^(−sigmoid_input_scale · x))."""

def activation_tanh(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The hyperbolic tangent of x."""

def activation_thresholded_relu(
    input: Tensor, *, alpha: Real = 1.0, output: Output | None = None, name: str | None = None
) -> Value:
    """x above alpha, else 0."""

def adam_optimizer(
    input_parameters: Tensor,
    input_first_moment: Tensor,
    input_second_moment: Tensor,
    gradient: Tensor,
    training_step: Tensor,
    *,
    learning_rate: Real,
    beta1: Real,
    beta2: Real,
    epsilon: Real,
    output_parameters: Output | None = None,
    output_first_moment: Output | None = None,
    output_second_moment: Output | None = None,
    name: str | None = None,
) -> AdamOptimizerOutputs:
    """One step of Adam: new parameters, first and second moment from their old values and the gradient G."""

def add(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The sum: a + b."""

def add1(
    a: Tensor,
    b: Tensor,
    *,
    fused_activation: str | Mapping[str, Any] | Operator | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """An activation of the sum: activation(a + b)."""

def argmax(
    input: Tensor,
    *,
    dtype: DataTypeLike | None = None,
    axes: Size | Sequence[Size] | None = None,
    axis_direction: Literal["increasing", "decreasing"] = 'increasing',
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The row-major index of the greatest element inside `axes` (all axes, if left out), whose sizes become 1."""

def argmin(
    input: Tensor,
    *,
    dtype: DataTypeLike | None = None,
    axes: Size | Sequence[Size] | None = None,
    axis_direction: Literal["increasing", "decreasing"] = 'increasing',
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The row-major index of the least element inside `axes` (all axes, if left out), whose sizes become 1."""

def asin(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The angle in radians whose sine is x; NaN outside [-1, 1]."""

def asinh(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The inverse of sinh, ln(x + √(x² + 1)), evaluated literally in float32 (measured)."""

def atan(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The angle in radians whose tangent is x."""

def atan_yx(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The angle of the point (b, a): atan(a / b) in the right quadrant, from −π to π."""

def atanh(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The inverse of tanh, ½ ln((1 + x) / (1 − x)): ±infinity at ±1, NaN beyond."""

def average_pooling(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    include_padding: bool = False,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The mean of each window: of all its elements if `include_padding`, else of those inside the input."""

def average_pooling1(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    include_padding: bool = False,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """AVERAGE_POOLING of windows whose elements are `dilations` apart."""

def average_pooling_grad(
    input_gradient: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    include_padding: bool = False,
    output_gradient: Output | None = None,
    name: str | None = None,
) -> Value:
    """The gradient of AVERAGE_POOLING: each element of the input is spread over its window in equal parts."""

def batch_normalization(
    input: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    spatial: bool,
    epsilon: Real,
    fused_activation: str | Mapping[str, Any] | Operator | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Normalization by a given mean and variance."""

def batch_normalization_grad(
    input: Tensor,
    input_gradient: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor,
    *,
    epsilon: Real,
    output_gradient: Output | None = None,
    output_scale_gradient: Output | None = None,
    output_bias_gradient: Output | None = None,
    name: str | None = None,
) -> BatchNormalizationGradOutputs:
    """The gradients of BATCH_NORMALIZATION; mean and variance are constants."""

def batch_normalization_training(
    input: Tensor,
    scale: Tensor,
    bias: Tensor,
    fused_add: Tensor | None = None,
    *,
    epsilon: Real,
    fused_activation: str | Mapping[str, Any] | Operator | None = None,
    output: Output | None = None,
    output_mean: Output | None = None,
    output_variance: Output | None = None,
    name: str | None = None,
) -> BatchNormalizationTrainingOutputs:
    """Normalization by the input's own mean and variance, which are also outputs."""

def batch_normalization_training_grad(
    input: Tensor,
    input_gradient: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor,
    *,
    epsilon: Real,
    output_gradient: Output | None = None,
    output_scale_gradient: Output | None = None,
    output_bias_gradient: Output | None = None,
    name: str | None = None,
) -> BatchNormalizationTrainingGradOutputs:
    """The gradients of BATCH_NORMALIZATION_TRAINING, whose mean and variance come from the input."""

def bit_and(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The bits set in both a and b."""

def bit_count(
    input: Tensor, *, dtype: DataTypeLike | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """How many bits are set; the output is uint8 unless uint32 is requested."""

def bit_not(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """Every bit inverted."""

def bit_or(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The bits set in a or b, or both."""

def bit_shift_left(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """a · 2^b modulo 2^N."""

def bit_shift_right(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """⌊a / 2^b⌋: zeros are shifted in.  The same bits of b count as in BIT_SHIFT_LEFT."""

def bit_xor(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The bits set in one of a and b."""

def broadcast_to(
    input: Tensor, *, sizes: Sequence[Size], output: Output | None = None, name: str | None = None
) -> Value:
    """Repeated to these sizes by NumPy's rules: along new dimensions and those of size 1."""

def cast(
    input: Tensor, *, dtype: DataTypeLike | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """The input's values in the output's data type, which must be given."""

def ceil(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The least whole number that is not below x."""

def clip(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    min: Real,
    max: Real,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """max(min, min(x, max)): if min > max, min wins."""

def clip1(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    min_max_data_type: DataTypeLike | None = None,
    min: Real | Scalar | Mapping[str, Any],
    max: Real | Scalar | Mapping[str, Any],
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """max(min, min(x, max)); the bounds have the tensor's type, and if min > max, min wins."""

def clip_grad(
    input: Tensor,
    input_gradient: Tensor,
    *,
    min: Real,
    max: Real,
    output_gradient: Output | None = None,
    name: str | None = None,
) -> Value:
    """The gradient where the input is strictly between the bounds, which are converted to its type first."""

def clip_grad1(
    input: Tensor,
    input_gradient: Tensor,
    *,
    min_max_data_type: DataTypeLike | None = None,
    min: Real | Scalar | Mapping[str, Any],
    max: Real | Scalar | Mapping[str, Any],
    output_gradient: Output | None = None,
    name: str | None = None,
) -> Value:
    """The gradient where the input is strictly between the bounds, which have its type; 0 for NaN."""

def constant_pow(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    exponent: Real,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """x ^ exponent; NaN for a negative x unless the exponent is a whole number."""

def convolution(
    input: Tensor,
    filter: Tensor,
    bias: Tensor | None = None,
    *,
    mode: Literal["convolution", "cross_correlation"] = 'cross_correlation',
    direction: Literal["forward", "backward"] = 'forward',
    strides: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    output_padding: Size | Sequence[Size] | None = None,
    group_count: Size | None = None,
    fused_activation: str | Mapping[str, Any] | Operator | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """activation(convolution + bias), in one to three spatial dimensions."""

def convolution_integer(
    input: Tensor,
    input_zero_point: Tensor | None = None,
    filter: Tensor | None = None,
    filter_zero_point: Tensor | None = None,
    *,
    strides: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    group_count: Size | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The convolution of quantized tensors, as int32: Σ (input − input_zero_point) · (filter − filter_zero_point)."""

def cos(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The cosine of x, an angle in radians."""

def cosh(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The hyperbolic cosine of x; measured: DirectML's float32 overflows beyond 88.72, where e^x does."""

def cumulative_product(
    input: Tensor,
    *,
    axis: Size,
    axis_direction: Literal["increasing", "decreasing"] = 'increasing',
    has_exclusive_product: bool = False,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The product of the elements along `axis` up to each one, from the first on (increasing) or the last (decreasing)."""

def cumulative_summation(
    input: Tensor,
    *,
    axis: Size,
    axis_direction: Literal["increasing", "decreasing"] = 'increasing',
    has_exclusive_sum: bool = False,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The sum of the elements along `axis` up to each one, from the first on (increasing) or the last (decreasing)."""

def depth_to_space(input: Tensor, *, block_size: Size, output: Output | None = None, name: str | None = None) -> Value:
    """Channels into blocks of pixels: output[n, c, h · B + y, w · B + x] = input[n, (y · B + x) · C + c, h, w]."""

def depth_to_space1(
    input: Tensor,
    *,
    block_size: Size,
    order: Literal["depth_column_row", "column_row_depth"] = 'depth_column_row',
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Channels into blocks of pixels, in either order."""

def dequantize(
    input: Tensor,
    quantizations: Sequence[Tensor],
    *,
    dtype: DataTypeLike | None = None,
    quantization_type: Literal["none", "scale", "scale_zero_point"],
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The numbers that integers stand for: (input − zero_point) · scale."""

def dequantize_linear(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The numbers that integers stand for: (input − zero_point) · scale."""

def difference_square(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The square of the difference: (a − b)²."""

def divide(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The quotient: a / b; integers truncate the fraction."""

def dynamic_quantize_linear(
    input: Tensor,
    *,
    dtype: DataTypeLike | None = None,
    output: Output | None = None,
    output_scale: Output | None = None,
    output_zero_point: Output | None = None,
    name: str | None = None,
) -> DynamicQuantizeLinearOutputs:
    """Quantizes to the input's own range, and gives the scale and zero point that it used."""

def erf(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The error function, 2/√π ∫ e^(−t²) dt from 0 to x; measured: DirectML approximates it within 5e-7."""

def exp(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The exponential function: e^x."""

def expand_dims(
    input: Tensor, *, axes: Size | Sequence[Size], output: Output | None = None, name: str | None = None
) -> Value:
    """With new dimensions of size 1 at these places of the output; negative ones count from its end."""

def flatten(input: Tensor, *, axis: Size = 1, output: Output | None = None, name: str | None = None) -> Value:
    """The dimensions from `axis` on as one: [N, C, H, W] → [N, C · H · W].  As in PyTorch's `nn.Flatten`."""

def floor(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The greatest whole number that is not above x."""

def fold(
    input: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    window_sizes: Size | Sequence[Size],
    strides: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """An image from the patches of a sliding window, added where they overlap: the transpose of unfold."""

def gather(
    input: Tensor,
    indices: Tensor,
    *,
    axis: Size,
    index_dimensions: Size | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The slices of the input along `axis` at the indices."""

def gather_elements(
    input: Tensor, indices: Tensor, *, axis: Size, output: Output | None = None, name: str | None = None
) -> Value:
    """output[c] = input[c, except along `axis` at indices[c]]; the output has the indices' sizes."""

def gather_nd(
    input: Tensor,
    indices: Tensor,
    *,
    input_dimension_count: Size | None = None,
    indices_dimension_count: Size | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """output[k…, slice…] = input[indices[k…, 0], indices[k…, 1], …, slice…]."""

def gather_nd1(
    input: Tensor,
    indices: Tensor,
    *,
    input_dimension_count: Size | None = None,
    indices_dimension_count: Size | None = None,
    batch_dimension_count: Size = 0,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """gather_nd for each batch: output[b…, k…, slice…] = input[b…, indices[b…, k…, 0], …, slice…]."""

def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    trans_a: Literal["none", "transpose"] = 'none',
    trans_b: Literal["none", "transpose"] = 'none',
    alpha: Real = 1.0,
    beta: Real = 1.0,
    fused_activation: str | Mapping[str, Any] | Operator | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """activation(alpha · A · B + beta · C); A and B are first transposed if requested."""

@overload
def gru(
    input: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    hidden_init: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    *,
    activation_descs: Sequence[str | Mapping[str, Any] | Operator],
    direction: Literal["forward", "backward", "bidirectional"] = 'forward',
    linear_before_reset: bool = False,
    output_sequence: Literal[True] | Output = ...,
    output_single: Literal[True] | Output = ...,
    name: str | None = None,
) -> GruOutputs:
    """Gated recurrent unit: hidden state H, along time forward, backward or both."""

@overload
def gru(
    input: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    hidden_init: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    *,
    activation_descs: Sequence[str | Mapping[str, Any] | Operator],
    direction: Literal["forward", "backward", "bidirectional"] = 'forward',
    linear_before_reset: bool = False,
    output_sequence: Literal[False],
    output_single: Output | bool | None = None,
    name: str | None = None,
) -> Value:
    """Gated recurrent unit: hidden state H, along time forward, backward or both."""

@overload
def gru(
    input: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    hidden_init: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    *,
    activation_descs: Sequence[str | Mapping[str, Any] | Operator],
    direction: Literal["forward", "backward", "bidirectional"] = 'forward',
    linear_before_reset: bool = False,
    output_sequence: Output | bool | None = None,
    output_single: Literal[False],
    name: str | None = None,
) -> Value:
    """Gated recurrent unit: hidden state H, along time forward, backward or both."""

@overload
def gru(
    input: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    hidden_init: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    *,
    activation_descs: Sequence[str | Mapping[str, Any] | Operator],
    direction: Literal["forward", "backward", "bidirectional"] = 'forward',
    linear_before_reset: bool = False,
    output_sequence: Output | bool | None = None,
    output_single: Output | bool | None = None,
    name: str | None = None,
) -> GruOutputs | Value:
    """Gated recurrent unit: hidden state H, along time forward, backward or both."""

def identity(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """A copy of the input; with other strides for the output, a change of layout."""

def if_(
    condition: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    dtype: DataTypeLike | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """a where the condition (uint8) is not zero, else b."""

def is_infinity(
    input: Tensor,
    *,
    dtype: DataTypeLike | None = None,
    infinity_mode: Literal["either", "positive", "negative"] = 'either',
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Whether x is infinite: with any sign, or with the mode's."""

def is_nan(
    input: Tensor, *, dtype: DataTypeLike | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """Whether x is NaN."""

def join(inputs: Sequence[Tensor], *, axis: Size, output: Output | None = None, name: str | None = None) -> Value:
    """The inputs one after another along `axis`; their other sizes are equal."""

def local_response_normalization(
    input: Tensor,
    *,
    cross_channel: bool,
    local_size: Size,
    alpha: Real,
    beta: Real,
    bias: Real,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """input / (bias + alpha / local_size · Σ x²)^beta; the sum is over the element's neighbourhood."""

def local_response_normalization_grad(
    input: Tensor,
    input_gradient: Tensor,
    *,
    cross_channel: bool,
    local_size: Size,
    alpha: Real,
    beta: Real,
    bias: Real,
    output_gradient: Output | None = None,
    name: str | None = None,
) -> Value:
    """The gradient of LOCAL_RESPONSE_NORMALIZATION's input."""

def log(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The natural logarithm: −infinity at zero, NaN below."""

def logical_and(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """Whether neither a nor b is zero."""

def logical_equals(
    a: Tensor, b: Tensor, *, dtype: DataTypeLike | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """Whether a = b."""

def logical_greater_than(
    a: Tensor, b: Tensor, *, dtype: DataTypeLike | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """Whether a > b."""

def logical_greater_than_or_equal(
    a: Tensor, b: Tensor, *, dtype: DataTypeLike | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """Whether a ≥ b."""

def logical_less_than(
    a: Tensor, b: Tensor, *, dtype: DataTypeLike | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """Whether a < b."""

def logical_less_than_or_equal(
    a: Tensor, b: Tensor, *, dtype: DataTypeLike | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """Whether a ≤ b."""

def logical_not(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """Whether x is zero."""

def logical_or(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """Whether a or b, or both, are not zero."""

def logical_xor(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """Whether one of a and b is zero and the other is not."""

def lp_normalization(
    input: Tensor, *, axis: Size, epsilon: Real, p: Size, output: Output | None = None, name: str | None = None
) -> Value:
    """input / √(norm² + epsilon); the norm along the axis is Σ |x| for p = 1 and √Σ x² for p = 2."""

def lp_pooling(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    p: Size,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The p-norm of each window: (Σ |x|^p)^(1/p); p is usually 1 or 2."""

def lp_pooling1(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    p: Size,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """LP_POOLING of windows whose elements are `dilations` apart."""

@overload
def lstm(
    input: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    hidden_init: Tensor | None = None,
    cell_mem_init: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    peephole: Tensor | None = None,
    *,
    activation_descs: Sequence[str | Mapping[str, Any] | Operator],
    direction: Literal["forward", "backward", "bidirectional"] = 'forward',
    clip_threshold: Real | None = None,
    use_clip_threshold: bool | None = None,
    couple_input_forget: bool = False,
    output_sequence: Literal[True] | Output = ...,
    output_single: Literal[True] | Output = ...,
    output_cell_single: Literal[True] | Output = ...,
    name: str | None = None,
) -> LstmOutputs:
    """Long short-term memory: hidden state H and cells C, along time forward, backward or both."""

@overload
def lstm(
    input: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    hidden_init: Tensor | None = None,
    cell_mem_init: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    peephole: Tensor | None = None,
    *,
    activation_descs: Sequence[str | Mapping[str, Any] | Operator],
    direction: Literal["forward", "backward", "bidirectional"] = 'forward',
    clip_threshold: Real | None = None,
    use_clip_threshold: bool | None = None,
    couple_input_forget: bool = False,
    output_sequence: Output | bool | None = None,
    output_single: Output | bool | None = None,
    output_cell_single: Output | bool | None = None,
    name: str | None = None,
) -> LstmOutputs | Value:
    """Long short-term memory: hidden state H and cells C, along time forward, backward or both."""

def matrix_multiply_integer(
    a: Tensor,
    a_zero_point: Tensor | None = None,
    b: Tensor | None = None,
    b_zero_point: Tensor | None = None,
    *,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The matrix product of quantized tensors: Σ (a − a_zero_point) · (b − b_zero_point), as int32, modulo 2^32."""

def matrix_multiply_integer_to_float(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor | None = None,
    b: Tensor | None = None,
    b_scale: Tensor | None = None,
    b_zero_point: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The matrix product of quantized tensors, as floats."""

def max(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The greater of a and b; if one is NaN, the other."""

def max_pooling(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The greatest element of each window.  NaN is ignored, and −infinity counts as the least finite number."""

@overload
def max_pooling1(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    output_indices: Literal[False] = ...,
    name: str | None = None,
) -> Value:
    """The greatest element of each window and, if requested, its index in the input."""

@overload
def max_pooling1(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    output_indices: Literal[True] | Output,
    name: str | None = None,
) -> MaxPooling1Outputs:
    """The greatest element of each window and, if requested, its index in the input."""

@overload
def max_pooling1(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    output_indices: Output | bool | None = None,
    name: str | None = None,
) -> MaxPooling1Outputs | Value:
    """The greatest element of each window and, if requested, its index in the input."""

@overload
def max_pooling2(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    output_indices: Literal[False] = ...,
    name: str | None = None,
) -> Value:
    """MAX_POOLING1 of windows whose elements are `dilations` apart."""

@overload
def max_pooling2(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    output_indices: Literal[True] | Output,
    name: str | None = None,
) -> MaxPooling2Outputs:
    """MAX_POOLING1 of windows whose elements are `dilations` apart."""

@overload
def max_pooling2(
    input: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    output_indices: Output | bool | None = None,
    name: str | None = None,
) -> MaxPooling2Outputs | Value:
    """MAX_POOLING1 of windows whose elements are `dilations` apart."""

def max_pooling_grad(
    input: Tensor,
    input_gradient: Tensor,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    output_gradient: Output | None = None,
    name: str | None = None,
) -> Value:
    """The gradient of MAX_POOLING2: each element of `input_gradient` is added at the maximum of its window."""

def max_unpooling(
    input: Tensor,
    indices: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Zeros, with each element of the input at its row-major index in the output, from `indices`."""

def mean(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The mean: (a + b) / 2; the sum of integers wraps, and its half is truncated."""

def mean_variance_normalization(
    input: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    cross_channel: bool,
    normalize_variance: bool,
    epsilon: Real,
    fused_activation: str | Mapping[str, Any] | Operator | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Normalization of each image by its own mean and variance."""

def mean_variance_normalization1(
    input: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Size | Sequence[Size],
    normalize_variance: bool,
    epsilon: Real,
    fused_activation: str | Mapping[str, Any] | Operator | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Normalization by the input's own mean and variance over `axes`."""

def mean_variance_normalization2(
    input: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Size | Sequence[Size],
    use_mean: bool,
    use_variance: bool,
    epsilon: Real,
    fused_activation: str | Mapping[str, Any] | Operator | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Normalization by the input's own mean, variance or both over `axes`."""

def min(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The lesser of a and b; if one is NaN, the other."""

def modulus_floor(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """a − b · floor(a / b): the remainder has the sign of b, as in Python."""

def modulus_truncate(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """a − b · trunc(a / b): the remainder has the sign of a, as in C."""

@overload
def multihead_attention(
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
    stacked_query_key: Tensor | None = None,
    stacked_key_value: Tensor | None = None,
    stacked_query_key_value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    relative_position_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    scale: Real,
    mask_filter_value: Real | None = None,
    head_count: Size | None = None,
    mask_type: Literal["none", "key_sequence_length", "key_sequence_end_start", "key_query_sequence_length_start_end", "boolean"] = 'none',
    output: Output | None = None,
    output_present_key: Literal[False] = ...,
    output_present_value: Literal[False] = ...,
    name: str | None = None,
) -> Value:
    """softmax(scale · Q · Kᵀ + relative_position_bias + mask) · V, for each head."""

@overload
def multihead_attention(
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
    stacked_query_key: Tensor | None = None,
    stacked_key_value: Tensor | None = None,
    stacked_query_key_value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    relative_position_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    scale: Real,
    mask_filter_value: Real | None = None,
    head_count: Size | None = None,
    mask_type: Literal["none", "key_sequence_length", "key_sequence_end_start", "key_query_sequence_length_start_end", "boolean"] = 'none',
    output: Output | None = None,
    output_present_key: Literal[True] | Output,
    output_present_value: Output | bool | None = None,
    name: str | None = None,
) -> MultiheadAttentionOutputs:
    """softmax(scale · Q · Kᵀ + relative_position_bias + mask) · V, for each head."""

@overload
def multihead_attention(
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
    stacked_query_key: Tensor | None = None,
    stacked_key_value: Tensor | None = None,
    stacked_query_key_value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    relative_position_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    scale: Real,
    mask_filter_value: Real | None = None,
    head_count: Size | None = None,
    mask_type: Literal["none", "key_sequence_length", "key_sequence_end_start", "key_query_sequence_length_start_end", "boolean"] = 'none',
    output: Output | None = None,
    output_present_key: Output | bool | None = None,
    output_present_value: Literal[True] | Output,
    name: str | None = None,
) -> MultiheadAttentionOutputs:
    """softmax(scale · Q · Kᵀ + relative_position_bias + mask) · V, for each head."""

@overload
def multihead_attention(
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
    stacked_query_key: Tensor | None = None,
    stacked_key_value: Tensor | None = None,
    stacked_query_key_value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    relative_position_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    scale: Real,
    mask_filter_value: Real | None = None,
    head_count: Size | None = None,
    mask_type: Literal["none", "key_sequence_length", "key_sequence_end_start", "key_query_sequence_length_start_end", "boolean"] = 'none',
    output: Output | None = None,
    output_present_key: Output | bool | None = None,
    output_present_value: Output | bool | None = None,
    name: str | None = None,
) -> MultiheadAttentionOutputs | Value:
    """softmax(scale · Q · Kᵀ + relative_position_bias + mask) · V, for each head."""

@overload
def multihead_attention1(
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
    stacked_query_key: Tensor | None = None,
    stacked_key_value: Tensor | None = None,
    stacked_query_key_value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    relative_position_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_lengths: Tensor | None = None,
    *,
    scale: Real,
    mask_filter_value: Real | None = None,
    query_head_count: Size | None = None,
    key_value_head_count: Size | None = None,
    mask_type: Literal["none", "key_sequence_length", "key_sequence_end_start", "key_query_sequence_length_start_end", "boolean"] = 'none',
    output: Output | None = None,
    output_present_key: Literal[False] = ...,
    output_present_value: Literal[False] = ...,
    name: str | None = None,
) -> Value:
    """MULTIHEAD_ATTENTION with query heads that share heads of keys and values, and lengths of the past."""

@overload
def multihead_attention1(
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
    stacked_query_key: Tensor | None = None,
    stacked_key_value: Tensor | None = None,
    stacked_query_key_value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    relative_position_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_lengths: Tensor | None = None,
    *,
    scale: Real,
    mask_filter_value: Real | None = None,
    query_head_count: Size | None = None,
    key_value_head_count: Size | None = None,
    mask_type: Literal["none", "key_sequence_length", "key_sequence_end_start", "key_query_sequence_length_start_end", "boolean"] = 'none',
    output: Output | None = None,
    output_present_key: Literal[True] | Output,
    output_present_value: Output | bool | None = None,
    name: str | None = None,
) -> MultiheadAttention1Outputs:
    """MULTIHEAD_ATTENTION with query heads that share heads of keys and values, and lengths of the past."""

@overload
def multihead_attention1(
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
    stacked_query_key: Tensor | None = None,
    stacked_key_value: Tensor | None = None,
    stacked_query_key_value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    relative_position_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_lengths: Tensor | None = None,
    *,
    scale: Real,
    mask_filter_value: Real | None = None,
    query_head_count: Size | None = None,
    key_value_head_count: Size | None = None,
    mask_type: Literal["none", "key_sequence_length", "key_sequence_end_start", "key_query_sequence_length_start_end", "boolean"] = 'none',
    output: Output | None = None,
    output_present_key: Output | bool | None = None,
    output_present_value: Literal[True] | Output,
    name: str | None = None,
) -> MultiheadAttention1Outputs:
    """MULTIHEAD_ATTENTION with query heads that share heads of keys and values, and lengths of the past."""

@overload
def multihead_attention1(
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
    stacked_query_key: Tensor | None = None,
    stacked_key_value: Tensor | None = None,
    stacked_query_key_value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    relative_position_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_lengths: Tensor | None = None,
    *,
    scale: Real,
    mask_filter_value: Real | None = None,
    query_head_count: Size | None = None,
    key_value_head_count: Size | None = None,
    mask_type: Literal["none", "key_sequence_length", "key_sequence_end_start", "key_query_sequence_length_start_end", "boolean"] = 'none',
    output: Output | None = None,
    output_present_key: Output | bool | None = None,
    output_present_value: Output | bool | None = None,
    name: str | None = None,
) -> MultiheadAttention1Outputs | Value:
    """MULTIHEAD_ATTENTION with query heads that share heads of keys and values, and lengths of the past."""

def multiply(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The product: a · b."""

def negate(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """−x; the least integer is unchanged, because its opposite does not exist, but −128 in int8 becomes 127."""

def nonzero_coordinates(
    input: Tensor,
    *,
    output_count: Output | None = None,
    output_coordinates: Output | None = None,
    name: str | None = None,
) -> NonzeroCoordinatesOutputs:
    """How many elements are not zero, and the coordinates of each, one per row in row-major order."""

def one_hot(
    indices: Tensor,
    values: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    axis: Size,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """output[c] = on if c's position along `axis` is the index at c, else off."""

def padding(
    input: Tensor,
    *,
    padding_mode: Literal["constant", "edge", "reflection", "symmetric", "wrap"],
    padding_value: Real = 0.0,
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The input with `start_padding` elements before it and `end_padding` after it, in every dimension."""

def padding1(
    input: Tensor,
    *,
    padding_mode: Literal["constant", "edge", "reflection", "symmetric", "wrap"],
    padding_value_data_type: DataTypeLike | None = None,
    padding_value: Real | Scalar | Mapping[str, Any] = 0,
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Padding whose `padding_value` has the tensor's data type, so that 64-bit values are kept."""

def pow(
    input: Tensor,
    exponent: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """input ^ exponent; the output has the input's data type."""

def quantize(
    input: Tensor,
    quantizations: Sequence[Tensor],
    *,
    dtype: DataTypeLike | None = None,
    quantization_type: Literal["none", "scale", "scale_zero_point"],
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The integers that stand for numbers: clamp(round(input / scale) + zero_point), halves to even."""

def quantize_linear(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    dtype: DataTypeLike | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The integers that stand for numbers: clamp(round(input / scale) + zero_point), halves to even."""

def quantized_linear_add(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor | None = None,
    b: Tensor | None = None,
    b_scale: Tensor | None = None,
    b_zero_point: Tensor | None = None,
    output_scale: Tensor | None = None,
    output_zero_point: Tensor | None = None,
    *,
    dtype: DataTypeLike | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The sum of quantized tensors, quantized."""

def quantized_linear_average_pooling(
    input: Tensor,
    input_scale: Tensor,
    input_zero_point: Tensor | None = None,
    output_scale: Tensor | None = None,
    output_zero_point: Tensor | None = None,
    *,
    strides: Size | Sequence[Size] | None = None,
    window_size: Size | Sequence[Size],
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    include_padding: bool = False,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The mean of each window of a quantized tensor, quantized: q stands for (q − zero_point) · scale."""

def quantized_linear_convolution(
    input: Tensor,
    input_scale: Tensor,
    input_zero_point: Tensor | None = None,
    filter: Tensor | None = None,
    filter_scale: Tensor | None = None,
    filter_zero_point: Tensor | None = None,
    bias: Tensor | None = None,
    output_scale: Tensor | None = None,
    output_zero_point: Tensor | None = None,
    *,
    strides: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    group_count: Size | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The convolution of quantized tensors, quantized: a number q stands for (q − zero_point) · scale."""

def quantized_linear_matrix_multiply(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor | None = None,
    b: Tensor | None = None,
    b_scale: Tensor | None = None,
    b_zero_point: Tensor | None = None,
    output_scale: Tensor | None = None,
    output_zero_point: Tensor | None = None,
    *,
    dtype: DataTypeLike | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The matrix product of quantized tensors, quantized."""

@overload
def random_generator(
    input_state: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    type: Literal["philox_4x32_10"] = 'philox_4x32_10',
    output: Output | None = None,
    output_state: Literal[True] | Output = ...,
    name: str | None = None,
) -> RandomGeneratorOutputs:
    """Random bits, evenly distributed, and the next state."""

@overload
def random_generator(
    input_state: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    type: Literal["philox_4x32_10"] = 'philox_4x32_10',
    output: Output | None = None,
    output_state: Literal[False],
    name: str | None = None,
) -> Value:
    """Random bits, evenly distributed, and the next state."""

@overload
def random_generator(
    input_state: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    type: Literal["philox_4x32_10"] = 'philox_4x32_10',
    output: Output | None = None,
    output_state: Output | bool | None = None,
    name: str | None = None,
) -> RandomGeneratorOutputs | Value:
    """Random bits, evenly distributed, and the next state."""

def recip(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The reciprocal: 1 / x."""

def reduce(
    input: Tensor,
    *,
    dtype: DataTypeLike | None = None,
    function: Literal["argmax", "argmin", "average", "l1", "l2", "log_sum", "log_sum_exp", "max", "min", "multiply", "sum", "sum_square"],
    axes: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Reduces the elements along `axes` (all axes, if left out) to one, whose sizes become 1."""

def resample(
    input: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    interpolation_mode: Literal["nearest_neighbor", "linear"],
    scales: Real | Sequence[Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The input stretched by `scales`, one for each dimension; the middles of elements are aligned."""

def resample1(
    input: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    interpolation_mode: Literal["nearest_neighbor", "linear"],
    scales: Real | Sequence[Real] | None = None,
    input_pixel_offsets: Real | Sequence[Real] | None = None,
    output_pixel_offsets: Real | Sequence[Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """RESAMPLE with given pixel offsets."""

def resample2(
    input: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    interpolation_mode: Literal["nearest_neighbor", "linear"],
    rounding_direction: Literal["increasing", "decreasing"] = 'increasing',
    scales: Real | Sequence[Real] | None = None,
    input_pixel_offsets: Real | Sequence[Real] | None = None,
    output_pixel_offsets: Real | Sequence[Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """RESAMPLE1, but `nearest_neighbor` rounds the position where it reads up (`increasing`) or down (`decreasing`)."""

def resample3(
    input: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    interpolation_mode: Literal["nearest_neighbor", "linear"],
    rounding_direction: Literal["increasing", "decreasing"] = 'increasing',
    scales: Real | Sequence[Real] | None = None,
    input_pixel_offsets: Real | Sequence[Real] | None = None,
    output_pixel_offsets: Real | Sequence[Real] | None = None,
    antialiased: bool = False,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """RESAMPLE2 with, if `antialiased`, a wider filter if `linear` shrinks a dimension to less than half."""

def resample_grad(
    input_gradient: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    interpolation_mode: Literal["nearest_neighbor", "linear"],
    scales: Real | Sequence[Real] | None = None,
    input_pixel_offsets: Real | Sequence[Real] | None = None,
    output_pixel_offsets: Real | Sequence[Real] | None = None,
    output_gradient: Output | None = None,
    name: str | None = None,
) -> Value:
    """The gradient of RESAMPLE1: each element, times its weight, is added to the elements that it was computed from."""

def resample_grad1(
    input_gradient: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    interpolation_mode: Literal["nearest_neighbor", "linear"],
    rounding_direction: Literal["increasing", "decreasing"] = 'increasing',
    scales: Real | Sequence[Real] | None = None,
    input_pixel_offsets: Real | Sequence[Real] | None = None,
    output_pixel_offsets: Real | Sequence[Real] | None = None,
    output_gradient: Output | None = None,
    name: str | None = None,
) -> Value:
    """The gradient of RESAMPLE2: each element, times its weight, is added to the elements that it was computed from."""

def reshape(input: Tensor, *, sizes: Sequence[Size], output: Output | None = None, name: str | None = None) -> Value:
    """The elements in row-major order with other sizes; one size may be −1: what remains."""

def reverse_subsequences(
    input: Tensor, sequence_lengths: Tensor, *, axis: Size, output: Output | None = None, name: str | None = None
) -> Value:
    """The first `sequence_lengths` elements along `axis` in reverse order; the others are unchanged."""

@overload
def rnn(
    input: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    hidden_init: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    *,
    activation_descs: Sequence[str | Mapping[str, Any] | Operator],
    direction: Literal["forward", "backward", "bidirectional"] = 'forward',
    output_sequence: Literal[True] | Output = ...,
    output_single: Literal[True] | Output = ...,
    name: str | None = None,
) -> RnnOutputs:
    """H_t = f(W · X_t + R · H_(t−1) + Wb + Rb), along time forward, backward or both."""

@overload
def rnn(
    input: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    hidden_init: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    *,
    activation_descs: Sequence[str | Mapping[str, Any] | Operator],
    direction: Literal["forward", "backward", "bidirectional"] = 'forward',
    output_sequence: Literal[False],
    output_single: Output | bool | None = None,
    name: str | None = None,
) -> Value:
    """H_t = f(W · X_t + R · H_(t−1) + Wb + Rb), along time forward, backward or both."""

@overload
def rnn(
    input: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    hidden_init: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    *,
    activation_descs: Sequence[str | Mapping[str, Any] | Operator],
    direction: Literal["forward", "backward", "bidirectional"] = 'forward',
    output_sequence: Output | bool | None = None,
    output_single: Literal[False],
    name: str | None = None,
) -> Value:
    """H_t = f(W · X_t + R · H_(t−1) + Wb + Rb), along time forward, backward or both."""

@overload
def rnn(
    input: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    hidden_init: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    *,
    activation_descs: Sequence[str | Mapping[str, Any] | Operator],
    direction: Literal["forward", "backward", "bidirectional"] = 'forward',
    output_sequence: Output | bool | None = None,
    output_single: Output | bool | None = None,
    name: str | None = None,
) -> RnnOutputs | Value:
    """H_t = f(W · X_t + R · H_(t−1) + Wb + Rb), along time forward, backward or both."""

def roi_align(
    input: Tensor,
    roi: Tensor,
    batch_indices: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    reduction_function: Literal["argmax", "argmin", "average", "l1", "l2", "log_sum", "log_sum_exp", "max", "min", "multiply", "sum", "sum_square"],
    interpolation_mode: Literal["nearest_neighbor", "linear"],
    spatial_scale_x: Real,
    spatial_scale_y: Real,
    out_of_bounds_input_value: Real,
    minimum_samples_per_output: Size,
    maximum_samples_per_output: Size,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """ROI_ALIGN1 with pixel offsets of 0.5 and −0.5, the middles of elements, and regions not aligned to corners."""

def roi_align1(
    input: Tensor,
    roi: Tensor,
    batch_indices: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    reduction_function: Literal["argmax", "argmin", "average", "l1", "l2", "log_sum", "log_sum_exp", "max", "min", "multiply", "sum", "sum_square"],
    interpolation_mode: Literal["nearest_neighbor", "linear"],
    spatial_scale_x: Real,
    spatial_scale_y: Real,
    input_pixel_offset: Real,
    output_pixel_offset: Real,
    out_of_bounds_input_value: Real,
    minimum_samples_per_output: Size,
    maximum_samples_per_output: Size,
    align_regions_to_corners: bool,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Regions of images, all resized to the same height and width by sampling and reducing the samples."""

def roi_align_grad(
    input: Tensor | None = None,
    input_gradient: Tensor | None = None,
    roi: Tensor | None = None,
    batch_indices: Tensor | None = None,
    *,
    reduction_function: Literal["argmax", "argmin", "average", "l1", "l2", "log_sum", "log_sum_exp", "max", "min", "multiply", "sum", "sum_square"],
    interpolation_mode: Literal["nearest_neighbor", "linear"],
    spatial_scale_x: Real,
    spatial_scale_y: Real,
    input_pixel_offset: Real,
    output_pixel_offset: Real,
    minimum_samples_per_output: Size,
    maximum_samples_per_output: Size,
    align_regions_to_corners: bool,
    output_gradient: Output | bool | None = None,
    output_roi_gradient: Output | bool | None = None,
    name: str | None = None,
) -> RoiAlignGradOutputs | Value:
    """The gradient of ROI_ALIGN1: for its input (`output_gradient`), for its regions (`output_roi_gradient`), or both."""

def roi_pooling(
    input: Tensor,
    roi: Tensor,
    *,
    spatial_scale: Real,
    pooled_size: Sequence[Size],
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The greatest element of each cell of each region; a region is divided into `pooled_size` cells."""

def round(
    input: Tensor,
    *,
    rounding_mode: Literal["halves_to_nearest_even", "toward_zero", "toward_infinity"] = 'halves_to_nearest_even',
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The nearest whole number, or the one toward zero."""

def scatter_elements(
    input: Tensor,
    indices: Tensor,
    updates: Tensor,
    *,
    axis: Size,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The input, except output[c, along `axis` at indices[c]] = updates[c]."""

def scatter_nd(
    input: Tensor,
    indices: Tensor,
    updates: Tensor,
    *,
    input_dimension_count: Size | None = None,
    indices_dimension_count: Size | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The input, except output[indices[k…, 0], indices[k…, 1], …, slice…] = updates[k…, slice…]."""

def sign(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """−1 below zero, 1 above, else 0, also for NaN."""

def sin(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The sine of x, an angle in radians."""

def sinh(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The hyperbolic sine of x; measured: DirectML's float32 overflows beyond 88.72, where e^x does."""

def slice(
    input: Tensor,
    *,
    offsets: Size | Sequence[Size],
    sizes: Size | Sequence[Size],
    strides: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """output[i] = input[offsets + strides · i] in every dimension; `sizes` are the output's."""

def slice1(
    input: Tensor,
    *,
    input_window_offsets: Size | Sequence[Size],
    input_window_sizes: Size | Sequence[Size],
    input_window_strides: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """output[i] = input[start + input_window_strides · i] in every dimension."""

def slice_grad(
    input_gradient: Tensor,
    *,
    sizes: Sequence[Size] | None = None,
    input_window_offsets: Size | Sequence[Size],
    input_window_sizes: Size | Sequence[Size],
    input_window_strides: Size | Sequence[Size] | None = None,
    output_gradient: Output | None = None,
    name: str | None = None,
) -> Value:
    """The gradient of slice1: the output is zero, except output[start + stride · i] = input[i]."""

def space_to_depth(input: Tensor, *, block_size: Size, output: Output | None = None, name: str | None = None) -> Value:
    """Blocks of pixels into channels: output[n, (y · B + x) · C + c, h, w] = input[n, c, h · B + y, w · B + x]."""

def space_to_depth1(
    input: Tensor,
    *,
    block_size: Size,
    order: Literal["depth_column_row", "column_row_depth"] = 'depth_column_row',
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """Blocks of pixels into channels, in either order: the inverse of depth_to_space1."""

def split(
    input: Tensor, *, axis: Size, outputs: Size | Sequence[Size | Output] | None = None, name: str | None = None
) -> tuple[Value, ...]:
    """The input split along `axis` into parts; `outputs` lists their sizes along it, which add up to the input's."""

def sqrt(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The square root of x, NaN below zero."""

def squeeze(
    input: Tensor, *, axes: Size | Sequence[Size] | None = None, output: Output | None = None, name: str | None = None
) -> Value:
    """Without these dimensions, whose size is 1; by default without all of size 1, except one that must remain."""

def stop_gradient(input: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The input, which counts as constant for gradients: no gradient goes further back."""

def subscript(input: Tensor, *, index: str, output: Output | None = None, name: str | None = None) -> Value:
    """NumPy's basic indexing: `index: "1:, 0, ::2, None, ..."`, as in `x[1:, 0, ::2, None, ...]`."""

def subtract(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value:
    """The difference: a − b."""

def tan(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The tangent of x, an angle in radians."""

def tanh(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The hyperbolic tangent of x."""

def threshold(
    input: Tensor,
    *,
    scale_bias: ScaleBias | Mapping[str, Real] | None = None,
    min: Real,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """max(x, min); the bound is first converted to the tensor's type, toward zero for integers."""

def tile(
    input: Tensor, *, repeats: Size | Sequence[Size], output: Output | None = None, name: str | None = None
) -> Value:
    """The input repeated `repeats` times in every dimension."""

def top_k(
    input: Tensor,
    *,
    axis: Size,
    k: Size,
    output_value: Output | None = None,
    output_index: Output | None = None,
    name: str | None = None,
) -> TopKOutputs:
    """The `k` greatest elements along `axis`, greatest first, and their indices along it."""

def top_k1(
    input: Tensor,
    *,
    axis: Size,
    k: Size,
    axis_direction: Literal["increasing", "decreasing"] = 'decreasing',
    output_value: Output | None = None,
    output_index: Output | None = None,
    name: str | None = None,
) -> TopK1Outputs:
    """The `k` greatest (decreasing) or least (increasing) elements along `axis`, in that order, and their indices."""

def transpose(
    input: Tensor,
    *,
    permutation: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The dimensions in another order: dimension i of the output is `permutation[i]` of the input; reversed by default."""

def unfold(
    input: Tensor,
    *,
    window_sizes: Size | Sequence[Size],
    strides: Size | Sequence[Size] | None = None,
    dilations: Size | Sequence[Size] | None = None,
    start_padding: Size | Sequence[Size] | None = None,
    end_padding: Size | Sequence[Size] | None = None,
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The patches that a sliding window covers: {N, C, spatial…} becomes {N, C · window elements, blocks}."""

def upsample_2d(
    input: Tensor,
    *,
    scale_size: Sequence[Size],
    interpolation_mode: Literal["nearest_neighbor", "linear"],
    output: Output | None = None,
    name: str | None = None,
) -> Value:
    """The last two dimensions, height and width, stretched by whole numbers, as in RESAMPLE."""

def value_scale_2d(
    input: Tensor, *, scale: Real, bias: Sequence[Real], output: Output | None = None, name: str | None = None
) -> Value:
    """scale · x + bias[c], c the channel; images have 1 or 3 channels."""
