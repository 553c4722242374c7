// The nodes of the graph @{title}, and how they are connected.
//
// @{facts}
#include "description.h"

#include <limits>

namespace @{namespace} {
namespace {

// ---- Tensors: data type and sizes, and what else there is to say: strides, the buffer's bytes if it is larger, owned by
// DirectML.

@{tensors}

// ---- Nodes, in the order in which they can run.

@{nodes}

constexpr Node nodes[] = {
@{node_table}
};

// ---- Edges: {input, node, its input}, {node, its output, output}, {node, its output, node, its input}.

constexpr DML_INPUT_GRAPH_EDGE_DESC inputEdges[] = {
@{input_edges}
};

constexpr DML_OUTPUT_GRAPH_EDGE_DESC outputEdges[] = {
@{output_edges}
};

constexpr DML_INTERMEDIATE_GRAPH_EDGE_DESC edges[] = {
@{edges}
};

// ---- What inputs and outputs are bound to.

constexpr InputSlot inputs[] = {
@{input_slots}
};

constexpr OutputSlot outputs[] = {
@{output_slots}
};

constexpr Growth growth[] = {
@{growth}
};

constexpr TypeUse types[] = {
@{types}
};

constexpr Description description = {
    @{counts},
    nodes, inputs, outputs, inputEdges, outputEdges, edges, types, growth, @{level_node}, L"@{namespace}",
};

}  // namespace

const Description& Describe() noexcept {
    return description;
}

}  // namespace @{namespace}
