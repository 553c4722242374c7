"""Nodes of ONNX's operators and of com.microsoft's that break their schemas: accepted, or refused in our own words.

A case is a node that is right, of ONNX's own cases or of our random ones, or one made of nothing but its schema.  One
to three of its parts are made wrong: ranks, sizes, types and counts of inputs and outputs, known numbers, attributes.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import random
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from formats.onnx import test_microsoft, test_microsoft_attention, test_microsoft_quantized
from support.onnx.microsoft_cases import Chance
from support.onnx.node_cases import cases
from support.onnx.random_models import sample

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import parse

Array = np.ndarray[Any, Any]
OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)
MOST_ELEMENTS = 1 << 16  # of inputs, where the graph also runs
TYPES = ("float32", "float16", "float64", "int64", "int32", "uint8", "int8", "bool", "uint32")
NUMBERS = (0, 1, -1, 2, 3, 5, -3, 7, 100, -100, 2**31, -(2**31), 2**62, -(2**63))
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e30, float("inf"), float("nan"))
TEXTS = ("", "nothing", "......ii", "i,j->", "...ij->...", "NOTSET", "SAME_UPPER", "linear", "cubic", "reflect", "BHWC")
# What only Python, NumPy or protobuf says.
FOREIGN = re.compile(
    r"index out of range|zip\(\)|not enough values|too many values|super\(|object is not|NoneType|has no attribute|"
    r"list\.|tuple index|positional argument|keyword argument|unexpected keyword|operands could not|invalid literal|"
    r"cannot reshape|must be real|unsupported operand|subscriptable|iterable|out of bounds for axis|KeyError|"
    r"IndexError|TypeError|ValueError|<class|object at 0x|dtype\(|np\.|numpy|broadcast input array|einsum|reduction op"
)


@dataclasses.dataclass
class Form:
    """A node with its inputs, of which some are known when the model is imported; None is left out."""

    operator: str
    domain: str
    opset: int
    inputs: list[Array | None]
    known: set[int]
    attributes: dict[str, Any]
    outputs: list[str]

    def model(self) -> onnx.ModelProto:
        names = ["" if each is None else f"x{index}" for index, each in enumerate(self.inputs)]
        node = onnx.NodeProto(op_type=self.operator, domain=self.domain, name="n", input=names, output=self.outputs)
        node.attribute.extend(
            value if isinstance(value, onnx.AttributeProto) else onnx.helper.make_attribute(key, value)
            for key, value in self.attributes.items()
        )
        given = [(index, names[index], each) for index, each in enumerate(self.inputs) if each is not None]
        graph = onnx.helper.make_graph(
            [node],
            "g",
            [
                onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
                for index, name, each in given
                if index not in self.known
            ],
            [onnx.helper.make_empty_tensor_value_info(name) for name in self.outputs if name],
            [onnx.numpy_helper.from_array(each, name) for index, name, each in given if index in self.known],
        )
        own = self.opset if not self.domain else 21
        opsets = [onnx.helper.make_opsetid("", own), onnx.helper.make_opsetid("com.microsoft", 1)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def __str__(self) -> str:
        def text(index: int, each: Array | None) -> str:
            if each is None:
                return "-"
            small = f"={each.tolist()}" if index in self.known and each.size < 9 else ""
            return f"{'known ' if index in self.known else ''}{each.dtype}{list(each.shape)}{small}"

        inputs = ", ".join(text(*each) for each in enumerate(self.inputs))
        attributes = {key: getattr(each, "name", each) for key, each in self.attributes.items()}
        return f"{self.domain}.{self.operator} {self.opset} {attributes} ({inputs}) -> {self.outputs}"


def _form(model: onnx.ModelProto, feeds: dict[str, Any]) -> Form | None:
    """The form of a model of one node; None if it has others, or inputs that are not tensors."""
    if len(model.graph.node) != 1:
        return None
    (node,) = model.graph.node
    fixed = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    inputs = [None if not name else fixed.get(name, feeds.get(name)) for name in node.input]
    if any(each is not None and not isinstance(each, np.ndarray | np.generic) for each in inputs):
        return None
    known = {index for index, name in enumerate(node.input) if name in fixed}
    opset = next((each.version for each in model.opset_import if each.domain == node.domain), 1)
    attributes: dict[str, Any] = {}
    for each in node.attribute:
        plain = each.type in (each.FLOAT, each.INT, each.STRING, each.FLOATS, each.INTS)
        attributes[each.name] = onnx.helper.get_attribute_value(each) if plain else each
    arrays = [None if each is None else np.asarray(each) for each in inputs]
    return Form(node.op_type, node.domain, opset, arrays, known, attributes, list(node.output))


@functools.cache
def _own() -> tuple[Form, ...]:
    """Of ONNX's cases."""
    found = []
    for case in cases():
        names = [each.name for each in case.model.graph.input]
        given = case.data_sets[0][0]
        feeds = {name: onnx.numpy_helper.to_array(each) if isinstance(each, onnx.TensorProto) else each
                 for name, each in zip(names, given, strict=True)}  # fmt: skip
        form = _form(case.model, feeds)
        if form is not None and form.domain == "":
            found.append(form)
    return tuple(found)


