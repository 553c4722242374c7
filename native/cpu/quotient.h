// Division of counts.
#pragma once

#include <cstdint>

namespace dmlgraph::cpu {

// How many parts of `each` hold `all`; both are whole numbers, `each` is positive.
constexpr std::int64_t quotient_up(std::int64_t all, std::int64_t each) { return (all + each - 1) / each; }

}  // namespace dmlgraph::cpu
