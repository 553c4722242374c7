// Finds reductions.
#include <algorithm>
#include <array>

#include "cpu/kernels/chosen.h"
#include "cpu/kernels/reduce_tables.h"

namespace dmlgraph::cpu {
namespace {

#define DMLGRAPH_REDUCTION(name) std::string_view(#name),
constexpr std::array names{DMLGRAPH_REDUCTIONS(DMLGRAPH_REDUCTION)};
#undef DMLGRAPH_REDUCTION

}  // namespace

const Reduction* find_reduction(std::string_view name, DataType operand, DataType result) noexcept {
    const auto* const known = std::ranges::find(names, name);
    const auto function = static_cast<ReduceFunction>(known - names.begin());
    for (const ReductionEntry& entry : DMLGRAPH_OF_CHOSEN_LEVEL(reductions)) {
        if (entry.function == function && entry.operand == operand && entry.result == result) {
            return &entry.reduction;
        }
    }
    return nullptr;
}

}  // namespace dmlgraph::cpu
