#include "cpu/products/product.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <span>

#include "cpu/products/part_of_tile.h"
#include "cpu/products/sharing.h"
#include "cpu/quotient.h"
#include "cpu/runtime/cache_line.h"
#include "cpu/runtime/processors.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

// The numbers of a line that are multiplied at a time. Sums depend on it, so it is the same on every processor.
constexpr std::int64_t most_depth = 320;
constexpr std::int64_t depth_unit = 16;
static_assert(most_depth % depth_unit == 0);

constexpr std::int64_t most_columns = 4096;        // of a block: the rows are packed again for each block
constexpr std::int64_t most_block_sums = 1 << 19;  // they lie in memory of their own if no result can take them
constexpr double packing = 1;    // the time to pack a number, in that of a vector's multiply-add, …
constexpr double reading = 0.5;  // … and to read one that was packed before all runs
constexpr std::int64_t line_depth = 4096;       // if columns are read one after the other; sums depend on it, too
constexpr std::int64_t direct_rows = 32;        // for so few, packing columns takes longer than it saves, …
constexpr std::int64_t near_direct_rows = 128;  // … for these, too, if the numbers of a depth are in few pages
constexpr std::int64_t few_pages = 256 << 10;   // bytes: processors know the places of some 64 pages without a search

constexpr std::int64_t most_zeros = 512;                         // that are made results at a time
constexpr std::size_t zeros_bytes = most_zeros * sizeof(float);  // a multiple of cache lines

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
    // The first panels of a block. The first block has fewer than the others, because the last panel may have fewer lines.
    std::int64_t first_row_panel(std::int64_t block) const { return std::max<std::int64_t>(0, rows.count() - (down() - block) * row_panels); }
    std::int64_t first_column_panel(std::int64_t block) const {
        return std::max<std::int64_t>(0, columns.count() - (across() - block) * column_panels);
    }
};

// The most lines of a block, if the first has fewer panels than the others.
std::int64_t most_lines(const Division& division, std::int64_t panels) {
    const std::int64_t blocks = quotient_up(division.count(), panels);
    if (blocks > 2) {
        return panels * division.width;
    }
    const std::int64_t first = (division.count() - (blocks - 1) * panels) * division.width;
    return std::max(std::min(first, division.lines), division.lines - first);
}

// How panels are divided into blocks: those with which the workers end soonest.
Blocks blocks_of(const ProductSizes& sizes, bool packed_rows, bool packed_columns, const Tiles& tiles, int workers) {
    Blocks blocks{rows_of(sizes, tiles), columns_of(sizes, tiles), 0, 1, 1};
    blocks.depth = depth_at_a_time(sizes.k);
    // Half of the second cache, for the panels of rows.
    const auto cached = static_cast<std::int64_t>(second_cache_bytes() / 2 / (most_depth * sizeof(float)));
    const auto most_panels = [](const Division& division, std::int64_t most) { return std::max<std::int64_t>(1, most / division.width); };
    double soonest = std::numeric_limits<double>::infinity();
    Blocks best = blocks;
    each_division(blocks.rows.count(), most_panels(blocks.rows, cached), workers, [&](std::int64_t row_panels) {
        blocks.row_panels = row_panels;
        const std::int64_t beside = std::min(most_columns, most_block_sums / blocks.height());
        const std::int64_t most = sizes.m <= most_streamed_rows ? most_streamed_columns : beside;
        each_division(blocks.columns.count(), most_panels(blocks.columns, most), workers, [&](std::int64_t column_panels) {
            blocks.column_panels = column_panels;
            const auto height = static_cast<double>(most_lines(blocks.rows, row_panels));
            const auto width = static_cast<double>(quotient_up(most_lines(blocks.columns, column_panels), tiles.lanes) * tiles.lanes);
            const double moved = height * (packed_rows ? reading : packing) + width * (packed_columns ? reading : packing);
            const double cost = height * width + moved * tiles.lanes;
            const double time = makespan(sizes.count() * blocks.down() * blocks.across(), cost, workers);
            if (time < soonest) {
                soonest = time, best = blocks;
            }
        });
    });
    return best;
}

