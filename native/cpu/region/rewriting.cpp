#include "cpu/region/rewriting.h"

#include <cstdint>
#include <utility>

namespace dmlgraph::cpu {

void rewrite(Region& region, const std::vector<bool>& left_out, const Change& change) {
    std::vector<RegionInstruction> instructions;
    std::vector<Reference> operands;
    std::vector<std::int32_t> moved(left_out.size(), -1);
    const auto now = [&](const Reference& old) { return old.load ? old : Reference{false, moved[index_of(old)]}; };
    for (std::size_t i = 0; i < left_out.size(); ++i) {
        if (left_out[i]) {
            continue;
        }
        RegionInstruction made = region.instructions[i];
        std::vector<Reference> taken;
        for (int k = 0; k < made.operand_count; ++k) {
            taken.push_back(region.operand(made, k));
        }
        if (std::optional<std::vector<Reference>> others = change(i, made)) {
            taken = std::move(*others);
        }
        made.first_operand = static_cast<std::int32_t>(operands.size());
        made.operand_count = static_cast<std::int32_t>(taken.size());
        for (const Reference& each : taken) {
            operands.push_back(now(each));
        }
        moved[i] = static_cast<std::int32_t>(instructions.size());
        instructions.push_back(made);
    }
    for (RegionStore& store : region.stores) {
        store.source = now(store.source);
    }
    region.instructions = std::move(instructions);
    region.operands = std::move(operands);
}

}  // namespace dmlgraph::cpu
