// A row times a panel of columns that is wider than the panels of several rows: a single row has too few sums for the
// processor's multipliers, unless it meets many columns at a time.
#pragma once

#include "cpu/kernels/product.h"

namespace dmlgraph::cpu {

inline constexpr int most_row_vectors = 8;

// A tile of one row and so many vectors, 1 to most_row_vectors, at the level that `find_kernel` uses.
TileKernel row_kernel(int vectors) noexcept;

}  // namespace dmlgraph::cpu
