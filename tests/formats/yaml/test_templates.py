"""Templates: a file with uses is the graph that one gets by writing everything out."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.problems import expect

import dmlgraph as dg
from dmlgraph.formats.yaml import dumps, expansion, loads
from dmlgraph.formats.yaml.templates import MOST_LEVELS

CONTRACT = """
dmlgraph: 1
dims: {batch: 2}
templates:
  block:
    dims: {width: 64, slope: 1 / width}
    inputs: [x, w]
    nodes: {h: {op: gemm, a: x, b: w}, y: {op: activation_leaky_relu, input: h, alpha: slope}}
    outputs: [y]
inputs:
  image: {dtype: float32, sizes: [batch, 4]}
  w0: {dtype: float32, sizes: [4, 4]}
  w1: {dtype: float32, sizes: [4, 4]}
nodes:
  first: {use: block, x: image, w: w0, dims: {width: 32}}
  tower: {use: block, repeat: 2, x: {first: first.y, then: y}, w: "w{index}"}
outputs: {result: tower.y, middle: tower/0, inside: tower/1/h}
"""
BY_HAND = """
dmlgraph: 1
dims: {batch: 2}
inputs:
  image: {dtype: float32, sizes: [batch, 4]}
  w0: {dtype: float32, sizes: [4, 4]}
  w1: {dtype: float32, sizes: [4, 4]}
nodes:
  first/h: {op: gemm, a: image, b: w0}
  first/y: {op: activation_leaky_relu, input: first/h, alpha: 1 / 32}
  tower/0/h: {op: gemm, a: first/y, b: w0}
  tower/0/y: {op: activation_leaky_relu, input: tower/0/h, alpha: 1 / 64}
  tower/1/h: {op: gemm, a: tower/0/y, b: w1}
  tower/1/y: {op: activation_leaky_relu, input: tower/1/h, alpha: 1 / 64}
