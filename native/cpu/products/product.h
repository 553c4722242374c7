// Products of matrices, in blocks that the threads of a run share.
//
// A block is some rows and some columns of a product. It is computed depth by depth: the rows' part that one depth
// needs is packed, so that it stays in the second cache, unless it has been packed before all runs; then every panel of
// columns is packed, too, and meets every panel of rows in registers. The last depth is followed by the epilogue.
//
// Each sum is added up in the order of its depths, which follow from the sizes alone: results do not depend on blocks,
// tiles or the number of threads.
#pragma once

#include <cstdint>
#include <optional>

#include "cpu/products/lines.h"
#include "cpu/products/panels.h"
#include "cpu/products/small_words.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

struct ProductSizes {
    int rank = 0;   // of the batch
    Sizes batch{};  // its sizes
    std::int64_t m = 1;
    std::int64_t n = 1;
    std::int64_t k = 1;

    std::int64_t count() const;
};

// An operand: its panels if they have been packed, or else where its numbers come from.
struct Side {
    const Panels* panels = nullptr;
    const PanelSource* source = nullptr;
    const MatrixPanels* matrix = nullptr;  // the source, if it is matrices
    const Rests* rests = nullptr;          // what small words of rows' panels lack; null if they lack nothing
    const LineSource* lines = nullptr;     // the source, if it makes lines faster than panels
    bool is_wide = false;  // whether it packs up to `most_streamed_columns` lines, and the more, the faster
};

// The tiles whose sums have this type.
inline const Tiles& tiles_for(DataType sums, const ProductKernels& kernels) {
    return sums == DataType::int32 ? kernels.integers.tiles : kernels;
}

struct Product {
    ProductSizes sizes;
    Side a;  // rows
    Side b;  // columns
    Target target;
    const ProductKernels* kernels = nullptr;
    DataType sums = DataType::float32;  // int32: the depths are words
    // So many columns, and depths of columns that do not lie along them, are not all zero; none: all.
    std::optional<std::int64_t> columns_that_count{};
    std::optional<std::int64_t> depths_that_count{};

    // How many depths are added up; which are multiplied at a time follows from all.
    std::int64_t depths() const { return depths_that_count.value_or(sizes.k); }
    const Tiles& tiles() const {
        return b.panels != nullptr && b.panels->are_bytes() ? kernels->integers.tiles_of_bytes
                                                            : tiles_for(sums, *kernels);
    }
};

// How the operands are divided into panels. Those of columns are padded.
Division rows_of(const ProductSizes& sizes, const Tiles& tiles);
Division columns_of(const ProductSizes& sizes, const Tiles& tiles);

// How many of all depths are multiplied at a time.
std::int64_t depth_at_a_time(std::int64_t depths);

// Whether few rows are multiplied along columns whose numbers lie one after the other: at the end of each, sums are
// added up, which takes as long as some depths in tiles.
inline bool adds_along(std::int64_t rows, std::int64_t depths) {
    return rows <= most_streamed_rows && depths >= 8 * rows;
}

// Scratch memory that each worker needs for a product of at most these sizes.
std::size_t product_scratch(const ProductSizes& sizes, std::size_t operands, const Epilogue& epilogue,
                            const Tiles& tiles);
// The work in the units of `RunContext::parallel`.
double product_cost(const ProductSizes& sizes);

void run_product(RunContext& context, const Product& product);

}  // namespace dmlgraph::cpu
