// Where results go: lines of sums become lines of an output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cpu/kernels/numbers.h"
#include "cpu/products/epilogue.h"
#include "cpu/runtime/scratch.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

// A tensor as a matrix for each place of a batch: a row consists of the elements of some dimensions. In bytes.
struct MatrixTensor {
    std::byte* data = nullptr;
    DataType type{};
    Sizes batch{};
    std::int64_t row = 0;
    int rank = 1;     // the dimensions of a row
    Sizes sizes{};    // their sizes
    Sizes strides{};  // … and strides

    // The dimensions of a row as few as their strides allow.
    void join_dimensions();
    std::byte* row_at(const Sizes& place, std::int64_t index) const;
    // Whether the elements of a row lie side by side.
    bool is_packed() const { return rank == 1 && strides[0] == static_cast<std::int64_t>(item_size(type)); }
    auto operator<=>(const MatrixTensor&) const = default;
};

// Changes sums of a row, from the element `left` on, before anything follows them.
class Correction {
public:
    virtual ~Correction() = default;
    virtual void correct(NumbersTo sums, const Sizes& place, std::int64_t row, std::int64_t left,
                         std::int64_t width) const = 0;
    // Whether it adds one number to all sums of a row, of integers, which tiles can do; and that number.
    virtual bool adds_numbers() const { return false; }
    virtual std::int32_t number(const Sizes&, std::int64_t) const { return 0; }
};

// What kernels of products and convolutions can make themselves while they have the sums: a number for each row is
// added, then an element for each sum, then a function is applied, in float32. Results of float16 are rounded before or
// after that element is added, and another function may follow.
struct Ending {
    const MatrixTensor* numbers = nullptr;  // one element for each row; null: nothing is added
    Kernel to_single = nullptr;             // of the numbers; null: they are float32
    const MatrixTensor* lines = nullptr;    // packed, of the results' type; null: nothing is added
    SumFunction function{};
    const MatrixTensor* halves = nullptr;  // the output, packed; null: results are float32, and are where the sums were
    bool adds_rounded = false;             // whether results are rounded before the lines are added
    SumFunction rounded_function{};
    const InstructionSpec* last = nullptr;  // applied to each result after kernels have stored it; may be null

    // Does the last instruction on results that lie side by side.
    void finish(float* results, std::int64_t count) const;

    // What follows the sums of some rows from a place on, `width` of each. Their numbers are stored in `of_rows`: −0,
    // which changes nothing if there are none.
    SumEnding at(const Sizes& place, std::int64_t row, std::int64_t left, std::int64_t width,
                 std::span<float> of_rows) const;
};

// The same for sums of int32 that become 8-bit integers: they are requantized with a factor for each row. Before that a
// number may be added.
struct Requantization {
    const MatrixTensor* out = nullptr;         // packed
    const MatrixTensor* factors = nullptr;     // an element for each row
    const MatrixTensor* zero_point = nullptr;  // one for all
    const MatrixTensor* summands = nullptr;    // an element for each row; null: nothing is added

    // Whether the sum of a row's element and of sums of so many products fits into 32 bits.
    bool fits(const Sizes& place, std::int64_t row, std::int64_t terms) const;
    // What follows the sums of some rows from a place on, `width` of each. Their factors are stored in `of_rows`, and
    // their elements are added to `numbers`.
    ByteEnding at(const Sizes& place, std::int64_t row, std::int64_t left, std::int64_t width,
                  std::span<std::int32_t> numbers, std::span<float> of_rows) const;
};

// The output, and what is done before results are stored there.
struct Target {
    MatrixTensor out;
    std::vector<MatrixTensor> operands;  // of the epilogue, with the output's sizes
    const Epilogue* epilogue = nullptr;
    const Correction* correction = nullptr;  // if sums are corrected

    // Whether sums may be added up where the result is.
    bool takes_sums(DataType sums) const { return out.type == sums && out.is_packed(); }
    // What follows the sums, if that is all, and if the results lie side by side.
    std::optional<Ending> ending() const;
    // The same for sums of int32 that are corrected by numbers, if at all.
    std::optional<Requantization> requantization() const;
    // Stores `width` results of a row from the element `left` on. The sums, of the type that the epilogue takes, may be
    // where the results are.
    void store(const void* sums, const Sizes& place, std::int64_t row, std::int64_t left, std::int64_t width,
               std::byte* scratch) const;
    // Whether the elements of a column lie side by side, and not those of a row: then rows are stored several at a
    // time.
    bool is_across() const;
    // How many, and that: from the row on; the sums of each are `step` numbers after those before.
    std::int64_t rows_across() const { return static_cast<std::int64_t>(widest_item / item_size(out.type)); }
    void store_across(NumbersAt sums, std::int64_t step, const Sizes& place, std::int64_t row, std::int64_t rows,
                      std::int64_t left, std::int64_t width, std::byte* scratch) const;
    // Corrects sums, which change, and stores the results.
    void correct_and_store(NumbersTo sums, const Sizes& place, std::int64_t row, std::int64_t left, std::int64_t width,
                           std::byte* scratch) const;
    // The same without an ending. With one, kernels have made the results, and only its last instruction is applied.
    void finish_or_store(const std::optional<Ending>& ending, float* sums, const Sizes& place, std::int64_t row,
                         std::int64_t left, std::int64_t width, std::byte* scratch) const;

    // Takes scratch memory to store up to `width` results at a time.
    static std::byte* take_line(Scratch& scratch, std::size_t operands, const Epilogue& epilogue, std::int64_t width) {
        return scratch.take<std::byte>(static_cast<std::int64_t>(line_scratch(operands, epilogue, width)));
    }
    static std::size_t line_scratch(std::size_t operands, const Epilogue& epilogue, std::int64_t width);

private:
    // The results of sums, or the sums if they are that; `to` has room for them.
    const std::byte* results_of(const void* sums, const Sizes& place, std::int64_t row, std::int64_t left,
                                std::int64_t width, std::byte* to, std::byte* scratch) const;
};

}  // namespace dmlgraph::cpu
