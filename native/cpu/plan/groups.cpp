// Which nodes run together: connected element-wise nodes of the same sizes become one region.
//
// Every node gets a stage: that of the nodes it takes from registers, and one more than that of those it reads from
// memory. Nodes of one stage that are connected by registers are a region. A way out of a region and back would pass
// through memory, hence through a higher stage: so regions never wait for one another in a circle.
#include <algorithm>
#include <limits>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "cpu/plan/planner.h"

namespace dmlgraph::cpu {

Planner::Planner(GraphSpec graph) : outputs_(std::move(graph.outputs)) {
    nodes_.reserve(graph.nodes.size());
    for (const TensorDesc& desc : graph.inputs) {
        values_.emplace_back().desc = desc;
    }
    program_.inputs = std::move(graph.inputs);
    for (NodeSpec& spec : graph.nodes) {
        const auto id = static_cast<std::int32_t>(nodes_.size());
        Node& added = nodes_.emplace_back();
        added.first_value = static_cast<std::int32_t>(values_.size());
        added.group = id;
        for (std::size_t port = 0; port < spec.outputs.size(); ++port) {
            Value& made = values_.emplace_back();
            made.desc = spec.outputs[port];
            made.node = id;
            made.port = static_cast<std::int32_t>(port);
        }
        added.spec = std::move(spec);
    }
    connect();
}

Program Planner::run() {
    settle_views();
    find_spaces();
    assign_stages();
    sink();
    unite();
    place_outputs();
    place_parts();
    place_others();
    place_views();
    order_groups();
    finish();
    return std::move(program_);
}

Program plan(GraphSpec graph) {
    return Planner(std::move(graph)).run();
}

// Readers, outputs and constants of every value.
void Planner::connect() {
    place_constants();
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(nodes_.size()); ++n) {
        const NodeSpec& spec = node(n).spec;
        if (spec.sources.size() != spec.inputs.size()) {
            throw std::invalid_argument("node '" + spec.name + "': as many sources as inputs are needed");
        }
        for (std::int32_t port = 0; port < static_cast<std::int32_t>(spec.sources.size()); ++port) {
            const std::int32_t source = spec.sources[port];
            if (source < 0) {
                continue;
            }
            if (source >= node(n).first_value) {
                throw std::invalid_argument("node '" + spec.name + "' reads what is not computed before it");
            }
            value(source).readers.push_back({n, port});
        }
        node(n).is_virtual =
            spec.kind == NodeKind::fill || (spec.kind == NodeKind::element_wise && spec.sources.empty());
    }
    for (std::size_t slot = 0; slot < outputs_.size(); ++slot) {
        if (outputs_[slot] < 0 || outputs_[slot] >= static_cast<std::int32_t>(values_.size())) {
            throw std::invalid_argument("an output is no value");
        }
        value(outputs_[slot]).slots.push_back(static_cast<std::int32_t>(slot));
        TensorDesc desc = value(outputs_[slot]).desc;
        std::int64_t unit = 1;
        for (int d = desc.rank - 1; d >= 0; --d) {
            desc.strides[d] = unit;
            unit *= desc.sizes[d];
        }
        desc.packed = true;
        program_.outputs.push_back(desc);
    }
    for (Value& each : values_) {
        for (const Reader& reader : each.readers) {
            const NodeSpec& spec = node(reader.node).spec;
            const bool packed_only = spec.kind == NodeKind::step && !spec.make_step->strided();
            each.raw_needed = each.raw_needed || packed_only || !express(spec.inputs[reader.port], each.desc);
        }
    }
}

// A view of a fill is a fill.
void Planner::settle_views() {
    for (const Node& each : nodes_) {
        if (each.spec.kind != NodeKind::view) {
            continue;
        }
        for (std::size_t port = 0; port < each.spec.outputs.size(); ++port) {
            value(each.first_value + static_cast<std::int32_t>(port)).fill = value(each.spec.sources.at(0)).fill;
        }
    }
}

bool Planner::in_register(const Value& value, const Reader& reader) const {
    if (value.node < 0 || !is_computed(node(value.node))) {
        return false;
    }
    const Node& maker = node(value.node);
    const Node& taker = node(reader.node);
    const TensorDesc& desc = taker.spec.inputs[reader.port];
    const bool reduces = taker.spec.kind == NodeKind::reduce;
    if (in_row(maker, value, taker, desc)) {
        return true;
    }
    if (taker.spec.kind != NodeKind::element_wise && !reduces) {
        return false;
    }
    if (!same_elements(desc, value.desc) || !(reduces || same_sizes(desc, taker.spec.outputs[0]))) {
        return false;
    }
    if (maker.is_virtual) {
        return taker.space < 0 || taker.is_narrow || spaces_[static_cast<std::size_t>(taker.space)].is_trailing;
    }
    const bool narrow = maker.spec.kind == NodeKind::reduce || maker.is_narrow;
    return maker.space == taker.space && narrow == taker.is_narrow && !(narrow && reduces);
}

