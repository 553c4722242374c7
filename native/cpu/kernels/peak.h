// The most multiplications and additions that a level can do: what the speed of products is compared with.
#pragma once

#include <cstdint>

namespace dmlgraph::cpu {

// Multiplies and adds in registers for some rounds; returns how many operations that were. `sum` keeps compilers from
// leaving the work out.
using PeakKernel = double (*)(std::int64_t rounds, float* sum) noexcept;

namespace baseline {
double multiply_and_add(std::int64_t rounds, float* sum) noexcept;
}
namespace avx2 {
double multiply_and_add(std::int64_t rounds, float* sum) noexcept;
}
namespace avx512 {
double multiply_and_add(std::int64_t rounds, float* sum) noexcept;
}

// Of the level that this process uses.
PeakKernel peak_kernel() noexcept;

}  // namespace dmlgraph::cpu
