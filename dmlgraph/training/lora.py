"""Low-rank adaptation (LoRA, Hu et al., 2021): a pair of small matrices beside a product's weights is trained for them.

    pairs = dg.add_lora(g, "*/attention/*", rank=8)
    tuned = dg.merge_lora(g, exe.states)

Of x · W it makes x · W + factor · (x · down) · up, where `down` has `rank` columns and `up` as many rows.  The pair are
states in the scope `lora`, under the name of the product.  `up` is zero at first, so that nothing changes.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import GraphError
from dmlgraph.base.tensor import DataType
from dmlgraph.graph.calls import apply
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode, StateNode, is_view
from dmlgraph.graph.trainable import Array, Arrays, matched
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import ConvolutionDirection, MatrixTransform

SCOPE = "lora"
_ACTIVATION = "fused_activation"


@dataclasses.dataclass(frozen=True)
class _Product:
    """A product with weights that no input and no state changes.

    Attributes:
        node: the product.
        tensors: what it reads, by field.
        field: that of the weights.
    """

    node: OperatorNode
    tensors: Mapping[str, Value]
    field: str

    @property
    def weights(self) -> Value:
        return self.tensors[self.field]

    @property
    def attributes(self) -> dict[str, Any]:
        """Those that were given, without the activation."""
        return {name: value for name, value in self.node.attributes.items() if name != _ACTIVATION}

    @property
    def activation(self) -> Any:
        return self.node.attributes.get(_ACTIVATION)

    @property
    def is_transposed(self) -> bool:
        """Whether the weights of a matrix product are transposed first."""
        return getattr(self.node.operator, f"trans_{self.field}") is MatrixTransform.TRANSPOSE

    def sizes(self, rank: int) -> tuple[Sequence[int], Sequence[int]]:
        """Those of `down` and of `up`."""
        sizes = self.weights.sizes
        if self.field == "filter":
            return (rank, *sizes[1:]), (sizes[0], rank, *(1 for _ in sizes[2:]))
        *batch, rows, columns = sizes
        if self.is_transposed:
            rows, columns = columns, rows
        first, second = (*batch, rows, rank), (*batch, rank, columns)
        return (first, second) if self.field == "b" else (second, first)

    def change(self, down: Array, up: Array) -> Array:
        """What a pair adds to the weights, without the factor, in float64."""
        down, up = down.astype(np.float64), up.astype(np.float64)
        if self.field == "filter":
            change: Array = up.reshape(up.shape[:2]) @ down.reshape(down.shape[0], -1)
            return change.reshape(self.weights.sizes)
        change = down @ up if self.field == "b" else up @ down
        return change.swapaxes(-1, -2) if self.is_transposed else change


def add_lora(graph: Graph, *patterns: str, rank: int = 8, alpha: float | None = None, seed: int = 0) -> list[Value]:
    """Puts a pair of small matrices beside the weights of products; training them alone adapts a model.

    Args:
        graph: gets the pairs; what reads a product reads the sum from now on.
        patterns: names of products or of their weights; `*` stands for any text.  Products are `gemm` and forward
            `convolution` without groups, whose weights depend on constants only; other nodes that a pattern means are
            left alone.
        rank: the columns of `down`, and the rows of `up`.
        alpha: the factor is alpha / rank; by default 1.
        seed: of the numbers of `down`, which are even between ±1 / √inputs.

    Returns:
        The states, float32, of each product `lora/NAME/down` and `lora/NAME/up`: the parameters to train.

    Raises:
        GraphError: a pattern means no product, or a number is out of its range; nothing has changed then.
    """
    _check(rank, alpha, seed)
    products = dict(_products(graph))
    names = {name: name for name in products}
    for name, product in products.items():
        for source in _constants(graph, product.weights):
            names.setdefault(source, name)
    chosen = dict.fromkeys(names[name] for name in matched(patterns, names, "patterns"))
    pairs: list[Value] = []
    outer, graph.names.scopes = graph.names.scopes, ()  # the pairs of a graph are in one place
    try:
        for name in [name for name in products if name in chosen]:
            pairs += _add_pair(graph, products[name], rank, (rank if alpha is None else alpha) / rank, seed)
    finally:
        graph.names.scopes = outer
    return pairs


def merge_lora(graph: Graph, states: Arrays) -> Graph:
    """The graph without pairs: what they add is in the weights, whose names stay; else as `Graph.with_states`.

    Raises:
        GraphError: as `with_states`; or weights are not constants themselves, such as quantized ones.
    """
    tuned = graph.with_states(states)
    for name, product in _paired(tuned):
        _merge(tuned, name, product)
    return tuned


def can_merge(graph: Graph) -> bool:
    """Whether the weights of all products with pairs are constants themselves, unlike quantized ones."""
    try:
        for _, product in _paired(graph):
            _source(graph, product)
    except GraphError:
        return False
    return True


def _paired(graph: Graph) -> list[tuple[str, _Product]]:
    """The products that have a pair, by the names that they had before."""
    begin, end = f"{SCOPE}/", "/product"
    found = []
    for node in graph.nodes:
        if isinstance(node, OperatorNode) and node.name.startswith(begin) and node.name.endswith(end):
            product = _product(graph, node)
            assert product is not None
            found.append((node.name.removeprefix(begin).removesuffix(end), product))
    return found


def _check(rank: object, alpha: object, seed: object) -> None:
    for field, given, least in (("rank", rank, 1), ("seed", seed, 0)):
        if isinstance(given, bool) or not isinstance(given, int) or given < least:
            allowed = f"a whole number of at least {least}"
            raise GraphError("is not possible here", code="range", field=field, got=given, allowed=allowed)
    is_number = isinstance(alpha, (int, float)) and not isinstance(alpha, bool) and math.isfinite(alpha)
    if alpha is not None and not is_number:
        raise GraphError("is not possible here", code="range", field="alpha", got=alpha, allowed="a number")


def _products(graph: Graph) -> Iterator[tuple[str, _Product]]:
    """The products with weights, by name, without those that have a pair."""
    for node in graph.nodes:
        if isinstance(node, OperatorNode) and not node.name.startswith(f"{SCOPE}/"):
            product = _product(graph, node)
            if product is not None:
                yield node.name, product


def _product(graph: Graph, node: OperatorNode) -> _Product | None:
    """A node as a product with weights; None if it is something else."""
    operator = node.operator
    sources = {port: Value(graph, source, at) for source, at, port in graph.producers(node.name)}
    tensors = {field: value for field, value in operator.by_field(Role.INPUT, sources).items() if value is not None}
    if isinstance(operator, ops.Gemm):
        fields = [field for field in ("a", "b") if _is_fixed(graph, tensors[field])]
    elif isinstance(operator, ops.Convolution):
        is_plain = operator.direction is ConvolutionDirection.FORWARD and operator.group_count == 1
        is_plain = is_plain and not any(operator.output_padding)
        fields = ["filter"] if is_plain and _is_fixed(graph, tensors["filter"]) else []
    else:
        return None
    return _Product(node, tensors, fields[0]) if len(fields) == 1 else None


def _is_fixed(graph: Graph, weights: Value) -> bool:
    """Whether weights depend on constants only."""
    sources = [graph.node(name) for name in graph.upstream(weights.node)]
    is_known = weights.rank > 1 and any(isinstance(node, ConstantNode) for node in sources)
    return is_known and not any(isinstance(node, (InputNode, StateNode)) for node in sources)


def _constants(graph: Graph, weights: Value) -> list[str]:
    """The constants of which weights are made."""
    return [name for name in graph.upstream(weights.node) if isinstance(graph.node(name), ConstantNode)]


def _add_pair(graph: Graph, product: _Product, rank: int, factor: float, seed: int) -> list[Value]:
    """Makes a product the sum of itself and of that with a pair."""
    node, count = product.node, len(graph.nodes)
    down, up = product.sizes(rank)
    inputs = math.prod(down[1:]) if product.field == "filter" else down[-2 if product.field == "b" else -1]
    bound = 1 / math.sqrt(inputs)
    random = np.random.default_rng([seed, zlib.crc32(node.name.encode())])
    start = random.uniform(-bound, bound, down).astype(np.float32)
    with graph.scope(SCOPE), graph.scope(node.name):
        pair = [
            graph.state("down", sizes=down, dtype="float32", initial=start),
            graph.state("up", sizes=up, dtype="float32"),
        ]
        dtype = product.weights.dtype
        read = [each if dtype is DataType.FLOAT32 else apply(ops.Cast, each, dtype=dtype) for each in pair]
        plain = _added(graph, type(node.operator), product.tensors, product.attributes, "product")
        total = _sum(graph, product, plain, read, factor)
    graph.take_over(node.name, total, count)
    return pair


def _sum(graph: Graph, product: _Product, plain: Value, pair: Sequence[Value], factor: float) -> Value:
    """The product and that with a pair, with the activation and the output of the node."""
    given, tensors, outputs = product.attributes, product.tensors, product.node.outputs
    activation = {} if product.activation is None else {_ACTIVATION: product.activation}
    down, up = pair
    if product.field == "filter":
        inner = _added(graph, ops.Convolution, {"input": tensors["input"], "filter": down}, given, "inner")
        change = apply(ops.Convolution, inner, up)
        scaled = apply(ops.Identity, change, scale_bias={"scale": factor, "bias": 0}, name="scaled")
        kind = ops.Add1 if activation else ops.Add
        return _added(graph, kind, {"a": plain, "b": scaled}, activation, "sum", outputs)
    other = "a" if product.field == "b" else "b"
    fields = {name: given[name] for name in ("alpha", f"trans_{other}") if name in given}
    inner = _added(graph, ops.Gemm, {other: tensors[other], product.field: down}, fields, "inner")
    factors = {other: inner, product.field: up, "c": plain}
    return _added(graph, ops.Gemm, factors, {"alpha": factor} | activation, "sum", outputs)


def _added(
    graph: Graph,
    operator: type[Operator],
    tensors: Mapping[str, Value],
    attributes: Mapping[str, Any],
    name: str,
    outputs: Mapping[str, Any] | None = None,
) -> Value:
    """The output of a new node."""
    (value,) = graph.add(operator, tensors, attributes, outputs or {}, name)
    assert value is not None
    return value


def _merge(graph: Graph, name: str, product: _Product) -> None:
    """Puts what a pair adds to a product into its weights."""
    node, live, count = graph.node(name), graph.live_nodes(), len(graph.nodes)
    assert isinstance(node, OperatorNode)
    scope = f"{SCOPE}/{name}"
    pair = [graph.node(f"{scope}/{each}") for each in ("down", "up")]
    down, up = (each.data for each in pair if isinstance(each, ConstantNode))
    if product.field == "filter":
        scaled = graph.node(f"{scope}/scaled")
        assert isinstance(scaled, OperatorNode)
        assert isinstance(scaled.operator, ops.Identity)
        assert scaled.operator.scale_bias is not None
        factor = scaled.operator.scale_bias.scale
    else:
        assert isinstance(node.operator, ops.Gemm)
        factor = node.operator.alpha
    weights = _changed(graph, product, factor * product.change(down, up))
    attributes = product.attributes | {_ACTIVATION: node.attributes.get(_ACTIVATION)}
    tensors = {**product.tensors, product.field: weights}
    merged = _added(graph, type(product.node.operator), tensors, attributes, f"{scope}/merged", node.outputs)
    graph.take_over(name, merged, count)
    graph.remove_dead(live)


def _changed(graph: Graph, product: _Product, change: Array) -> Value:
    """The weights of a product with something added: in their constant, or in a new one if others read that too."""
    constant, places = _source(graph, product)
    weights, dtype = product.weights, constant.desc.dtype.numpy
    array = constant.data.astype(np.float64).reshape(-1)
    array[places.reshape(-1)] += change.reshape(-1)
    ways = {constant.name, *(node.name for node in _views(graph, weights))}
    readers = [node.name for node in graph.nodes for source, _, _ in graph.producers(node.name) if source in ways]
    if {*readers} - ways == {product.node.name}:
        made = array.reshape(constant.desc.sizes).astype(dtype)
        made.flags.writeable = False
        graph.replace_source(ConstantNode(constant.name, constant.desc, ConstantData(made)))
        return weights
    return graph.constant(graph.names.free(constant.name), array[places].astype(dtype))


def _source(graph: Graph, product: _Product) -> tuple[ConstantNode, Array]:
    """The constant of which the weights of a product are a view, and the place in it of each of them.

    Raises:
        GraphError: they are something else.
    """
    weights = product.weights
    views = list(_views(graph, weights))
    first = graph.producers(views[-1].name)[0][0] if views else weights.node
    constant = graph.node(first)
    if isinstance(constant, ConstantNode):
        places = np.arange(constant.desc.element_count).reshape(constant.desc.sizes)
        for view in reversed(views):
            (places,) = view.operator.evaluate(places)
        if np.unique(places).size == places.size == constant.desc.element_count:
            return constant, places
    raise GraphError(
        "only weights that are a constant can take in a pair",
        code="kind",
        node=product.node.name.removeprefix(f"{SCOPE}/").removesuffix("/product"),
        field=product.field,
        got=weights.reference,
        hint="with_states keeps the pair",
    )


def _views(graph: Graph, value: Value) -> Iterator[OperatorNode]:
    """The views of which a value is made, the last one first."""
    node = graph.node(value.node)
    while is_view(node):
        yield node
        node = graph.node(graph.producers(node.name)[0][0])
