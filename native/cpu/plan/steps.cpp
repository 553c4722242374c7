// The steps of a program, in an executable order.
#include <algorithm>
#include <queue>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "cpu/plan/planning.h"
#include "cpu/plan/region_writer.h"
#include "cpu/region/formulas.h"
#include "cpu/region/region_step.h"
#include "cpu/steps/clear.h"

namespace dmlgraph::cpu {

namespace {

void add_step(Plan& plan, std::unique_ptr<Step> step, std::vector<std::string> names) {
    step->nodes = std::move(names);
    plan.program.steps.push_back(std::move(step));
}

// Gaps that a consumer reads are zero. Called before anything is written into the value's memory.
void emit_clear(Plan& plan, const Value& value, const std::string& name) {
    if (value.raw && value.has_read_gaps()) {
        add_step(plan, std::make_unique<ClearStep>(value.view, value.desc.total_bytes()), {name});
    }
}

void emit_copy(Plan& plan, const View& from, const View& to, const std::string& name) {
    check_broadcast(from, to.rank, to.sizes, name);
    Region region;
    region.loads.push_back(squeeze(from, to.rank, to.sizes));
    region.stores.push_back({squeeze(to, to.rank, to.sizes), {true, 0}});
    region.rank = region.stores[0].view.rank;
    region.sizes = region.stores[0].view.sizes;
    add_step(plan, std::make_unique<RegionStep>(std::move(region)), {name});
}

bool is_product(const Region& region) {
    const auto keeps = [](const RegionInstruction& each) {
        return each.opcode == Opcode::IDENTITY || each.opcode == Opcode::CONVERT || each.opcode == Opcode::MULTIPLY;
    };
    return !region.has_rows() && region.stores.size() == 1 && std::ranges::all_of(region.instructions, keeps);
}

void emit_region(Plan& plan, std::span<const std::int32_t> nodes) {
    std::vector<std::string> names;
    bool stores = false;
    for (const std::int32_t n : nodes) {
        const Value& made = plan.value(plan.result(n));
        if (names.empty() || names.back() != plan.node(n).spec.name) {  // once for the parts of one operator
            names.push_back(plan.node(n).spec.name);
        }
        if (made.allocated) {
            emit_clear(plan, made, names.back());
            stores = true;
        }
    }
    if (!stores) {
        return;
    }
    // Without a reduction, nodes that all have the same sizes are an ordinary region.
    const Node& first = plan.node(nodes.front());
    const bool by_row =
        first.domain >= 0 && std::ranges::any_of(nodes, [&](std::int32_t n) {
            return plan.node(n).spec.kind == NodeKind::reduce || plan.node(n).is_narrow != first.is_narrow;
        });
    Region region = write_region(plan, nodes, by_row ? &plan.domain(first) : nullptr);
    region.is_product = is_product(region);
    join_formulas(region);
    auto step = std::make_unique<RegionStep>(std::move(region));
    if (const std::size_t bytes = step->state_bytes(); bytes > 0) {
        TensorDesc desc;
        desc.type = DataType::uint8;
        desc.rank = 1;
        desc.sizes[0] = static_cast<std::int64_t>(bytes);
        desc.strides[0] = 1;
        step->give_states(temporary(plan, desc));
    }
    add_step(plan, std::move(step), std::move(names));
}

void emit_view(Plan& plan, std::int32_t node_id) {
    const NodeSpec& spec = plan.node(node_id).spec;
    for (std::size_t port = 0; port < spec.outputs.size(); ++port) {
        const Value& made = plan.value(plan.result(node_id, static_cast<std::int32_t>(port)));
        if (!made.allocated) {
            continue;
        }
        emit_clear(plan, made, spec.name);
        const View from = through(read(plan, node_id, 0), spec.maps[port], made.desc.rank, made.desc.sizes);
        emit_copy(plan, from, made.view, spec.name);
        for (const View& copy : made.copies) {
            emit_copy(plan, from, copy, spec.name);
        }
    }
}

void emit_moves(Plan& plan, std::int32_t node_id) {
    const NodeSpec& spec = plan.node(node_id).spec;
    const Value& made = plan.value(plan.result(node_id));
    emit_clear(plan, made, spec.name);
    for (const Piece& piece : spec.pieces) {
        const View from = piece.port < 0
                              ? fill_view(plan, plan.node(node_id).data_offset, made.desc.type, piece.rank, piece.sizes)
                              : through(read(plan, node_id, piece.port), piece.from, piece.rank, piece.sizes);
        const View to = through(made.view, piece.to, piece.rank, piece.sizes);
        if (!same_memory(from, to)) {
            emit_copy(plan, from, to, spec.name);
        }
    }
    for (const View& copy : made.copies) {
        emit_copy(plan, made.view, copy, spec.name);
    }
}

// Whether somebody reads one of its results.
bool is_read(const Plan& plan, const Node& node) {
    for (std::size_t port = 0; port < node.spec.outputs.size(); ++port) {
        if (plan.value(node.first_value + static_cast<std::int32_t>(port)).allocated) {
            return true;
        }
    }
    return false;
}

// A step that refuses what the planner gives it: the error names the node.
std::unique_ptr<Step> made_step(const NodeSpec& spec, StepTensors tensors) {
    try {
        return spec.make_step->make(std::move(tensors));
    } catch (const std::logic_error& error) {
        throw PlanError(spec.name, error.what());
    }
}

void emit_step(Plan& plan, std::int32_t node_id) {
    Node& each = plan.node(node_id);
    if (!is_read(plan, each)) {
        return;
    }
    StepTensors tensors;
    const bool strided = each.spec.make_step->strided();
    for (std::size_t port = 0; port < each.spec.sources.size(); ++port) {
        tensors.inputs.push_back(read(plan, node_id, static_cast<std::int32_t>(port)));
        if (!strided) {
            require_packed(plan, tensors.inputs.back().buffer);
        }
    }
    for (std::size_t port = 0; port < each.spec.outputs.size(); ++port) {
        const Value& made = plan.value(plan.result(node_id, static_cast<std::int32_t>(port)));
        if (made.allocated) {
            emit_clear(plan, made, each.spec.name);
        }
        tensors.outputs.push_back(made.allocated ? made.view : View{});
        if (!strided) {
            require_packed(plan, tensors.outputs.back().buffer);
        }
    }
    std::vector<std::string> names{each.spec.name};
    names.insert(names.end(), each.spec.also.begin(), each.spec.also.end());
    add_step(plan, made_step(each.spec, std::move(tensors)), std::move(names));
    for (std::size_t port = 0; port < each.spec.outputs.size(); ++port) {
        const Value& made = plan.value(plan.result(node_id, static_cast<std::int32_t>(port)));
        for (const View& copy : made.copies) {
            emit_copy(plan, made.view, copy, each.spec.name);
        }
    }
}

void emit_group(Plan& plan, std::span<const std::int32_t> nodes) {
    switch (plan.node(nodes.front()).spec.kind) {
        case NodeKind::constant: break;
        case NodeKind::fill:
        case NodeKind::element_wise:
        case NodeKind::reduce: emit_region(plan, nodes); break;
        case NodeKind::view: emit_view(plan, nodes.front()); break;
        case NodeKind::move: emit_moves(plan, nodes.front()); break;
        case NodeKind::step: emit_step(plan, nodes.front()); break;
    }
}

// The nodes of each group, and the dependencies of groups.
struct Groups {
    std::vector<std::vector<std::int32_t>> members;    // by the group's number
    std::vector<std::vector<std::int32_t>> followers;  // has a group once for each value that it reads
    std::vector<std::int32_t> waiting;                 // the number of values that a group waits for
};

Groups collect_groups(Plan& plan) {
    const std::size_t count = plan.nodes.size();
    Groups groups{std::vector<std::vector<std::int32_t>>(count), std::vector<std::vector<std::int32_t>>(count),
                  std::vector<std::int32_t>(count, 0)};
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(count); ++n) {
        const std::int32_t group = find_group(plan, n);
        groups.members[static_cast<std::size_t>(group)].push_back(n);
        for (const std::int32_t source : plan.node(n).spec.sources) {
            const std::int32_t producer = source < 0 ? -1 : plan.value(source).node;
            if (producer >= 0 && find_group(plan, producer) != group) {
                groups.followers[static_cast<std::size_t>(find_group(plan, producer))].push_back(group);
                ++groups.waiting[static_cast<std::size_t>(group)];
            }
        }
    }
    return groups;
}

// The order of the groups. Of those that can run, the one with the smallest place runs first.
//
// The place of a group is that of its last node in the graph, so that values are read soon. What makes outputs only,
// such as the next value of a state, comes earlier: as soon as its sources are there and others have read the inputs
// that it reads. Then nothing is kept for it, and it may write over the state. What only such groups read, and is made
// of inputs alone, comes right before them.
class Places {
public:
    Places(Plan& plan, const Groups& groups)
        : plan_(plan),
          groups_(groups),
          places_(groups.members.size(), -1),
          makes_outputs_(groups.members.size()),
          feeds_(groups.members.size()) {
        for (std::size_t group = 0; group < places_.size(); ++group) {
            makes_outputs_[group] = makes_outputs(group);
            places_[group] = members(group).empty() ? -1 : members(group).back();
        }
        for (std::size_t group = 0; group < places_.size(); ++group) {
            const auto& followers = groups.followers[group];
            feeds_[group] = !makes_outputs_[group] && !reads_others(group) &&
                            std::ranges::all_of(followers, [&](std::int32_t follower) {
                                return makes_outputs_[static_cast<std::size_t>(follower)];
                            });
        }
        for (std::size_t group = 0; group < places_.size(); ++group) {
            if (makes_outputs_[group]) {
                places_[group] = std::min(places_[group], earliest(group));
            }
        }
        for (std::size_t group = 0; group < places_.size(); ++group) {
            if (feeds_[group]) {
                for (const std::int32_t follower : groups.followers[group]) {
                    places_[group] = std::min(places_[group], places_[static_cast<std::size_t>(follower)]);
                }
            }
        }
    }

