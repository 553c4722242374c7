#include "directml/compile.h"

#include <type_traits>

#include "directml/desc_arena.h"

namespace dmlgraph {
namespace {

using namespace abi;

// The nodes in DirectML's form; the descs they point to are in the other vectors.
class NodeDescs {
public:
    NodeDescs(Device& device, const GraphDesc& graph) {
        // Reserved completely: the nodes keep pointers into these.
        operators_.reserve(graph.nodes.size());
        constants_.reserve(graph.nodes.size());
        nodes_.reserve(graph.nodes.size());
        for (const GraphNode& node : graph.nodes) {
            std::visit([&](const auto& n) { nodes_.push_back(add(device, graph, n)); }, node);
        }
    }

    const std::vector<DML_GRAPH_NODE_DESC>& nodes() const { return nodes_; }

private:
    DML_GRAPH_NODE_DESC add(Device& device, const GraphDesc& graph, const OperatorNode& node) {
        const DescArena arena(*node.op);
        const DML_OPERATOR_DESC desc = arena.desc();
        ComPtr<IDMLOperator>& op = handles_.emplace_back();
        device.check(device.directml().CreateOperator(&desc, IDMLOperator::iid, op.put()), "CreateOperator",
                     {graph.name, node.name});
        operators_.push_back({op.get(), node.name.c_str()});
        return {DML_GRAPH_NODE_TYPE_OPERATOR, &operators_.back()};
    }

    DML_GRAPH_NODE_DESC add(Device& device, const GraphDesc& graph, const ConstantNode& node) {
        if (device.feature_level() < DML_FEATURE_LEVEL_6_2) {
            Error error(ErrorKind::feature_level, "constant nodes need DirectML feature level 6.2");
            error.graph = graph.name;
            error.node = node.name;
            throw error;
        }
        constants_.push_back({node.data.data(), node.data.size(), node.name.c_str()});
        return {DML_GRAPH_NODE_TYPE_CONSTANT, &constants_.back()};
    }

    std::vector<ComPtr<IDMLOperator>> handles_;
    std::vector<DML_OPERATOR_GRAPH_NODE_DESC> operators_;
    std::vector<DML_CONSTANT_DATA_GRAPH_NODE_DESC> constants_;
    std::vector<DML_GRAPH_NODE_DESC> nodes_;
};

DML_INPUT_GRAPH_EDGE_DESC edge_desc(const InputEdge& edge) { return {edge.input, edge.to_node, edge.to_port, nullptr}; }
DML_OUTPUT_GRAPH_EDGE_DESC edge_desc(const OutputEdge& edge) {
    return {edge.from_node, edge.from_port, edge.output, nullptr};
}
DML_INTERMEDIATE_GRAPH_EDGE_DESC edge_desc(const IntermediateEdge& edge) {
    return {edge.from_node, edge.from_port, edge.to_node, edge.to_port, nullptr};
}

// Edges of one list in DirectML's form: typed pointers to descs of that type.
template <class Edge>
class EdgeDescs {
public:
    EdgeDescs(DML_GRAPH_EDGE_TYPE type, const std::vector<Edge>& edges) {
        descs_.reserve(edges.size());
        edges_.reserve(edges.size());
        for (const Edge& edge : edges) {
            descs_.push_back(edge_desc(edge));
            edges_.push_back({type, &descs_.back()});
        }
    }

    std::uint32_t count() const { return static_cast<std::uint32_t>(edges_.size()); }
    const DML_GRAPH_EDGE_DESC* data() const { return edges_.data(); }

private:
    std::vector<decltype(edge_desc(std::declval<Edge>()))> descs_;
    std::vector<DML_GRAPH_EDGE_DESC> edges_;
};

}  // namespace

ComPtr<IDMLCompiledOperator> compile(Device& device, const GraphDesc& graph, DML_EXECUTION_FLAGS flags) {
    validate(graph);
    const Place place{graph.name, {}};
    device.require_alive(place);

    const NodeDescs nodes(device, graph);
    const EdgeDescs inputs(DML_GRAPH_EDGE_TYPE_INPUT, graph.input_edges);
    const EdgeDescs outputs(DML_GRAPH_EDGE_TYPE_OUTPUT, graph.output_edges);
    const EdgeDescs intermediates(DML_GRAPH_EDGE_TYPE_INTERMEDIATE, graph.intermediate_edges);

    DML_GRAPH_DESC desc{};
    desc.InputCount = static_cast<std::uint32_t>(graph.inputs.size());
    desc.OutputCount = static_cast<std::uint32_t>(graph.outputs.size());
    desc.NodeCount = static_cast<std::uint32_t>(nodes.nodes().size());
    desc.Nodes = nodes.nodes().data();
    desc.InputEdgeCount = inputs.count();
    desc.InputEdges = inputs.data();
    desc.OutputEdgeCount = outputs.count();
    desc.OutputEdges = outputs.data();
    desc.IntermediateEdgeCount = intermediates.count();
    desc.IntermediateEdges = intermediates.data();

    ComPtr<IDMLCompiledOperator> compiled;
    device.check(device.directml().CompileGraph(&desc, flags, IDMLCompiledOperator::iid, compiled.put()),
                 "CompileGraph", place);
    if (!compiled) {  // DirectML may report success where memory was short
        device.check(E_OUTOFMEMORY, "CompileGraph", place);
    }
    return compiled;
}

}  // namespace dmlgraph
