#include "cpu/plan/region_writer.h"

#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dmlgraph::cpu {
namespace {

class RegionWriter {
public:
    // Writes the region of one node, or of nodes that run row by row in a domain.
    RegionWriter(Plan& plan, const NodeSpec& first, const RowDomain* domain) : plan_(plan), domain_(domain) {
        if (domain == nullptr) {
            for (int d = 0; d < first.outputs[0].rank; ++d) {
                if (first.outputs[0].sizes[d] != 1) {
                    region_.sizes[region_.rank++] = first.outputs[0].sizes[d];
                }
            }
            return;
        }
        for (const bool reduced : {false, true}) {
            for (int d = 0; d < domain->rank; ++d) {
                if (domain->reduces(d) == reduced) {
                    order_[region_.rank] = d;
                    region_.sizes[region_.rank++] = domain->sizes[d];
                }
            }
            region_.kept = region_.kept < 0 ? region_.rank : region_.kept;
        }
        region_.columns = domain->is_columns;
    }

    void store(std::int32_t node_id, const View& to) {
        const TensorDesc& desc = plan_.node(node_id).spec.outputs[0];
        const bool narrow = is_narrow(node_id);
        region_.stores.push_back({fit(to, desc, narrow, node_id), compute(node_id), narrow});
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
            const NodeSpec& spec = plan_.node(top.node).spec;
            if (top.port < spec.sources.size()) {
                const Reader reader{top.node, static_cast<std::int32_t>(top.port)};
                const std::int32_t source = spec.sources[top.port++];
                if (source >= 0 && in_register(source, reader)) {
                    const std::int32_t producer = plan_.value(source).node;
                    if (!done_.contains(producer)) {
                        stack.push_back({producer, 0});
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
        const Node& node = plan_.node(node_id);
        if (domain_ == nullptr || node.gives_one_a_row()) {
            return domain_ != nullptr;
        }
        // A sequence belongs to no domain: it is as narrow as its reader.
        std::int64_t all = 1;
        for (int d = 0; d < region_.rank; ++d) {
            all *= region_.sizes[d];
        }
        return node.is_virtual && node.spec.outputs[0].element_count() != all;
    }

    // The view at the region's sizes. In a row domain these are the kept dimensions, then the reduced ones, along which
    // narrow values repeat.
    View fit(const View& view, const TensorDesc& desc, bool narrow, std::int32_t node_id) const {
        check_broadcast(view, desc.rank, desc.sizes, plan_.node(node_id).spec.name);
        const View given = squeeze(view, desc.rank, desc.sizes);
        if (domain_ == nullptr) {
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
        const Value& value = plan_.value(source);
        return value.fill < 0 && is_inlined(plan_, value, reader);
    }

    Reference write(std::int32_t node_id) {
        const Node& node = plan_.node(node_id);
        if (node.spec.kind == NodeKind::fill) {
            const TensorDesc& desc = node.spec.outputs[0];
            const View view = fill_view(plan_, node.data_offset, desc.type, desc.rank, desc.sizes);
            return load(plan_.result(node_id), squeeze(view, desc.rank, desc.sizes));
        }
        if (node.spec.kind == NodeKind::reduce) {
            return write_reduction(node_id);
        }
        return node.spec.instructions.empty() ? input(node_id, 0) : write_instructions(node_id);
    }

    // The operand that a node reads at a port: a register of the region, or a load.
    Reference input(std::int32_t node_id, std::int32_t port) {
        const NodeSpec& spec = plan_.node(node_id).spec;
        const std::int32_t source = spec.sources[static_cast<std::size_t>(port)];
        if (in_register(source, {node_id, port})) {
            return done_.at(plan_.value(source).node);
        }
        const bool reduces = spec.kind == NodeKind::reduce;
        const TensorDesc& desc = reduces ? spec.inputs[0] : spec.outputs[0];
        return load(source, fit(read(plan_, node_id, port), desc, !reduces && is_narrow(node_id), node_id));
    }

    Reference write_reduction(std::int32_t node_id) {
        const NodeSpec& spec = plan_.node(node_id).spec;
        RegionInstruction made;
        made.reduction = spec.reduction;
        made.narrow = true;
        made.result = spec.outputs[0].type;
        Reference operand = input(node_id, 0);
        if (made.reduction->of_squares != nullptr &&
            is_square(operand)) {  // if nobody else wants them, they are not computed
            made.reduction = made.reduction->of_squares;
            operand = region_.operands[static_cast<std::size_t>(instruction(operand).first_operand)];
        }
        return append(made, {operand});
    }

    const RegionInstruction& instruction(const Reference& result) const {
        return region_.instructions[static_cast<std::size_t>(result.index)];
    }

    // Whether it is the product of something wide with itself, in float32.
    bool is_square(const Reference& reference) const {
        if (reference.load || instruction(reference).reduction != nullptr || instruction(reference).narrow) {
            return false;
        }
        const RegionInstruction& made = instruction(reference);
        const Reference* const factors = region_.operands.data() + made.first_operand;
        return made.opcode == Opcode::MULTIPLY && made.operand == DataType::float32 &&
               made.result == DataType::float32 && factors[0].load == factors[1].load &&
               factors[0].index == factors[1].index;
    }

    Reference write_instructions(std::int32_t node_id) {
        const NodeSpec& spec = plan_.node(node_id).spec;
        const bool narrow = is_narrow(node_id);
        const auto first = static_cast<std::int32_t>(region_.instructions.size());
        Reference last;
        for (const InstructionSpec& given : spec.instructions) {
            RegionInstruction made;
            made.opcode = given.opcode;
            made.operand = given.operand;
            made.kernel = given.kernel;
            made.result = given.result;
            made.narrow = narrow;
            made.counts = given.operands.empty();
            std::vector<Reference> operands;
            operands.reserve(given.operands.size());
            for (const std::int16_t operand : given.operands) {
                operands.push_back(operand >= 0 ? input(node_id, operand) : Reference{false, first + ~operand});
            }
            made.first_immediate = static_cast<std::int32_t>(region_.immediates.size());
            region_.immediates.insert(region_.immediates.end(), given.immediates.begin(), given.immediates.end());
            last = append(made, operands);
        }
        return last;
    }

    Reference append(RegionInstruction made, const std::vector<Reference>& operands) {
        made.operand_count = static_cast<std::int32_t>(operands.size());
        made.first_operand = static_cast<std::int32_t>(region_.operands.size());
        region_.operands.insert(region_.operands.end(), operands.begin(), operands.end());
        region_.instructions.push_back(made);
        return {false, static_cast<std::int32_t>(region_.instructions.size()) - 1};
    }

    Reference load(std::int32_t source, const View& view) {
        std::vector<std::int32_t>& known = loads_[source];
        for (const std::int32_t each : known) {
            if (same_memory(region_.loads[static_cast<std::size_t>(each)], view)) {
                return {true, each};
            }
        }
        known.push_back(static_cast<std::int32_t>(region_.loads.size()));
        region_.loads.push_back(view);
        return {true, known.back()};
    }

    Plan& plan_;
    const RowDomain* domain_;
    std::array<int, max_rank> order_{};  // in a domain: its dimension for each of the region's
    Region region_;
    std::unordered_map<std::int32_t, Reference> done_;                   // by node
    std::unordered_map<std::int32_t, std::vector<std::int32_t>> loads_;  // by value
};

}  // namespace

Region write_region(Plan& plan, std::span<const std::int32_t> nodes, const RowDomain* domain) {
    RegionWriter writer(plan, plan.node(nodes.front()).spec, domain);
    for (const std::int32_t n : nodes) {
        const Value& made = plan.value(plan.result(n));
        if (made.allocated) {
            writer.store(n, made.view);
        }
        for (const View& copy : made.copies) {
            writer.store(n, copy);
        }
    }
    return writer.take();
}

}  // namespace dmlgraph::cpu
