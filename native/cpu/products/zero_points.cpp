#include "cpu/products/zero_points.h"

#include <algorithm>

namespace dmlgraph::cpu {
namespace {

// Modulo 2^32.
std::int32_t product(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
}
std::int32_t difference(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
}

}  // namespace

Form form_of(DataType type, Lines side, const IntegerKernels& kernels) {
    constexpr std::int32_t half = 128;
    const bool is_signed = !(side == Lines::rows ? kernels.unsigned_rows : kernels.unsigned_columns);
    if (is_signed == (type == DataType::int8)) {
        return {0, 0};
    }
    return {half, is_signed ? half : -half};
}

ZeroPoints::ZeroPoints(const std::byte* data, DataType type, std::int64_t step, std::int64_t count)
    : varies_(data != nullptr && step != 0 && count > 1), values_(static_cast<std::size_t>(varies_ ? count : 1)) {
    for (std::size_t i = 0; data != nullptr && i < values_.size(); ++i) {
        const std::byte* const from = data + static_cast<std::int64_t>(i) * step;
        values_[i] = type == DataType::int8 ? std::int32_t{*reinterpret_cast<const std::int8_t*>(from)}
                                            : std::int32_t{*reinterpret_cast<const std::uint8_t*>(from)};
    }
}

ZeroPoints ZeroPoints::less(std::int32_t shift) const {
    ZeroPoints result = *this;
    std::ranges::for_each(result.values_, [&](std::int32_t& each) { each -= shift; });
    return result;
}

bool ZeroPoints::all_zero() const {
    return std::ranges::all_of(values_, [](std::int32_t each) { return each == 0; });
}

const std::int32_t* LineSums::at(const Sizes& place, std::int64_t line) const {
    const std::int32_t* result = numbers.data() + line;
    for (int d = 0; d < max_rank; ++d) {
        result += place[d] * batch[d];
    }
    return result;
}

void ZeroPointTerms::correct(NumbersTo sums, const Sizes& place, std::int64_t row, std::int64_t left,
                             std::int64_t width) const {
    const std::int32_t zero = rows_.zeros.of(place[1] * rows_.group + row);
    const std::int32_t sum = rows_.sums == nullptr ? 0 : difference(*rows_.sums->at(place, row), product(terms_, zero));
    const bool varies = columns_.zeros.varies();
    const std::int32_t constant = varies ? 0 : product(-columns_.zeros.of(0), sum);
    const std::int32_t* const column_sums = zero == 0 ? nullptr : columns_.sums->at(place, left);
    const std::int32_t* const column_zeros = varies ? columns_.zeros.at(left) : nullptr;
    if (constant != 0 || column_sums != nullptr || column_zeros != nullptr) {
        kernels_.take_zero_points({sums.as<std::int32_t>(), width, constant, zero, column_sums, sum, column_zeros});
    }
}

std::int32_t ZeroPointTerms::number(const Sizes& place, std::int64_t row) const {
    const std::int32_t zero = columns_.zeros.of(0);
    return zero == 0 ? 0 : product(-zero, *rows_.sums->at(place, row));
}

}  // namespace dmlgraph::cpu
