"""Operators of the domain com.microsoft, which ONNX Runtime's optimizer writes."""

from __future__ import annotations

from dmlgraph.onnx.matrix import as_matrices, product_shape
from dmlgraph.onnx.node import Node, Result
from dmlgraph.onnx.refusals import Refusal
from dmlgraph.onnx.table import MICROSOFT, imports
from dmlgraph.onnx.tensors import Tensor


@imports("Gelu", domain=MICROSOFT, how="activation_gelu")
def _gelu(node: Node) -> Result:
    return node.tensor(node.dml.activation_gelu(node[0]), node[0].shape)


@imports("BiasGelu", domain=MICROSOFT, how="add, activation_gelu")
def _bias_gelu(node: Node) -> Result:
    return node.tensor(node.dml.activation_gelu(node.dml.add(node[0], node[1])), node.broadcast)


@imports("FastGelu", domain=MICROSOFT, how="multiply, add, activation_tanh")
def _fast_gelu(node: Node) -> Result:
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    dml = node.dml
    x = dml.value(node[0]) if node.get(1) is None else dml.add(node[0], node[1])
    cube = dml.multiply(dml.multiply(x, x), dml.multiply(x, 0.044715))
    bent = dml.activation_tanh(dml.multiply(dml.add(x, cube), 0.7978845608028654))
    return node.tensor(dml.multiply(dml.multiply(x, 0.5), dml.add(bent, 1)), node[0].shape)


@imports("FusedMatMul", domain=MICROSOFT, how="gemm, views")
def _fused_matmul(node: Node) -> Result:
    if node.attribute("transBatchA", 0) or node.attribute("transBatchB", 0):
        raise node.refuse("transBatchA", "0")
    a, b = (_turned(node, node[index], name) for index, name in ((0, "transA"), (1, "transB")))
    made = node.dml.gemm(*as_matrices(node.dml, a, b), alpha=node.attribute("alpha", 1.0))
    return node.tensor(made, product_shape(a.shape, b.shape))


def _turned(node: Node, x: Tensor, attribute: str) -> Tensor:
    """The matrices transposed, if the attribute says so."""
    if not node.attribute(attribute, 0) or x.rank < 2:
        return x
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return node.tensor(node.dml.transposed(x, order))


@imports("SkipLayerNormalization", domain=MICROSOFT, how="add, mean_variance_normalization1")
@imports("SkipSimplifiedLayerNormalization", domain=MICROSOFT, how="add, mean_variance_normalization2")
def _skip_layer(node: Node) -> Result:
    """Inputs: x, skip, gamma, beta, bias; simplified: x, skip, gamma, bias."""
    if node.wants(1) or node.wants(2):
        raise Refusal("the mean and deviation of a normalization are not read", field="outputs")
    simplified = node.operator.startswith("SkipSimplified")
    total = node.dml.add(node[0], node[1])
    bias = node.get(3 if simplified else 4)
    total = total if bias is None else node.dml.add(total, bias)
    axes, epsilon = [node[0].rank - 1], node.attribute("epsilon", 1e-5)
    if simplified:
        made = node.dml.mean_variance_normalization2(
            total, axes=axes, use_mean=False, use_variance=True, epsilon=epsilon
        )
    else:
        made = node.dml.mean_variance_normalization1(total, axes=axes, normalize_variance=True, epsilon=epsilon)
    made = node.dml.multiply(made, node[2])
    beta = None if simplified else node.get(3)
    made = made if beta is None else node.dml.add(made, beta)
    return [made, None, None, total]
