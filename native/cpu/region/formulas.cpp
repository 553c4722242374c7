#include "cpu/region/formulas.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/kernels/level.h"
#include "cpu/region/formula_draft.h"
#include "cpu/region/rewriting.h"

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
    std::vector<bool> joined(roots.size());
    for (std::size_t i = 0; i < roots.size(); ++i) {
        joined[i] = roots[i] && *roots[i] != i;
    }
    rewrite(region, joined, [&](std::size_t i, RegionInstruction& made) -> std::optional<std::vector<Reference>> {
        if (!drafts[i]) {
            return std::nullopt;
        }
        become(made, *drafts[i], region.immediates);
        made.members = static_cast<std::int32_t>(std::ranges::count(roots, std::optional(i)));
        return drafts[i]->operands;
    });
}

}  // namespace dmlgraph::cpu
