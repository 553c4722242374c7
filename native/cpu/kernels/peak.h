// The most multiplications and additions that a level can do: what the speed of products is compared with.
#pragma once

#include <cstdint>

#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// A tile of 6 × 2 vectors that meets the same rows and columns for some rounds: a row's numbers are `row`, a column's
// `column`, and `depths` of them are in a word.  Returns how many operations that were; `sum` becomes a sum of them
// all. Its operands are loaded in each round, as those of a product are, so no product can be kept from the round
// before.
template <class Numbers>
double multiply_and_add(std::int64_t rounds, typename Numbers::Number row, typename Numbers::Number column, int depths,
                        float* sum) {
    constexpr int rows = 6, columns = 2, sets = 2;
    alignas(64) typename Numbers::Number in_rows[sets][rows], in_columns[sets][columns][lanes], numbers[lanes];
    for (int set = 0; set < sets; ++set) {
        for (int i = 0; i < rows; ++i) {
            in_rows[set][i] = row;
        }
        for (int i = 0; i < columns; ++i) {
            store(in_columns[set][i], Numbers::repeated(column));
        }
    }
    using V = typename Numbers::V;
    V sums[rows][columns];
    for (auto& each : sums) {
        each[0] = each[1] = Numbers::repeated(0);
    }
    for (std::int64_t r = 0; r < rounds; ++r) {
        const auto set = r % sets;
        const V left = Numbers::load(in_columns[set][0]), right = Numbers::load(in_columns[set][1]);
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            const V factor = Numbers::repeated(in_rows[set][i]);
            sums[i][0] = product_sum(factor, left, sums[i][0]);
            sums[i][1] = product_sum(factor, right, sums[i][1]);
        }
    }
    V total = Numbers::repeated(0);
    for (const auto& each : sums) {
        total = DMLGRAPH_LEVEL::sum(total, DMLGRAPH_LEVEL::sum(each[0], each[1]));
    }
    store(numbers, total);
    *sum = *NumbersAt(numbers).as<float>();
    return 2.0 * rows * columns * lanes * depths * static_cast<double>(rounds);
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