    std::int32_t of(std::size_t group) const { return places_[group]; }

private:
    std::span<const std::int32_t> members(std::size_t group) const { return groups_.members[group]; }
    std::size_t group_of(std::int32_t node) { return static_cast<std::size_t>(find_group(plan_, node)); }

    // Whether others read what it makes only from outputs of the graph.
    bool makes_outputs(std::size_t group) {
        return std::ranges::all_of(members(group), [&](std::int32_t n) {
            for (std::size_t port = 0; port < plan_.node(n).spec.outputs.size(); ++port) {
                const Value& made = plan_.value(plan_.result(n, static_cast<std::int32_t>(port)));
                if (made.slots.empty() && std::ranges::any_of(made.readers, [&](const Reader& reader) {
                        return group_of(reader.node) != group;
                    })) {
                    return false;
                }
            }
            return true;
        });
    }

    bool reads_others(std::size_t group) {
        return std::ranges::any_of(members(group), [&](std::int32_t n) {
            return std::ranges::any_of(plan_.node(n).spec.sources, [&](std::int32_t source) {
                const std::int32_t producer = source < 0 ? -1 : plan_.value(source).node;
                return producer >= 0 && plan_.node(producer).spec.kind != NodeKind::constant &&
                       group_of(producer) != group;
            });
        });
    }