bool Planner::inlined(const Value& value, const Reader& reader) {
    if (value.fill >= 0) {
        const NodeSpec& taker = node(reader.node).spec;
        return taker.kind != NodeKind::step || taker.make_step->strided();
    }
    return in_register(value, reader) && (node(value.node).is_virtual || find(value.node) == find(reader.node));
}

void Planner::assign_stages() {
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(nodes_.size()); ++n) {
        Node& each = node(n);
        std::int32_t stage = 0;
        for (std::int32_t port = 0; port < static_cast<std::int32_t>(each.spec.sources.size()); ++port) {
            const std::int32_t source = each.spec.sources[port];
            if (source < 0 || value(source).node < 0) {
                continue;
            }
            const Value& read = value(source);
            const Node& maker = node(read.node);
            const bool together = in_register(read, {n, port});
            if ((together && maker.is_virtual) || (read.fill >= 0 && inlined(read, {n, port}))) {
                continue;
            }
            stage = std::max(stage, maker.stage + (together || maker.spec.kind == NodeKind::constant ? 0 : 1));
        }
        each.stage = stage;
    }
}

// What one later region alone reads is computed there, if that does not take more reading.
void Planner::sink() {
    for (std::int32_t n = static_cast<std::int32_t>(nodes_.size()) - 1; n >= 0; --n) {
        Node& each = node(n);
        if (each.spec.kind != NodeKind::element_wise || each.is_virtual) {
            continue;
        }
        const Value& made = value(each.first_value);
        if (!made.slots.empty() || made.readers.empty()) {
            continue;
        }
        const std::int32_t stage = node(made.readers[0].node).stage;
        const bool one_stage = std::ranges::all_of(made.readers, [&](const Reader& reader) {
            return node(reader.node).stage == stage && in_register(made, reader);
        });
        std::int64_t bytes = 0;
        for (const std::int32_t source : each.spec.sources) {
            if (source >= 0 && value(source).fill < 0) {
                const TensorDesc& desc = value(source).desc;
                const bool is_virtual = value(source).node >= 0 && node(value(source).node).is_virtual;
                bytes += is_virtual ? 0 : desc.element_count() * static_cast<std::int64_t>(item_size(desc.type));
            }
        }
        const std::int64_t made_bytes = made.desc.element_count() * static_cast<std::int64_t>(item_size(made.desc.type));
        if (one_stage && stage > each.stage && bytes <= made_bytes) {
            each.stage = stage;
        }
    }
}

std::int32_t Planner::find(std::int32_t node_id) {
    while (node(node_id).group != node_id) {
        node(node_id).group = node(node(node_id).group).group;
        node_id = node(node_id).group;
    }
    return node_id;
}

void Planner::join_groups(std::int32_t one, std::int32_t other) {
    one = find(one), other = find(other);
    node(std::max(one, other)).group = std::min(one, other);
}

void Planner::unite() {
    for (const Value& each : values_) {
        if (each.node < 0 || node(each.node).is_virtual) {
            continue;
        }
        for (const Reader& reader : each.readers) {
            if (node(reader.node).stage == node(each.node).stage && in_register(each, reader)) {
                join_groups(each.node, reader.node);
            }
        }
    }
    // Nodes of one stage that read the same value in memory read it together.
    for (const Value& each : values_) {
        if (each.fill >= 0 || each.readers.size() < 2 || (each.node >= 0 && node(each.node).is_virtual)) {
            continue;
        }
        std::unordered_map<std::int32_t, std::int32_t> by_stage;
        for (const Reader& reader : each.readers) {
            const Node& taker = node(reader.node);
            const bool reduces = taker.spec.kind == NodeKind::reduce;
            if (!is_computed(taker) || taker.is_virtual ||
                !(reduces || same_sizes(taker.spec.inputs[reader.port], taker.spec.outputs[0]))) {
                continue;
            }
            const auto [found, added] = by_stage.try_emplace(taker.stage, reader.node);
            const Node& other = node(found->second);
            const bool one_space = other.space == taker.space && other.is_narrow == taker.is_narrow;
            if (!added && one_space && (taker.space >= 0 || same_sizes(other.spec.outputs[0], taker.spec.outputs[0]))) {
                join_groups(found->second, reader.node);
            }
        }
    }
}

}  // namespace dmlgraph::cpu
