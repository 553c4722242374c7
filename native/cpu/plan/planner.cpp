// The planner: a list of passes over a plan.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "cpu/plan/planning.h"

namespace dmlgraph::cpu {

static void check(const GraphSpec& graph) {
    auto known = static_cast<std::int32_t>(graph.inputs.size());
    for (const NodeSpec& each : graph.nodes) {
        if (each.sources.size() != each.inputs.size()) {
            throw std::invalid_argument("node '" + each.name + "' needs one source for each input");
        }
        if (std::ranges::any_of(each.sources, [&](std::int32_t source) { return source >= known; })) {
            throw std::invalid_argument("node '" + each.name + "' reads a value that is not computed before it");
        }
        known += static_cast<std::int32_t>(each.outputs.size());
    }
    if (std::ranges::any_of(graph.outputs, [&](std::int32_t output) { return output < 0 || output >= known; })) {
        throw std::invalid_argument("an output is not a value of the graph");
    }
}

// Whether all that read a temporary tensor leave out rows that were never written.
static bool is_left_out(const Program& program, BufferId buffer) {
    bool result = buffer > program.constants_buffer();
    for (const auto& step : program.steps) {
        bool reads = false;
        step->visit([&](const View& view, bool writes) { reads = reads || (!writes && view.buffer == buffer); });
        result = result && (!reads || step->leaves_out(buffer));
    }
    return result;
}

// Tells the steps which tensors grow: inputs, and what other steps make of these row by row.
static void follow_growth(Plan& plan, const std::vector<int>& grows) {
    Program& program = plan.program;
    const auto tell = [&](const GrowingTensor& tensor) {
        for (const auto& step : program.steps) {
            step->follow(tensor);
        }
    };
    bool any = false;
    for (std::size_t i = 0; i < grows.size(); ++i) {
        if (grows[i] >= 0) {
            const auto buffer = static_cast<BufferId>(i);
            tell({buffer, program.inputs[i], grows[i], {buffer}});
            any = true;
        }
    }
    for (std::size_t s = 0; any && s < program.steps.size(); ++s) {
        Step& step = *program.steps[s];
        if (const std::optional<GrowingTensor> made = step.made_by_row()) {
            tell(*made);
            if (is_left_out(program, made->buffer)) {
                step.make_written_rows();
            }
        }
    }
}

Program plan(GraphSpec graph) {
    check(graph);
    const std::vector<int> grows = std::move(graph.grows);
    absorb_followers(graph);
    Plan plan = number_values(std::move(graph));
    allocate_inputs_and_constants(plan);
    connect(plan);
    pass_fills_through_views(plan);
    find_row_domains(plan);
    assign_stages(plan);
    delay(plan);
    sink_into_later_stages(plan);
    unite_groups(plan);
    allocate_outputs(plan);
    allocate_joined_parts(plan);
    allocate_others(plan);
    see_through_views(plan);
    emit_groups(plan);
    check_views(plan);
    follow_growth(plan, grows);
    assign_arena(plan);
    return std::move(plan.program);
}

Plan number_values(GraphSpec graph) {
    Plan plan;
    plan.outputs = std::move(graph.outputs);
    plan.nodes.reserve(graph.nodes.size());
    for (const TensorDesc& desc : graph.inputs) {
        plan.values.emplace_back().desc = desc;
    }
    plan.program.inputs = std::move(graph.inputs);
    for (NodeSpec& spec : graph.nodes) {
        const auto id = static_cast<std::int32_t>(plan.nodes.size());
        Node& added = plan.nodes.emplace_back();
        added.first_value = static_cast<std::int32_t>(plan.values.size());
        added.group = id;
        for (std::size_t port = 0; port < spec.outputs.size(); ++port) {
            Value& made = plan.values.emplace_back();
            made.desc = spec.outputs[port];
            made.node = id;
            made.port = static_cast<std::int32_t>(port);
        }
        added.spec = std::move(spec);
    }
    return plan;
}

static void connect_outputs(Plan& plan) {
    for (std::size_t slot = 0; slot < plan.outputs.size(); ++slot) {
        plan.value(plan.outputs[slot]).slots.push_back(static_cast<std::int32_t>(slot));
        TensorDesc desc = plan.value(plan.outputs[slot]).desc;
        std::int64_t unit = 1;
        for (int d = desc.rank - 1; d >= 0; --d) {
            desc.strides[d] = unit;
            unit *= desc.sizes[d];
        }
        desc.packed = true;
        plan.program.outputs.push_back(desc);
    }
}

// The readers and the graph outputs of every value.
void connect(Plan& plan) {
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(plan.nodes.size()); ++n) {
        const NodeSpec& spec = plan.node(n).spec;
        for (std::int32_t port = 0; port < static_cast<std::int32_t>(spec.sources.size()); ++port) {
            const std::int32_t source = spec.sources[port];
            if (source < 0) {
                continue;
            }
            plan.value(source).readers.push_back({n, port});
        }
        plan.node(n).is_virtual =
            spec.kind == NodeKind::fill || (spec.kind == NodeKind::element_wise && spec.sources.empty());
    }
    connect_outputs(plan);
    for (Value& each : plan.values) {
        for (const Reader& reader : each.readers) {
            const NodeSpec& spec = plan.node(reader.node).spec;
            const bool packed_only = spec.kind == NodeKind::step && !spec.make_step->strided();
            each.raw_needed = each.raw_needed || packed_only || !express(spec.inputs[reader.port], each.desc);
        }
    }
}

}  // namespace dmlgraph::cpu
