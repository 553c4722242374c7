// Tiles of sums that stay in registers, of any numbers of 32 bits.
#pragma once

#include "cpu/compiler.h"
#include "cpu/kernels/product.h"
#include "cpu/kernels/tile_ending.h"
#include "cpu/kernels/types.h"
#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {
namespace {

// As many sums as fit into the registers, beside a vector of each column and a repeated number.
#if defined(__AVX512F__)
constexpr int most_rows = 14, most_vectors = 2;
#elif defined(DMLGRAPH_X86)
constexpr int most_rows = 6, most_vectors = 2;
#else
constexpr int most_rows = 12, most_vectors = 2;
#endif

// The numbers of a tile's rows at a depth, which lie side by side.
template <int rows>
class RowsSideBySide {
public:
    DMLGRAPH_INLINE explicit RowsSideBySide(const TileCall& call) : at_(call.a), step_(call.a_depth) {}
    DMLGRAPH_INLINE float number(int row) const { return at_[row]; }
    DMLGRAPH_INLINE void advance() { at_ += step_; }

private:
    const float* at_;
    std::int64_t step_;
};

// … which lie apart: instructions find the numbers of some rows from one address.
template <int rows>
class RowsApart {
public:
    DMLGRAPH_INLINE explicit RowsApart(const TileCall& call) : row_(call.a_row), step_(call.a_depth) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < addresses; ++i) {
            at_[i] = call.a + i * together * row_;
        }
    }
    DMLGRAPH_INLINE float number(int row) const { return at_[row / together][row % together * row_]; }
    DMLGRAPH_INLINE void advance() {
        DMLGRAPH_UNROLL
        for (int i = 0; i < addresses; ++i) {
            at_[i] += step_;
        }
    }

private:
    static constexpr int together = 3, addresses = (rows + together - 1) / together;

    const float* at_[addresses];
    std::int64_t row_;
    std::int64_t step_;
};

// sums += the products of the rows and the panels, depth by depth. Numbers: Singles, Integers or ColumnsOfBytes.
// Several panels lie side by side in the results.
template <template <int> class Rows, int panels, class Numbers, int rows, int vectors>
DMLGRAPH_INLINE void multiply(Numbers, typename Numbers::V (&sums)[rows][vectors], const TileCall& call) {
    using V = typename Numbers::V;
    Rows<rows> a(call);
    const float* b = call.b;
    constexpr int together = vectors / panels;
    const std::int64_t b_step = call.b_step, b_panel = panels > 1 ? call.b_panel : 0, next_step = call.next_step;
    const float* next = call.next == nullptr ? call.a : call.next;
    for (std::int64_t k = call.depth; k > 0; --k, next += next_step) {
        prefetch(next);
        V column[vectors];
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            column[j] = Numbers::column(b + j / together * b_panel, j % together * lanes);
        }
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            const V row = Numbers::repeated(a.number(i));
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = Numbers::multiplied(row, column[j], sums[i][j]);
            }
        }
        a.advance();
        b += b_step;
    }
}

#if defined(DMLGRAPH_PAIRS)
// Integers whose rows are small: two words at a time have sums of 16 bits.
struct SmallRows : Integers {};

template <template <int> class Rows, int panels, int rows, int vectors>
DMLGRAPH_INLINE void multiply(SmallRows, Words (&sums)[rows][vectors], const TileCall& call) {
    const float* a = call.a;
    const float* b = call.b;
    const std::int64_t b_step = call.b_step, next_step = call.next_step;
    const float* next = call.next == nullptr ? call.a : call.next;
    for (std::int64_t k = call.depth; k > 1; k -= 2, next += 2 * next_step) {
        prefetch(next);
        prefetch(next + next_step);
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            const Words first = Integers::repeated(a[i]), second = Integers::repeated(a[rows + i]);
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                const Words pairs = sum_of_pairs(pair_sums(first, load_words(b + j * lanes)),
                                                 pair_sums(second, load_words(b + b_step + j * lanes)));
                sums[i][j] = add_pairs(pairs, sums[i][j]);
            }
        }
        a += 2 * rows;
        b += 2 * b_step;
    }
    if (call.depth % 2 != 0) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            const Words row = Integers::repeated(a[i]);
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = product_sum(row, load_words(b + j * lanes), sums[i][j]);
            }
        }
    }
    const std::uint32_t* words = call.rests.words;
    const std::uint16_t* depths = call.rests.depths;
    for (std::int64_t r = call.rests.count; r > 0; --r, words += rows, depths += rows) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < rows; ++i) {
            const Words row = repeated_word(static_cast<int>(words[i]));
            const float* const column = call.b + depths[i] * b_step;
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = product_sum(row, load_words(column + j * lanes), sums[i][j]);
            }
        }
    }
}
#endif

template <class Numbers, template <int> class Rows, int rows, int vectors, int panels = 1>
void tile(const TileCall& call) noexcept {
    typename Numbers::V sums[rows][vectors];
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            sums[i][j] = Numbers::repeated(0.0f);
        }
    }
    fetch_results<rows, vectors>(call);
    multiply<Rows, panels>(Numbers{}, sums, call);
    store_tile<Numbers, rows, vectors>(sums, call);
}

#define WIDTHS(rows) tile<Numbers, Rows, rows, 1>, tile<Numbers, Rows, rows, 2>
template <class Numbers, template <int> class Rows>
constexpr TileKernel tile_kernels[] = {
    WIDTHS(1),  WIDTHS(2),  WIDTHS(3), WIDTHS(4),  WIDTHS(5),  WIDTHS(6),
#if !defined(DMLGRAPH_X86) || defined(__AVX512F__)
    WIDTHS(7),  WIDTHS(8),  WIDTHS(9), WIDTHS(10), WIDTHS(11), WIDTHS(12),
#endif
#if defined(__AVX512F__)
    WIDTHS(13), WIDTHS(14),
#endif
};
#undef WIDTHS

template <class Numbers, int rows, int panels>
constexpr TileKernel wide_tile = tile<Numbers, RowsApart, rows, panels * most_vectors, panels>;

template <class Numbers>
constexpr Tiles tiles_of(const TileKernel* apart = nullptr, const NarrowTiles& narrow = {},
                         const WideTiles& wide = {}) {
    constexpr auto& kernels = tile_kernels<Numbers, RowsSideBySide>;
    static_assert(sizeof(kernels) / sizeof(kernels[0]) == most_rows * most_vectors);
    return {lanes, most_rows, most_vectors, kernels, apart, narrow, wide};
}

}  // namespace
}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
