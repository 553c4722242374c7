// Tiles of a few columns whose vectors go along the rows: with vectors of columns most lanes would have no work.
#pragma once

#include "cpu/compiler.h"
#include "cpu/kernels/product.h"
#include "cpu/kernels/tile_ending.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// Elements of a matrix's column, `step` floats apart.
DMLGRAPH_INLINE Vector load_column(const float* from, std::int64_t step, int rows) {
    float column[lanes] = {};
    for (int i = 0; i < rows; ++i) {
        column[i] = from[i * step];
    }
    return load(column);
}

// Each sum is what another tile gives: the same terms in the same order.
template <int columns>
void narrow_tile(const TileCall& call, int rows) noexcept {
    const Vector zeros = repeated(0.0f);
    const Part those = part(0, rows);
    Vector sums[columns];
    set_all(sums, zeros);
    const auto *a = call.a.as<float>(), *b = call.b.as<float>();
    auto* const to = call.sums.as<float>();
    for (std::int64_t k = call.depth; k > 0; --k, a += call.a_depth, b += call.b_step) {
        const Vector row = load_part(a, those, zeros);
        DMLGRAPH_UNROLL
        for (int j = 0; j < columns; ++j) {
            sums[j] = product_sum(row, repeated(b[j]), sums[j]);
        }
    }
    const SumEnding* const ending = call.ending;
    for (int j = 0; j < columns; ++j) {
        Vector total = call.adds ? sum(load_column(to + j, call.step, rows), sums[j]) : sums[j];
        if (ending != nullptr && !ending->rounds()) {
            total = sum(total, load_part(ending->numbers.as<float>(), those, zeros));
            if (ending->lines != nullptr) {
                total = sum(total, load_column(ending->lines + call.column + j, ending->step, rows));
            }
            total = applied(total, ending->function);
        }
        float column[lanes];
        store(column, total);
        for (int i = 0; i < rows; ++i) {
            to[i * call.step + j] = column[i];
        }
    }
    if (ending != nullptr && ending->rounds()) {
        end_in_half(to, call.step, rows, columns, *ending, call.column);
    }
}

// For tiles of as many rows as a vector has lanes, or somewhat fewer, this takes less time than a vector of columns.
#if defined(__AVX512F__)
constexpr NarrowTileKernel narrow_tiles[] = {narrow_tile<1>, narrow_tile<2>, narrow_tile<3>, narrow_tile<4>,
                                             narrow_tile<5>, narrow_tile<6>, narrow_tile<7>, narrow_tile<8>};
constexpr NarrowTiles narrow_tiles_of_level{sizeof(narrow_tiles) / sizeof(narrow_tiles[0]), narrow_tiles};
#else
constexpr NarrowTiles narrow_tiles_of_level{};
#endif

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
