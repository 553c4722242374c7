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
#elif defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int most_rows = 10, most_vectors = 2;  // columns are in twice as many vectors
#else
constexpr int most_rows = 12, most_vectors = 2;
#endif

// The numbers of a tile's rows at a depth, which lie side by side.
template <class Number, int rows>
class RowsSideBySide {
public:
    DMLGRAPH_INLINE explicit RowsSideBySide(const TileCall& call) : at_(call.a.as<Number>()), step_(call.a_depth) {}
    DMLGRAPH_INLINE Number number(int row) const { return at_[row]; }
    DMLGRAPH_INLINE const Number* numbers() const { return at_; }
    DMLGRAPH_INLINE void advance() { at_ += step_; }

private:
    const Number* at_;
    std::int64_t step_;
};

// … which lie apart: instructions find the numbers of some rows from one address.
template <class Number, int rows>
class RowsApart {
public:
    DMLGRAPH_INLINE explicit RowsApart(const TileCall& call) : row_(call.a_row), step_(call.a_depth) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < addresses; ++i) {
            at_[i] = call.a.as<Number>() + i * together * row_;
        }
    }
    DMLGRAPH_INLINE Number number(int row) const { return at_[row / together][row % together * row_]; }
    DMLGRAPH_INLINE void advance() {
        DMLGRAPH_UNROLL
        for (int i = 0; i < addresses; ++i) {
            at_[i] += step_;
        }
    }

private:
    static constexpr int together = 3, addresses = (rows + together - 1) / together;

    const Number* at_[addresses];
    std::int64_t row_;
    std::int64_t step_;
};

// Adds the products of the rows and columns at a depth.
template <class Numbers, int rows, int vectors, class V, class Rows>
DMLGRAPH_INLINE void add_depth(const Rows& a, const V (&column)[vectors], V (&sums)[rows][vectors]) {
    DMLGRAPH_UNROLL
    for (int i = 0; i < rows; ++i) {
        const V row = Numbers::repeated(a.number(i));
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            sums[i][j] = Numbers::multiplied(row, column[j], sums[i][j]);
        }
    }
}

#if defined(__aarch64__) || defined(_M_ARM64)
// Rows that lie side by side are loaded four at a time, and not repeated.
template <int row, int rows, int vectors, class V>
DMLGRAPH_INLINE void add_lane(V numbers, const V (&column)[vectors], V (&sums)[rows][vectors]) {
    if constexpr (row < rows) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            sums[row][j] = lane_product_sum<row % lanes>(numbers, column[j], sums[row][j]);
        }
    }
}

template <class Numbers, int rows, int vectors, class V, int first = 0>
DMLGRAPH_INLINE void add_depth(const RowsSideBySide<typename Numbers::Number, rows>& a, const V (&column)[vectors],
                               V (&sums)[rows][vectors]) {
    if constexpr (first < rows) {
        const V numbers = first_numbers<Numbers, (rows - first < lanes ? rows - first : lanes)>(a.numbers() + first);
        add_lane<first>(numbers, column, sums);
        add_lane<first + 1>(numbers, column, sums);
        add_lane<first + 2>(numbers, column, sums);
        add_lane<first + 3>(numbers, column, sums);
        add_depth<Numbers, rows, vectors, V, first + lanes>(a, column, sums);
    }
}
#endif

// sums += the products of the rows and the panels, depth by depth. Numbers: Singles, Integers or ColumnsOfBytes.
// Several panels lie side by side in the results.
template <template <class, int> class Rows, int panels, class Numbers, int rows, int vectors>
DMLGRAPH_INLINE void multiply(Numbers, typename Numbers::V (&sums)[rows][vectors], const TileCall& call) {
    using V = typename Numbers::V;
    Rows<typename Numbers::Number, rows> a(call);
    const auto* b = call.b.as<typename Numbers::Number>();
    constexpr int together = vectors / panels;
    const std::int64_t b_step = call.b_step, b_panel = panels > 1 ? call.b_panel : 0, next_step = call.next_step;
    NumbersAt next = call.next == nullptr ? call.a : call.next;
    for (std::int64_t k = call.depth; k > 0; --k, next += next_step) {
        prefetch(next);
        V column[vectors];
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            column[j] = Numbers::column(b + j / together * b_panel, j % together * lanes);
        }
        add_depth<Numbers, rows, vectors, V>(a, column, sums);
        a.advance();
        b += b_step;
    }
}

#if defined(DMLGRAPH_PAIRS)
// Integers whose rows are small: two words at a time have sums of 16 bits.
struct SmallRows : Integers {};

template <template <class, int> class Rows, int panels, int rows, int vectors>
DMLGRAPH_INLINE void multiply(SmallRows, Words (&sums)[rows][vectors], const TileCall& call) {
    const auto *a = call.a.as<std::uint32_t>(), *const columns = call.b.as<std::uint32_t>(), *b = columns;
    const std::int64_t b_step = call.b_step, next_step = call.next_step;
    NumbersAt next = call.next == nullptr ? call.a : call.next;
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
            const std::uint32_t* const column = columns + depths[i] * b_step;
            DMLGRAPH_UNROLL
            for (int j = 0; j < vectors; ++j) {
                sums[i][j] = product_sum(row, load_words(column + j * lanes), sums[i][j]);
            }
        }
    }
}
#endif

