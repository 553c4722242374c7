#include "cpu/products/product.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "cpu/products/blocks.h"
#include "cpu/quotient.h"
#include "cpu/runtime/scratch.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t most_together = 4096;    // numbers of columns that stay in the first cache while rows meet them
constexpr std::int64_t line_depth = 4096;       // if columns are read one after the other; sums depend on it, too
constexpr std::int64_t made_depth = 1024;       // if columns are made one after the other; sums depend on it, too
constexpr std::int64_t most_made = 4096;        // numbers that are made at a time, which stay in the first cache
constexpr std::int64_t direct_rows = 32;        // for so few, packing columns takes longer than it saves, …
constexpr std::int64_t near_direct_rows = 128;  // … for these, too, if the numbers of a depth are in few pages

constexpr std::int64_t most_zeros = 512;  // that are made results at a time

// The memory of a worker.
struct BlockMemory {
    NumbersTo columns;  // panels of columns of one depth, which rows meet together
    NumbersTo rows;     // panels of rows of one depth
    NumbersTo sums;     // a block, if it cannot be computed where the result is
    std::byte* line;    // to store a line of results

    BlockMemory(Scratch& scratch, const Blocks& blocks, std::size_t operands, const Epilogue& epilogue) {
        columns = scratch.take(std::max({blocks.columns.width * blocks.depth, most_together, most_made}));
        rows = scratch.take(std::max(blocks.height() * blocks.depth,
                                     std::min(blocks.rows.lines, std::int64_t{most_streamed_rows}) * line_depth));
        sums = scratch.take(blocks.height() * blocks.width());
        line = Target::take_line(scratch, operands, epilogue, blocks.width());
    }
};

// The memory of a worker for sums without terms.
struct ZeroMemory {
    float* sums;
    std::byte* line;

    ZeroMemory(Scratch& scratch, std::int64_t width, std::size_t operands, const Epilogue& epilogue)
        : sums(scratch.take(width)), line(Target::take_line(scratch, operands, epilogue, width)) {}
};

// Computes blocks of a product, one after the other, for one worker.
class Worker {
public:
    Worker(const Product& product, const Blocks& blocks, bool reads_rows, Scratch scratch)
        : product_(product),
          blocks_(blocks),
          tiles_(product.tiles()),
          scratch_(scratch, blocks, product.target.operands.size(), *product.target.epilogue) {
        direct_ = product.target.takes_sums(product.sums);
        reads_rows_ = reads_rows;
        const MatrixPanels* const matrix = product.b.matrix;
        const bool is_near = matrix != nullptr && matrix->depth * std::min(blocks.depth, product.sizes.k) <= few_pages;
        fetches_matrix_ = matrix != nullptr && matrix->is_copied() && matrix->line == NumbersAt::size;
        reads_columns_ = fetches_matrix_ && blocks.rows.lines <= (is_near ? near_direct_rows : direct_rows);
        way_ = way_of_columns();
        if (way_ == Way::panels && !product.target.epilogue->empty()) {
            ending_ = product.target.ending();
            requantization_ = product.sums == DataType::int32 ? product.target.requantization() : std::nullopt;
        }
        adds_numbers_ = product.sums == DataType::int32 && product.target.correction != nullptr &&
                        product.target.correction->adds_numbers();
        if (blocks.row_panels > 1) {
            rows_.resize(static_cast<std::size_t>(blocks.row_panels));
            const std::int64_t numbers = blocks.columns.width * std::min(blocks.depth, product.sizes.k);
            columns_.resize(
                static_cast<std::size_t>(std::clamp<std::int64_t>(most_together / numbers, 1, blocks.column_panels)));
        }
    }

