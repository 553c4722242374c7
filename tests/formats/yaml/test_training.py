"""The section `training` of a graph file: read, checked with places, described for editors, and saved again."""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Sequence
from typing import Any, Literal

import jsonschema
import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.report import DocumentReport
from dmlgraph.formats.text_tree.tree import parse
from dmlgraph.formats.yaml import dumps, loads
from dmlgraph.formats.yaml.schema import schema
from dmlgraph.formats.yaml.training import read_file
from dmlgraph.training.description import OPTIMIZERS, Lora, Training, kinds, meaning
from dmlgraph.training.named_loss import LOSSES, MEANINGS, NamedLoss, options, tensors

TEXT = """dmlgraph: 1
name: line
dims: {batch: 4}
inputs:
  x: {dtype: float32, sizes: [batch, 1]}
  target: {dtype: float32, sizes: [batch, 1]}
states:
  line.b: {dtype: float32, sizes: [1]}
constants:
  line.w: {dtype: float32, sizes: [1, 1], data: [0]}
nodes:
  p: {op: gemm, a: x, b: line.w}
  y: {op: add, a: p, b: line.b}
  squares: {op: difference_square, a: y, b: target}
  mean: {op: reduce, input: squares, function: average}
outputs: {y: y, error: mean}
training: {loss: error, parameters: ["line.*"], optimizer: {op: adam, rate: 1e-1, beta1: 0.8}}
"""
SECTION = TEXT.splitlines()[-1]


def test_it_says_how_the_graph_is_trained() -> None:
    graph = loads(TEXT, dims={"batch": 3})
    training = graph.origin.training
    assert training == Training("error", ("line.*",), dg.Adam(0.1, beta1=0.8))
    model = training.model(graph)
    assert [state.name for state in graph.states] == ["line.b"]
    assert sorted(state.name for state in model.states) == ["line.b", "line.w"]
    step, loss = training.step(model)
    assert loss == "error"
    exe = step.compile("cpu")
    x = np.arange(3, dtype=np.float32).reshape(3, 1)
    losses = exe.run({"x": x, "target": 2 * x + 1}, steps=300, collect=[loss])[loss].ravel()
    assert losses[0] == pytest.approx((1 + 9 + 25) / 3)
    assert losses[-1] < 1e-4
    evaluated = model.compile("cpu").run({"x": x, "target": x}, states=exe.states)["y"]
    np.testing.assert_allclose(evaluated, 2 * x + 1, atol=0.05)


@pytest.mark.parametrize(
    "optimizer",
    [
        dg.SGD(0.5, momentum=0.9, nesterov=True),
        dg.Adam("1e-3 * min(1, step / 100)", clip_norm=1.0),
        dg.AdamW(1e-4, weight_decay=0.1),
    ],
)
def test_it_is_saved_with_the_graph(optimizer: Any, tmp_path: pathlib.Path) -> None:
    graph = loads(TEXT)
    graph.origin.training = dataclasses.replace(graph.origin.training, optimizer=optimizer)
    graph.save(tmp_path / "g.yaml")
    assert dg.load(tmp_path / "g.yaml").origin.training == graph.origin.training
    assert graph.with_dims({"batch": 2}).origin.training == graph.origin.training


def test_the_loss_of_a_template_is_a_reference() -> None:
    text = TEXT.replace("outputs: {y: y, error: mean}", "outputs: [y]").replace("loss: error", "loss: part.mean")
    mean = text.index("  mean:"), text.index("outputs:")
    template = "templates:\n  block:\n    inputs: [x]\n    nodes:\n    " + text[slice(*mean)] + "    outputs: [mean]\n"
    template = template.replace("input: squares", "input: x")
    text = text[: mean[0]] + "  part: {use: block, x: squares}\n" + text[mean[1] :]
    graph = loads(text.replace("inputs:\n", template + "inputs:\n", 1))
    assert graph.origin.training.loss == "part/mean"
    assert graph.origin.training.step(graph.origin.training.model(graph))[1] == "loss"
    assert loads(dumps(graph)).origin.training == graph.origin.training