def _of_cases(rng: random.Random) -> Form:
    form = rng.choice(_of_operator(rng.choice(list(_by_operator()))))
    return dataclasses.replace(
        form, inputs=[*form.inputs], known={*form.known}, attributes={**form.attributes}, outputs=[*form.outputs]
    )


@functools.cache
def _by_operator() -> dict[str, list[Form]]:
    found: dict[str, list[Form]] = {}
    for each in _own():
        found.setdefault(each.operator, []).append(each)
    return found


def _of_operator(name: str) -> list[Form]:
    return _by_operator()[name]


def _of_microsoft(rng: random.Random) -> Form:
    modules = (test_microsoft, test_microsoft_attention, test_microsoft_quantized)
    making = rng.choice(modules).making
    maker, count, _ = making._all[rng.choice(list(making))]
    case = maker(Chance(rng.randrange(count), rng.randrange(1000)))
    feeds = {name: each for name, each in zip(case.names, case.inputs, strict=True) if each is not None}
    form = _form(case.model(), feeds)
    assert form is not None
    return form


def _of_random(rng: random.Random) -> Form:
    made = sample(rng.randrange(1 << 30))
    form = _form(made.model, made.feeds)
    return _of_cases(rng) if form is None else form


@functools.cache
def _operators() -> tuple[str, ...]:
    return tuple(sorted({each.name for each in onnx.defs.get_all_schemas_with_history() if each.domain == ""}))


def _of_schema(rng: random.Random) -> Form:
    """A node with inputs of allowed types and any shapes, and some attributes of the right types."""
    while True:
        opset = rng.choice(OPSETS)
        try:
            schema: Any = onnx.defs.get_schema(rng.choice(_operators()), opset, "")
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated:
            break
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    chosen: dict[str, str] = {}
    inputs: list[Array | None] = []
    for index in range(rng.randint(schema.min_input, min(schema.max_input, schema.min_input + 3))):
        kind = schema.inputs[min(index, len(schema.inputs) - 1)].type_str
        types = [each for each in allowed.get(kind, [kind]) if each.removeprefix("tensor(")[:-1] in _PLAIN]
        name = chosen.setdefault(kind, rng.choice(types) if types else "tensor(float)")
        inputs.append(_array(rng, _PLAIN[name.removeprefix("tensor(")[:-1]]))
    attributes = {
        name: _value(rng, each.type)
        for name, each in schema.attributes.items()
        if (each.required or rng.random() < 0.4) and each.type.value in (1, 2, 3, 6, 7)
    }
    known = {index for index in range(len(inputs)) if rng.random() < 0.3}
    count = rng.randint(max(schema.min_output, 1), max(1, min(schema.max_output, schema.min_output + 2)))
    return Form(schema.name, "", opset, inputs, known, attributes, [f"y{index}" for index in range(count)])


_PLAIN = {"float": "float32", "double": "float64", **{each: each for each in TYPES}}


def _array(rng: random.Random, dtype: str, shape: tuple[int, ...] | None = None) -> Array:
    if shape is None:
        shape = tuple(rng.choice((1, 1, 2, 3, 4, 4)) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 4, 5))))
    numbers = np.random.default_rng(rng.randrange(1 << 32)).integers(0 if dtype[0] in "ub" else -2, 4, shape)
    return numbers.astype(dtype)