#if defined(__ARM_FEATURE_MATMUL_INT8)
// Integers of which an instruction multiplies two rows and two columns, two words of each: its sums are a square. A
// last row, or a last depth, has none beside it.
struct Squares : Integers {};

// All whole pairs of depths.
template <int rows, int vectors>
DMLGRAPH_INLINE void multiply_squares(Words (&sums)[rows][vectors], const TileCall& call) {
    constexpr int pairs = rows / 2, last = rows - 1;
    Words squares[pairs][2 * vectors];
    DMLGRAPH_UNROLL
    for (int p = 0; p < pairs; ++p) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < 2 * vectors; ++j) {
            squares[p][j] = repeated_word(0);
        }
    }
    const auto *a = call.a.as<std::uint32_t>(), *b = call.b.as<std::uint32_t>();
    NumbersAt next = call.next == nullptr ? call.a : call.next;
    const std::int64_t a_step = call.a_depth, b_step = call.b_step, next_step = call.next_step;
    for (std::int64_t k = call.depth; k > 1; k -= 2, a += 2 * a_step, b += 2 * b_step, next += 2 * next_step) {
        prefetch(next);
        prefetch(next + next_step);
        Words columns[2 * vectors];
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            const Words one = load_words(b + j * lanes), other = load_words(b + b_step + j * lanes);
            columns[2 * j] = first_in_turn(one, other);
            columns[2 * j + 1] = last_in_turn(one, other);
            if constexpr (rows % 2 != 0) {
                sums[last][j] = product_sum(Integers::repeated(a[last]), one, sums[last][j]);
                sums[last][j] = product_sum(Integers::repeated(a[a_step + last]), other, sums[last][j]);
            }
        }
        DMLGRAPH_UNROLL
        for (int p = 0; p < pairs; p += 2) {
            const bool both = p + 1 < pairs;
            const std::uint32_t* const from = a + 2 * p;
            const Words one = both ? load_words(from) : load_two_words(from),
                        other = both ? load_words(from + a_step) : load_two_words(from + a_step);
            const Words first = first_in_turn(one, other), second = last_in_turn(one, other);
            DMLGRAPH_UNROLL
            for (int j = 0; j < 2 * vectors; ++j) {
                squares[p][j] = square_sum(first, columns[j], squares[p][j]);
            }
            DMLGRAPH_UNROLL
            for (int j = 0; both && j < 2 * vectors; ++j) {
                squares[p + 1][j] = square_sum(second, columns[j], squares[p + 1][j]);
            }
        }
    }
    DMLGRAPH_UNROLL
    for (int p = 0; p < pairs; ++p) {
        DMLGRAPH_UNROLL
        for (int j = 0; j < vectors; ++j) {
            sums[2 * p][j] = first_halves(squares[p][2 * j], squares[p][2 * j + 1]);
            sums[2 * p + 1][j] = last_halves(squares[p][2 * j], squares[p][2 * j + 1]);
        }
    }
}

template <template <class, int> class Rows, int panels, int rows, int vectors>
DMLGRAPH_INLINE void multiply(Squares, Words (&sums)[rows][vectors], const TileCall& call) {
    std::int64_t squared = 0;
    if constexpr (rows > 1) {
        multiply_squares(sums, call);
        squared = call.depth / 2 * 2;
    }
    TileCall rest = call;
    rest.a += squared * call.a_depth, rest.b += squared * call.b_step, rest.depth -= squared;
    multiply<Rows, panels>(Integers{}, sums, rest);
}
#endif

template <class Numbers, template <class, int> class Rows, int rows, int vectors, int panels = 1>
void tile(const TileCall& call) noexcept {
    typename Numbers::V sums[rows][vectors];
    set_all(sums, Numbers::repeated(0));
    fetch_results<rows, vectors>(call);
    multiply<Rows, panels>(Numbers{}, sums, call);
    store_tile<Numbers, rows, vectors>(sums, call);
}

#define WIDTHS(rows) tile<Numbers, Rows, rows, 1>, tile<Numbers, Rows, rows, 2>
template <class Numbers, template <class, int> class Rows>
constexpr TileKernel tile_kernels[] = {
    WIDTHS(1),  WIDTHS(2),  WIDTHS(3), WIDTHS(4),  WIDTHS(5), WIDTHS(6),
#if !defined(DMLGRAPH_X86) || defined(__AVX512F__)
    WIDTHS(7),  WIDTHS(8),  WIDTHS(9), WIDTHS(10),
#endif
#if (!defined(DMLGRAPH_X86) && !defined(__ARM_FEATURE_MATMUL_INT8)) || defined(__AVX512F__)
    WIDTHS(11), WIDTHS(12),
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
