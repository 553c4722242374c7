#include "cpu/products/blocks.h"

#include <limits>
#include <numeric>

#include "cpu/products/sharing.h"
#include "cpu/runtime/processors.h"

namespace dmlgraph::cpu {
namespace {

// The numbers of a line that are multiplied at a time. Sums depend on it, so it is the same on every processor.
constexpr std::int64_t most_depth = 320;
constexpr std::int64_t depth_unit = 16;
static_assert(most_depth % depth_unit == 0);

constexpr std::int64_t most_columns = 4096;        // of a block: the rows are packed again for each block
constexpr std::int64_t most_block_sums = 1 << 19;  // they lie in memory of their own if no result can take them
constexpr double packing = 1;                      // the time to pack a number, in that of a vector's multiply-add, …
constexpr double reading = 0.5;                    // … and to read one that was packed before all runs
constexpr double apart = 1 + 1.0 / 16;             // the time of a vector's multiply-add if its row is not packed
constexpr std::int64_t page =
    4096;  // bytes between numbers of which the first cache holds `fewest_rows`, with others beside them

// The most lines of a block, if the first has fewer panels than the others.
std::int64_t most_lines(const Division& division, std::int64_t panels) {
    const std::int64_t blocks = quotient_up(division.count(), panels);
    if (blocks > 2) {
        return panels * division.width;
    }
    const std::int64_t first = (division.count() - (blocks - 1) * panels) * division.width;
    return std::max(std::min(first, division.lines), division.lines - first);
}

}  // namespace

Division rows_of(const ProductSizes& sizes, const Tiles& tiles) { return Division::even(sizes.m, tiles.rows); }

Division columns_of(const ProductSizes& sizes, const Tiles& tiles) {
    const std::int64_t vectors = std::min<std::int64_t>(quotient_up(sizes.n, tiles.lanes), tiles.vectors);
    return {sizes.n, vectors * tiles.lanes};
}

std::int64_t depth_at_a_time(std::int64_t depths) {
    return depths == 0 ? depth_unit
                       : quotient_up(quotient_up(depths, quotient_up(depths, most_depth)), depth_unit) * depth_unit;
}

std::optional<Division> rows_in_place(const Product& product) {
    const MatrixPanels* const matrix = product.a.matrix;
    if (product.a.panels != nullptr || matrix == nullptr || matrix->type != DataType::float32 ||
        product.sums != DataType::float32) {
        return {};
    }
    const ProductSizes& sizes = product.sizes;
    const Tiles& tiles = product.tiles();
    const bool side_by_side = matrix->line == sizeof(float);
    const std::int64_t most =
        side_by_side ? tiles.rows
                     : std::min<std::int64_t>(tiles.rows, fewest_rows * page / std::gcd(matrix->line, page));
    const Division rows = Division::even(sizes.m, most);
    const bool is_near =
        side_by_side ? matrix->depth * std::min(depth_at_a_time(sizes.k), sizes.k) <= few_pages : matrix->lies_along();
    // For each number of a row, in the time of a vector's multiply-add.
    const auto vectors = static_cast<double>(quotient_up(sizes.n, tiles.lanes)),
               height = static_cast<double>(rows.width);
    const std::int64_t rest = sizes.n % tiles.lanes;
    const bool is_narrow = !side_by_side && rest > 0 && rest < rows.width && rest <= tiles.narrow.columns;
    const double saved = is_narrow ? 1 - static_cast<double>(rest) / height : 0;
    const bool pays = is_near && vectors * apart <= vectors - saved + packing;
    const bool would_repeat =
        sizes.m <= tiles.rows && (side_by_side || matrix->lies_along());  // a single panel, for all panels of columns
    return pays || would_repeat ? std::optional(rows) : std::nullopt;
}

Blocks blocks_of(const ProductSizes& sizes, const Division& rows, bool packed_rows, bool packed_columns,
                 const Tiles& tiles, int workers) {
    Blocks blocks{rows, columns_of(sizes, tiles), 0, 1, 1};
    blocks.depth = depth_at_a_time(sizes.k);
    // Half of the second cache, for the panels of rows.
    const auto cached = static_cast<std::int64_t>(second_cache_bytes() / 2 / (most_depth * sizeof(float)));
    const auto most_panels = [](const Division& division, std::int64_t most) {
        return std::max<std::int64_t>(1, most / division.width);
    };
    double soonest = std::numeric_limits<double>::infinity();
    Blocks best = blocks;
    each_division(blocks.rows.count(), most_panels(blocks.rows, cached), workers, [&](std::int64_t row_panels) {
        blocks.row_panels = row_panels;
        const std::int64_t beside = std::min(most_columns, most_block_sums / blocks.height());
        const std::int64_t most = sizes.m <= most_streamed_rows ? most_streamed_columns : beside;
        each_division(blocks.columns.count(), most_panels(blocks.columns, most), workers,
                      [&](std::int64_t column_panels) {
                          blocks.column_panels = column_panels;
                          const auto height = static_cast<double>(most_lines(blocks.rows, row_panels));
                          const auto width = static_cast<double>(
                              quotient_up(most_lines(blocks.columns, column_panels), tiles.lanes) * tiles.lanes);
                          const double moved =
                              height * (packed_rows ? reading : packing) + width * (packed_columns ? reading : packing);
                          const double cost = height * width + moved * tiles.lanes;
                          const double time = makespan(sizes.count() * blocks.down() * blocks.across(), cost, workers);
                          if (time < soonest) {
                              soonest = time, best = blocks;
                          }
                      });
    });
    return best;
}

}  // namespace dmlgraph::cpu
