#include "directml/graph_desc.h"

#include <string_view>

#include "directml/error.h"

namespace dmlgraph {
namespace {

// Checks one end of an edge: its index must be below the count.
void require(const GraphDesc& graph, std::string_view list, std::size_t edge, std::string_view what,
             std::uint32_t index, std::size_t count) {
    if (index < count) {
        return;
    }
    Error error(ErrorKind::use, std::string(list) + " edge " + std::to_string(edge) + " leads to " + std::string(what) +
                                    " " + std::to_string(index) + ", but there are only " + std::to_string(count));
    error.graph = graph.name;
    throw error;
}

}  // namespace

void validate(const GraphDesc& graph) {
    for (std::size_t i = 0; i < graph.input_edges.size(); ++i) {
        require(graph, "input", i, "graph input", graph.input_edges[i].input, graph.inputs.size());
        require(graph, "input", i, "node", graph.input_edges[i].to_node, graph.nodes.size());
    }
    for (std::size_t i = 0; i < graph.output_edges.size(); ++i) {
        require(graph, "output", i, "node", graph.output_edges[i].from_node, graph.nodes.size());
        require(graph, "output", i, "graph output", graph.output_edges[i].output, graph.outputs.size());
    }
    for (std::size_t i = 0; i < graph.intermediate_edges.size(); ++i) {
        require(graph, "intermediate", i, "node", graph.intermediate_edges[i].from_node, graph.nodes.size());
        require(graph, "intermediate", i, "node", graph.intermediate_edges[i].to_node, graph.nodes.size());
    }
}

}  // namespace dmlgraph