// The memory of a worker.
struct BlockMemory {
    float* columns;   // a panel of columns of one depth
    float* rows;      // panels of rows of one depth
    float* sums;      // a block, if it cannot be computed where the result is
    std::byte* line;  // to store a line of results
    std::size_t bytes;

    BlockMemory(std::byte* memory, const Blocks& blocks, std::size_t operands, const Epilogue& epilogue) {
        std::size_t used = 0;
        const auto take = [&](std::int64_t count, std::size_t item) {
            std::byte* const taken = memory + used;
            used += align_to_line(static_cast<std::size_t>(count) * item);
            return taken;
        };
        const auto floats = [&](std::int64_t count) { return reinterpret_cast<float*>(take(count, sizeof(float))); };
        columns = floats(blocks.columns.width * blocks.depth);
        rows = floats(std::max(blocks.height() * blocks.depth, std::min(blocks.rows.lines, std::int64_t{most_streamed_rows}) * line_depth));
        sums = floats(blocks.height() * blocks.width());
        line = memory + used;
        bytes = used + Target::line_scratch(operands, epilogue, blocks.width());
    }
};

// A block of a product, computed by one worker.
class Block {
public:
    Block(const Product& product, const Blocks& blocks, std::int64_t index, std::byte* scratch)
        : product_(product),
          blocks_(blocks),
          scratch_(scratch, blocks, product.target.operands.size(), *product.target.epilogue),
          place_(place_in(product.sizes.batch, product.sizes.rank, index / (blocks.down() * blocks.across()))) {
        const std::int64_t down = index / blocks.across() % blocks.down(), across = index % blocks.across();
        first_row_panel_ = blocks.first_row_panel(down);
        last_row_panel_ = blocks.first_row_panel(down + 1);
        first_column_panel_ = blocks.first_column_panel(across);
        last_column_panel_ = blocks.first_column_panel(across + 1);
        left_ = blocks.columns.first(first_column_panel_);
        width_ = std::min(blocks.columns.first(last_column_panel_), blocks.columns.lines) - left_;
        direct_ = product.target.takes_sums(product.sums);
        const MatrixPanels* const matrix = product.b.matrix;
        const bool is_near = matrix != nullptr && matrix->depth * std::min(blocks.depth, product.sizes.k) <= few_pages;
        reads_columns_ = matrix != nullptr && matrix->type == DataType::float32 && matrix->line == sizeof(float) &&
                         blocks.rows.lines <= (is_near ? near_direct_rows : direct_rows);
        const bool few_rows = product.sums == DataType::float32 && product.b.panels == nullptr && product.sizes.m <= most_streamed_rows;
        streams_ = few_rows && reads_columns_;
        fetches_matrix_ = matrix != nullptr && matrix->type == DataType::float32 && matrix->line == sizeof(float);
        streams_lines_ = few_rows && product.a.panels == nullptr && matrix != nullptr && matrix->lies_along();
        if (!streams_ && !streams_lines_ && !product.target.epilogue->empty()) {
            ending_ = product.target.ending();
            requantization_ = requantization();
            const bool one_depth = product.sizes.k <= blocks.depth || last_row_panel_ - first_row_panel_ == 1;
            ends_at_once_ = (ending_ || requantization_) && !direct_ && one_depth;
        }
        adds_numbers_ = product.sums == DataType::int32 && product.target.correction != nullptr && product.target.correction->adds_numbers();
    }

    void compute() const {
        if (streams_lines_) {
            stream_lines();
            return finish(first_row_panel_, sums_of(first_row_panel_));
        }
        const std::int64_t first = streams_ ? stream() : first_column_panel_;
        if (last_row_panel_ - first_row_panel_ == 1) {
            compute_row_panel(first);
        } else {
            compute_panels(first);
        }
    }

private:
    // Every depth of a panel of columns before the next panel: it is read once, and meets the rows while it is near.
    void compute_row_panel(std::int64_t first) const {
        Rows rows(*this, first_row_panel_);
        for (std::int64_t c = first; c < last_column_panel_; ++c) {
            each_depth([&](std::int64_t from, std::int64_t depth) {
                const Columns columns = columns_of_panel(c, from, depth);
                meet(rows, from, depth, scratch_.rows);
                tile(rows, columns, c, from, depth);
            });
        }
        finish(first_row_panel_, rows.sums);
    }