    // The largest place among the groups that make its sources, and among the other readers of the inputs that it
    // reads.
    std::int32_t earliest(std::size_t group) {
        std::int32_t last = -1;
        for (const std::int32_t n : members(group)) {
            for (const std::int32_t source : plan_.node(n).spec.sources) {
                if (source < 0) {
                    continue;
                }
                const std::int32_t producer = plan_.value(source).node;
                if (producer < 0) {
                    last = std::max(last, last_read(source));
                } else if (const std::size_t other = group_of(producer); other != group && !feeds_[other]) {
                    last = std::max(last, places_[other]);
                }
            }
        }
        return last;
    }

    std::int32_t last_read(std::int32_t input) {
        const auto [found, added] = last_reads_.try_emplace(input, -1);
        if (added) {
            for (const Reader& reader : plan_.value(input).readers) {
                const std::size_t other = group_of(reader.node);
                found->second =
                    makes_outputs_[other] || feeds_[other] ? found->second : std::max(found->second, places_[other]);
            }
        }
        return found->second;
    }

    Plan& plan_;
    const Groups& groups_;
    std::vector<std::int32_t> places_;
    std::vector<bool> makes_outputs_, feeds_;
    std::unordered_map<std::int32_t, std::int32_t> last_reads_;  // by input
};

}  // namespace

void emit_groups(Plan& plan) {
    Groups groups = collect_groups(plan);
    const auto& members = groups.members;
    const Places places(plan, groups);
    using Entry = std::tuple<std::int32_t, std::int32_t, std::size_t>;  // place, last node, group
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (std::size_t group = 0; group < members.size(); ++group) {
        if (!members[group].empty() && groups.waiting[group] == 0) {
            ready.push({places.of(group), members[group].back(), group});
        }
    }
    while (!ready.empty()) {
        const std::size_t group = std::get<2>(ready.top());
        ready.pop();
        emit_group(plan, members[group]);
        for (const std::int32_t each : groups.followers[group]) {
            const auto follower = static_cast<std::size_t>(each);
            if (--groups.waiting[follower] == 0) {
                ready.push({places.of(follower), members[follower].back(), follower});
            }
        }
    }
}

}  // namespace dmlgraph::cpu
