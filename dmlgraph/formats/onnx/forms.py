"""The shapes that inputs of ONNX's operators must have, where their rules would take others for them.

Each text has the forms of an operator's inputs: a name is a size, the same in all of them; `...` any sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.tensors import Tensor

Form = tuple[str, ...]
_ANY = "..."
_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
_FORMS = {
    "BatchNormalization": "N C ..., C, C, C, C",
    "Col2Im": "N CK L, D, D",
    "Compress": "..., B",
    "ConstantOfShape": "D",
    "Expand": "..., D",
    "EyeLike": "R C",
    "InstanceNormalization": "N C ..., C, C",
    "LinearAttention": "N S Q, N S K, N S V",
    "NegativeLogLikelihoodLoss": "N C ..., N ..., C",
    "Reshape": "..., D",
    "Resize": "..., roi, scales, sizes",
    "ReverseSequence": "..., B",
    "RotaryEmbedding": "..., ... P D, ... P D",
    "Slice": "..., A, A, A, A",
    "SoftmaxCrossEntropyLoss": "N C ..., N ..., C",
    "Tile": "..., D",
    **dict.fromkeys((f"Reduce{each}" for each in _REDUCTIONS.split()), "..., A"),
}


def forms(operator: str) -> tuple[Form, ...]:
    """The forms of an operator's first inputs."""
    return tuple(tuple(each.split()) for each in _FORMS[operator].split(",")) if operator in _FORMS else ()


def check_forms(wanted: Sequence[Form], inputs: Sequence[Tensor | None], names: Sequence[str]) -> None:
    """Checks the shapes of inputs, whose names are those of the schema.

    Raises:
        Refusal: an input has another form.
    """
    sizes: dict[str, tuple[int, str]] = {}  # by name: the size, and of which input
    for form, tensor, name in zip(wanted, inputs, names, strict=False):
        if tensor is None:
            continue
        for size, number in _named(form, tensor.shape, name):
            first, where = sizes.setdefault(size, (number, name))
            if number != first:
                allowed = f"{_shown(form)}, {size} is {first} as in {where}"
                got = [*tensor.shape]
                raise Refusal("the input has another shape", code="sizes", field=name, got=got, allowed=allowed)


def _named(form: Form, shape: tuple[int, ...], name: str) -> list[tuple[str, int]]:
    """The sizes that have names."""
    is_open = _ANY in form
    first = form.index(_ANY) if is_open else len(form)
    front, back = form[:first], form[first + 1 :]
    rank = len(front) + len(back)
    if len(shape) < rank or (len(shape) > rank and not is_open):
        raise Refusal("the input has another rank", code="rank", field=name, got=[*shape], allowed=_shown(form))
    return [*zip(front, shape, strict=False), *zip(back, shape[len(shape) - len(back) :], strict=True)]


def _shown(form: Form) -> str:
    return f"[{', '.join(form)}]"