    // Every panel of columns meets all rows while it is in the first cache. These stay in the second.
    void compute_panels(std::int64_t first) const {
        std::deque<Rows> all;  // by panel
        for (std::int64_t p = first_row_panel_; p < last_row_panel_; ++p) {
            all.emplace_back(*this, p);
        }
        each_depth([&](std::int64_t from, std::int64_t depth) {
            float* packed = scratch_.rows;
            for (Rows& rows : all) {
                meet(rows, from, depth, packed);
                packed += rows.height * depth;
            }
            for (std::int64_t c = first; c < last_column_panel_; ++c) {
                const Columns columns = columns_of_panel(c, from, depth);
                for (const Rows& rows : all) {
                    tile(rows, columns, c, from, depth);
                }
            }
        });
        for (const Rows& rows : all) {
            finish(rows.panel, rows.sums);
        }
    }

    // Calls function(first, count) for the depths that are multiplied at a time.
    template <class Function>
    void each_depth(const Function& function) const {
        const std::int64_t k = product_.sizes.k;
        for (std::int64_t from = 0; from < k; from += blocks_.depth) {
            function(from, std::min(blocks_.depth, k - from));
        }
    }

    // Multiplies the panels whose columns are whole vectors, and returns the first of the others.
    std::int64_t stream() const {
        const MatrixPanels& matrix = *product_.b.matrix;
        const std::byte* const data = matrix.matrix(place_) + left_ * matrix.line;
        const std::int64_t columns = width_ / blocks_.columns.width * blocks_.columns.width;
        const std::int64_t step = matrix.depth / std::int64_t{sizeof(float)};
        if (columns > 0) {
            each_depth([&](std::int64_t from, std::int64_t depth) {
                const auto* const b = reinterpret_cast<const float*>(data + from * matrix.depth);
                product_.kernels->stream({rows_of_panel(0, from, depth, scratch_.rows), static_cast<int>(blocks_.rows.lines), b, step, depth,
                                          sums_of(0), sums_step(), columns, from > 0});
            });
        }
        return first_column_panel_ + columns / blocks_.columns.width;
    }

    // Columns whose numbers lie one after the other.
    void stream_lines() const {
        const MatrixPanels& matrix = *product_.b.matrix;
        const LinesKernel kernel = matrix.type == DataType::float16 ? product_.kernels->stream_half_lines : product_.kernels->stream_lines;
        const std::int64_t k = product_.sizes.k, height = blocks_.rows.lines;
        for (std::int64_t from = 0; from < k; from += line_depth) {
            const std::int64_t depth = std::min(line_depth, k - from);
            for (std::int64_t r = 0; r < height; ++r) {
                product_.a.source->pack({place_, r, 1, from, depth, 1}, scratch_.rows + r * depth, *product_.kernels);
            }
            const std::byte* const data = matrix.matrix(place_) + left_ * matrix.line + from * matrix.depth;
            kernel({scratch_.rows, depth, static_cast<int>(height), data, matrix.line, depth, sums_of(0), sums_step(), width_, from > 0});
        }
    }

    // A panel of rows, where its sums are, and what tiles do with them in the end.
    struct Rows {
        std::int64_t panel;
        std::int64_t height;
        float* sums;
        const float* numbers = nullptr;  // of some depths, …
        RestDepths rests;                // … and besides them
        std::array<float, most_rows_of_tile> summands, factors;
        SumEnding ending;

