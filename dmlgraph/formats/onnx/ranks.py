"""How many dimensions the inputs of ONNX's operators have, which their schemas say in words only.

ONNX's own inference of shapes checks the same, but it is not for models of strangers: it ends the process or never
ends for some attributes (a negative `batch_dims` of GatherND, the equation `......ii` of Einsum).
"""

from __future__ import annotations

import functools

MOST = 1 << 30  # a rank without a bound

# Of an operator: inputs with their ranks; those that are not here take any.  A domain other than ONNX's is in front.
RANKS = {
    "Attention": "Q 3-4, K 3-4, V 3-4, past_key 4, past_value 4",
    "AveragePool": "X 3+",
    "BatchNormalization": "X 1+, scale 1, B 1, input_mean 1, mean 1, input_var 1, var 1",
    "Col2Im": "input 3, image_shape 1, block_shape 1",
    "Compress": "condition 1",
    "Concat": "inputs 1+",
    "ConstantOfShape": "input 1",
    "Conv": "X 3+, W 3+, B 1",
    "ConvInteger": "x 3+, w 3+, x_zero_point 0-1, w_zero_point 0-1",
    "ConvTranspose": "X 3+, W 3+, B 1",
    "DFT": "input 2+, dft_length 0-1, axis 0-1",
    "DepthToSpace": "input 4",
    "Det": "X 2+",
    "Expand": "shape 1",
    "EyeLike": "input 2",
    "GRU": "X 3, W 3, R 3, B 2, sequence_lens 1, initial_h 3",
    "Gather": "data 1+",
    "GatherElements": "data 1+, indices 1+",
    "GatherND": "data 1+, indices 1+",
    "Gemm": "A 2, B 2, C 0-2",
    "GlobalAveragePool": "X 2+",
    "GlobalLpPool": "X 2+",
    "GlobalMaxPool": "X 2+",
    "GridSample": "X 3+, grid 3+",
    "GroupNormalization": "X 2+, scale 1, bias 1",
    "InstanceNormalization": "input 2+, scale 1, B 1",
    "LRN": "X 2+",
    "LSTM": "X 3, W 3, R 3, B 2, sequence_lens 1, initial_h 3, initial_c 3, P 2",
    "LayerNormalization": "X 1+",
    "LpPool": "X 3+",
    "MatMul": "A 1+, B 1+",
    "MatMulInteger": "A 1+, B 1+",
    "MaxPool": "X 3+",
    "MaxUnpool": "X 3+, I 3+, output_shape 1",
    "NegativeLogLikelihoodLoss": "input 2+, target 1+, weight 1",
    "OneHot": "values 1",
    "Pad": "pads 1, axes 1",
    "QLinearConv": "x 3+, x_scale 0-1, x_zero_point 0-1, w 3+, w_scale 0-1, w_zero_point 0-1, y_scale 0-1, "
    "y_zero_point 0-1, B 1",
    "QLinearMatMul": "a 1+, b 1+",
    "RMSNormalization": "X 1+",
    "RNN": "X 3, W 3, R 3, B 2, sequence_lens 1, initial_h 3",
    "Reshape": "shape 1",
    "Resize": "X 1+, scales 1, sizes 1",
    "ReverseSequence": "input 2+, sequence_lens 1",
    "RoiAlign": "X 4, rois 2, batch_indices 1",
    "RotaryEmbedding": "X 3-4, cos_cache 2-3, sin_cache 2-3, position_ids 2",
    "STFT": "signal 2-3, window 1",
    "Scatter": "data 1+, indices 1+, updates 1+",
    "ScatterElements": "data 1+, indices 1+, updates 1+",
    "ScatterND": "data 1+, indices 1+",
    "Slice": "data 1+, starts 1, ends 1, axes 1, steps 1",
    "SoftmaxCrossEntropyLoss": "scores 2+, labels 1+, weights 1",
    "SpaceToDepth": "input 4",
    "Split": "input 1+, split 1",
    "TensorScatter": "past_cache 3+, update 3+, write_indices 1",
    "Tile": "repeats 1",
    "TopK": "X 1+",
    "Trilu": "input 2+",
    "Upsample": "X 1+, scales 1",
    "com.microsoft.Attention": "input 3, weights 2, bias 1, mask_index 1-4, past 5, attention_bias 4",
    "com.microsoft.BiasAdd": "X 3, bias 1, skip 3",
    "com.microsoft.BiasGelu": "B 1",
    "com.microsoft.BiasSplitGelu": "X 3, bias 1",
    "com.microsoft.ConvTransposeWithDynamicPads": "X 3+, W 3+, Pads 1, B 1",
    "com.microsoft.CropAndResize": "X 4, rois 2, batch_indices 1, crop_size 1",
    "com.microsoft.DynamicQuantizeMatMul": "A 1+, B 1+, b_scale 0-1, b_zero_point 0-1, bias 1",
    "com.microsoft.EmbedLayerNormalization": "input_ids 2, segment_ids 2, word_embedding 2, position_embedding 2, "
    "segment_embedding 2, gamma 1, beta 1, mask 2, position_ids 2",
    "com.microsoft.FastGelu": "bias 1",
    "com.microsoft.FusedConv": "X 3+, W 3+, B 1",
    "com.microsoft.FusedGemm": "A 2, B 2, C 0-2",
    "com.microsoft.FusedMatMul": "A 1+, B 1+",
    "com.microsoft.GatherND": "data 1+, indices 1+",
    "com.microsoft.GridSample": "X 4, Grid 4",
    "com.microsoft.GroupNorm": "X 4, gamma 1, beta 1",
    "com.microsoft.GroupQueryAttention": "query 3, key 3, value 3, past_key 4, past_value 4, cos_cache 2, sin_cache 2, "
    "position_ids 2, attention_bias 4, head_sink 1, q_norm_weight 1, k_norm_weight 1",
    "com.microsoft.Irfft": "X 1+",
    "com.microsoft.MatMulIntegerToFloat": "A 1+, B 1+, a_scale 0-1, b_scale 0-1, a_zero_point 0-1, b_zero_point 0-1, "
    "bias 1",
    "com.microsoft.MatMulNBits": "A 1+, bias 1",
    "com.microsoft.MultiHeadAttention": "query 3-5, key 3-5, value 3-4, bias 1, key_padding_mask 1-3, "
    "attention_bias 4, past_key 4, past_value 4",
    "com.microsoft.NhwcMaxPool": "x 3+",
    "com.microsoft.QAttention": "input 3, weight 2, bias 1, mask_index 1-4, past 5",
    "com.microsoft.QGemm": "A 2, B 2, C 0-2",
    "com.microsoft.QLinearAveragePool": "X 3+",
    "com.microsoft.QLinearConv": "x 3+, w 3+, B 1",
    "com.microsoft.QLinearGlobalAveragePool": "X 3+",
    "com.microsoft.Rfft": "X 1+",
    "com.microsoft.RotaryEmbedding": "input 3-4, position_ids 1-2, cos_cache 2, sin_cache 2",
    "com.microsoft.SkipGroupNorm": "X 4, gamma 1, beta 1, bias 1",
    "com.microsoft.SkipLayerNormalization": "input 2+, skip 1+, gamma 1, beta 1, bias 1",
    "com.microsoft.SkipSimplifiedLayerNormalization": "input 2+, skip 1+, gamma 1, bias 1",
    "com.microsoft.TransposeMatMul": "A 1+, B 1+",
    "com.microsoft.Trilu": "X 2+",
}


@functools.cache
def ranks(domain: str, operator: str) -> dict[str, tuple[int, int]]:
    """The least and the greatest rank of an operator's inputs, by name, where it does not take any."""
    text = RANKS.get(f"{domain}.{operator}" if domain else operator)
    return dict(map(_ranks_of, text.split(", "))) if text else {}


def _ranks_of(text: str) -> tuple[str, tuple[int, int]]:
    """Of `name 2`, `name 1-2` or `name 1+`."""
    name, numbers = text.split()
    least, _, most = numbers.rstrip("+").partition("-")
    return name, (int(least), MOST if numbers.endswith("+") else int(most or least))
