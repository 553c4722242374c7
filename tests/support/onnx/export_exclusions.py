"""The operators' samples that are not exported, or whose model does not give the same, each with its reason.

Names are `operator: row (type)`, with *; a row stands for each of its data types.
"""

from __future__ import annotations

_REASONS = {
    "ONNX has no operators on the bits of floats": """
        bit_count: the bits of *
        bit_and: the bits of floats *
        bit_or: the bits of floats *
        bit_xor: the bits of floats *
        bit_not: the bits of floats *
        bit_count: example
        bit_and: example
        bit_or: example
        bit_xor: example
        bit_not: example
    """,
    "ONNX has no such operator": """
        random_generator: *
        roi_align_grad: *
    """,
    "ONNX's MaxPool takes no 64 bits": """
        max_pooling: 64 bits *
        max_pooling1: 64 bits *
        max_pooling2: 64 bits *
    """,
    "in ONNX Runtime NaN is not passed over": """
        activation_relu: zero where NaN *
        activation_hard_sigmoid: NaN becomes 0 *
        activation_hard_sigmoid: zero times infinity is no number *
        activation_hardmax*: nothing is greater than a first NaN *
        activation_thresholded_relu: what is not at or below alpha stays (float32)
        activation_thresholded_relu: nothing is at or below NaN (float32)
        clip*: NaN becomes max *
        clip1: a bound of NaN binds nothing *
        threshold: NaN becomes the bound *
        threshold: a bound of NaN binds nothing *
        max: NaN gives way *
        min: NaN gives way *
        max: infinities *
        min: infinities *
        max_pooling*: −infinity counts as the least number, NaN is passed over *
        max_pooling_grad: NaN is passed over *
        reduce: m??: NaN is passed over *
        reduce: m??: NaN alone is *
        sign: 0 for both zeros and NaN (float32)
    """,
    "DirectML computes powers by logarithms, ONNX exactly": """
        constant_pow: roots, NaN below zero *
        constant_pow: the inverse of zero *
        constant_pow: 0 · ∞ is NaN *
        constant_pow: to the power of ∞ *
        constant_pow: to the power of NaN *
        pow: zero *
        pow: 4099 − 3 is rounded: an even exponent (float16)
        pow: 2^(y log2 x) has no value *
        adam_optimizer: a negative beta has no power *
        local_response_normalization: a base that is not positive has no power *
    """,
    "ONNX leaves integers to negative powers, and beyond the range, open": """
        pow: 1/0 is the greatest number *
        pow: 1/x is cut to zero but for ±1 (int8)
        pow: 1/x is cut to zero but for ±1 (int16)
        pow: wraps modulo 2^32 (int32)
        pow: 16 bits saturate after the bias *
        pow: 0 to a negative power is the greatest *
        pow: by an exponent of 8 bits * saturates *
    """,
    "ONNX leaves floats beyond the range of integers of 32 and 64 bits open": """
        cast: saturates, to int32 (float??)
        cast: saturates, to int64 (float??)
        cast: saturates, to uint32 (float??)
        cast: saturates, to uint64 (float??)
        cast: the ends of the range, to int32 (float32)
        cast: the ends of the range, to uint32 (float32)
        cast: the ends of the range, to int64 (float64)
        cast: the ends of the range, to uint64 (float64)
        identity: 32 bits saturate (int32)
        activation_shrink: int32 stays in its range *
        activation_shrink: uint32 stays in its range *
    """,
    "DirectML keeps the low bits of a bound beyond the range": """
        threshold: of 16 bits the low ones stay *
    """,
    "DirectML evaluates a formula literally, ONNX Runtime accurately": """
        asinh: digits cancel below zero (float32)
        asinh: NaN at −∞: ∞ − ∞ *
        asinh: all of them at last *
        a????: the square overflows (float32)
        reduce: log_sum_exp: e^x overflows *
        reduce: log_sum_exp: e^x vanishes *
        acosh: −∞ where −x − x is left of the root *
        modulus_truncate: almost three times *
        modulus_truncate: NaN modulo infinity: 0 · ∞ *
        modulus_floor: almost three times *
    """,
    "ONNX Runtime computes with fewer digits": """
        activation_elu: nothing is lost near zero (float32)
    """,
    "float16 is rounded after other steps": """
        lp_normalization: p ?: the square overflows (float16)
        recip: float16 is rounded after the scale (float16)
    """,
    "infinities divided by one another are NaN": """
        activation_celu: alpha zero cuts *
        atan_yx: infinities *
        local_response_normalization: the sum of squares overflows in float32 *
        dynamic_quantize_linear: zeros to *
    """,
    "in ONNX Runtime a maximum of float32 begins at the least finite number": """
        max_pooling*: one window of all elements: −infinity stays, and is what NaN alone gives (float32)
    """,
    "in ONNX Runtime sums of integers saturate": """
        reduce: sum: wraps (int32)
        reduce: multiply: wraps (int64)
        reduce: sum_square: wraps (int32)
        reduce: l1: the least integer has no opposite (int32)
    """,
    "ONNX Runtime takes no padding as wide as the window": """
        average_pooling*: nothing but padding is 0 / 0 *
        max_pooling: nothing but padding is the least number, of 32 bits *
        max_pooling1: nothing but padding is the least number, of 32 bits *
        max_pooling2: nothing but padding is the least number, of 32 bits *
        max_pooling_grad: nothing but padding takes nothing *
        quantized_linear_average_pooling: nothing but padding*
    """,
    "ONNX Runtime takes no such attribute or index": """
        convolution_integer: a zero point for each channel (int8)
        local_response_normalization: nor has 0 to the power of 0 *
        max_unpooling: an index beyond the end is passed over *
    """,
    "ONNX Runtime rounds halves of corners away from zero": """
        roi_pooling: corners are scaled and rounded, halves to even *
    """,
    "ONNX's reference rounds after adding the zero point": """
        quantized_linear_convolution: int8, int8 to uint8 (int8)
    """,
    "ONNX's reference gives uint64": """
        reduce: sum_square: sum of squares (uint32)
    """,
}
EXCLUDED = {
    pattern.strip(): reason for reason, patterns in _REASONS.items() for pattern in patterns.strip().split("\n")
}

# ONNX operators whose kernels ONNX Runtime's CPU has for some of the types only; ONNX's reference ran them instead.
WITHOUT_KERNEL = {
    *("ArgMax", "ArgMin", "Col2Im", "CumSum", "DepthToSpace", "Max", "Min", "OneHot", "PRelu", "Pad", "Pow"),
    *("QLinearConv", "QLinearMatMul", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Reshape"),
    *("SpaceToDepth", "TopK", "Where"),
}