        Rows(const Block& block, std::int64_t panel) : panel(panel), height(block.blocks_.rows.in(panel)), sums(block.sums_of(panel)) {
            if (block.ending_) {
                const auto of_rows = std::span(summands).first(static_cast<std::size_t>(height));
                ending = block.ending_->at(block.place_, block.blocks_.rows.first(panel), block.left_, block.width_, of_rows);
            }
            if (block.adds_numbers_) {
                const std::int64_t first = block.blocks_.rows.first(panel);
                for (std::int64_t r = 0; r < height; ++r) {
                    summands[static_cast<std::size_t>(r)] = block.product_.target.correction->number(block.place_, first + r);
                }
                ending.numbers = summands.data();
            }
            if (block.requantization_) {
                const auto of_rows = static_cast<std::size_t>(height);
                if (!block.adds_numbers_) {
                    summands.fill(0.0f);
                    ending.numbers = summands.data();
                }
                ending.bytes = block.requantization_->at(block.place_, block.blocks_.rows.first(panel), block.left_, block.width_,
                                                         std::span(summands).first(of_rows), std::span(factors).first(of_rows));
            }
        }
        Rows(const Rows&) = delete;  // the ending has the address of the summands
        Rows& operator=(const Rows&) = delete;
    };

    struct Columns {
        const float* first;
        std::int64_t step;
    };

    Columns columns_of_panel(std::int64_t panel, std::int64_t from, std::int64_t depth) const {
        const std::int64_t width = blocks_.columns.width, lines = blocks_.columns.in(panel);
        const std::int64_t first = blocks_.columns.first(panel);
        if (product_.b.panels != nullptr) {
            return {product_.b.panels->at(place_, panel, from), product_.b.panels->step()};
        }
        if (reads_columns_ && lines % product_.tiles().lanes == 0) {
            const MatrixPanels& matrix = *product_.b.matrix;
            const std::byte* const data = matrix.matrix(place_) + first * matrix.line + from * matrix.depth;
            return {reinterpret_cast<const float*>(data), matrix.depth / std::int64_t{sizeof(float)}};
        }
        product_.b.source->pack({place_, first, lines, from, depth, width}, scratch_.columns, *product_.kernels);
        return {scratch_.columns, width};
    }

    // The numbers of these depths.
    void meet(Rows& rows, std::int64_t from, std::int64_t depth, float* packed) const {
        rows.numbers = rows_of_panel(rows.panel, from, depth, packed);
        if (product_.a.rests != nullptr) {
            rows.rests = product_.a.rests->of(place_, rows.panel, from);
        }
    }

    // In `packed` if they are packed now.
    const float* rows_of_panel(std::int64_t panel, std::int64_t from, std::int64_t depth, float* packed) const {
        if (product_.a.panels != nullptr) {
            return product_.a.panels->at(place_, panel, from);
        }
        const std::int64_t lines = blocks_.rows.in(panel);
        const MatrixPanels* const matrix = product_.a.matrix;
        if (lines == 1 && matrix != nullptr && matrix->type == DataType::float32 && matrix->lies_along()) {
            return reinterpret_cast<const float*>(matrix->matrix(place_) + blocks_.rows.first(panel) * matrix->line) + from;
        }
        product_.a.source->pack({place_, blocks_.rows.first(panel), lines, from, depth, lines}, packed, *product_.kernels);
        return packed;
    }

    // What a tile fetches while it computes. The first panel of columns brings the rows into the caches: it fetches those
    // that it meets next. Each fetches a part of the columns after it: of those that are not packed yet, the first tile has
    // the first number of each depth, and the second one the last, which may be in another line of the cache.
    void fetch_ahead(TileCall& call, const Rows& rows, std::int64_t panel, std::int64_t from, std::int64_t depth) const {
        const std::int64_t panels = last_row_panel_ - first_row_panel_, index = rows.panel - first_row_panel_;
        if (product_.a.panels != nullptr && panel == first_column_panel_ && panels > 1) {
            const float* const next = product_.a.panels->after(place_, rows.panel, first_row_panel_, last_row_panel_, from, depth);
            return Ahead(next, rows.height, depth, 1).set(call, 0);
        }
        if (product_.b.panels != nullptr) {
            const float* const next = panels == 1 ? call.b + depth * call.b_step  // the next depths of a panel come first
                                                  : product_.b.panels->after(place_, panel, first_column_panel_, last_column_panel_, from, depth);
            return Ahead(next, call.b_step, depth, panels).set(call, index);
        }
        const MatrixPanels* const matrix = product_.b.matrix;
        if (panels > 1 && index < 2 && fetches_matrix_ && panel + 1 < last_column_panel_) {
            const std::int64_t next = blocks_.columns.first(panel + 1), lines = blocks_.columns.in(panel + 1);
            const std::byte* const data = matrix->matrix(place_) + (index == 0 ? next : next + lines - 1) * matrix->line + from * matrix->depth;
            call.next = reinterpret_cast<const float*>(data), call.next_step = matrix->depth / std::int64_t{sizeof(float)};
        }
    }