def _value(rng: random.Random, kind: Any) -> Any:
    return {
        1: lambda: rng.choice(FLOATS),
        2: lambda: rng.choice(NUMBERS),
        3: lambda: rng.choice(TEXTS),
        6: lambda: [rng.choice(FLOATS) for _ in range(rng.randint(1, 4))],
        7: lambda: [rng.choice(NUMBERS) for _ in range(rng.randint(1, 4))],
    }[getattr(kind, "value", kind)]()


# What is made wrong.


def _rank(form: Form, rng: random.Random) -> None:
    index = _some_input(form, rng)
    if index is None:
        return
    x = form.inputs[index]
    assert x is not None
    choice = rng.randrange(4)
    if choice == 0:
        form.inputs[index] = x[None]
    elif choice == 1:
        form.inputs[index] = x[..., None]
    elif choice == 2 and x.ndim:
        form.inputs[index] = np.asarray(x[0]) if x.shape[0] else np.zeros(x.shape[1:], x.dtype)
    else:
        form.inputs[index] = np.asarray(x.ravel()[0] if x.size else np.zeros((), x.dtype))


def _sizes(form: Form, rng: random.Random) -> None:
    index = _some_input(form, rng)
    if index is None or not form.inputs[index].ndim:  # type: ignore[union-attr]
        return
    x = form.inputs[index]
    assert x is not None
    axis = rng.randrange(x.ndim)
    size = max(0, rng.choice((0, 1, x.shape[axis] - 1, x.shape[axis] + 1, 2 * x.shape[axis])))
    if x.shape[axis]:
        form.inputs[index] = x.take(np.arange(size) % x.shape[axis], axis)


def _type(form: Form, rng: random.Random) -> None:
    index = _some_input(form, rng)
    if index is not None and form.inputs[index].dtype.kind in "fiub":  # type: ignore[union-attr]
        with np.errstate(all="ignore"):
            form.inputs[index] = form.inputs[index].astype(rng.choice(TYPES))  # type: ignore[union-attr]


def _left_out(form: Form, rng: random.Random) -> None:
    if form.inputs and rng.random() < 0.5:
        form.inputs[rng.randrange(len(form.inputs))] = None
    elif form.inputs:
        form.inputs.pop()
        form.known.discard(len(form.inputs))


def _extra(form: Form, rng: random.Random) -> None:
    form.inputs.append(_array(rng, rng.choice(TYPES)))


def _count_of_outputs(form: Form, rng: random.Random) -> None:
    choice = rng.randrange(3)
    if choice == 0:
        form.outputs.append(f"more{len(form.outputs)}")
    elif choice == 1 and len(form.outputs) > 1:
        form.outputs.pop()
    elif form.outputs:
        form.outputs[rng.randrange(len(form.outputs))] = rng.choice(("", "y0"))


def _numbers(form: Form, rng: random.Random) -> None:
    """Other numbers in an input of whole numbers, such as a shape, which becomes known."""
    whole = [index for index, each in enumerate(form.inputs) if each is not None and each.dtype.kind in "iu"]
    if not whole:
        return
    index = rng.choice(whole)
    x = np.array(form.inputs[index])
    if x.size:
        with np.errstate(all="ignore"):
            x.flat[rng.randrange(x.size)] = np.array(rng.choice(NUMBERS)).astype(x.dtype)
    form.inputs[index] = x
    form.known.add(index)


def _known(form: Form, rng: random.Random) -> None:
    index = _some_input(form, rng)
    if index is not None:
        form.known ^= {index}


def _all_known(form: Form, _: random.Random) -> None:
    form.known = set(range(len(form.inputs)))


def _attribute(form: Form, rng: random.Random) -> None:
    choice = rng.randrange(5)
    name = rng.choice(list(form.attributes) or ["axis"])
    value = form.attributes.get(name)
    if choice == 0:
        form.attributes.pop(name, None)
    elif choice == 1:
        form.attributes[rng.choice(("axis", "nothing", "mode", "to"))] = _value(rng, rng.choice((1, 2, 3, 6, 7)))
    elif choice == 2:
        form.attributes[name] = _value(rng, rng.choice((1, 2, 3, 6, 7)))
    elif isinstance(value, list):
        form.attributes[name] = _other_list(value, rng)
    elif value is not None:
        kind = 1 if isinstance(value, float) else 2 if isinstance(value, int) else 3
        form.attributes[name] = _value(rng, kind)