MISTAKES = {
    "a list": (SECTION, "training: [1]", "kind", "training", 11),
    "no loss": ("loss: error, ", "", "missing", "training.loss", 11),
    "unknown loss": ("loss: error", "loss: eror", "unknown-node", "training.loss", 18),
    "loss of several elements": ("loss: error", "loss: y", "sizes", "training.loss", 18),
    "loss is a number": ("loss: error", "loss: 1", "kind", "training.loss", 18),
    "unknown key": ("loss: error", "loss: error, steps: 3", "unknown-field", "training.steps", 25),
    "one name": ('["line.*"]', '"line.*"', "kind", "training.parameters", 37),
    "unknown parameter": ('"line.*"', '"line.*", q', "unknown-name", "training.parameters.1", 48),
    "optimizer is a name": ("{op: adam, rate: 1e-1, beta1: 0.8}", "adam", "kind", "training.optimizer", 60),
    "no op": ("op: adam, ", "", "missing", "training.optimizer.op", 60),
    "unknown op": ("op: adam", "op: adm", "unknown-name", "training.optimizer.op", 65),
    "unknown field": ("beta1", "beta3", "unknown-field", "training.optimizer.beta3", 83),
    "no rate": ("op: adam, rate: 1e-1, beta1: 0.8", "op: sgd", "missing", "training.optimizer.rate", 60),
    "range": ("beta1: 0.8", "beta1: 2", "range", "training.optimizer.beta1", 90),
    "truth": ("rate: 1e-1", "rate: true", "kind", "training.optimizer.rate", 77),
    "expression": ("rate: 1e-1", 'rate: "1 *"', "expression", "training.optimizer.rate", 77),
    "unknown in an expression": ("rate: 1e-1", 'rate: "stp"', "expression", "training.optimizer.rate", 77),
}


NAMED = "{op: huber, predictions: y, targets: wanted, delta: 0.5}"
LORA = "{products: [p], rank: 1, alpha: 2}"
FULL = f"training: {{loss: {NAMED}, lora: {LORA}, optimizer: {{op: sgd, rate: 0.1}}}}"


def test_a_loss_and_pairs_are_named() -> None:
    graph = loads(TEXT.replace(SECTION, FULL))
    training = graph.origin.training
    named = NamedLoss("huber", {"predictions": "y", "targets": "wanted"}, {"delta": 0.5})
    assert training == Training(named, (), dg.SGD(0.1), Lora(["p"], rank=1, alpha=2))
    assert loads(dumps(graph)).origin.training == training
    step, loss = training.step(training.model(graph))
    assert [(node.name, node.desc.sizes) for node in step.inputs if node.name == "wanted"] == [("wanted", (4, 1))]
    assert sorted(step.next_values) == ["lora/p/down", "lora/p/up"]
    exe = step.compile("reference")
    ones = np.ones((4, 1), np.float32)
    zeros = np.zeros((4, 1), np.float32)
    assert exe.run({"x": ones, "target": zeros, "wanted": 2 * ones})[loss].item() == 0.5 * (2 - 0.25)


