// Which nodes run together: connected element-wise nodes of the same sizes become one region.
//
// Every node gets a stage: that of the nodes whose values it reads from registers, and one more than that of the nodes
// whose values it reads from memory. Nodes of one stage that are connected by registers are a region. A path out of a
// region and back would pass through memory, hence through a higher stage: so regions never depend on each other in a
// cycle.
#include <algorithm>
#include <limits>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "cpu/plan/planning.h"

namespace dmlgraph::cpu {

bool in_register(const Plan& plan, const Value& value, const Reader& reader) {
    if (value.node < 0 || !plan.node(value.node).is_computed()) {
        return false;
    }
    const Node& producer = plan.node(value.node);
    const Node& consumer = plan.node(reader.node);
    const TensorDesc& desc = consumer.spec.inputs[reader.port];
    const bool reduces = consumer.spec.kind == NodeKind::reduce;
    if (in_row(plan, producer, value, consumer, desc)) {
        return true;
    }
    if (consumer.spec.kind != NodeKind::element_wise && !reduces) {
        return false;
    }
    if (!same_elements(desc, value.desc) || !(reduces || same_sizes(desc, consumer.spec.outputs[0]))) {
        return false;
    }
    if (producer.is_virtual) {
        return consumer.domain < 0 || consumer.is_narrow || plan.domain(consumer).is_trailing;
    }
    const bool narrow = producer.gives_one_a_row();
    return producer.domain == consumer.domain && narrow == consumer.is_narrow && !(narrow && reduces);
}

bool is_inlined(Plan& plan, const Value& value, const Reader& reader) {
    if (value.fill >= 0) {
        const NodeSpec& consumer = plan.node(reader.node).spec;
        return consumer.kind != NodeKind::step || consumer.make_step->strided();
    }
    return in_register(plan, value, reader) &&
           (plan.node(value.node).is_virtual || find_group(plan, value.node) == find_group(plan, reader.node));
}

void assign_stages(Plan& plan) {
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(plan.nodes.size()); ++n) {
        Node& each = plan.node(n);
        std::int32_t stage = 0;
        for (std::int32_t port = 0; port < static_cast<std::int32_t>(each.spec.sources.size()); ++port) {
            const std::int32_t source = each.spec.sources[port];
            if (source < 0 || plan.value(source).node < 0) {
                continue;
            }
            const Value& read = plan.value(source);
            const Node& producer = plan.node(read.node);
            const bool together = in_register(plan, read, {n, port});
            if ((together && producer.is_virtual) || (read.fill >= 0 && is_inlined(plan, read, {n, port}))) {
                continue;
            }
            stage = std::max(stage, producer.stage + (together || producer.spec.kind == NodeKind::constant ? 0 : 1));
        }
        each.stage = stage;
    }
}

void delay(Plan& plan) {
    for (std::int32_t n = static_cast<std::int32_t>(plan.nodes.size()) - 1; n >= 0; --n) {
        Node& each = plan.node(n);
        if (!each.spec.late || each.is_virtual) {
            continue;
        }
        std::int32_t latest = std::numeric_limits<std::int32_t>::max();
        for (std::int32_t port = 0; port < static_cast<std::int32_t>(each.spec.outputs.size()); ++port) {
            const Value& made = plan.value(plan.result(n, port));
            if (!made.slots.empty()) {
                latest = each.stage;
            }
            for (const Reader& reader : made.readers) {
                latest = std::min(latest, plan.node(reader.node).stage - (in_register(plan, made, reader) ? 0 : 1));
            }
        }
        if (latest < std::numeric_limits<std::int32_t>::max()) {
            each.stage = std::max(each.stage, latest);
        }
    }
}

