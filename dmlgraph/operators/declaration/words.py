"""What fields mean whose name means the same in several families: what an editor shows for a key of a node.

What a field of one family means stands in its classes: see `Traits.meanings`.
"""

from __future__ import annotations

from collections.abc import Mapping

FIELDS: Mapping[str, str] = {
    "input": "The tensor that the operator reads.",
    "output": "The tensor that the operator writes: its data type, sizes or strides, where they are requested.",
    "a": "The first operand.",
    "b": "The second operand.",
    "bias": "What is added, usually for each channel.",
    "scale": "The factor, usually for each channel or one for all.",
    "mean": "The mean that is subtracted.",
    "variance": "The variance by whose root the input is divided.",
    "exponent": "The exponent.",
    "indices": "The positions of the elements along the axis, or in the dimensions that count.",
    "updates": "The elements that replace those at the indices.",
    "sequence_lengths": "The number of elements that count, of each sequence.",
    "roi": "The regions of interest: the corners of each, in the input's pixels before scaling.",
    "input_gradient": "The gradient of the forward operator's output.",
    "output_gradient": "The gradient of the forward operator's input.",
    "a_scale": "The number for which one step of `a` stands.",
    "a_zero_point": "The integer of `a` that stands for 0.",
    "b_scale": "The number for which one step of `b` stands.",
    "b_zero_point": "The integer of `b` that stands for 0.",
    "input_scale": "The number for which one step of the input stands.",
    "input_zero_point": "The integer of the input that stands for 0.",
    "output_scale": "The number for which one step of the output stands.",
    "output_zero_point": "The integer of the output that stands for 0.",
    "alpha": "The factor or steepness of the function.",
    "beta": "The offset, exponent or second factor of the function.",
    "min": "The lower bound.",
    "max": "The upper bound.",
    "min_max_data_type": "The data type of the bounds; the tensor's by default.",
    "epsilon": "A small number that is added, so that nothing is divided by zero.",
    "p": "The p of the p-norm.",
    "scale_bias": "A scale and a bias that are applied to the input first: x · scale + bias.",
    "fused_activation": "An activation that is applied to the result before it is stored.",
    "axis": "The dimension along which the operator works.",
    "axes": "The dimensions over which the operator works.",
    "strides": "The step of the window in each spatial dimension.",
    "dilations": "The distance of a window's elements in each spatial dimension.",
    "start_padding": "The elements that are added before the first one in each dimension.",
    "end_padding": "The elements that are added after the last one in each dimension.",
    "cross_channel": "Whether it goes over all channels, too.",
    "interpolation_mode": "Whether the nearest element is taken, or the elements beside the position are averaged.",
}
