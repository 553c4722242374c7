"""The ranks and shapes that inputs of operators must have, of which their schemas say nothing, or say it in words.

ONNX's own inference of shapes checks the same, but it is not for models of strangers: it ends the process or never
ends for some attributes (a negative `batch_dims` of GatherND, the equation `......ii` of Einsum).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.tensors import Tensor

MOST = 1 << 30  # a rank without a bound
_REST = "..."


class Shape(NamedTuple):
    """What the shape of an input must be.

    Attributes:
        least, most: the ranks.
        form: names for sizes, each the same in all inputs; `...` any sizes.  None if they are not checked.
    """

    least: int = 0
    most: int = MOST
    form: tuple[str, ...] | None = None


ANY = Shape()

# Operators: their inputs with their ranks, and their form; inputs that are not here take any.  A domain other than
# ONNX's is in front.
_SHAPES = """
Attention: Q 3-4, K 3-4, V 3-4, past_key 4, past_value 4
AveragePool LpPool MaxPool com.microsoft.QLinearAveragePool com.microsoft.QLinearGlobalAveragePool: X 3+
BatchNormalization: X 1+ [N C ...], scale 1 [C], B 1 [C], input_mean 1 [C], input_var 1 [C], mean 1 [C], var 1 [C]
Col2Im: input 3 [N CK L], image_shape 1 [D], block_shape 1 [D]
Compress: condition 1 [B]
Concat: inputs 1+
ConstantOfShape: input 1 [D]
Conv ConvTranspose com.microsoft.FusedConv: X 3+, W 3+, B 1
ConvInteger: x 3+, w 3+, x_zero_point 0-1, w_zero_point 0-1
DFT: input 2+, dft_length 0-1, axis 0-1
DeformConv: X 3+, W 3+, offset 3+, B 1, mask 3+
DepthToSpace SpaceToDepth: input 4
Det GlobalAveragePool GlobalLpPool GlobalMaxPool LRN com.microsoft.Trilu: X 2+
Expand Reshape: shape 1 [D]
EyeLike: input 2 [R C]
GRU RNN: X 3, W 3, R 3, B 2, sequence_lens 1, initial_h 3
Gather: data 1+
GatherElements GatherND ScatterND com.microsoft.GatherND: data 1+, indices 1+
Gemm com.microsoft.FusedGemm com.microsoft.QGemm: A 2, B 2, C 0-2
GridSample: X 3+, grid 3+
GroupNormalization: X 2+, scale 1, bias 1
InstanceNormalization: input 2+ [N C ...], scale 1 [C], B 1 [C]
LSTM: X 3, W 3, R 3, B 2, sequence_lens 1, initial_h 3, initial_c 3, P 2
LayerNormalization RMSNormalization TopK com.microsoft.Irfft com.microsoft.Rfft: X 1+
LinearAttention: query [N S Q], key [N S K], value [N S V]
MatMul MatMulInteger com.microsoft.FusedMatMul com.microsoft.TransposeMatMul: A 1+, B 1+
MaxUnpool: X 3+, I 3+, output_shape 1
NegativeLogLikelihoodLoss: input 2+ [N C ...], target 1+ [N ...], weight 1 [C]
OneHot: values 1
Pad: pads 1, axes 1
QLinearConv: x 3+, x_scale 0-1, x_zero_point 0-1, w 3+, w_scale 0-1, w_zero_point 0-1, y_scale 0-1, y_zero_point 0-1,
  B 1
QLinearMatMul: a 1+, b 1+
Resize: X 1+, roi [roi], scales 1 [scales], sizes 1 [sizes]
ReverseSequence: input 2+, sequence_lens 1 [B]
RoiAlign: X 4, rois 2, batch_indices 1
RotaryEmbedding: X 3-4, cos_cache 2-3 [... P D], sin_cache 2-3 [... P D], position_ids 2
STFT: signal 2-3, window 1
Scatter ScatterElements: data 1+, indices 1+, updates 1+
Slice: data 1+, starts 1 [A], ends 1 [A], axes 1 [A], steps 1 [A]
SoftmaxCrossEntropyLoss: scores 2+ [N C ...], labels 1+ [N ...], weights 1 [C]
Split: input 1+, split 1
SplitToSequence: split 0-1
TensorScatter: past_cache 3+, update 3+, write_indices 1
Tile: repeats 1 [D], tiles [D]
Trilu: input 2+
Upsample: X 1+, scales 1
com.microsoft.Attention: input 3, weights 2, bias 1, mask_index 1-4, past 5, attention_bias 4
com.microsoft.BiasAdd: X 3, bias 1, skip 3
com.microsoft.BiasGelu: B 1
com.microsoft.BiasSplitGelu: X 3, bias 1
com.microsoft.ConvTransposeWithDynamicPads: X 3+, W 3+, Pads 1, B 1
com.microsoft.CropAndResize: X 4, rois 2, batch_indices 1, crop_size 1
com.microsoft.DynamicQuantizeMatMul: A 1+, B 1+, b_scale 0-1, b_zero_point 0-1, bias 1
com.microsoft.EmbedLayerNormalization: input_ids 2, segment_ids 2, word_embedding 2, position_embedding 2,
  segment_embedding 2, gamma 1, beta 1, mask 2, position_ids 2