    void compute(std::int64_t block) {
        begin(block);
        if (way_ == Way::lines || way_ == Way::made_lines) {
            stream_lines();
            return finish(first_row_panel_, sums_of(first_row_panel_));
        }
        const std::int64_t first = way_ == Way::panels ? first_column_panel_ : stream();
        if (last_row_panel_ - first_row_panel_ == 1) {
            compute_row_panel(first);
        } else {
            compute_panels(first);
        }
    }

private:
    // How columns meet the rows: as panels in tiles; or, if rows are few, one after the other, from where they lie or
    // once they are made. Lines have numbers that lie one after the other; other columns lie side by side, and what is
    // less than a vector of them is a panel, too.
    enum class Way : std::uint8_t { panels, lines, made_lines, columns, made_columns };

    Way way_of_columns() const {
        const Side& b = product_.b;
        if (product_.sums != DataType::float32 || b.panels != nullptr || product_.sizes.m > most_streamed_rows) {
            return Way::panels;
        }
        const bool packs_rows = product_.a.panels == nullptr;
        if (packs_rows && adds_along(product_.sizes.m, product_.sizes.k) && b.matrix != nullptr &&
            b.matrix->lies_along()) {
            return Way::lines;
        }
        return packs_rows && b.lines != nullptr ? Way::made_lines
               : reads_columns_                 ? Way::columns
               : b.is_wide                      ? Way::made_columns
                                                : Way::panels;
    }

    void begin(std::int64_t block) {
        const std::int64_t across = blocks_.across(), each = blocks_.down() * across, down = block % each / across;
        place_ = place_in(product_.sizes.batch, product_.sizes.rank, block / each);
        const auto matrix_of = [&](const Side& side) {
            return side.matrix != nullptr ? side.matrix->matrix(place_) : nullptr;
        };
        row_matrix_ = matrix_of(product_.a), column_matrix_ = matrix_of(product_.b);
        out_ = product_.target.out.row_at(place_, 0);
        first_row_panel_ = blocks_.first_row_panel(down);
        last_row_panel_ = blocks_.first_row_panel(down + 1);
        first_column_panel_ = blocks_.first_column_panel(block % across);
        last_column_panel_ = blocks_.first_column_panel(block % across + 1);
        left_ = blocks_.columns.first(first_column_panel_);
        width_ = std::min(blocks_.columns.first(last_column_panel_), blocks_.columns.lines) - left_;
        const bool one_depth = product_.sizes.k <= blocks_.depth || last_row_panel_ - first_row_panel_ == 1;
        requantizes_ = requantization_ && fits(*requantization_);
        ends_at_once_ = (ending_ || requantizes_) && !direct_ && one_depth;
    }

    // Every depth of a panel of columns before the next panel: it is read once, and meets the rows while it is near.
    void compute_row_panel(std::int64_t first) const {
        Rows rows;
        begin(rows, first_row_panel_);
        for (std::int64_t c = first, panels = 1; c < last_column_panel_; c += panels) {
            panels = panels_at_once(c, rows.height);
            each_depth([&](std::int64_t from, std::int64_t depth) {
                const Columns columns = columns_of_panel(c, from, depth, scratch_.columns);
                meet(rows, from, depth, scratch_.rows);
                if (panels > 1) {
                    wide_tile(rows, columns, from, depth);
                } else {
                    tile(rows, columns, from, depth);
                }
            });
        }
        finish(first_row_panel_, rows.sums);
    }

