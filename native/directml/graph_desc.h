// DML_GRAPH_DESC as plain data: the C++ mirror of dmlgraph.compiler.desc.GraphDesc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "directml/operator_desc.h"

namespace dmlgraph {

struct GraphInput {
    std::string name;
    std::uint64_t bytes;
    bool owned;             // copied into the persistent resource at initialisation (DML_TENSOR_FLAG_OWNED_BY_DML)
    bool resident = false;  // always a tensor on the device: what a state holds
};

// Where an output goes.
enum class Target {
    back,      // to the processor, or into a tensor on the device if a run gives one
    resident,  // always into a tensor on the device: the next value of a state
    rows,      // behind the rows of a state
};

struct GraphOutput {
    std::string name;
    std::uint64_t bytes;
    Target target = Target::back;
};

struct OperatorNode {
    std::string name;
    std::shared_ptr<const OperatorDesc> op;
};

struct ConstantNode {
    std::string name;
    std::string data;  // bytes
};

using GraphNode = std::variant<OperatorNode, ConstantNode>;

struct InputEdge {
    std::uint32_t input;
    std::uint32_t to_node;
    std::uint32_t to_port;
};

struct OutputEdge {
    std::uint32_t from_node;
    std::uint32_t from_port;
    std::uint32_t output;
};

struct IntermediateEdge {
    std::uint32_t from_node;
    std::uint32_t from_port;
    std::uint32_t to_node;
    std::uint32_t to_port;
};

struct GraphDesc {
    std::string name;
    std::vector<GraphInput> inputs;
    std::vector<GraphOutput> outputs;
    std::vector<GraphNode> nodes;
    std::vector<InputEdge> input_edges;
    std::vector<OutputEdge> output_edges;
    std::vector<IntermediateEdge> intermediate_edges;
};

// Throws Error (use) for an edge to a node, input or output that does not exist.
void validate(const GraphDesc& graph);

}  // namespace dmlgraph
