"""The node cases that cannot be imported, each with its reason."""

from __future__ import annotations

_REASONS = {
    "strings have no counterpart": """
        test_ai_onnx_ml_label_encoder_* test_equal_string* test_regex_full_match_* test_string_* test_strnormalizer_*
    """,
    "a graph has no inputs that are sequences or optional": """
        test_identity_opt test_identity_sequence test_loop13_seq test_loop16_seq_none
        test_optional_get_element_optional_* test_optional_get_element_sequence test_optional_has_element_tensor_input
        test_optional_has_element_optional_input test_optional_has_element_empty_optional_input test_sequence_*
    """,
    "an output that is a sequence becomes several": "test_if_opt test_if_seq test_split_to_sequence_*",
    "DirectML has no floats of 8 and 4 bits": """
        test_cast*_FLOAT8* test_cast*_FLOAT4* test_dequantizelinear_e4m3fn* test_dequantizelinear_e5m2
        test_dequantizelinear_float4e2m1 test_quantizelinear_e4m3fn test_quantizelinear_e5m2
        test_quantizelinear_float4e2m1
    """,
    "DirectML has no integers of 2 bits": """
        test_cast*_INT2 test_cast*_INT2_* test_cast*_UINT2 test_cast*_UINT2_* test_dequantizelinear_*int2
        test_quantizelinear_*int2
    """,
    "DirectML has no tensors without elements": """
        test_causal_conv_with_state_kernel_size_one test_causal_conv_with_state_kernel_size_one_expanded
        test_constantofshape_int_shape_zero test_reduce_sum_empty_set_non_reduced_axis_zero
        test_reshape_allowzero_reordered test_shape_start_greater_than_end test_slice_start_out_of_bounds
        test_split_zero_size_splits_* test_tril_zero test_triu_zero
    """,
    "the size of the result depends on the numbers": "test_unique_*",
    "rows of -1 follow the chosen boxes": """
        test_nonmaxsuppression_suppress_by_IOU_and_scores test_nonmaxsuppression_identical_boxes
    """,
    "the operator has no counterpart": """
        test_ai_onnx_ml_array_feature_extractor test_ai_onnx_ml_binarizer test_ai_onnx_ml_tree_ensemble_*
        test_image_decoder_* test_tfidfvectorizer_*
    """,
    "optimizers are not read": """
        test_adagrad test_adagrad_multiple test_adam test_adam_multiple test_momentum test_momentum_multiple
        test_nesterov_momentum
    """,
    "random numbers are not ONNX's": """
        test_bernoulli* test_training_dropout test_training_dropout_default* test_training_dropout_mask
    """,
    "the indices belong to another size": "test_maxunpool_export_with_output_shape",
    "a product with a matrix has no value for places outside": "test_resize_tf_crop_and_resize_extrapolation_value",
    "DirectML's remainder of an infinite divisor is NaN": "test_mod_float_edge_cases_fmod_0_*",
}
EXCLUDED = {pattern: reason for reason, patterns in _REASONS.items() for pattern in patterns.split()}

_REASONS_ON_DIRECTML = {
    "it needs a feature level that the library lacks": """
        test_cast_*_to_*INT4 test_castlike_*_to_*INT4* test_cast_*INT4_to_* test_castlike_*INT4_to_*
        test_dequantizelinear_*int4 test_quantizelinear_*int4
    """,
    "its asin and its rounding differ by more than the bounds": """
        test_asin test_asin_example test_dynamicquantizelinear
    """,
}
# More cases that fail on the real DirectML.
ON_DIRECTML = {pattern: reason for reason, patterns in _REASONS_ON_DIRECTML.items() for pattern in patterns.split()}