    // Panels of columns, as many as stay in the first cache, meet one panel of rows after the other: so neighbouring
    // results are stored soon after each other. The rows stay in the second cache.
    void compute_panels(std::int64_t first) {
        const auto all = std::span(rows_).first(static_cast<std::size_t>(last_row_panel_ - first_row_panel_));
        for (std::int64_t p = first_row_panel_; Rows& rows : all) {
            begin(rows, p++);
        }
        each_depth([&](std::int64_t from, std::int64_t depth) {
            NumbersTo packed = scratch_.rows;
            for (Rows& rows : all) {
                meet(rows, from, depth, packed);
                packed += rows.height * depth;
            }
            for (std::int64_t c = first; c < last_column_panel_;) {
                const std::size_t left = static_cast<std::size_t>(last_column_panel_ - c);
                const auto together = std::span(columns_).first(std::min(columns_.size(), left));
                NumbersTo of_panel = scratch_.columns;
                for (Columns& columns : together) {
                    columns = columns_of_panel(c++, from, depth, of_panel);
                    of_panel += blocks_.columns.width * depth;
                }
                for (const Rows& rows : all) {
                    for (const Columns& columns : together) {
                        tile(rows, columns, from, depth);
                    }
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
        const std::int64_t k = product_.depths();
        for (std::int64_t from = 0; from < k; from += blocks_.depth) {
            function(from, std::min(blocks_.depth, k - from));
        }
    }

    // Multiplies the panels whose columns are whole vectors, and returns the first of the others.
    std::int64_t stream() const {
        const std::int64_t k = product_.depths(), columns = width_ / blocks_.columns.width * blocks_.columns.width;
        const bool makes = way_ == Way::made_columns;
        const std::int64_t most = makes ? most_made / most_streamed_columns : blocks_.depth;
        for (std::int64_t from = 0; columns > 0 && from < k; from += most) {
            const std::int64_t depth = std::min(most, k - from);
            NumbersAt b = scratch_.columns;
            std::int64_t step = columns;
            if (makes) {
                product_.b.source->pack({place_, left_, columns, from, depth, columns}, scratch_.columns,
                                        *product_.kernels);
            } else {
                const MatrixPanels& matrix = *product_.b.matrix;
                b = NumbersAt::of_bytes(column_matrix_ + left_ * matrix.line + from * matrix.depth);
                step = matrix.depth / NumbersAt::size;
            }
            product_.kernels->stream({packed_rows(0, from, depth, scratch_.rows).as<float>(),
                                      static_cast<int>(blocks_.rows.lines), b.as<float>(), step, depth,
                                      sums_of(0).as<float>(), sums_step(), columns, from > 0});
        }
        return first_column_panel_ + columns / blocks_.columns.width;
    }

    void stream_lines() const {
        const bool makes = way_ == Way::made_lines;
        const std::int64_t k = product_.sizes.k, height = blocks_.rows.lines,
                           depth_each = makes ? made_depth : line_depth;
        for (std::int64_t from = 0; from < k; from += depth_each) {
            const std::int64_t depth = std::min(depth_each, k - from), most = makes ? most_made / depth : width_;
            for (std::int64_t r = 0; r < height; ++r) {
                product_.a.source->pack({place_, r, 1, from, depth, 1}, scratch_.rows + r * depth, *product_.kernels);
            }
            for (std::int64_t first = 0; first < width_; first += most) {
                const std::int64_t lines = std::min(most, width_ - first);
                LinesKernel kernel = product_.kernels->stream_lines;
                const std::byte* b = scratch_.columns.bytes();
                std::int64_t step = depth * NumbersAt::size;
                if (makes) {
                    product_.b.lines->lines({place_, left_ + first, lines, from, depth, lines},
                                            scratch_.columns.as<float>());
                } else {
                    const MatrixPanels& matrix = *product_.b.matrix;
                    kernel = matrix.type == DataType::float16 ? product_.kernels->stream_half_lines : kernel;
                    b = column_matrix_ + left_ * matrix.line + from * matrix.depth;
                    step = matrix.line;
                }
                kernel({scratch_.rows.as<float>(), depth, static_cast<int>(height), b, step, depth,
                        sums_of(0).as<float>() + first, sums_step(), lines, from > 0});
            }
        }
    }

    struct RowNumbers {
        NumbersAt first;
        std::int64_t row = 1;    // from row to row, …
        std::int64_t depth = 1;  // … and from depth to depth
    };

    // A panel of rows, where its sums are, and what tiles do with them in the end.
    struct Rows {
        std::int64_t panel;
        std::int64_t height;
        NumbersTo sums;
        RowNumbers numbers;  // of some depths, …
        RestDepths rests;    // … and besides them
        SumEnding ending;
        // The ending has their addresses.
        std::array<float, most_rows_of_tile> summands, factors;
        std::array<std::int32_t, most_rows_of_tile> integers;  // summands of such sums
    };

    void begin(Rows& rows, std::int64_t panel) const {
        rows.panel = panel;
        rows.height = blocks_.rows.in(panel);
        rows.sums = sums_of(panel);
        rows.ending = {};
        const std::int64_t first = blocks_.rows.first(panel);
        if (ending_) {
            const auto of_rows = std::span(rows.summands).first(static_cast<std::size_t>(rows.height));
            rows.ending = ending_->at(place_, first, left_, width_, of_rows);
        }
        if (adds_numbers_) {
            for (std::int64_t r = 0; r < rows.height; ++r) {
                rows.integers[static_cast<std::size_t>(r)] = product_.target.correction->number(place_, first + r);
            }
            rows.ending.numbers = rows.integers.data();
        }
        if (requantizes_) {
            const auto of_rows = static_cast<std::size_t>(rows.height);
            if (!adds_numbers_) {
                rows.integers.fill(0);
                rows.ending.numbers = rows.integers.data();
            }
            rows.ending.bytes =
                requantization_->at(place_, first, left_, width_, std::span(rows.integers).first(of_rows),
                                    std::span(rows.factors).first(of_rows));
        }
    }

    // A panel of columns.
    struct Columns {
        NumbersAt first;  // of some depths
        std::int64_t step;
        std::int64_t panel;
        std::int64_t width;
        int whole;  // vectors
        int rest;   // columns
    };

    Columns columns_of_panel(std::int64_t panel, std::int64_t from, std::int64_t depth, NumbersTo packed) const {
        const std::int64_t width = blocks_.columns.width, lines = blocks_.columns.in(panel);
        const std::int64_t first = blocks_.columns.first(panel);
        const auto whole = static_cast<int>(lines) / tiles_.lanes, rest = static_cast<int>(lines) % tiles_.lanes;
        if (product_.b.panels != nullptr) {
            return {product_.b.panels->at(place_, panel, from), product_.b.panels->step(), panel, lines, whole, rest};
        }
        if (reads_columns_ && rest == 0) {
            const MatrixPanels& matrix = *product_.b.matrix;
            const std::byte* const data = column_matrix_ + first * matrix.line + from * matrix.depth;
            return {NumbersAt::of_bytes(data), matrix.depth / NumbersAt::size, panel, lines, whole, rest};
        }
        product_.b.source->pack({place_, first, lines, from, depth, width}, packed, *product_.kernels);
        return {packed, width, panel, lines, whole, rest};
    }

    RowNumbers rows_of_panel(std::int64_t panel, std::int64_t from, std::int64_t depth, NumbersTo packed) const {
        if (reads_rows_) {
            constexpr std::int64_t item = NumbersAt::size;
            const MatrixPanels& matrix = *product_.a.matrix;
            const std::byte* const first = row_matrix_ + blocks_.rows.first(panel) * matrix.line + from * matrix.depth;
            return {NumbersAt::of_bytes(first), matrix.line / item, matrix.depth / item};
        }
        return {packed_rows(panel, from, depth, packed), 1, blocks_.rows.in(panel)};
    }

    // The numbers of these depths.
    void meet(Rows& rows, std::int64_t from, std::int64_t depth, NumbersTo packed) const {
        rows.numbers = rows_of_panel(rows.panel, from, depth, packed);
        if (product_.a.rests != nullptr) {
            rows.rests = product_.a.rests->of(place_, rows.panel, from);
        }
    }

    // In `packed` if they are packed now.
    NumbersAt packed_rows(std::int64_t panel, std::int64_t from, std::int64_t depth, NumbersTo packed) const {
        if (product_.a.panels != nullptr) {
            return product_.a.panels->at(place_, panel, from);
        }
        const std::int64_t lines = blocks_.rows.in(panel);
        const MatrixPanels* const matrix = product_.a.matrix;
        if (lines == 1 && matrix != nullptr && matrix->is_copied() && matrix->lies_along()) {
            return NumbersAt::of_bytes(row_matrix_ + blocks_.rows.first(panel) * matrix->line) + from;
        }
        product_.a.source->pack({place_, blocks_.rows.first(panel), lines, from, depth, lines}, packed,
                                *product_.kernels);
        return packed;
    }

    // What a tile fetches while it computes. The first panel of columns brings the rows into the caches: it fetches
    // those that it meets next. Each fetches a part of the columns after it: of those that are not packed yet, the
    // first tile has the first number of each depth, and the second one the last, which may be in another line of the
    // cache.
    void fetch_ahead(TileCall& call, const Rows& rows, std::int64_t panel, std::int64_t from,
                     std::int64_t depth) const {
        const std::int64_t panels = last_row_panel_ - first_row_panel_, index = rows.panel - first_row_panel_;
        if (reads_rows_ && panel == first_column_panel_ && panels > 1 && depth == product_.sizes.k) {
            const std::int64_t panel_step = rows.height * rows.numbers.row;
            call.next = rows.numbers.first + panel_step, call.next_step = panel_step / depth;
            return;
        }
        if (product_.a.panels != nullptr && panel == first_column_panel_ && panels > 1) {
            const NumbersAt next =
                product_.a.panels->after(place_, rows.panel, first_row_panel_, last_row_panel_, from, depth);
            return Ahead(next, rows.height, depth, 1).set(call, 0);
        }
        if (product_.b.panels != nullptr) {
            const NumbersAt next = panels == 1 ? call.b + depth * call.b_step  // the next depths of a panel come first
                                               : product_.b.panels->after(place_, panel, first_column_panel_,
                                                                          last_column_panel_, from, depth);
            return Ahead(next, call.b_step, depth, panels).set(call, index);
        }
        const MatrixPanels* const matrix = product_.b.matrix;
        if (panels > 1 && index < 2 && fetches_matrix_ && panel + 1 < last_column_panel_) {
            const std::int64_t next = blocks_.columns.first(panel + 1), lines = blocks_.columns.in(panel + 1);
            const std::byte* const data =
                column_matrix_ + (index == 0 ? next : next + lines - 1) * matrix->line + from * matrix->depth;
            call.next = NumbersAt::of_bytes(data), call.next_step = matrix->depth / NumbersAt::size;
        }
    }

    std::int64_t sums_step() const {
        return direct_         ? product_.target.out.row / NumbersAt::size
               : ends_at_once_ ? blocks_.columns.width
                               : blocks_.width();
    }

    NumbersTo sums_of(std::int64_t row_panel) const {
        const std::int64_t row = blocks_.rows.first(row_panel);
        if (direct_) {
            return NumbersTo::of_bytes(out_ + row * product_.target.out.row) + left_;
        }
        return ends_at_once_ ? scratch_.sums
                             : scratch_.sums + (row - blocks_.rows.first(first_row_panel_)) * blocks_.width();
    }

    // The columns from a panel on that one tile of a whole block's rows meets, if they have been packed; else 1.
    std::int64_t panels_at_once(std::int64_t panel, std::int64_t height) const {
        const WideTiles& wide = tiles_.wide;
        if (height > wide.rows || product_.b.panels == nullptr || ends_at_once_) {
            return 1;
        }
        const std::int64_t panels = wide.panels[height - 1], last = panel + panels - 1;
        const bool all = last < last_column_panel_ && blocks_.columns.in(last) == tiles_.vectors * tiles_.lanes;
        return all ? panels : 1;
    }

    void wide_tile(const Rows& rows, const Columns& columns, std::int64_t from, std::int64_t depth) const {
        TileCall call = call_of(rows, columns, from, depth);
        call.b_panel = product_.b.panels->at(place_, columns.panel + 1, from) - columns.first;
        tiles_.wide.kernels[rows.height - 1](call);
    }

    // The depths from `from` on. What follows the sums comes with the last ones.
    TileCall call_of(const Rows& rows, const Columns& columns, std::int64_t from, std::int64_t depth) const {
        const RowNumbers& numbers = rows.numbers;
        const std::int64_t first = blocks_.columns.first(columns.panel) - left_;
        const NumbersTo sums = rows.sums + (ends_at_once_ ? 0 : first);
        TileCall call{numbers.first, numbers.row, numbers.depth, columns.first, columns.step, 0,
                      depth,         sums,        sums_step(),   from > 0};
        if (from + depth == product_.depths()) {
            call.ending = ending_ || adds_numbers_ || requantizes_ ? &rows.ending : nullptr;
            call.column = first;
        }
        call.rests = rows.rests;
        return call;
    }

    void tile(const Rows& rows, const Columns& columns, std::int64_t from, std::int64_t depth) const {
        TileCall call = call_of(rows, columns, from, depth);
        fetch_ahead(call, rows, columns.panel, from, depth);
        const auto height = static_cast<int>(rows.height);
        const bool lie_apart = rows.numbers.row != 1 && height > 1;
        const auto kernel = [&](int vectors) {
            return lie_apart ? tiles_.tile_apart(height, vectors) : tiles_.tile(height, vectors);
        };
        if (columns.rest > 0 && columns.rest < height && columns.rest <= tiles_.narrow.columns && !lie_apart) {
            if (columns.whole > 0) {
                kernel(columns.whole)(call);
            }
            const std::int64_t whole = columns.width - columns.rest;
            call.b += whole, call.sums += whole, call.column += whole;
            tiles_.narrow.kernels[columns.rest - 1](call, height);
        } else {
            call.columns = direct_ ? columns.width : every_column;
            kernel(columns.whole + (columns.rest > 0 ? 1 : 0))(call);
        }
    }

    // Whether no sum of a block's rows goes beyond 32 bits.
    bool fits(const Requantization& requantization) const {
        const std::int64_t terms = product_.sizes.k * product_.kernels->integers.depths;
        const std::int64_t last = std::min(blocks_.rows.first(last_row_panel_), blocks_.rows.lines);
        for (std::int64_t row = blocks_.rows.first(first_row_panel_); row < last; ++row) {
            if (!requantization.fits(place_, row, terms)) {
                return false;
            }
        }
        return true;
    }

    void finish(std::int64_t row_panel, NumbersTo sums) const {
        const std::int64_t rows = blocks_.rows.in(row_panel), first = blocks_.rows.first(row_panel), step = sums_step();
        for (std::int64_t r = 0; r < rows && ending_; ++r) {
            ending_->finish(sums.as<float>() + r * step, width_);
        }
        const Target& target = product_.target;
        if (ending_ || requantizes_ || (direct_ && target.epilogue->empty() && target.correction == nullptr)) {
            return;
        }
        for (std::int64_t r = 0; r < rows && !adds_numbers_ && target.correction != nullptr; ++r) {
            target.correction->correct(sums + r * step, place_, first + r, left_, width_);
        }
        const bool across = target.is_across();
        const std::int64_t some = across ? target.rows_across() : 1;
        for (std::int64_t r = 0; r < rows; r += some) {
            if (across) {
                target.store_across(sums + r * step, step, place_, first + r, std::min(some, rows - r), left_, width_,
                                    scratch_.line);
            } else {
                target.store(sums + r * step, place_, first + r, left_, width_, scratch_.line);
            }
        }
    }

    const Product& product_;
    const Blocks& blocks_;
    const Tiles& tiles_;
    BlockMemory scratch_;
    std::vector<Rows> rows_;        // of a block with several panels of them, …
    std::vector<Columns> columns_;  // … which meet together
    Sizes place_{};
    const std::byte* row_matrix_ = nullptr;     // of this place, if there is one, …
    const std::byte* column_matrix_ = nullptr;  // …
    std::byte* out_ = nullptr;                  // … and its first result
    std::int64_t first_row_panel_ = 0;
    std::int64_t last_row_panel_ = 0;
    std::int64_t first_column_panel_ = 0;
    std::int64_t last_column_panel_ = 0;
    std::int64_t left_ = 0;   // the first column
    std::int64_t width_ = 0;  // columns
    Way way_;
    bool direct_;                                   // whether sums are added up where the result is
    bool reads_rows_;                               // whether rows are read where they are
    bool reads_columns_;                            // whether columns are read where they are
    bool fetches_matrix_;                           // whether tiles fetch columns of a matrix that are packed next
    std::optional<Ending> ending_;                  // that tiles make themselves
    std::optional<Requantization> requantization_;  // … of integers, …
    bool requantizes_ = false;                      // … if they fit in this block
    bool ends_at_once_ =
        false;           // whether a tile's sums are only needed until it makes the results: all use the same memory
    bool adds_numbers_;  // whether they correct the sums
};

// Stores the results of sums without terms, from a column on.
void run_empty(RunContext& context, const Product& product, std::int64_t first) {
    ProductSizes sizes = product.sizes;
    sizes.n -= first, sizes.k = 0;
    const std::int64_t width = std::min(sizes.n, most_zeros), across = quotient_up(sizes.n, width);
    const double cost = product_cost(sizes);
    const auto of_worker = [&](Scratch scratch) {
        return ZeroMemory(scratch, width, product.target.operands.size(), *product.target.epilogue);
    };
    context.each_with(sizes.count() * sizes.m * across, cost, of_worker, [&](const ZeroMemory& memory, std::int64_t i) {
        std::fill_n(memory.sums, width, 0.0f);
        const std::int64_t row = i / across, left = i % across * width;
        product.target.correct_and_store(memory.sums, place_in(sizes.batch, sizes.rank, row / sizes.m), row % sizes.m,
                                         first + left, std::min(width, sizes.n - left), memory.line);
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

std::size_t product_scratch(const ProductSizes& sizes, std::size_t operands, const Epilogue& epilogue,
                            const Tiles& tiles) {
    std::size_t most = scratch_of<ZeroMemory>(std::min(sizes.n, most_zeros), operands, epilogue);
    if (sizes.k == 0) {
        return most;
    }
    for (const std::int64_t rows : {tiles.rows, std::min(tiles.rows, static_cast<int>(fewest_rows))}) {
        for (const bool packed_rows : {false, true}) {
            for (const bool packed_columns : {false, true}) {
                const Blocks blocks =
                    blocks_of(sizes, Division::even(sizes.m, rows), packed_rows, packed_columns, tiles, 1);
                most = std::max(most, scratch_of<BlockMemory>(blocks, operands, epilogue));
            }
        }
    }
    return most;
}

double product_cost(const ProductSizes& sizes) {
    const double m = static_cast<double>(sizes.m), n = static_cast<double>(sizes.n), k = static_cast<double>(sizes.k);
    return static_cast<double>(sizes.count()) * (m * n * k / 4 + (m * k + k * n + m * n) * sizeof(float));
}

void run_product(RunContext& context, const Product& product) {
    if (product.depths() == 0) {
        return run_empty(context, product, 0);
    }
    if (product.columns_that_count && *product.columns_that_count < product.sizes.n) {
        run_empty(context, product, *product.columns_that_count);
        Product others = product;
        others.sizes.n = *product.columns_that_count;
        others.columns_that_count.reset();
        return others.sizes.n > 0 ? run_product(context, others) : void();
    }
    const double cost = product_cost(product.sizes);
    const std::optional<Division> in_place = rows_in_place(product);
    const Division rows = in_place ? *in_place : rows_of(product.sizes, product.tiles());
    const Blocks blocks = blocks_of(product.sizes, rows, product.a.panels != nullptr, product.b.panels != nullptr,
                                    product.tiles(), context.workers_for(cost));
    const std::int64_t count = product.sizes.count() * blocks.down() * blocks.across();
    context.each_with(
        count, cost, [&](Scratch scratch) { return Worker(product, blocks, in_place.has_value(), scratch); },
        [](Worker& worker, std::int64_t i) { worker.compute(i); });
}

}  // namespace dmlgraph::cpu
