// The steps of a program, in an order in which they can run.
#include <algorithm>
#include <cstring>
#include <queue>
#include <unordered_map>
#include <utility>

#include "cpu/plan/arena.h"
#include "cpu/plan/planner.h"
#include "cpu/region/chains.h"
#include "cpu/region/region.h"
#include "cpu/region/row.h"

namespace dmlgraph::cpu {
namespace {

// The view without the dimensions of size 1 of `sizes`, which it is broadcast to first.
View squeeze(const View& view, int rank, const Sizes& sizes) {
    View wide = view;
    if (view.rank != rank || view.sizes != sizes) {
        wide = broadcast(view, rank, sizes);
    }
    View result = wide;
    result.rank = 0;
    for (int d = 0; d < rank; ++d) {
        if (sizes[d] == 1) {
            continue;
        }
        const int to = result.rank++;
        result.sizes[to] = sizes[d];
        result.strides[to] = wide.strides[d];
        result.map.axis[to] = wide.map.axis[d];
        result.map.step[to] = wide.map.step[d];
    }
    return result;
}

bool same_place(const View& one, const View& other) {
    const auto equal = [&](const Sizes& a, const Sizes& b) { return std::equal(a.begin(), a.begin() + one.rank, b.begin()); };
    return one.buffer == other.buffer && one.offset == other.offset && one.type == other.type &&
           one.mapped == other.mapped && equal(one.strides, other.strides) &&
           (!one.mapped || (std::equal(one.map.axis.begin(), one.map.axis.begin() + one.rank, other.map.axis.begin()) &&
                            equal(one.map.step, other.map.step)));
}

// Sets a buffer to zero whose value leaves gaps that somebody reads.
class ClearStep final : public Step {
public:
    ClearStep(View view, std::size_t bytes) : view_(view), bytes_(bytes) {}

    void run(RunContext& context) const override { std::memset(context.data(view_), 0, bytes_); }
    Kind kind() const override { return Kind::native; }
    void visit(const Visitor& visitor) override { visitor(view_, true); }

private:
    View view_;
    std::size_t bytes_;
};

}  // namespace

// Writes the nodes of a group as a region, depth first from what is stored, so that few values live at a time.
class RegionWriter {
public:
    // Of one node, or of nodes that run row by row in a space.
    RegionWriter(Planner& planner, const NodeSpec& first, const RowSpace* space) : planner_(planner), space_(space) {
        if (space != nullptr) {
            for (const bool reduced : {false, true}) {
                for (int d = 0; d < space->rank; ++d) {
                    if (space->reduces(d) == reduced) {
                        order_[region_.rank] = d;
                        region_.sizes[region_.rank++] = space->sizes[d];
                    }
                }
                region_.kept = region_.kept < 0 ? region_.rank : region_.kept;
            }
            region_.columns = space->is_columns;
            return;
        }
        for (int d = 0; d < first.outputs[0].rank; ++d) {
            if (first.outputs[0].sizes[d] != 1) {
                region_.sizes[region_.rank++] = first.outputs[0].sizes[d];
            }
        }
    }

    void store(std::int32_t node_id, const View& place) {
        const TensorDesc& desc = planner_.node(node_id).spec.outputs[0];
        const bool narrow = is_narrow(node_id);
        region_.stores.push_back({fit(place, desc, narrow), compute(node_id), narrow});
    }

    Region take() { return std::move(region_); }

private:
    struct Frame {
        std::int32_t node;
        std::size_t port;
    };

    Reference compute(std::int32_t node_id) {
        if (const auto known = done_.find(node_id); known != done_.end()) {
            return known->second;
        }
        std::vector<Frame> stack{{node_id, 0}};
        while (!stack.empty()) {
            Frame& top = stack.back();
            const NodeSpec& spec = planner_.node(top.node).spec;
            if (top.port < spec.sources.size()) {
                const Reader reader{top.node, static_cast<std::int32_t>(top.port)};
                const std::int32_t source = spec.sources[top.port++];
                if (source >= 0 && in_register(source, reader)) {
                    const std::int32_t maker = planner_.value(source).node;
                    if (!done_.contains(maker)) {
                        stack.push_back({maker, 0});
                    }
                }
            } else {
                const std::int32_t finished = top.node;
                stack.pop_back();
                done_.try_emplace(finished, write(finished));
            }
        }
        return done_.at(node_id);
    }

    bool is_narrow(std::int32_t node_id) const {
        const Planner::Node& node = planner_.node(node_id);
        if (space_ == nullptr || node.is_narrow || node.spec.kind == NodeKind::reduce) {
            return space_ != nullptr;
        }
        // A sequence belongs to no space: it is as narrow as what reads it.
        std::int64_t all = 1;
        for (int d = 0; d < region_.rank; ++d) {
            all *= region_.sizes[d];
        }
        return node.is_virtual && node.spec.outputs[0].element_count() != all;
    }

