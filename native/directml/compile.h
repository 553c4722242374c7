// Compiles a GraphDesc to a DirectML operator.
#pragma once

#include "directml/device.h"
#include "directml/graph_desc.h"

namespace dmlgraph {

// Creates every operator, then compiles the graph. Throws Error (call, device_removed) with the node's name
// if an operator is refused, Error (use) for edges to missing nodes, Error (feature_level) for constant nodes
// below feature level 6.2.
abi::ComPtr<abi::IDMLCompiledOperator> compile(Device& device, const GraphDesc& graph, abi::DML_EXECUTION_FLAGS flags);

}  // namespace dmlgraph
