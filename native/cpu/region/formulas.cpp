#include "cpu/region/formulas.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cpu/kernels/level.h"
#include "cpu/region/formula_draft.h"

namespace dmlgraph::cpu {
namespace {

// By instruction: of roots. Formulas that are too long are given up.
std::vector<std::optional<FormulaDraft>> write_formulas(const Region& region, FormulaRoots& roots) {
    std::vector<std::optional<FormulaDraft>> result(roots.size());
    for (std::size_t root = 0; root < roots.size(); ++root) {
        if (roots[root] != root) {
            continue;
        }
        FormulaDraft draft = write_formula(region, roots, root);
        std::vector<bool> is_repeated;
        is_repeated.reserve(draft.operands.size());
        for (const Reference& each : draft.operands) {
            is_repeated.push_back(is_repeated_in_rows(region, each));
        }
        use_registers(draft, is_repeated);
        if (draft.fits()) {
            result[root] = std::move(draft);
        } else {
            std::ranges::replace(roots, std::optional(root), std::nullopt);
        }
    }
    return result;
}

void become(RegionInstruction& instruction, const FormulaDraft& draft, std::vector<Immediate>& immediates) {
    instruction.kernel = chosen_level().formula.kernel;
    instruction.first_immediate = static_cast<std::int32_t>(immediates.size());
    immediates.push_back({.u = draft.operands.size()});
    immediates.push_back({.u = draft.operations.size()});
    for (const DataType type : draft.types) {
        immediates.push_back({.u = item_size(type)});
    }
    for (const FormulaOperation& operation : draft.operations) {
        immediates.push_back({.u = operation.word()});
    }
    for (const double number : draft.constants) {
        immediates.push_back({.f = number});
    }
}

}  // namespace

void join_formulas(Region& region) {
    FormulaRoots roots = choose_formulas(region);
    const std::vector<std::optional<FormulaDraft>> drafts = write_formulas(region, roots);
    std::vector<RegionInstruction> instructions;
    std::vector<Reference> operands;
    std::vector<std::int32_t> moved(roots.size(), -1);
    const auto now = [&](const Reference& old) { return old.load ? old : Reference{false, moved[index_of(old)]}; };
    for (std::size_t i = 0; i < roots.size(); ++i) {
        if (roots[i] && *roots[i] != i) {
            continue;
        }
        RegionInstruction made = region.instructions[i];
        auto taken =
            std::span<const Reference>(region.operands)
                .subspan(static_cast<std::size_t>(made.first_operand), static_cast<std::size_t>(made.operand_count));
        if (drafts[i]) {
            become(made, *drafts[i], region.immediates);
            for (std::size_t member = 0; member < i; ++member) {
                made.counts = made.counts || (roots[member] == i && region.instructions[member].counts);
            }
            made.members = static_cast<std::int32_t>(std::ranges::count(roots, std::optional(i)));
            taken = drafts[i]->operands;
        }
        made.first_operand = static_cast<std::int32_t>(operands.size());
        made.operand_count = static_cast<std::int32_t>(taken.size());
        std::ranges::transform(taken, std::back_inserter(operands), now);
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
