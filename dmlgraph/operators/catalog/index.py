"""All operators, by family.

Made by tools/generate.py from the operators' classes: change those, not this file.
"""

# The operators of each family, in DirectML's order.
FAMILIES = {
    "activation": (
        "activation_elu activation_hard_sigmoid activation_identity activation_leaky_relu activation_linear "
        "activation_parameterized_relu activation_parametric_softplus activation_relu activation_scaled_elu "
        "activation_scaled_tanh activation_sigmoid activation_softplus activation_softsign activation_tanh "
        "activation_thresholded_relu activation_shrink activation_celu activation_gelu activation_swish "
        "activation_hard_swish "
    ),
    "attention": "multihead_attention multihead_attention1",
    "bitwise": "bit_shift_left bit_shift_right bit_and bit_or bit_xor bit_not bit_count",
    "convolution": "convolution convolution_integer quantized_linear_convolution",
    "diagonal": "diagonal_matrix diagonal_matrix1",
    "element_wise": (
        "identity abs add ceil clip divide exp floor log max mean min multiply pow constant_pow recip sqrt subtract "
        "threshold cast sign erf if add1 round modulus_truncate modulus_floor difference_square clip1 negate "
    ),
    "fill": "fill_value_constant fill_value_sequence",
    "gradient": "activation_relu_grad clip_grad clip_grad1",
    "image": "value_scale_2d space_to_depth depth_to_space depth_to_space1 space_to_depth1",
    "indexing": "gather scatter_elements one_hot gather_elements gather_nd scatter_nd nonzero_coordinates gather_nd1",
    "logical": (
        "logical_and logical_equals logical_greater_than logical_less_than logical_not logical_or logical_xor is_nan "
        "is_infinity logical_greater_than_or_equal logical_less_than_or_equal "
    ),
    "matrix": "gemm",
    "matrix_integer": "matrix_multiply_integer quantized_linear_matrix_multiply matrix_multiply_integer_to_float",
    "normalization": (
        "batch_normalization mean_variance_normalization local_response_normalization lp_normalization "
        "mean_variance_normalization1 batch_normalization_training mean_variance_normalization2 "
    ),
    "normalization_grad": (
        "local_response_normalization_grad batch_normalization_grad batch_normalization_training_grad "
    ),
    "optimizer": "adam_optimizer",
    "padding": "padding padding1",
    "patches": "fold unfold",
    "pooling": (
        "average_pooling lp_pooling max_pooling max_pooling1 max_unpooling max_pooling2 average_pooling_grad "
        "max_pooling_grad lp_pooling1 average_pooling1 quantized_linear_average_pooling "
    ),
    "quantization": (
        "quantize_linear dequantize_linear quantized_linear_add dynamic_quantize_linear quantize dequantize "
    ),
    "random": "random_generator",
    "recurrent": "rnn lstm gru",
    "reduction": "reduce",
    "resampling": "upsample_2d resample resample1 resample_grad resample2 resample_grad1 resample3",
    "roi": "roi_pooling roi_align roi_align1",
    "roi_grad": "roi_align_grad",
    "scan": "cumulative_summation cumulative_product",
    "selection": "top_k top_k1 argmin argmax",
    "shape": "split join tile reverse_subsequences",
    "slicing": "slice slice1 slice_grad",
    "softmax": (
        "activation_hardmax activation_log_softmax activation_softmax activation_softmax1 activation_log_softmax1 "
        "activation_hardmax1 "
    ),
    "trigonometric": "acos asin atan cos sin tan sinh cosh tanh asinh acosh atanh atan_yx",
    "view": "broadcast_to expand_dims flatten reshape squeeze stop_gradient subscript transpose",
}

# Names of operators by their other names.
ALIASES = {
    "scatter": "scatter_elements",
}

# Operators that need no tensors: methods of Graph; the others are functions.
SOURCES = (
    "diagonal_matrix",
    "diagonal_matrix1",
    "fill_value_constant",
    "fill_value_sequence",
)

# Operators with several outputs, for which there are named tuples.
SEVERAL_OUTPUTS = (
    "multihead_attention multihead_attention1 nonzero_coordinates batch_normalization_training "
    "batch_normalization_grad batch_normalization_training_grad adam_optimizer max_pooling1 max_pooling2 "
    "dynamic_quantize_linear random_generator rnn lstm gru roi_align_grad top_k top_k1 "
)
