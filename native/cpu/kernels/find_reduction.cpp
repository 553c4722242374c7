// Looking reductions up.
#include <algorithm>
#include <array>

#include "cpu/kernels/kernel.h"
#include "cpu/kernels/reduce_tables.h"

namespace dmlgraph::cpu {
namespace {

#define DMLGRAPH_REDUCTION(name) std::string_view(#name),
constexpr std::array names{DMLGRAPH_REDUCTIONS(DMLGRAPH_REDUCTION)};
#undef DMLGRAPH_REDUCTION

ReductionEntries entries() {
#ifdef DMLGRAPH_X86_LEVELS
    switch (chosen_level()) {
        case Level::avx512: return avx512::reductions();
        case Level::avx2: return avx2::reductions();
        default: break;
    }
#endif
    return baseline::reductions();
}

}  // namespace

const Reduction* find_reduction(std::string_view name, DataType operand, DataType result) noexcept {
    const auto* const known = std::ranges::find(names, name);
    const auto function = static_cast<ReduceFunction>(known - names.begin());
    for (const ReductionEntry& entry : entries()) {
        if (entry.function == function && entry.operand == operand && entry.result == result) {
            return &entry.reduction;
        }
    }
    return nullptr;
}

}  // namespace dmlgraph::cpu
