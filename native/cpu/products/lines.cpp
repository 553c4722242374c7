#include "cpu/products/lines.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>

#include "cpu/runtime/cache_line.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

std::size_t item_bytes(std::int64_t width) { return align_to_line(static_cast<std::size_t>(width) * widest_item); }

// Elements of a row from `left` on; gathered into `packed` if they do not have one stride.
Line line_of(const MatrixTensor& tensor, const std::byte* row, std::int64_t left, std::int64_t width,
             std::byte* packed) {
    if (tensor.rank == 1) {
        return {row + left * tensor.strides[0], tensor.strides[0], tensor.type};
    }
    const auto item = static_cast<std::int64_t>(item_size(tensor.type));
    gather(packed, row, tensor.rank, tensor.sizes, tensor.strides, left, width, static_cast<int>(item));
    return {packed, item, tensor.type};
}

}  // namespace

void MatrixTensor::join_dimensions() {
    int joined = 0;
    for (int d = 0; d < rank; ++d) {
        if (sizes[d] == 1) {
            continue;
        }
        if (joined > 0 && strides[joined - 1] == strides[d] * sizes[d]) {
            sizes[joined - 1] *= sizes[d];
            strides[joined - 1] = strides[d];
        } else {
            sizes[joined] = sizes[d];
            strides[joined++] = strides[d];
        }
    }
    if (joined == 0) {
        sizes[0] = 1;
        strides[0] = static_cast<std::int64_t>(item_size(type));
        joined = 1;
    }
    rank = joined;
}

std::byte* MatrixTensor::row_at(const Sizes& place, std::int64_t index) const {
    std::byte* result = data + index * row;
    for (int d = 0; d < max_rank; ++d) {
        result += place[d] * batch[d];
    }
    return result;
}

SumEnding Ending::at(const Sizes& place, std::int64_t row, std::int64_t left, std::int64_t width,
                     std::span<float> of_rows) const {
    if (numbers == nullptr) {
        std::ranges::fill(of_rows, -0.0f);
    } else {
        // Rows are tensors' channels: their numbers lie side by side as a rule.
        const std::size_t together =
            numbers->row == static_cast<std::int64_t>(item_size(numbers->type)) ? of_rows.size() : 1;
        for (std::size_t i = 0; i < of_rows.size(); i += together) {
            const Operand operand{numbers->row_at(place, row + static_cast<std::int64_t>(i)), false};
            if (to_single != nullptr) {
                to_single({&of_rows[i], &operand, together, nullptr, 0});
            } else {
                std::memcpy(&of_rows[i], operand.data, together * sizeof(float));
            }
        }
    }
    SumEnding ending{of_rows.data(), nullptr, 0, function, {}};
    if (halves != nullptr) {
        constexpr std::int64_t item = sizeof(std::uint16_t);
        const auto row_of = [&](const MatrixTensor& tensor) {
            return reinterpret_cast<std::uint16_t*>(tensor.row_at(place, row)) + left;
        };
        ending.half = {row_of(*halves), halves->row / item, width, nullptr, 0, lines != nullptr && !adds_rounded,
                       rounded_function};
        if (lines != nullptr) {
            ending.half.lines = row_of(*lines);
            ending.half.lines_step = lines->row / item;
        }
    } else if (lines != nullptr) {
        ending.lines = reinterpret_cast<const float*>(lines->row_at(place, row)) + left;
        ending.step = lines->row / std::int64_t{sizeof(float)};
    }
    return ending;
}

void Ending::finish(float* results, std::int64_t count) const {
    if (last != nullptr) {
        const Operand operand{results, false};
        last->kernel({results, &operand, static_cast<std::size_t>(count), last->immediates.data(), 0});
    }
}

bool Requantization::fits(const Sizes& place, std::int64_t row, std::int64_t terms) const {
    constexpr std::int64_t greatest = std::numeric_limits<std::int32_t>::max(), most_of_product = 255 * 255;
    const std::int64_t summand =
        summands == nullptr ? 0 : *reinterpret_cast<const std::int32_t*>(summands->row_at(place, row));
    return std::abs(summand) + terms * most_of_product <= greatest;
}

ByteEnding Requantization::at(const Sizes& place, std::int64_t row, std::int64_t left, std::int64_t width,
                              std::span<std::int32_t> numbers, std::span<float> of_rows) const {
    for (std::size_t i = 0; i < of_rows.size(); ++i) {
        const auto index = row + static_cast<std::int64_t>(i);
        of_rows[i] = *reinterpret_cast<const float*>(factors->row_at(place, index));
        if (summands != nullptr) {
            const auto summand = *reinterpret_cast<const std::uint32_t*>(summands->row_at(place, index));
            numbers[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(numbers[i]) + summand);
        }
    }
    const auto zero = static_cast<std::uint8_t>(*zero_point->row_at(place, row));
    return {out->row_at(place, row) + left, out->row, width, out->type == DataType::int8, zero, of_rows.data()};
}