namespace {

std::int64_t bytes_of(const Value& value) {
    return value.desc.element_count() * static_cast<std::int64_t>(item_size(value.desc.type));
}

// What it costs to compute a node in a later stage instead of its own, in bytes.
struct Sinking {
    std::int64_t moved = 0;  // sources that are written or read once more
    std::int64_t held = 0;   // sources whose memory is needed for longer
};

Sinking sinking_of(const Plan& plan, std::int32_t node_id) {
    const Node& each = plan.node(node_id);
    Sinking found;
    for (std::int32_t port = 0; port < static_cast<std::int32_t>(each.spec.sources.size()); ++port) {
        const std::int32_t source = each.spec.sources[port];
        if (source < 0 || plan.value(source).fill >= 0 ||
            std::ranges::find(each.spec.sources, source) - each.spec.sources.begin() < port) {
            continue;
        }
        const Value& read = plan.value(source);
        const Node* producer = read.node < 0 ? nullptr : &plan.node(read.node);
        if (producer != nullptr && producer->is_virtual) {
            continue;
        }
        const bool read_here = std::ranges::any_of(read.readers, [&](const Reader& reader) {
            return reader.node != node_id && plan.node(reader.node).stage == each.stage;
        });
        if (producer != nullptr && producer->stage == each.stage && in_register(plan, read, {node_id, port})) {
            const bool stored = !read.slots.empty() || std::ranges::any_of(read.readers, [&](const Reader& reader) {
                return plan.node(reader.node).stage != each.stage || !in_register(plan, read, reader);
            });
            found.moved += bytes_of(read) * (stored ? 1 : 2);
        } else if (read_here) {
            found.moved += bytes_of(read);
        }
        if (producer != nullptr && producer->spec.kind != NodeKind::constant) {
            found.held += bytes_of(read);
        }
    }
    return found;
}

}  // namespace

// A node that only one later region reads is computed there, if that moves no more memory than to write and read its
// result, and holds hardly more: what has one element for each channel does not count.
void sink_into_later_stages(Plan& plan) {
    for (std::int32_t n = static_cast<std::int32_t>(plan.nodes.size()) - 1; n >= 0; --n) {
        Node& each = plan.node(n);
        if (each.spec.kind != NodeKind::element_wise || each.is_virtual) {
            continue;
        }
        const Value& made = plan.value(each.first_value);
        if (!made.slots.empty() || made.readers.empty()) {
            continue;
        }
        const std::int32_t stage = plan.node(made.readers[0].node).stage;
        const bool one_stage = std::ranges::all_of(made.readers, [&](const Reader& reader) {
            return plan.node(reader.node).stage == stage && in_register(plan, made, reader);
        });
        if (!one_stage || stage <= each.stage) {
            continue;
        }
        const Sinking cost = sinking_of(plan, n);
        if (cost.moved <= 2 * bytes_of(made) && cost.held <= bytes_of(made) + bytes_of(made) / 8) {
            each.stage = stage;
        }
    }
}

std::int32_t find_group(Plan& plan, std::int32_t node_id) {
    while (plan.node(node_id).group != node_id) {
        plan.node(node_id).group = plan.node(plan.node(node_id).group).group;
        node_id = plan.node(node_id).group;
    }
    return node_id;
}

static void join_groups(Plan& plan, std::int32_t one, std::int32_t other) {
    one = find_group(plan, one), other = find_group(plan, other);
    plan.node(std::max(one, other)).group = std::min(one, other);
}

void unite_groups(Plan& plan) {
    for (const Value& each : plan.values) {
        if (each.node < 0 || plan.node(each.node).is_virtual) {
            continue;
        }
        for (const Reader& reader : each.readers) {
            if (plan.node(reader.node).stage == plan.node(each.node).stage && in_register(plan, each, reader)) {
                join_groups(plan, each.node, reader.node);
            }
        }
    }
    // Nodes of one stage that read the same value from memory are united, so that it is read once.
    for (const Value& each : plan.values) {
        if (each.fill >= 0 || each.readers.size() < 2 || (each.node >= 0 && plan.node(each.node).is_virtual)) {
            continue;
        }
        std::unordered_map<std::int32_t, std::int32_t> by_stage;
        for (const Reader& reader : each.readers) {
            const Node& consumer = plan.node(reader.node);
            const bool reduces = consumer.spec.kind == NodeKind::reduce;
            if (!consumer.is_computed() || consumer.is_virtual ||
                !(reduces || same_sizes(consumer.spec.inputs[reader.port], consumer.spec.outputs[0]))) {
                continue;
            }
            const auto [found, added] = by_stage.try_emplace(consumer.stage, reader.node);
            const Node& other = plan.node(found->second);
            const bool one_space = other.domain == consumer.domain && other.is_narrow == consumer.is_narrow;
            if (!added && one_space &&
                (consumer.domain >= 0 || same_sizes(other.spec.outputs[0], consumer.spec.outputs[0]))) {
                join_groups(plan, found->second, reader.node);
            }
        }
    }
}

}  // namespace dmlgraph::cpu
