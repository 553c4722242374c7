"""Windows, joins and shared values on the real DirectML: fused or not, it runs them and agrees with the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from support.passes.perturbed import Array, approximated, hull, is_finite
from support.random_graphs import graph_of
from support.sketches import Sample

from campaigns.campaign import Campaign
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.desc import ConstantDescNode, GraphDesc, GraphInput, GraphOutput, InputEdge, OutputEdge
from dmlgraph.compiler.ir_node import Source
from dmlgraph.compiler.lowering import thawed
from dmlgraph.devices import choose
from dmlgraph.devices.compile import lower_graph
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import QuantizeLinear

Values = dict[str, Array]

LEVEL = FeatureLevel.V6_2  # that of the library for Linux
DIRECTML_LEVEL = str(LEVEL)
# A number of another element or operator is further away than this; the error of DirectML's functions is smaller.
ULP = {DataType.FLOAT16: 16, DataType.FLOAT32: 4096, DataType.FLOAT64: 4096}
SLACK = {2: 1e-2, 4: 1e-3, 8: 1e-3}  # of a float's magnitude, by its bytes; of 1 for smaller ones


def one_case(seed: int) -> None:
    agrees(graph_of(seed, "windows", DIRECTML_LEVEL))


def agrees(sample: Sample) -> None:
    """Compiles a graph, fused and not, and compares the results if all numbers are finite.

    If single operators of DirectML differ from the reference, the graph must agree with them run one by one.
    """
    graph = sample.graph
    results = {}
    for fuse in (False, True):
        with graph.compile("directml:software", fuse=fuse) as executable:
            results["fused" if fuse else "not fused"] = executable.run(sample.inputs)
    if not is_finite(graph, sample.inputs):
        return
    runs = approximated(graph, sample.inputs, ULP)
    for how, outputs in results.items():
        try:
            assert_close(outputs, runs, sample, how)
        except AssertionError:
            assert_close(outputs, [*runs, one_by_one(lower_graph(graph, fuse=False)[1], sample.inputs)], sample, how)


def assert_close(outputs: Values, runs: list[Values], sample: Sample, how: str) -> None:
    """Every element is near to that of the last run; the tolerance includes the spread of the other runs."""
    for name, got in outputs.items():
        each = [run[name] for run in runs]
        _, _, spread = hull(each[:-1])
        expected = each[-1]
        if got.dtype.kind != "f":
            # A number in the middle between two steps may be quantized to either.
            step = 1 if _is_quantized(sample, name) else 0
            differs = np.abs(got.astype(object) - expected.astype(object)) > spread + step
        else:
            one, other = got.astype(np.float64), expected.astype(np.float64)
            allowed = 2 * spread + SLACK[got.dtype.itemsize] * np.maximum(1, np.abs(other))
            with np.errstate(invalid="ignore"):
                differs = ~((np.abs(one - other) <= allowed) | (one == other) | (np.isnan(one) & np.isnan(other)))
        with np.printoptions(threshold=64):
            where = f"{got[differs]} at {np.argwhere(differs)}, not {expected[differs]}"
            assert not differs.any(), f"{how}: output '{name}' of\n{sample!r}:\n{where}"


def _is_quantized(sample: Sample, name: str) -> bool:
    node = sample.graph.node(sample.graph.outputs[name].node)
    return isinstance(node, OperatorNode) and isinstance(node.operator, QuantizeLinear)


def one_by_one(desc: GraphDesc, inputs: Mapping[str, Array]) -> Values:
    """The outputs of a lowered graph; each node runs on DirectML as a graph of its own."""
    device = choose("directml:software").device
    ir = thawed(desc)
    assert ir is not None
    values = {
        Source(given.name, 0): np.asarray(inputs[given.name] if given.data is None else given.data)
        for given in desc.inputs
    }
    for node in desc.nodes:
        if isinstance(node, ConstantDescNode):
            values[Source(node.name, 0)] = node.desc.unpack(np.frombuffer(node.data, np.uint8))
            continue
        sources = {port: source for port, source in enumerate(ir[node.name].sources) if source is not None}
        written = [(port, each) for port, each in enumerate(node.operator.output_descs) if each is not None]
        single = GraphDesc(
            name=node.name,
            level=desc.level,
            inputs=tuple(
                GraphInput(f"x{port}", _given(ir.desc(*source), node.operator.input_descs[port]))
                for port, source in sources.items()
            ),
            outputs=tuple(GraphOutput(f"y{port}", each) for port, each in written),
            nodes=(node,),
            input_edges=tuple(InputEdge(slot, 0, port) for slot, port in enumerate(sources)),
            output_edges=tuple(OutputEdge(0, port, slot) for slot, (port, _) in enumerate(written)),
            intermediate_edges=(),
        )
        with device.compile(single, reason="asked for") as executable:
            got = executable.run({f"x{port}": values[source] for port, source in sources.items()})
        values |= {Source(node.name, port): got[f"y{port}"] for port, _ in written}
    return {
        name: read.unpack(ir.desc(*source).pack(values[source]))
        for (name, source), read in zip(ir.outputs.items(), ir.output_descs.values(), strict=True)
    }


def _given(made: TensorDesc, read: TensorDesc | None) -> TensorDesc:
    """A value as a graph input: owned by DirectML if its consumer's description says so."""
    assert read is not None
    return TensorDesc(dtype=made.dtype, sizes=made.sizes, strides=made.strides, owned=read.owned)


CAMPAIGN = Campaign("windows", "windows, joins and shared values on directml:software: as the reference", one_case)