com.microsoft.FastGelu: bias 1
com.microsoft.GridSample: X 4, Grid 4
com.microsoft.GroupNorm: X 4, gamma 1, beta 1
com.microsoft.GroupQueryAttention: query 3, key 3, value 3, past_key 4, past_value 4, cos_cache 2, sin_cache 2,
  position_ids 2, attention_bias 4, head_sink 1, q_norm_weight 1, k_norm_weight 1
com.microsoft.MatMulIntegerToFloat: A 1+, B 1+, a_scale 0-1, b_scale 0-1, a_zero_point 0-1, b_zero_point 0-1, bias 1
com.microsoft.MatMulNBits: A 1+, bias 1
com.microsoft.MultiHeadAttention: query 3-5, key 3-5, value 3-4, bias 1, key_padding_mask 1-3, attention_bias 4,
  past_key 4, past_value 4
com.microsoft.NhwcMaxPool: x 3+
com.microsoft.QAttention: input 3, weight 2, bias 1, mask_index 1-4, past 5
com.microsoft.QLinearConv: x 3+, w 3+, B 1
com.microsoft.RotaryEmbedding: input 3-4, position_ids 1-2, cos_cache 2, sin_cache 2
com.microsoft.SkipGroupNorm: X 4, gamma 1, beta 1, bias 1
com.microsoft.SkipLayerNormalization: input 2+, skip 1+, gamma 1, beta 1, bias 1
com.microsoft.SkipSimplifiedLayerNormalization: input 2+, skip 1+, gamma 1, bias 1
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare:
  axes [A]
"""
SHAPES = {
    operator: text
    for row in _SHAPES.strip().replace("\n  ", " ").splitlines()
    for operators, _, text in [row.partition(": ")]
    for operator in operators.split()
}


@functools.cache
def shapes(domain: str, operator: str) -> dict[str, Shape]:
    """The shapes of an operator's inputs, by name, where it does not take any."""
    text = SHAPES.get(f"{domain}.{operator}" if domain else operator)
    return dict(map(_shape_of, text.split(", "))) if text else {}


def _shape_of(text: str) -> tuple[str, Shape]:
    """Of `name`, then a rank such as `2`, `1-2` or `1+`, a form such as `[N C ...]`, or both."""
    found = re.fullmatch(r"(\w+)(?: (\d+)(?:-(\d+)|(\+))?)?(?: \[(.*)\])?", text)
    assert found is not None, text
    name, least, most, open_end, form = found.groups()
    ranks = (0, MOST) if least is None else (int(least), MOST if open_end else int(most or least))
    return name, Shape(*ranks, None if form is None else tuple(form.split()))


def check_forms(wanted: Sequence[Shape], inputs: Sequence[Tensor | None], names: Sequence[str]) -> None:
    """Checks the shapes of inputs, whose names are those of the schema.

    Raises:
        Refusal: an input has another form.
    """
    sizes: dict[str, tuple[int, str]] = {}  # by name: the size, and of which input
    for (_, _, form), tensor, name in zip(wanted, inputs, names, strict=False):
        if tensor is None or form is None:
            continue
        for size, number in _named(form, tensor.shape, name):
            first, where = sizes.setdefault(size, (number, name))
            if number != first:
                allowed = f"{_shown(form)}, {size} is {first} as in {where}"
                got = [*tensor.shape]
                raise Refusal("the input has another shape", code="sizes", field=name, got=got, allowed=allowed)


def _named(form: tuple[str, ...], shape: tuple[int, ...], name: str) -> list[tuple[str, int]]:
    """The sizes that have names."""
    is_open = _REST in form
    first = form.index(_REST) if is_open else len(form)
    front, back = form[:first], form[first + 1 :]
    rank = len(front) + len(back)
    if len(shape) < rank or (len(shape) > rank and not is_open):
        raise Refusal("the input has another rank", code="rank", field=name, got=[*shape], allowed=_shown(form))
    return [*zip(front, shape, strict=False), *zip(back, shape[len(shape) - len(back) :], strict=True)]


def _shown(form: tuple[str, ...]) -> str:
    return f"[{', '.join(form)}]"
