// A graph for the CPU executor, as dmlgraph.devices.cpu.plan builds it node by node.
#pragma once

#include <utility>

#include "cpu/plan/plan.h"

namespace dmlgraph::cpu {

class GraphBuilder {
public:
    explicit GraphBuilder(std::vector<TensorDesc> inputs);
    GraphBuilder(const GraphBuilder&) = delete;
    GraphBuilder& operator=(const GraphBuilder&) = delete;

    void add(NodeSpec node) { graph_.nodes.push_back(std::move(node)); }
    // Of the node that was added last.
    void delay();
    // The finished graph, with these values as its outputs; leaves the builder empty.
    GraphSpec take(std::vector<std::int32_t> outputs);

private:
    GraphSpec graph_;
};

}  // namespace dmlgraph::cpu
