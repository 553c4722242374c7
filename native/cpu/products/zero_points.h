// The zero points of operands of 8-bit integers, and how they are taken from sums.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/kernels/product.h"
#include "cpu/products/lines.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

constexpr bool is_byte(DataType type) { return type == DataType::int8 || type == DataType::uint8; }

// The rows or the columns of a product.
enum class Lines : std::uint8_t { rows, columns };

// How integers are stored in words: less `shift`, which gives them the signedness of their side.
struct Form {
    std::uint8_t flip;  // the bits of a byte that are inverted for that
    std::int32_t shift;
};

Form form_of(DataType type, Lines side, const IntegerKernels& kernels);

// One for each line of the operand, or one for all. Products take them less the shift of the operand's form.
class ZeroPoints {
public:
    // `count` integers that are `step` bytes apart; null: zeros.
    ZeroPoints(const std::byte* data, DataType type, std::int64_t step, std::int64_t count);

    ZeroPoints less(std::int32_t shift) const;
    bool varies() const { return varies_; }
    bool all_zero() const;
    std::int32_t of(std::int64_t line) const { return values_[varies_ ? static_cast<std::size_t>(line) : 0]; }
    // Those of the lines from `line` on, if they vary.
    const std::int32_t* at(std::int64_t line) const { return values_.data() + line; }

private:
    bool varies_ = false;
    std::vector<std::int32_t> values_;
};

// Sums of the numbers of lines, for each place of a batch.
struct LineSums {
    std::vector<std::int32_t> numbers;
    Sizes batch{};  // elements from place to place

    bool present() const { return !numbers.empty(); }
    const std::int32_t* at(const Sizes& place, std::int64_t line) const;
};

// Σ (a − za) · (b − zb) = Σ a · b − za · Σ b − zb · (Σ a − terms · za), all modulo 2^32.
class ZeroPointTerms final : public Correction {
public:
    // An operand's zero points, and the sums of its lines, which the other's zero points need if they are not all zero.
    // Line i of group g, place[1] of the batch, has the zero point g · `group` + i.
    struct Side {
        const ZeroPoints& zeros;
        const LineSums* sums = nullptr;
        std::int64_t group = 0;
    };

    ZeroPointTerms(const Side& rows, const Side& columns, std::int64_t terms, const IntegerKernels& kernels)
        : rows_(rows), columns_(columns), terms_(static_cast<std::int32_t>(terms)), kernels_(kernels) {}

    void correct(NumbersTo sums, const Sizes& place, std::int64_t row, std::int64_t left,
                 std::int64_t width) const override;
    bool adds_numbers() const override { return !columns_.zeros.varies() && rows_.zeros.all_zero(); }
    std::int32_t number(const Sizes& place, std::int64_t row) const override;

private:
    Side rows_;
    Side columns_;
    std::int32_t terms_;
    const IntegerKernels& kernels_;
};

}  // namespace dmlgraph::cpu
