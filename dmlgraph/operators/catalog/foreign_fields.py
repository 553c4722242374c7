"""Names in other libraries for operators' fields and graph files' keys, with how their values are written here.

Errors in Python and in files read this one table.  None of these names is an alias.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping

from dmlgraph.base.errors import nearest, shorten
from dmlgraph.operators.catalog.foreign_names import plain

Fields = Mapping[str, object]


@dataclasses.dataclass(frozen=True, slots=True)
class Foreign:
    """What other libraries call a field, or what they have in its place.

    Attributes:
        names: separated by spaces; case and underscores do not matter.
        ours: the fields it may mean, separated by spaces: the first that is known where the name stands.
        written: the fields here that mean a value there; None if the value stays as it is, or the row cannot say.
        instead: what to do where no field means the same; a phrase.
        having: the row is for an operator with one of these fields; empty: for any.
    """

    names: str
    ours: str = ""
    written: Callable[[object], Fields | None] | None = None
    instead: str = ""
    having: str = ""

    def fits(self, known: Collection[str]) -> bool:
        fields = (self.having or self.ours).split()
        return not fields or any(field in known for field in fields)


def _padding(value: object) -> Fields | None:
    """PyTorch's padding: the same on both sides."""
    return None if isinstance(value, str) else {"start_padding": value, "end_padding": value}


def _pads(value: object) -> Fields | None:
    """ONNX's pads, all begins before all ends, or NumPy's pairs (begin, end) of each dimension."""
    if not isinstance(value, (list, tuple)):
        return _padding(value)
    if all(isinstance(each, (list, tuple)) and len(each) == 2 for each in value):
        return {"start_padding": [each[0] for each in value], "end_padding": [each[1] for each in value]}
    half = len(value) // 2
    return None if len(value) % 2 else {"start_padding": list(value[:half]), "end_padding": list(value[half:])}


def _transposed(field: str) -> Callable[[object], Fields | None]:
    return lambda value: {field: "transpose" if value else "none"}


def _reversed(value: object) -> Fields | None:
    return {"axis_direction": "decreasing" if value else "increasing"}


_SAME = "'same' is, at stride 1, half of the window, rounded down, on both sides: for a window of 3 write {}"
_TRAINING = "leave it out: a network that runs is not in training"

FIELDS = (
    # Windows.
    Foreign("kernel_size kernel_shape pool_size ksize window_shape filter_size", "window_size window_sizes"),
    Foreign(
        "kernel_size kernel_shape ksize filter_size",
        instead="leave it out: the sizes of the filter say it",
        having="filter",
    ),
    Foreign("stride", "strides"),
    Foreign("padding pad auto_pad", "start_padding end_padding", _padding),
    Foreign("pads pad_width paddings", "start_padding end_padding", _pads),
    Foreign("dilation dilation_rate", "dilations"),
    Foreign("group groups feature_group_count", "group_count"),
    Foreign("count_include_pad", "include_padding"),
    Foreign("ceil_mode", instead="request the sizes of the output, or add to end_padding", having="window_size"),
    Foreign("weight weights kernel w", "filter"),
    # Axes.
    Foreign("axis dim dims dimension", "axes axis"),
    Foreign("keepdim keep_dims", "keepdims"),
    Foreign(
        "keepdims keepdim keep_dims",
        instead="leave it out: reduced axes stay with size 1; squeeze removes them",
        having="axes axis",
    ),
    Foreign("perm permutation axes order", "permutation"),
    Foreign("descending largest reverse", "axis_direction", _reversed),
    Foreign("exclusive", "has_exclusive_sum has_exclusive_product"),
    # Matrices.
    Foreign("transA transpose_a", "trans_a", _transposed("trans_a")),
    Foreign("transB transpose_b", "trans_b", _transposed("trans_b")),
    # Normalization.
    Foreign("eps variance_epsilon", "epsilon"),
    Foreign("weight gamma", "scale"),
    Foreign("beta", "bias"),
    Foreign("running_mean moving_mean input_mean", "mean"),
    Foreign("running_var moving_variance input_var var", "variance"),
    Foreign("training training_mode momentum", instead=_TRAINING),
    # Activations and element-wise operators.
    Foreign("activation act", "fused_activation"),
    Foreign("negative_slope", "alpha"),
    Foreign("a_min min_value clip_value_min", "min"),
    Foreign("a_max max_value clip_value_max", "max"),
    # Resampling.
    Foreign("mode method interpolation", "interpolation_mode"),
    Foreign("scale_factor scale_factors", "scales"),
    # Several.
    Foreign("shape size new_shape output_shape", "sizes"),
    Foreign("to type data_type out_dtype", "dtype"),
    Foreign("num_heads heads", "head_count"),
    Foreign("split_size split_sizes sections split num_outputs num_or_size_splits", "outputs"),
    Foreign("index", "indices"),
    Foreign("blocksize upscale_factor downscale_factor", "block_size"),
    Foreign("x a data tensor inputs", "input"),
    Foreign("x input lhs", "a"),
    Foreign("y other rhs", "b"),
    Foreign("tensors", "inputs"),
    # Keys of graph files.
    Foreign("operator op_type operation type layer", "op"),
    Foreign("value values", "data"),
    Foreign("path", "file"),
    Foreign("outputs expected results", "expect"),
    Foreign("weights initializers parameters params", "constants"),
    Foreign("layers node operators ops", "nodes"),
    Foreign("version format", "dmlgraph"),
    Foreign("opset feature_level level", "target"),
    # Arguments in Python.
    Foreign("backend provider providers target_device", "device"),
    Foreign("value array initializer tensor", "data"),
)


def _rows() -> dict[str, list[Foreign]]:
    found: dict[str, list[Foreign]] = {}
    for row in FIELDS:
        for name in row.names.split():
            found.setdefault(plain(name), []).append(row)
    return found


_ROWS = _rows()


@dataclasses.dataclass(frozen=True, slots=True)
class Meant:
    """What an unknown field means: its name here if the value stays as it is, and what to write."""

    field: str | None
    hint: str | None


def meant_field(name: str, known: Collection[str], value: object = None, *, python: bool = False) -> Meant:
    """What an unknown field or key means.

    Args:
        name: of the field that is not known.
        known: the fields that are known there.
        value: what is given for it.
        python: whether the hint is for Python, else for a file.
    """
    row = next((each for each in _ROWS.get(plain(name), ()) if each.fits(known)), None)
    own = next((each for each in known if each == name.strip("_")), None)
    if row is None or own:
        near = own or nearest(name, known)
        return Meant(near, f"did you mean '{near}'?" if near else None)
    field = next((each for each in row.ours.split() if each in known), None)
    if row.written is None or field is None:
        return Meant(field, f"did you mean '{field}'?" if field else row.instead)
    fields = row.written(value)
    if fields is None:
        return Meant(None, _SAME.format(_written({"start_padding": 1, "end_padding": 1}, python)))
    return Meant(None, f"write {_written(fields, python)}")


def _written(fields: Fields, python: bool) -> str:
    """Fields as Python or YAML writes them."""
    if python:
        return ", ".join(f"{field}={shorten(repr(value))}" for field, value in fields.items())
    return ", ".join(f"{field}: {shorten(value)}" for field, value in fields.items())
