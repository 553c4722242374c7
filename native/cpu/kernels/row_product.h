// A few rows times some vectors of columns: products so small that what surrounds them counts. Rows are read from where
// they lie, and sums go to places of their own, so that one call computes several gates of a recurrent network.
#pragma once

#include <cstdint>

#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {

// Where the sums of a vector of columns lie in a row: floats from its beginning.
struct VectorPlace {
    std::int64_t added;  // in `FewRowsCall::added`
    std::int64_t out;    // in `FewRowsCall::out`
};

// out = added + a · b. Steps in floats. Whole vectors are read and stored, row after row from the first place to the
// last.
struct FewRowsCall {
    const float* a;
    std::int64_t a_step;  // from row to row
    const float* b;       // of each vector of columns its numbers at all depths, one after the other
    std::int64_t b_step;  // from vector to vector
    std::int64_t depth;
    const float* added;
    std::int64_t added_step;  // from row to row
    float* out;
    std::int64_t out_step;
    const VectorPlace* places;
};

using FewRowsKernel = void (*)(const FewRowsCall& call) noexcept;

inline constexpr int most_rows_at_once = 8, most_vectors_at_once = 8;

struct FewRowsKernels {
    int lanes;
    int rows;                                                        // the most of a call
    int vectors[most_rows_at_once];                                  // the most of so many rows
    FewRowsKernel kernels[most_rows_at_once][most_vectors_at_once];  // by rows − 1, then vectors − 1

    int most_vectors(int of_rows) const { return vectors[of_rows - 1]; }
    FewRowsKernel kernel(int of_rows, int of_vectors) const { return kernels[of_rows - 1][of_vectors - 1]; }
};

}  // namespace dmlgraph::cpu