def _schema_attribute(form: Form, rng: random.Random) -> None:
    """One of the operator's, of the right type."""
    try:
        schema: Any = onnx.defs.get_schema(form.operator, form.opset, form.domain)
    except onnx.defs.SchemaError:
        return
    names = [name for name, each in schema.attributes.items() if each.type.value in (1, 2, 3, 6, 7)]
    if names:
        name = rng.choice(names)
        form.attributes[name] = _value(rng, schema.attributes[name].type)


def _other_list(value: list[Any], rng: random.Random) -> Any:
    value = list(value)
    if value and rng.random() < 0.5:
        value[rng.randrange(len(value))] = rng.choice(FLOATS if isinstance(value[0], float) else NUMBERS)
    elif len(value) > 1 and rng.random() < 0.5:
        value.pop()
    else:
        value.append(value[-1] if value else 0)
    return value


def _some_input(form: Form, rng: random.Random) -> int | None:
    there = [index for index, each in enumerate(form.inputs) if each is not None]
    return rng.choice(there) if there else None


WRONGS: tuple[Callable[[Form, random.Random], None], ...] = (
    _rank,
    _rank,
    _sizes,
    _sizes,
    _type,
    _left_out,
    _extra,
    _count_of_outputs,
    _numbers,
    _numbers,
    _known,
    _all_known,
    _attribute,
    _attribute,
    _schema_attribute,
)


def form_of(seed: int) -> Form:
    """The node of a seed."""
    rng = random.Random(seed)
    form = rng.choice((_of_cases, _of_cases, _of_microsoft, _of_random, _of_schema))(rng)
    for _ in range(rng.randint(1, 3)):
        rng.choice(WRONGS)(form, rng)
    form.known = {index for index in form.known if index < len(form.inputs)}
    if not any(form.outputs):
        form.outputs = ["y0"]
    for index, each in enumerate(form.inputs):
        if each is not None and each.dtype.kind in "OUS":
            form.known.add(index)
    return form


def foreign(error: dg.DmlGraphError) -> Iterator[str]:
    """What in an error is not ours."""
    if error.__cause__ is not None and not isinstance(error.__cause__, dg.DmlGraphError):
        yield f"made of {type(error.__cause__).__name__}: {error.__cause__}"
    for problem in error.problems:
        if problem.node is None and problem.code not in ("opset", "model", "memory"):  # of the whole
            yield f"without a node: {problem}"
        if FOREIGN.search(problem.message):
            yield f"foreign words: {problem}"


def one_case(seed: int) -> str | None:
    form = form_of(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            try:
                model = form.model()
            except Exception:  # onnx's helpers refuse to write it
                return None
            parsed = parse(model.SerializeToString(), None)
            graph = Importer(parsed, dims={}, values={}, target=None, convert={}).read()
            graph.lower(fuse=False)
            if sum(each.size for each in form.inputs if each is not None) <= MOST_ELEMENTS:
                _run(graph, form)
        except dg.DmlGraphError as error:
            wrong = "; ".join(foreign(error))
            return f"{form}: {wrong}" if wrong else None
        except Exception as error:
            import traceback

            last = traceback.extract_tb(error.__traceback__)[-3:]
            places = " < ".join(f"{pathlib.Path(each.filename).name}:{each.lineno}" for each in reversed(last))
            return f"{form}: {type(error).__name__}: {error} at {places}"
    return None


def _run(graph: dg.Graph, form: Form) -> None:
    feeds = {
        each.name: form.inputs[int(each.name[1:])].astype(each.desc.dtype.numpy).reshape(each.desc.sizes)  # type: ignore[union-attr]
        for each in graph.inputs
    }
    graph.compile("reference").run(feeds)


CAMPAIGN = Campaign("onnx_schemas", "nodes that break ONNX's schemas: our own words", one_case)