MISTAKES |= {
    "unknown loss of the library": ("loss: error", "loss: {op: hubr}", "unknown-name", "training.loss.op", 23),
    "no op of a loss": ("loss: error", "loss: {}", "missing", "training.loss.op", 18),
    "predictions are missing": (
        "loss: error",
        "loss: {op: huber, targets: x}",
        "missing",
        "training.loss.predictions",
        18,
    ),
    "unknown predictions": (
        "loss: error",
        "loss: {op: huber, predictions: z, targets: t}",
        "unknown-node",
        "training.loss.predictions",
        43,
    ),
    "targets that do not fit": (
        "loss: error",
        "loss: {op: huber, predictions: y, targets: line.b}",
        "sizes",
        "training.loss.targets",
        55,
    ),
    "option out of its range": (
        "loss: error",
        "loss: {op: huber, predictions: y, targets: t, delta: 0}",
        "range",
        "training.loss.delta",
        65,
    ),
    "option of another kind": (
        "loss: error",
        "loss: {op: huber, predictions: y, targets: t, delta: x}",
        "kind",
        "training.loss.delta",
        65,
    ),
    "losses that are not reduced": (
        "loss: error",
        "loss: {op: huber, predictions: y, targets: t, reduction: none}",
        "sizes",
        "training.loss",
        18,
    ),
    "no products": ('"line.*"]', '"line.*"], lora: {}', "missing", "training.lora.products", 55),
    "pairs are a list": ('"line.*"]', '"line.*"], lora: [1]', "kind", "training.lora", 55),
    "unknown product": (
        '"line.*"]',
        '"line.b"], lora: {products: [q]}',
        "unknown-name",
        "training.lora.products.0",
        67,
    ),
    "rank": ('"line.*"]', '"line.b"], lora: {products: [p], rank: 0}', "range", "training.lora.rank", 77),
    "a truth": ('"line.*"]', '"line.*"], straight_through: 1', "kind", "training.straight_through", 67),
    "unknown recomputation": ('"line.*"]', '"line.*"], recompute: all', "kind", "training.recompute", 60),
    "neither parameters nor pairs": ('parameters: ["line.*"], ', "", "missing", "training.parameters", 11),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_have_places(mistake: str) -> None:
    before, after, code, field, column = MISTAKES[mistake]
    assert before in SECTION
    with pytest.raises(dg.DocumentError) as caught:
        loads(TEXT.replace(SECTION, SECTION.replace(before, after)))
    (problem,) = caught.value.problems
    assert problem.location is not None
    found = problem.code, problem.field, problem.location.line, problem.location.column
    assert found == (code, field, TEXT.count("\n"), column)


def test_parameters_that_cannot_be_trained_are_refused() -> None:
    text = TEXT.replace("constants:\n", "constants:\n  rows: {dtype: int32, sizes: [1], data: [0]}\n")
    assert loads(text.replace('"line.*"', '"*"')).origin.training
    with raises(dg.DocumentError, "dtype", node="rows", got="int32"):
        loads(text.replace('"line.*"', "rows"))


@pytest.mark.parametrize("section", [SECTION, FULL, *(SECTION.replace(*each[:2]) for each in MISTAKES.values())])
def test_editors_know_it(section: str) -> None:
    report = DocumentReport()
    tree = parse(TEXT.replace(SECTION, section), "test.yaml", report)
    assert tree is not None
    errors = list(jsonschema.Draft202012Validator(schema()).iter_errors(tree.plain))
    known_to_the_reader_alone = (
        *("loss: eror", "loss: y", '"line.*", q', "beta1: 2", '"1 *"', '"stp"', "reduction: none"),
        *("predictions: z", "targets: line.b", "delta: 0}", "products: [q]", "rank: 0"),
    )
    is_right = section in (SECTION, FULL) or any(each in section for each in known_to_the_reader_alone)
    assert is_right is not bool(errors)


@dataclasses.dataclass(frozen=True)
class Fancy(dg.Adam):
    """Adam.

    Attributes:
        scale: a number, or a word.
        without: names.
    """

    scale: float | Literal["dynamic"] | None = dataclasses.field(default=None, kw_only=True)
    without: Sequence[str] = dataclasses.field(default=(), kw_only=True)


def test_fields_of_an_optimizer_need_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIMIZERS, "fancy", Fancy)
    text = TEXT.replace("{op: adam, rate: 1e-1, beta1: 0.8}", "{op: fancy, scale: dynamic, without: ['*.b']}")
    optimizer = loads(text).origin.training.optimizer
    assert (optimizer.scale, list(optimizer.without)) == ("dynamic", ["*.b"])
    assert loads(dumps(loads(text))).origin.training.optimizer == optimizer
    for wrong, key, got in (("scale: static", "scale", "static"), ("without: '*.b'", "without", "*.b")):
        with raises(dg.DocumentError, "kind", field=f"training.optimizer.{key}", got=got):
            loads(text.replace("scale: dynamic", wrong).replace("without: ['*.b']", "clip_norm: 1"))


def test_every_field_of_an_optimizer_has_a_meaning_and_a_kind() -> None:
    for kind in OPTIMIZERS.values():
        for field in dataclasses.fields(kind):
            assert meaning(kind, field.name) != field.name
            assert kinds(typing.get_type_hints(kind)[field.name])


@pytest.mark.parametrize("op", LOSSES)
def test_every_argument_of_a_loss_has_a_meaning_and_a_kind(op: str) -> None:
    assert LOSSES[op] is getattr(dg.losses, op)
    assert {*tensors(op), *options(op)} <= {*MEANINGS}
    assert all(map(kinds, options(op).values()))


def test_a_file_of_its_own_has_the_section_alone(tmp_path: pathlib.Path) -> None:
    path, graph = tmp_path / "how.yaml", tmp_path / "line.yaml"
    path.write_text(FULL, "utf-8")
    graph.write_text(TEXT, "utf-8")
    assert dg.load(graph, training=path).origin.training == loads(TEXT.replace(SECTION, FULL)).origin.training
    for text, code, field, column in (
        ("", "missing", "training", 1),
        ("[1]", "missing", "training", 1),
        ("dmlgraph: 1\n" + FULL, "unknown-field", "dmlgraph", 1),
        (FULL.replace("huber", "hubr"), "unknown-name", "training.loss.op", 23),
    ):
        path.write_text(text, "utf-8")
        with raises(dg.DocumentError, code, field=field) as caught:
            read_file(path)
        assert caught.value.location == dg.Location(str(path), 1, column)
    path.write_text(FULL.replace("[p]", "[q]"), "utf-8")
    with raises(dg.GraphError, "unknown-name", field="training.lora.products.0") as wrong:
        dg.load(graph, training=path)
    assert wrong.value.location == dg.Location(str(path), 1, 94)
