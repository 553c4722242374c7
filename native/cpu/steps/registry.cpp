#include "cpu/steps/registry.h"

#include <algorithm>
#include <array>

#include "cpu/steps/indexed.h"
#include "cpu/steps/scan.h"

namespace dmlgraph::cpu {
namespace {

// One line for each: {"name", whether any strides will do, &make_name}.
constexpr std::array kinds{
    StepKind{"scan", false, &make_scan},
    StepKind{"gather", false, &make_gather},
    StepKind{"gather_elements", false, &make_gather_elements},
    StepKind{"scatter", false, &make_scatter},
    StepKind{"scatter_elements", false, &make_scatter_elements},
};

}  // namespace

const StepKind* find_step_kind(std::string_view name) {
    const auto* const found = std::ranges::find(kinds, name, &StepKind::name);
    return found == kinds.end() ? nullptr : found;
}

}  // namespace dmlgraph::cpu