outputs: {result: tower/1/y, middle: tower/0/y, inside: tower/1/h}
"""
HEAD = "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2, 2]}}\n"


def described(graph: dg.Graph) -> tuple[Any, ...]:
    """All of a graph that a file can say."""
    nodes = {node.name: (repr(getattr(node, "operator", None)), graph.producers(node.name)) for node in graph.nodes}
    return nodes, {name: value.reference for name, value in graph.outputs.items()}, graph.dims


def problems(text: str, **options: Any) -> list[Any]:
    with pytest.raises(dg.DocumentError) as caught:
        loads(text, **options)
    return list(caught.value.problems)


def test_the_uses_of_a_template_are_its_nodes():
    graph = loads(CONTRACT)
    assert described(graph) == described(loads(BY_HAND))
    assert graph.warnings() == []


def test_a_graph_of_templates_is_saved_written_out(tmp_path: pathlib.Path):
    graph = loads(CONTRACT)
    graph.save(tmp_path / "out.yaml")
    assert described(dg.load(tmp_path / "out.yaml")) == described(graph)
    assert "slope" not in dumps(graph)


def test_sizes_in_templates_follow_the_dims_of_the_file():
    text = HEAD.replace("[2, 2]", "[n, 3]") + (
        "dims: {n: 2}\n"
        "templates:\n"
        "  fill:\n"
        "    dims: {rows: null, half: rows / 2, all: rows * n}\n"
        "    inputs: [x]\n"
        "    nodes:\n"
        "      f: {op: fill_value_constant, output: {dtype: float32, sizes: [rows, 3]}, value: half}\n"
        "      y: {op: join, inputs: [x, f], axis: 0}\n"
        "      g: {op: fill_value_constant, output: {dtype: float32, sizes: [all]}, value: 0}\n"
        "    outputs: [y, g]\n"
        "nodes: {a: {use: fill, x: x, dims: {rows: n + 1}}}\n"
        "outputs: [a.y, a.g]\n"
    )
    graph = loads(text)
    for n in (2, 5):
        for other in (graph.with_dims({"n": n}), loads(text, dims={"n": n}), loads(dumps(graph), dims={"n": n})):
            assert other.outputs["a.y"].sizes == (2 * n + 1, 3)
            assert other.outputs["a.g"].sizes == (n * (n + 1),)
            result = other.compile("reference").run({"x": np.ones((n, 3), np.float32)})["a.y"]
            np.testing.assert_array_equal(result[n:], np.full((n + 1, 3), (n + 1) / 2, np.float32))


COPIES = HEAD + (
    "dims: {layers: 3, n: 2}\n"
    "templates: {t: {inputs: [x], nodes: {y: {op: exp, input: x}}, outputs: [y]}}\n"
    "nodes: {tower: {use: t, repeat: 2 * layers, x: {first: x, then: y}}}\n"
    "outputs: [tower]\n"
)


def test_the_number_of_copies_follows_a_dim_when_the_file_is_loaded():
    assert len(loads(COPIES).nodes) == 7
    assert len(loads(COPIES, dims={"layers": 5}).nodes) == 11
    assert len(loads(COPIES).with_dims({"layers": 3}).nodes) == 7
    for _ in range(2):  # and what with_dims gives knows it, too
        graph = loads(COPIES).with_dims({"n": 7})
        with pytest.raises(dg.GraphError) as caught:
            graph.with_dims({"layers": 5})
        assert caught.value.code == "fixed-dim"
        assert "number of copies of 'tower'" in str(caught.value)
        assert "dims={'layers': 5}" in (caught.value.hint or "")


def test_the_index_is_in_names_and_in_numbers():
    graph = loads(
        HEAD + "constants: {w0: {dtype: float32, sizes: [1], data: [3]}, w1: {dtype: float32, sizes: [1], data: [4]}}\n"
        "templates:\n"
        "  inner: {dims: {i: 0, k: 7}, inputs: [w], nodes: {y: {op: element_wise_identity, input: w, "
        "scale_bias: {scale: k, bias: i}}}, outputs: [y]}\n"
        "  outer: {dims: {o: 0}, inputs: [w], nodes: {a: {use: inner, repeat: 2, w: w, "
        'dims: {i: "10 * o + {index}", k: [1, 2]}}}, outputs: {first: a/0, last: a}}\n'
        'nodes: {t: {use: outer, repeat: 2, w: "w{index}", dims: {o: "{index}"}}}\n'
        "outputs: [t/0.first, t/0.last, t/1.first, t/1.last]\n"
    )
    results = graph.compile("reference").run({"x": np.zeros((2, 2), np.float32)})
    assert [float(each[0]) for each in results.values()] == [3, 7, 14, 19]


def test_null_leaves_out_what_an_operator_need_not_have():
    text = (
        HEAD + "templates: {t: {inputs: [x, c], nodes: {y: {op: gemm, a: x, b: x, c: c}}, outputs: [y]}}\n"
        "nodes: {a: {use: t, x: x, c: null}, b: {use: t, x: x, c: a}, "
        "c: {use: t, repeat: 2, x: x, c: [null, a]}}\noutputs: [a, b, c]\n"
    )
    graph = loads(text)
    assert [len(graph.producers(name)) for name in ("a/y", "b/y", "c/0/y", "c/1/y")] == [2, 3, 2, 3]
    needed = problems(text.replace("c: {use: t, repeat: 2, x: x, c: [null, a]}", "c: {use: t, x: null, c: a}"))
    assert [(each.node, each.field, each.code) for each in needed] == [
        ("c/y", "a", "missing"),
        ("c/y", "b", "missing"),
    ] or needed[0].location.used_by.startswith("'c', <text>:")


def test_a_template_may_have_several_outputs_and_names_with_dots():
    graph = loads(
        HEAD + "templates: {best: {inputs: [x], nodes: {top.k: {op: top_k1, input: x, axis: 1, k: 1, "
        "axis_direction: decreasing, output_index: true}}, "
        "outputs: [top.k.output_value, top.k.output_index]}}\n"
        "nodes: {layer.0: {use: best, x: x}, e: {op: exp, input: layer.0.top.k.output_value}}\n"
        "outputs: {e: e, index: layer.0.top.k.output_index}\n"
    )
    assert graph.outputs["index"].reference == "layer.0/top.k.output_index"
    several = problems(
        HEAD + "templates: {t: {inputs: [x], nodes: {a: {op: exp, input: x}, b: {op: exp, input: x}}, "
        "outputs: [a, b]}}\nnodes: {u: {use: t, x: x}, y: {op: exp, input: u}}\noutputs: [y, u]\n"
    )
    assert [(each.code, each.allowed) for each in several] == [("unknown-output", "u.a, u.b")] * 2


def test_nodes_inside_a_use_can_be_read_from_outside():
    graph = loads(
        HEAD + "templates: {t: {inputs: [x], nodes: {h: {op: exp, input: x}, y: {op: log, input: h}}, outputs: [y]}}\n"
        "nodes: {a/b: {use: t, x: x}, c: {use: t, x: a/b/h}, d: {op: exp, input: c/h}}\noutputs: [d, a/b/h]\n"
    )
    assert graph.producers("c/h") == [("a/b/h", 0, 0)]
    wrong = problems(
        HEAD + "templates: {t: {inputs: [x], nodes: {y: {op: log, input: x}}, outputs: [y]}}\n"
        "nodes: {a/b: {use: t, x: x}, c: {use: t, x: a/b/z}}\noutputs: [c]\n"
    )
    assert [(each.node, each.code) for each in wrong] == [("c/y", "unknown-node")]


def test_dims_of_a_template_hide_those_of_the_file():
    graph = loads(
        HEAD + "dims: {n: 2}\ntemplates: {t: {dims: {n: 5}, inputs: [x], nodes: {y: {op: exp, input: x, "
        "scale_bias: {scale: n}}}, outputs: [y]}}\nnodes: {a: {use: t, x: x}, b: {use: t, x: x, dims: {n: n * 10}}}\n"
        "outputs: [a, b]\n"
    )
    scales = [graph.node(name).operator.scale_bias.scale for name in ("a/y", "b/y")]  # type: ignore[union-attr]
    assert scales == [5, 20]


# Errors inside.


def test_an_error_inside_has_the_line_of_the_template_and_names_the_use():
    text = CONTRACT.replace("w1: {dtype: float32, sizes: [4, 4]}", "w1: {dtype: float32, sizes: [5, 4]}")
    (problem,) = problems(text)
    assert problem.node == "tower/1/h"
    assert problem.location.source.strip().startswith("nodes: {h: {op: gemm")
    assert problem.location.used_by == "'tower' (copy 1), <text>:16:3"
    assert str(problem).endswith("; used by 'tower' (copy 1), <text>:16:3")


def test_an_error_in_every_copy_is_told_once():
    (problem,) = problems(COPIES.replace("op: exp", "op: exp, scale_bias: {scale: wide}"))
    assert problem.location.used_by == "'tower' (copy 0), <text>:5:9, and 5 other uses"
    (problem,) = problems(COPIES.replace("x: {first: x, then: y}", "x: x").replace("exp", "exp, scale_bias: wide"))
    assert problem.location.used_by == "'tower' (copy 0), <text>:5:9, and 5 other uses"


def test_nested_uses_are_all_named():
    text = HEAD + (
        "templates:\n"
        "  in: {inputs: [x], nodes: {y: {op: gemm, a: x, b: x, alpha: much}}, outputs: [y]}\n"
        "  out: {inputs: [x], nodes: {i: {use: in, x: x}}, outputs: [i]}\n"
        "nodes: {t: {use: out, repeat: 2, x: {first: x, then: i}}}\noutputs: [t]\n"
    )
    (problem,) = problems(text)
    assert problem.node == "t/0/i/y"
    assert problem.location.used_by == "'i', <text>:5:30, in 't' (copy 0), <text>:6:9, and 1 other use"


def test_errors_after_loading_name_the_use_too():
    graph = loads(CONTRACT)
    place = graph.origin.location("tower/1/h", "a")
    assert place is not None
    assert place.used_by == "'tower' (copy 1), <text>:16:3"
    assert graph.with_dims({"batch": 3}).origin.location("tower/1/h") is not None


# Limits.


def test_templates_that_make_too_many_nodes_are_refused_before_they_are_made():
    one = "t0: {inputs: [x], nodes: {y: {op: exp, input: x}}, outputs: [y]}"
    more = [
        f"t{k}: {{inputs: [x], nodes: {{y: {{use: t{k - 1}, repeat: 9, x: {{first: x, then: y}}}}}}, outputs: [y]}}"
        for k in range(1, 40)
    ]
    text = HEAD + "templates:\n" + "".join(f"  {each}\n" for each in [one, *more])
    assert len(loads(f"{text}nodes: {{u: {{use: t3, x: x}}}}\noutputs: [u]\n").nodes) == 730
    for use in ("{use: t39, x: x}", "{use: t0, repeat: 100001, x: x}", "{use: t1, repeat: 7 ** 99, x: x}"):
        (problem,) = problems(f"{text}nodes: {{u: {use}}}\noutputs: [u]\n")
        assert (problem.code, problem.allowed) == ("copies", "at most 100,000 in a file")
    halves = "nodes: {u: {use: t5, x: x}, v: {use: t5, x: x}}\n"
    (problem,) = problems(f"{text}{halves}outputs: [u, v]\n")
    assert problem.node == "v"


def test_uses_with_too_many_choices_of_dims_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(expansion, "MOST_PLANS", 10)
    text = HEAD + (
        "templates: {t: {dims: {i: 0}, inputs: [x], nodes: {y: {op: exp, input: x, scale_bias: {bias: i}}}, "
        'outputs: [y]}}\nnodes: {u: {use: t, repeat: 11, x: x, dims: {i: "{index}"}}}\noutputs: [u]\n'
    )
    (problem,) = problems(text)
    assert problem.code == "copies"
    assert "more than 10 different choices" in problem.message


def test_templates_are_not_too_deep_in_one_another():
    one = "t0: {inputs: [x], nodes: {y: {op: exp, input: x}}, outputs: [y]}"
    more = [f"t{k}: {{inputs: [x], nodes: {{y: {{use: t{k - 1}, x: x}}}}, outputs: [y]}}" for k in range(1, 2000)]
    text = HEAD + "templates:\n" + "".join(f"  {each}\n" for each in [one, *more])
    deepest = f"nodes: {{u: {{use: t{MOST_LEVELS - 1}, x: x}}}}\noutputs: [u]\n"
    first = problems(text + deepest)
    assert {each.code for each in first} == {"recursion"}
    assert first[0].field == f"templates.t{MOST_LEVELS}"
    fits = HEAD + "templates:\n" + "".join(f"  {each}\n" for each in [one, *more[: MOST_LEVELS - 1]])
    assert len(loads(fits + deepest).nodes) == 2


# Files.


@pytest.mark.parametrize("levels", [51, 60, 500, 3000])
def test_templates_much_too_deep_are_one_problem(levels: int):
    inner = "".join(
        f"  t{i}: {{inputs: [x], nodes: {{y: {{use: t{i + 1}, x: x}}}}, outputs: [y]}}\n" for i in range(levels - 1)
    )
    (problem,) = problems(
        "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [1]}}\ntemplates:\n"
        f"{inner}  t{levels - 1}: {{inputs: [x], nodes: {{y: {{op: abs, input: x}}}}, outputs: [y]}}\n"
        "nodes: {u: {use: t0, x: x}}\noutputs: [u]\n"
    )
    assert (problem.code, problem.field) == ("recursion", f"templates.t{levels - 51}")


@pytest.mark.parametrize("dims", ["w: 1", f"w: {'9' * 399}"])
def test_a_number_may_be_beyond_all_floats(dims: str):
    node = '{op: subscript, input: x, index: "-w - 1:"}'
    text = (
        f"dmlgraph: 1\ntemplates: {{t: {{dims: {{{dims}}}, inputs: [x], nodes: {{y: {node}}}, outputs: [y]}}}}\n"
        "inputs: {x: {dtype: float32, sizes: [2]}}\nnodes: {u: {use: t, x: x}}\noutputs: [u]\n"
    )
    assert loads(text).outputs["u"].sizes == (2,)


def test_templates_of_other_files(tmp_path: pathlib.Path):
    (tmp_path / "parts").mkdir()
    top = "dmlgraph: 1\ntemplates:\n"
    block = "{inputs: [x], nodes: {y: {op: exp, input: x}}, outputs: [y]}"
    (tmp_path / "parts" / "one.yaml").write_text(f"{top}  file: two.yaml\n  one: {block}\n", "utf-8")
    two = "{inputs: [x], nodes: {y: {use: own, x: x}}, outputs: [y]}"
    (tmp_path / "parts" / "two.yaml").write_text(f"{top}  file: one.yaml\n  two: {two}\n  rest: {block}\n", "utf-8")
    text = (
        f"{HEAD}templates:\n  file: parts/one.yaml\n  own: {block}\n"
        "nodes: {a: {use: one, x: x}, b: {use: two, x: a}}\noutputs: [b]\n"
    )
    file = tmp_path / "graph.yaml"
    file.write_text(text, "utf-8")
    graph = dg.load(file)
    assert [node.name for node in graph.nodes] == ["x", "a/y", "b/y/y"]
    assert graph.warnings() == []  # templates of other files need not be used
    (problem,) = problems(text)
    assert problem.code == "no-folder"
    (tmp_path / "parts" / "two.yaml").write_text("templates: {two: {nodes: {}}}\n", "utf-8")
    with pytest.raises(dg.DocumentError) as caught:
        dg.load(file)
    assert {each.location.file for each in caught.value.problems if each.location} == {
        str(tmp_path / "parts" / "two.yaml")
    }
    assert [each.code for each in caught.value.problems] == ["missing", "kind"]


@pytest.mark.parametrize("name", ["../graph.yaml", "/etc/hostname", "parts", "nul", "missing.yaml", ""])
def test_files_that_templates_cannot_come_from(tmp_path: pathlib.Path, name: str):
    (tmp_path / "parts").mkdir()
    text = f"{HEAD}templates: {{file: '{name}'}}\noutputs: [x]\n"
    (problem,) = problems(text, folder=tmp_path)
    assert problem.field == "templates.file"
    assert problem.location.line == 3


# Warnings.


def test_what_templates_do_not_use_is_warned_of():
    graph = loads(
        HEAD + "templates:\n"
        "  unused: {inputs: [x], nodes: {y: {op: exp, input: x}}, outputs: [y]}\n"
        "  t: {dims: {a: 1, b: 2}, inputs: [x, z], nodes: {y: {op: exp, input: x, scale_bias: {bias: b}}, "
        "dead: {op: exp, input: y}}, outputs: [y]}\n"
        "nodes: {u: {use: t, repeat: 3, x: {first: x, then: y}, z: x}}\noutputs: [u]\n"
    )
    found = [(each.code, each.field or each.node, each.location.line) for each in graph.warnings() if each.location]
    assert found == [
        ("unused-template", "templates.unused", 4),
        ("unused-dim", "templates.t.dims.a", 5),
        ("unused-template-input", "templates.t.inputs.z", 5),
        ("unused-node", "u/0/dead", 5),
    ]
    assert graph.warnings()[-1].location.used_by.endswith(", and 2 other uses")  # type: ignore[union-attr]
    assert graph.with_dims({}).warnings() == graph.warnings()


def test_a_node_that_only_one_copy_needs_is_not_warned_of():
    text = HEAD + (
        "templates: {t: {inputs: [x], nodes: {y: {op: exp, input: x}, z: {op: log, input: x}}, outputs: [y, z]}}\n"
        "nodes: {u: {use: t, repeat: 3, x: {first: x, then: y}}}\noutputs: [u/0.z, u.y]\n"
    )
    assert loads(text).warnings() == []


# At random.


@dataclasses.dataclass
class Random:
    """A random file, and the same written out by hand."""

    templates: dict[str, Any]
    nodes: dict[str, Any]
    flat: dict[str, Any]
    outputs: dict[str, str]
    flat_outputs: dict[str, str]


@st.composite
def files(draw: Any) -> Random:  # noqa: PLR0915 - the same decisions make both forms
    """Templates of one or two outputs, of activations, additions and uses of templates before them."""
    templates: dict[str, Any] = {}
    slopes = st.sampled_from([1, 2, "1 / 2", "n / 4", "n"])

    def pick(names: list[str]) -> str:
        return str(draw(st.sampled_from(names)))

    def references(nodes: dict[str, Any]) -> list[str]:
        """What may be read of nodes: nodes, outputs of uses, of copies."""
        found = []
        for name, node in nodes.items():
            if "op" in node:
                found.append(name)
                continue
            outputs = list(templates[node["use"]]["outputs"])
            each = [name] + ([f"{name}/{copy}" for copy in range(node["repeat"])] if "repeat" in node else [])
            found += [f"{base}.{output}" for base in each for output in outputs]
            found += each if len(outputs) == 1 else []
        return found

    def body(inputs: list[str], dims: list[str], most: int) -> dict[str, Any]:
        nodes: dict[str, Any] = {}
        for index in range(draw(st.integers(1, most))):
            sources = inputs + references(nodes)
            kind = draw(st.sampled_from(["relu", "add", "use", "use"]))
            name = pick(["h", "n.k", "a/b", "z"]) + str(index)
            if kind == "use" and templates:
                template = pick(list(templates))
                node: dict[str, Any] = {"use": template}
                if draw(st.booleans()):
                    node["repeat"] = draw(st.integers(1, 3))
                for each in templates[template]["inputs"]:
                    node[each] = pick(sources)
                    if "repeat" in node:
                        form = draw(st.sampled_from(["same", "list", "then"]))
                        if form == "list":
                            node[each] = [pick(sources) for _ in range(node["repeat"])]
                        elif form == "then":
                            node[each] = {"first": pick(sources), "then": pick(list(templates[template]["outputs"]))}
                if draw(st.booleans()):
                    values = [draw(slopes), *dims] + (["{index}"] if "repeat" in node else [])
                    node["dims"] = {"slope": draw(st.sampled_from(values))}
                nodes[name] = node
            elif kind == "add":
                nodes[name] = {"op": "add", "a": pick(sources), "b": pick(sources)}
            else:
                alpha = pick(["slope", "2 * slope", "3 - slope"]) if dims else "n / 8"
                nodes[name] = {"op": "activation_leaky_relu", "input": pick(sources), "alpha": alpha}
        return nodes

    for index in range(draw(st.integers(1, 3))):
        inputs = ["x", "w"][: draw(st.integers(1, 2))]
        nodes = body(inputs, ["slope", "slope * 2"], 3)
        available = references(nodes)
        outputs = {f"o{each}": pick(available) for each in range(draw(st.integers(1, 2)))}
        templates[f"t{index}"] = {
            "dims": {"slope": draw(slopes)},
            "inputs": inputs,
            "nodes": nodes,
            "outputs": outputs,
        }
    nodes = body(["in"], [], 4)
    flat: dict[str, Any] = {}

    def expand(prefix: str, nodes: dict[str, Any], given: dict[str, str], slope: str) -> dict[str, str]:
        """Writes nodes out; returns what each reference to them means."""
        means = dict(given)
        for name, node in nodes.items():
            whole = prefix + name
            if "op" in node:
                means[name] = whole
                flat[whole] = {
                    field: means[value] if field in ("a", "b", "input") else value for field, value in node.items()
                }
                if "alpha" in node:
                    flat[whole]["alpha"] = "1 * " + node["alpha"].replace("slope", f"({slope})")
                continue
            template = templates[node["use"]]
            before: dict[str, str] = {}
            for copy in range(node.get("repeat", 1)):
                inner: dict[str, str] = {}
                for each in template["inputs"]:
                    value = node[each]
                    if isinstance(value, dict):
                        inner[each] = before[value["then"]] if copy else means[value["first"]]
                    else:
                        inner[each] = means[value[copy] if isinstance(value, list) else value]
                asked = node.get("dims", template["dims"])["slope"]
                own = str(asked).replace("{index}", str(copy))
                own = own.replace("slope", f"({slope})") if "dims" in node else own
                number = f"{name}/{copy}"
                part = expand(f"{prefix}{number if 'repeat' in node else name}/", template["nodes"], inner, own)
                before = {output: part[reference] for output, reference in template["outputs"].items()}
                for base in (name, number) if "repeat" in node else (name,):
                    means |= {f"{base}.{output}": reference for output, reference in before.items()}
                    if len(before) == 1:
                        means[base] = next(iter(before.values()))
        return means

    means = expand("", nodes, {"in": "in"}, "")
    read = references(nodes)
    outputs = {f"out{index}": each for index, each in enumerate(read)}
    return Random(templates, nodes, flat, outputs, {name: means[each] for name, each in outputs.items()})


@settings(max_examples=60, deadline=None)
@given(files(), st.integers(1, 5))
def test_any_file_is_the_same_as_written_out(file: Random, n: int):
    head = {"dmlgraph": 1, "dims": {"n": 2}, "inputs": {"in": {"dtype": "float32", "sizes": [2, "n"]}}}
    with_templates = head | {"templates": file.templates, "nodes": file.nodes, "outputs": file.outputs}
    by_hand = head | {"nodes": file.flat, "outputs": file.flat_outputs}
    graph = loads(yaml.safe_dump(with_templates), dims={"n": n})
    other = loads(yaml.safe_dump(by_hand), dims={"n": n})
    assert described(graph)[1:] == described(other)[1:]
    assert {node.name for node in graph.nodes} == {node.name for node in other.nodes}
    for again in (graph, loads(yaml.safe_dump(with_templates)).with_dims({"n": n}), loads(dumps(graph))):
        assert described(again)[0] == described(other)[0]
    data = {"in": np.linspace(-1, 1, 2 * n, dtype=np.float32).reshape(2, n)}
    expected = other.compile("reference").run(data)
    for name, result in graph.compile("reference").run(data).items():
        np.testing.assert_array_equal(result, expected[name])


# Inputs and constants that are repeated.

REPEATED = (
    "dmlgraph: 1\ndims: {layers: 3}\n"
    "templates: {block: {inputs: [x, w, b], nodes: {y: {op: gemm, a: x, b: w, c: b}}, outputs: [y]}}\n"
    "inputs:\n"
    "  x: {dtype: float32, sizes: [2, 2]}\n"
    "  layer.{index}.w: {repeat: layers, dtype: float32, sizes: [2, 2], owned: true}\n"
    "constants:\n"
    "  b{index}: {repeat: layers, file: 'b{index}.npy'}\n"
    'nodes: {t: {use: block, repeat: layers, x: {first: x, then: y}, w: "layer.{index}.w", b: "b{index}"}}\n'
    "outputs: [t]\n"
)


@pytest.mark.parametrize("layers", [1, 3])
def test_inputs_and_constants_have_copies(layers: int, tmp_path: pathlib.Path):
    for layer in range(3):
        np.save(tmp_path / f"b{layer}.npy", np.full((1, 2), layer, np.float32))
    graph = loads(REPEATED, folder=tmp_path, dims={"layers": layers})
    assert [node.name for node in graph.inputs] == ["x", *(f"layer.{layer}.w" for layer in range(layers))]
    assert all(node.desc.owned for node in graph.inputs[1:])
    ones = {node.name: np.eye(2, dtype=np.float32) for node in graph.inputs}
    expected = np.eye(2) + sum(range(layers))
    np.testing.assert_array_equal(graph.compile("reference").run(ones)["t"], expected)
    with pytest.raises(dg.GraphError) as caught:
        graph.with_dims({"layers": 2})
    assert caught.value.code == "fixed-dim"
    graph.save(tmp_path / "out.yaml")
    assert described(dg.load(tmp_path / "out.yaml"))[0] == described(graph)[0]


def _without_files(text: str) -> str:
    return text.replace("file: 'b{index}.npy'", "dtype: float32, sizes: [1, 2], data: [1, 2]")


@pytest.mark.parametrize(
    ("old", "new", "line", "code", "node", "field", "got"),
    [
        ("layer.{index}.w: {rep", "layer.w: {rep", 6, "copies", "layer.w", None, None),
        ("  x: {d", "  layer.1.w: {d", 6, "duplicate", "layer.1.w", None, None),
        ("w: {repeat: layers", "w: {repeat: 0", 6, "copies", "layer.{index}.w", "repeat", 0),
        (
            "w: {repeat: layers",
            "w: {repeat: layers / 2",
            6,
            "expression",
            "layer.{index}.w",
            "repeat",
            "1.5 = layers / 2 with layers = 3",
        ),
        ("w: {repeat: layers", "w: {repeat: layer", 6, "unknown-dim", "layer.{index}.w", "repeat", "layer"),
        ("w: {repeat: layers", "w: {repeat: 9999999", 6, "copies", "layer.{index}.w", "repeat", 9999999),
        ("w: {repeat: layers", "w: {repeat: [1]", 6, "copies", "layer.{index}.w", "repeat", [1]),
    ],
)
def test_wrong_copies_are_told_at_their_place(
    old: str, new: str, line: int, code: str, node: str, field: str | None, got: object
):
    text = _without_files(REPEATED)
    assert old in text
    (problem,) = problems(text.replace(old, new))
    expect(problem, code, node=node, field=field, got=got)
    assert problem.location.line == line


def test_an_error_in_every_declared_copy_is_told_once():
    (problem,) = problems(_without_files(REPEATED).replace("sizes: [2, 2], owned", "sizes: [2, wide], owned"))
    assert problem.location.used_by == "copy 0 of 'layer.{index}.w', and 2 other uses"
    (warning,) = loads(_without_files(REPEATED).replace('w: "layer.{index}.w"', "w: x")).warnings()
    assert warning.location is not None
    assert (warning.code, warning.location.line) == ("unused-input", 6)


def test_a_name_with_the_index_and_no_repeat_is_a_name():
    graph = loads("dmlgraph: 1\ninputs: {'w{index}': {dtype: float32, sizes: [1]}}\noutputs: ['w{index}']\n")
    assert [node.name for node in graph.inputs] == ["w{index}"]