std::optional<Requantization> Target::requantization() const {
    const std::optional<Epilogue::Requantized>& found = epilogue->requantized();
    if (!found || !out.is_packed() || (correction != nullptr && !correction->adds_numbers())) {
        return {};
    }
    Requantization result{&out, &operands.at(found->factor), &operands.at(found->zero_point),
                          found->summand ? &operands.at(*found->summand) : nullptr};
    const auto is_of_rows = [](const MatrixTensor* each) {
        return each == nullptr || (each->rank == 1 && each->strides[0] == 0);
    };
    const MatrixTensor& zero = *result.zero_point;
    const bool one_zero = is_of_rows(&zero) && zero.row == 0 && zero.batch == Sizes{};
    return one_zero && is_of_rows(result.factors) && is_of_rows(result.summands) ? std::optional(result) : std::nullopt;
}

std::optional<Ending> Target::ending() const {
    const std::optional<Epilogue::Sums>& sums = epilogue->sums();
    if (correction != nullptr || !sums || !takes_sums(sums->rounds ? DataType::float16 : DataType::float32)) {
        return {};
    }
    Ending ending;
    ending.function = sums->function;
    ending.last = sums->last ? &*sums->last : nullptr;
    ending.halves = sums->rounds ? &out : nullptr;
    ending.rounded_function = sums->rounded_function;
    const auto is_line = [&](const MatrixTensor& added) {
        return ending.lines == nullptr && added.type == out.type && added.is_packed();
    };
    for (const Epilogue::Summand& summand : sums->summands) {
        const MatrixTensor& added = operands.at(summand.operand);
        if (added.rank == 1 && added.strides[0] == 0) {
            if (ending.numbers != nullptr || ending.lines != nullptr) {
                return {};
            }
            ending.numbers = &added;
            ending.to_single = summand.to_single;
        } else if (is_line(added)) {
            ending.lines = &added;
        } else {
            return {};
        }
    }
    if (sums->rounded_summand) {
        const MatrixTensor& added = operands.at(*sums->rounded_summand);
        if (!is_line(added)) {
            return {};
        }
        ending.lines = &added;
        ending.adds_rounded = true;
    }
    return ending;
}

std::size_t Target::line_scratch(std::size_t operands, const Epilogue& epilogue, std::int64_t width) {
    return (1 + operands) * item_bytes(width) + epilogue.scratch_bytes(width);
}

const std::byte* Target::results_of(const void* sums, const Sizes& place, std::int64_t row, std::int64_t left,
                                    std::int64_t width, std::byte* to, std::byte* scratch) const {
    if (epilogue->empty()) {
        return static_cast<const std::byte*>(sums);
    }
    std::array<Line, most_operands> lines;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        std::byte* const packed = scratch + (1 + i) * item_bytes(width);
        lines[i] = line_of(operands[i], operands[i].row_at(place, row), left, width, packed);
    }
    std::byte* const rest = scratch + (1 + operands.size()) * item_bytes(width);
    epilogue->run(sums, std::span(lines).first(operands.size()), to, width, rest);
    return to;
}

void Target::store(const void* sums, const Sizes& place, std::int64_t row, std::int64_t left, std::int64_t width,
                   std::byte* scratch) const {
    const auto item = static_cast<std::int64_t>(item_size(out.type));
    std::byte* const result = out.row_at(place, row);
    const std::byte* const values =
        results_of(sums, place, row, left, width, out.is_packed() ? result + left * item : scratch, scratch);
    if (values != result + left * item || !out.is_packed()) {
        scatter(result, out.rank, out.sizes, out.strides, values, left, width, static_cast<int>(item));
    }
}

bool Target::is_across() const {
    return out.rank == 1 && !out.is_packed() && out.row == static_cast<std::int64_t>(item_size(out.type));
}

void Target::store_across(NumbersAt sums, std::int64_t step, const Sizes& place, std::int64_t row, std::int64_t rows,
                          std::int64_t left, std::int64_t width, std::byte* scratch) const {
    const auto item = static_cast<std::int64_t>(item_size(out.type));
    for (std::int64_t r = 0; r < rows; ++r) {
        std::byte* const to = scratch + r * width * item;
        const std::byte* const values = results_of(sums + r * step, place, row + r, left, width, to, scratch);
        if (values != to) {
            std::memcpy(to, values, static_cast<std::size_t>(width * item));
        }
    }
    scatter_tile({out.row_at(place, row) + left * out.strides[0], item, out.strides[0], rows, width}, scratch,
                 static_cast<int>(item));
}

void Target::finish_or_store(const std::optional<Ending>& ending, float* sums, const Sizes& place, std::int64_t row,
                             std::int64_t left, std::int64_t width, std::byte* scratch) const {
    if (ending) {
        return ending->finish(sums, width);
    }
    correct_and_store(sums, place, row, left, width, scratch);
}

void Target::correct_and_store(NumbersTo sums, const Sizes& place, std::int64_t row, std::int64_t left,
                               std::int64_t width, std::byte* scratch) const {
    if (correction != nullptr) {
        correction->correct(sums, place, row, left, width);
    }
    store(sums, place, row, left, width, scratch);
}

}  // namespace dmlgraph::cpu
