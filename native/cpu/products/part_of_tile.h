// Tiles whose vectors reach beyond the columns of a result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/kernels/sum_ending.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {

inline constexpr int most_rows_of_tile = 16;
inline constexpr int widest_tile = most_rows_of_tile * 3 * 16;  // floats

// Runs the call of a tile of `whole` columns, the first `width` of which there are. The call changes.
template <class Call>
void run_part(void (*kernel)(const Call&) noexcept, Call& call, std::int64_t height, std::int64_t width, std::int64_t whole) {
    alignas(cache_line) float tile[widest_tile];
    alignas(cache_line) float lines[widest_tile];
    float* const sums = call.sums;
    const std::int64_t step = call.step;
    for (std::int64_t r = 0; call.adds && r < height; ++r) {
        std::copy_n(sums + r * step, width, tile + r * whole);
    }
    SumEnding ending;
    if (call.ending != nullptr && call.ending->lines != nullptr) {
        ending = *call.ending;
        for (std::int64_t r = 0; r < height; ++r) {
            std::copy_n(ending.lines + call.column + r * ending.step, width, lines + r * whole);
        }
        ending.lines = lines, ending.step = whole;
        call.ending = &ending, call.column = 0;
    }
    call.sums = tile, call.step = whole;
    kernel(call);
    for (std::int64_t r = 0; r < height; ++r) {
        std::copy_n(tile + r * whole, width, sums + r * step);
    }
}

}  // namespace dmlgraph::cpu