    // The view at the region's sizes: of rows the kept dimensions, then the reduced ones, along which what is narrow
    // repeats.
    View fit(const View& view, const TensorDesc& desc, bool narrow) const {
        const View given = squeeze(view, desc.rank, desc.sizes);
        if (space_ == nullptr) {
            return given;
        }
        View result = given;
        result.rank = static_cast<std::uint8_t>(region_.rank);
        result.sizes = region_.sizes;
        for (int d = 0; d < region_.rank; ++d) {
            const bool repeats = narrow && d >= region_.kept;
            const int from = narrow ? d : order_[d];
            result.strides[d] = repeats ? 0 : given.strides[from];
            result.map.axis[d] = repeats ? std::int8_t{-1} : given.map.axis[from];
            result.map.step[d] = repeats ? 0 : given.map.step[from];
        }
        return result;
    }

    bool in_register(std::int32_t source, const Reader& reader) {
        const Value& value = planner_.value(source);
        return value.fill < 0 && planner_.inlined(value, reader);
    }

    Reference write(std::int32_t node_id) {
        const NodeSpec& spec = planner_.node(node_id).spec;
        const bool narrow = is_narrow(node_id);
        const bool reduces = spec.kind == NodeKind::reduce;
        const TensorDesc& desc = reduces ? spec.inputs[0] : spec.outputs[0];
        const auto input = [&](std::int32_t port) {
            const std::int32_t source = spec.sources[static_cast<std::size_t>(port)];
            if (in_register(source, {node_id, port})) {
                return done_.at(planner_.value(source).node);
            }
            return load(source, fit(planner_.read(node_id, port), desc, narrow && !reduces));
        };
        if (spec.kind == NodeKind::fill) {
            const View view = planner_.fill_view(planner_.node(node_id).data_offset, desc.type, desc.rank, desc.sizes);
            return load(planner_.result(node_id), squeeze(view, desc.rank, desc.sizes));
        }
        if (reduces) {
            RegionInstruction made;
            made.reduction = spec.reduction;
            made.narrow = true;
            made.result = spec.outputs[0].type;
            made.operand_count = 1;
            const Reference operand = input(0);
            made.first_operand = static_cast<std::int32_t>(region_.operands.size());
            region_.operands.push_back(operand);
            region_.instructions.push_back(made);
            return {false, static_cast<std::int32_t>(region_.instructions.size()) - 1};
        }
        if (spec.instructions.empty()) {
            return input(0);
        }
        const auto first = static_cast<std::int32_t>(region_.instructions.size());
        for (const InstructionSpec& given : spec.instructions) {
            RegionInstruction made;
            made.opcode = given.opcode;
            made.operand = given.operand;
            made.kernel = given.kernel;
            made.result = given.result;
            made.narrow = narrow;
            made.counts = given.operands.empty();
            made.operand_count = static_cast<std::int32_t>(given.operands.size());
            std::vector<Reference> operands;
            operands.reserve(given.operands.size());
            for (const std::int16_t operand : given.operands) {
                operands.push_back(operand >= 0 ? input(operand) : Reference{false, first + ~operand});
            }
            made.first_operand = static_cast<std::int32_t>(region_.operands.size());
            made.first_immediate = static_cast<std::int32_t>(region_.immediates.size());
            region_.operands.insert(region_.operands.end(), operands.begin(), operands.end());
            region_.immediates.insert(region_.immediates.end(), given.immediates.begin(), given.immediates.end());
            region_.instructions.push_back(made);
        }
        return {false, static_cast<std::int32_t>(region_.instructions.size()) - 1};
    }

    Reference load(std::int32_t source, const View& view) {
        std::vector<std::int32_t>& known = loads_[source];
        for (const std::int32_t each : known) {
            if (same_place(region_.loads[static_cast<std::size_t>(each)], view)) {
                return {true, each};
            }
        }
        known.push_back(static_cast<std::int32_t>(region_.loads.size()));
        region_.loads.push_back(view);
        return {true, known.back()};
    }

