// How a product is divided into blocks, and whether its rows are packed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cpu/products/panels.h"
#include "cpu/products/product.h"
#include "cpu/quotient.h"

namespace dmlgraph::cpu {

inline constexpr std::int64_t few_pages = 256
                                          << 10;  // bytes: processors know the places of some 64 pages without a search
inline constexpr std::int64_t fewest_rows =
    7;  // of the highest tiles that read rows where they lie, if these are at odds in the first cache

// How much of a product is computed at a time.
struct Blocks {
    Division rows;
    Division columns;
    std::int64_t depth;
    std::int64_t row_panels;     // of a block
    std::int64_t column_panels;  // of a block

    std::int64_t down() const { return quotient_up(rows.count(), row_panels); }
    std::int64_t across() const { return quotient_up(columns.count(), column_panels); }
    // Floats of a block with all its panels padded.
    std::int64_t width() const { return column_panels * columns.width; }
    std::int64_t height() const { return row_panels * rows.width; }
    // The first panels of a block. The first block has fewer than the others, because the last panel may have fewer
    // lines.
    std::int64_t first_row_panel(std::int64_t block) const {
        return std::max<std::int64_t>(0, rows.count() - (down() - block) * row_panels);
    }
    std::int64_t first_column_panel(std::int64_t block) const {
        return std::max<std::int64_t>(0, columns.count() - (across() - block) * column_panels);
    }
};

// The panels of rows that are read where they lie, if packing them takes longer than it saves.
std::optional<Division> rows_in_place(const Product& product);

// How panels are divided into blocks: those with which the workers end soonest.
Blocks blocks_of(const ProductSizes& sizes, const Division& rows, bool packed_rows, bool packed_columns,
                 const Tiles& tiles, int workers);

}  // namespace dmlgraph::cpu
