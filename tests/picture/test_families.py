"""Every operator has a family, and everybody can tell the families' colours apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.picture.colours import GROUNDS, VISIONS, contrast, lab, linear

from dmlgraph.operators.catalog.registry import REGISTRY
from dmlgraph.picture.families import COLOURS, Family, family_of
from dmlgraph.picture.shapes import GROUND, LOOKS


def test_every_operator_has_a_family() -> None:
    families = {operator.name: family_of(operator) for operator in REGISTRY.values()}
    assert len(families) >= 177
    assert set(families.values()) == set(Family) == set(COLOURS)


@pytest.mark.parametrize(
    ("family", "names"),
    [
        (Family.PRODUCT, "gemm convolution multihead_attention lstm matrix_multiply_integer"),
        (Family.ACTIVATION, "activation_relu activation_softmax1 activation_relu_grad"),
        (Family.ARITHMETIC, "add sin bit_and logical_not value_scale_2d"),
        (Family.MOVEMENT, "transpose gather join slice padding identity depth_to_space"),
        (Family.NORMALIZATION, "batch_normalization mean_variance_normalization1"),
        (Family.REDUCTION, "reduce argmax top_k cumulative_summation"),
        (Family.SAMPLING, "max_pooling resample roi_align"),
        (Family.CONVERSION, "cast quantize_linear dequantize"),
    ],
)
def test_what_an_operator_does(family: Family, names: str) -> None:
    assert {name: family_of(REGISTRY[name]) for name in names.split()} == dict.fromkeys(names.split(), family)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("ground", GROUNDS)
def test_colours_of_any_two_families_stay_apart(vision: str, ground: str) -> None:
    seen = {
        family: lab(np.array(VISIONS[vision]) @ linear(lines[GROUNDS[ground]])) for family, lines in COLOURS.items()
    }
    for one, other in itertools.combinations(Family, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 20, (one, other)  # 2.3 can just be told apart


@pytest.mark.parametrize("ground", GROUNDS)
def test_texts_and_colours_stand_out(ground: str) -> None:
    at = GROUNDS[ground]
    for family in Family:
        fill, line = LOOKS[family][at]
        assert contrast(GROUND["ink"][at], fill) >= 7
        assert contrast(GROUND["faint"][at], fill) >= 4.5
        assert contrast(line, GROUND["paper"][at]) >= 3