    std::int64_t sums_step() const {
        return direct_ ? product_.target.out.row / std::int64_t{sizeof(float)} : ends_at_once_ ? blocks_.columns.width : blocks_.width();
    }

    float* sums_of(std::int64_t row_panel) const {
        const std::int64_t row = blocks_.rows.first(row_panel);
        if (direct_) {
            return reinterpret_cast<float*>(product_.target.out.row_at(place_, row)) + left_;
        }
        return ends_at_once_ ? scratch_.sums : scratch_.sums + (row - blocks_.rows.first(first_row_panel_)) * blocks_.width();
    }

    // The depths from `from` on. What follows the sums comes with the last ones.
    void tile(const Rows& rows, const Columns& columns, std::int64_t panel, std::int64_t from, std::int64_t depth) const {
        const Tiles& tiles = product_.tiles();
        const std::int64_t width = blocks_.columns.in(panel), first = blocks_.columns.first(panel) - left_;
        TileCall call{rows.numbers, columns.first, columns.step, depth, rows.sums + (ends_at_once_ ? 0 : first), sums_step(), from > 0};
        if (from + depth == product_.sizes.k) {
            call.ending = ending_ || adds_numbers_ || requantization_ ? &rows.ending : nullptr;
            call.column = first;
        }
        call.rests = rows.rests;
        fetch_ahead(call, rows, panel, from, depth);
        const std::int64_t rest = width % tiles.lanes, whole = width - rest;
        const auto kernel = [&](std::int64_t vectors) { return tiles.tile(static_cast<int>(rows.height), static_cast<int>(vectors)); };
        if (rest > 0 && rest < rows.height && rest <= tiles.narrow.columns) {
            if (whole > 0) {
                kernel(whole / tiles.lanes)(call);
            }
            call.b += whole, call.sums += whole, call.column += whole;
            tiles.narrow.kernels[rest - 1](call, static_cast<int>(rows.height));
        } else if (rest > 0 && direct_) {
            const std::int64_t vectors = whole / tiles.lanes + 1;
            run_part(kernel(vectors), call, rows.height, width, vectors * tiles.lanes);
        } else {
            kernel(quotient_up(width, tiles.lanes))(call);
        }
    }

    // What tiles do with sums that become bytes, if they do it.
    std::optional<Requantization> requantization() const {
        std::optional<Requantization> result = product_.sums == DataType::int32 ? product_.target.requantization() : std::nullopt;
        const std::int64_t terms = product_.sizes.k * product_.kernels->integers.depths;
        for (std::int64_t row = blocks_.rows.first(first_row_panel_); result && row < std::min(blocks_.rows.first(last_row_panel_), blocks_.rows.lines); ++row) {
            if (!result->fits(place_, row, terms)) {
                result.reset();
            }
        }
        return result;
    }

    void finish(std::int64_t row_panel, float* sums) const {
        if (ending_ || requantization_) {
            return;
        }
        const Target& target = product_.target;
        const std::int64_t rows = blocks_.rows.in(row_panel), first = blocks_.rows.first(row_panel), step = sums_step();
        for (std::int64_t r = 0; r < rows && !adds_numbers_ && target.correction != nullptr; ++r) {
            target.correction->correct(sums + r * step, place_, first + r, left_, width_);
        }
        const bool across = target.is_across();
        const std::int64_t some = across ? target.rows_across() : 1;
        for (std::int64_t r = 0; r < rows; r += some) {
            if (across) {
                target.store_across(sums + r * step, step, place_, first + r, std::min(some, rows - r), left_, width_, scratch_.line);
            } else {
                target.store(sums + r * step, place_, first + r, left_, width_, scratch_.line);
            }
        }
    }