    Planner& planner_;
    const RowSpace* space_;
    std::array<int, max_rank> order_{};  // of a space: its dimension by the region's
    Region region_;
    std::unordered_map<std::int32_t, Reference> done_;                 // by node
    std::unordered_map<std::int32_t, std::vector<std::int32_t>> loads_;  // by value
};

// Of the groups that can run the one whose last node stands first in the graph: what is made is read soon.
void Planner::order_groups() {
    const auto count = static_cast<std::int32_t>(nodes_.size());
    std::vector<std::vector<std::int32_t>> members(nodes_.size()), followers(nodes_.size());
    std::vector<std::int32_t> waiting(nodes_.size(), 0);
    for (std::int32_t n = 0; n < count; ++n) {
        const std::int32_t group = find(n);
        members[static_cast<std::size_t>(group)].push_back(n);
        for (const std::int32_t source : node(n).spec.sources) {
            const std::int32_t maker = source < 0 ? -1 : value(source).node;
            if (maker >= 0 && find(maker) != group) {
                followers[static_cast<std::size_t>(find(maker))].push_back(group);
                ++waiting[static_cast<std::size_t>(group)];
            }
        }
    }
    using Entry = std::pair<std::int32_t, std::int32_t>;  // last node, group
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (std::int32_t group = 0; group < count; ++group) {
        const auto& nodes = members[static_cast<std::size_t>(group)];
        if (!nodes.empty() && waiting[static_cast<std::size_t>(group)] == 0) {
            ready.push({nodes.back(), group});
        }
    }
    while (!ready.empty()) {
        const std::int32_t group = ready.top().second;
        ready.pop();
        emit_group(members[static_cast<std::size_t>(group)]);
        for (const std::int32_t follower : followers[static_cast<std::size_t>(group)]) {
            if (--waiting[static_cast<std::size_t>(follower)] == 0) {
                ready.push({members[static_cast<std::size_t>(follower)].back(), follower});
            }
        }
    }
}

void Planner::emit_group(std::span<const std::int32_t> nodes) {
    switch (node(nodes.front()).spec.kind) {
        case NodeKind::constant: break;
        case NodeKind::fill:
        case NodeKind::element_wise:
        case NodeKind::reduce: emit_region(nodes); break;
        case NodeKind::view: emit_view(nodes.front()); break;
        case NodeKind::move: emit_moves(nodes.front()); break;
        case NodeKind::step: emit_step(nodes.front()); break;
    }
}

void Planner::emit_region(std::span<const std::int32_t> nodes) {
    // Nodes of one kind of sizes are a region as any other.
    const Node& first = node(nodes.front());
    const bool by_row = first.space >= 0 && std::ranges::any_of(nodes, [&](std::int32_t n) {
        return node(n).spec.kind == NodeKind::reduce || node(n).is_narrow != first.is_narrow;
    });
    RegionWriter writer(*this, first.spec, by_row ? &spaces_[static_cast<std::size_t>(first.space)] : nullptr);
    std::vector<std::string> names;
    bool stores = false;
    for (const std::int32_t n : nodes) {
        const Value& made = value(result(n));
        if (names.empty() || names.back() != node(n).spec.name) {  // once, though it is made of several
            names.push_back(node(n).spec.name);
        }
        if (!made.placed) {
            continue;
        }
        emit_clear(made, names.back());
        writer.store(n, made.place);
        for (const View& copy : made.copies) {
            writer.store(n, copy);
        }
        stores = true;
    }
    if (!stores) {
        return;
    }
    Region region = writer.take();
    std::unordered_map<std::int32_t, Reference> numbers;  // by their offsets in the constants
    join_chains(region, [&](float number) {
        const std::int32_t offset = this->number(number);
        const auto [found, added] = numbers.try_emplace(offset);
        if (added) {
            found->second = {true, static_cast<std::int32_t>(region.loads.size())};
            region.loads.push_back(fill_view(offset, DataType::float32, region.rank, region.sizes));
        }
        return found->second;
    });
    if (by_row) {
        emit_rows(std::move(region), std::move(names));
    } else {
        add(std::make_unique<RegionStep>(std::move(region)), std::move(names));
    }
}

void Planner::emit_rows(Region region, std::vector<std::string> names) {
    auto step = std::make_unique<RowStep>(std::move(region));
    if (const std::size_t bytes = step->state_bytes(); bytes > 0) {
        TensorDesc desc;
        desc.type = DataType::uint8;
        desc.rank = 1;
        desc.sizes[0] = static_cast<std::int64_t>(bytes);
        desc.strides[0] = 1;
        step->give_states(temporary(desc));
    }
    add(std::move(step), std::move(names));
}

void Planner::emit_view(std::int32_t node_id) {
    const NodeSpec& spec = node(node_id).spec;
    for (std::size_t port = 0; port < spec.outputs.size(); ++port) {
        const Value& made = value(result(node_id, static_cast<std::int32_t>(port)));
        if (!made.placed) {
            continue;
        }
        emit_clear(made, spec.name);
        const View from = through(read(node_id, 0), spec.maps[port], made.desc.rank, made.desc.sizes);
        emit_copy(from, made.place, spec.name);
        for (const View& copy : made.copies) {
            emit_copy(from, copy, spec.name);
        }
    }
}

void Planner::emit_moves(std::int32_t node_id) {
    const NodeSpec& spec = node(node_id).spec;
    const Value& made = value(result(node_id));
    emit_clear(made, spec.name);
    for (const Piece& piece : spec.pieces) {
        const View from = piece.port < 0
                              ? fill_view(node(node_id).data_offset, made.desc.type, piece.rank, piece.sizes)
                              : through(read(node_id, piece.port), piece.from, piece.rank, piece.sizes);
        const View to = through(made.place, piece.to, piece.rank, piece.sizes);
        if (!same_place(from, to)) {
            emit_copy(from, to, spec.name);
        }
    }
    for (const View& copy : made.copies) {
        emit_copy(made.place, copy, spec.name);
    }
}

void Planner::emit_step(std::int32_t node_id) {
    Node& each = node(node_id);
    StepTensors tensors;
    const bool strided = each.spec.make_step->strided();
    for (std::size_t port = 0; port < each.spec.sources.size(); ++port) {
        tensors.inputs.push_back(read(node_id, static_cast<std::int32_t>(port)));
        if (!strided) {
            require_packed(tensors.inputs.back().buffer);
        }
    }
    for (std::size_t port = 0; port < each.spec.outputs.size(); ++port) {
        const Value& made = value(result(node_id, static_cast<std::int32_t>(port)));
        if (made.placed) {
            emit_clear(made, each.spec.name);
        }
        tensors.outputs.push_back(made.placed ? made.place : View{});
        if (!strided) {
            require_packed(tensors.outputs.back().buffer);
        }
    }
    add(each.spec.make_step->make(std::move(tensors)), {each.spec.name});
    for (std::size_t port = 0; port < each.spec.outputs.size(); ++port) {
        const Value& made = value(result(node_id, static_cast<std::int32_t>(port)));
        for (const View& copy : made.copies) {
            emit_copy(made.place, copy, each.spec.name);
        }
    }
}

void Planner::emit_copy(const View& from, const View& to, const std::string& name) {
    Region region;
    region.loads.push_back(squeeze(from, to.rank, to.sizes));
    region.stores.push_back({squeeze(to, to.rank, to.sizes), {true, 0}});
    region.rank = region.stores[0].view.rank;
    region.sizes = region.stores[0].view.sizes;
    add(std::make_unique<RegionStep>(std::move(region)), {name});
}

void Planner::emit_clear(const Value& value, const std::string& name) {
    if (value.raw && value.raw_needed && !value.desc.packed && value.desc.span() > value.desc.element_count()) {
        add(std::make_unique<ClearStep>(value.place, value.desc.total_bytes()), {name});
    }
}

void Planner::add(std::unique_ptr<Step> step, std::vector<std::string> names) {
    step->nodes = std::move(names);
    program_.steps.push_back(std::move(step));
}

// Lifetimes, and what follows from them.
void Planner::finish() {
    const std::size_t external = program_.inputs.size() + program_.outputs.size();
    std::vector<Lifetime> lifetimes(temporary_bytes_.size());
    for (std::size_t t = 0; t < lifetimes.size(); ++t) {
        lifetimes[t].bytes = temporary_bytes_[t];
    }
    program_.last_read.assign(program_.inputs.size(), -1);
    program_.first_write.assign(program_.outputs.size(), -1);
    for (std::int32_t s = 0; s < static_cast<std::int32_t>(program_.steps.size()); ++s) {
        Step& step = *program_.steps[static_cast<std::size_t>(s)];
        program_.scratch_bytes = std::max(program_.scratch_bytes, step.scratch_bytes());
        step.visit([&](View& view, bool) {
            const auto buffer = static_cast<std::size_t>(view.buffer);
            if (view.buffer < 0) {
                return;
            }
            step.bytes += view.bytes();
            if (!view.mapped) {
                require_packed(view.buffer);
            }
            if (buffer < program_.inputs.size()) {
                program_.last_read[buffer] = s;
            } else if (buffer < external) {
                std::int32_t& first = program_.first_write[buffer - program_.inputs.size()];
                first = first < 0 ? s : first;
            } else if (buffer > external) {
                lifetimes[buffer - external - 1].extend(s);
            }
        });
    }
    program_.arena_bytes = assign_offsets(lifetimes, program_.steps, static_cast<BufferId>(external) + 1);
    for (const Lifetime& each : lifetimes) {
        program_.temporaries.push_back(each.offset);
    }
}

}  // namespace dmlgraph::cpu
