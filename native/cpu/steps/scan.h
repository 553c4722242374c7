// Running sums and products along an axis.
#pragma once

#include <memory>

#include "cpu/steps/registry.h"

namespace dmlgraph::cpu {

// Integers: axis; whether from the end; whether each total leaves out its own element; whether products.
std::unique_ptr<Step> make_scan(StepDesc desc);

}  // namespace dmlgraph::cpu