    const Product& product_;
    const Blocks& blocks_;
    BlockMemory scratch_;
    Sizes place_;
    std::int64_t first_row_panel_;
    std::int64_t last_row_panel_;
    std::int64_t first_column_panel_;
    std::int64_t last_column_panel_;
    std::int64_t left_;   // the first column
    std::int64_t width_;  // columns
    bool direct_;         // whether sums are added up where the result is
    bool reads_columns_;  // whether columns are read where they are
    bool streams_;        // … row by row
    bool streams_lines_;  // … each along its depth
    bool fetches_matrix_;  // whether tiles fetch columns of a matrix that are packed next
    std::optional<Ending> ending_;  // that tiles make themselves
    std::optional<Requantization> requantization_;  // … of integers
    bool ends_at_once_ = false;     // whether a tile's sums are only needed until it makes the results: all use the same memory
    bool adds_numbers_;             // whether they correct the sums
};

// Stores the results of sums without terms.
void run_empty(RunContext& context, const Product& product) {
    const ProductSizes& sizes = product.sizes;
    const std::int64_t width = std::min(sizes.n, most_zeros), across = quotient_up(sizes.n, width);
    const double cost = product_cost(sizes);
    context.parallel(sizes.count() * sizes.m * across, cost, [&](int worker, Chunks& chunks) {
        std::byte* const scratch = context.scratch(worker);
        for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
            for (std::int64_t i = first; i < last; ++i) {
                auto* const sums = reinterpret_cast<float*>(scratch);
                std::fill_n(sums, width, 0.0f);
                const std::int64_t row = i / across, left = i % across * width;
                product.target.correct_and_store(sums, place_in(sizes.batch, sizes.rank, row / sizes.m), row % sizes.m, left,
                                     std::min(width, sizes.n - left), scratch + zeros_bytes);
            }
        }
    });
}

}  // namespace

std::int64_t ProductSizes::count() const {
    std::int64_t result = 1;
    for (int d = 0; d < rank; ++d) {
        result *= batch[d];
    }
    return result;
}

Division rows_of(const ProductSizes& sizes, const Tiles& tiles) {
    return Division::even(sizes.m, tiles.rows);
}

Division columns_of(const ProductSizes& sizes, const Tiles& tiles) {
    const std::int64_t vectors = std::min<std::int64_t>(quotient_up(sizes.n, tiles.lanes), tiles.vectors);
    return {sizes.n, vectors * tiles.lanes};
}

std::int64_t depth_at_a_time(std::int64_t depths) {
    return depths == 0 ? depth_unit : quotient_up(quotient_up(depths, quotient_up(depths, most_depth)), depth_unit) * depth_unit;
}

std::size_t product_scratch(const ProductSizes& sizes, std::size_t operands, const Epilogue& epilogue,
                            const Tiles& tiles) {
    if (sizes.k == 0) {
        return zeros_bytes + Target::line_scratch(operands, epilogue, std::min(sizes.n, most_zeros));
    }
    std::size_t most = 0;
    for (const bool packed_rows : {false, true}) {
        for (const bool packed_columns : {false, true}) {
            const Blocks blocks = blocks_of(sizes, packed_rows, packed_columns, tiles, 1);
            most = std::max(most, BlockMemory(nullptr, blocks, operands, epilogue).bytes);
        }
    }
    return most;
}

double product_cost(const ProductSizes& sizes) {
    const double m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n), k = static_cast<double>(sizes.k);
    return static_cast<double>(sizes.count()) * (m * n * k / 4 + (m * k + k * n + m * n) * sizeof(float));
}

void run_product(RunContext& context, const Product& product) {
    if (product.sizes.k == 0) {
        return run_empty(context, product);
    }
    const double cost = product_cost(product.sizes);
    const Blocks blocks = blocks_of(product.sizes, product.a.panels != nullptr, product.b.panels != nullptr,
                                    product.tiles(), context.workers_for(cost));
    const std::int64_t count = product.sizes.count() * blocks.down() * blocks.across();
    context.parallel(count, cost, [&](int worker, Chunks& chunks) {
        for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
            for (std::int64_t i = first; i < last; ++i) {
                Block(product, blocks, i, context.scratch(worker)).compute();
            }
        }
    });
}

}  // namespace dmlgraph::cpu
