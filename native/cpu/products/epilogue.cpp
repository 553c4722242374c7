#include "cpu/products/epilogue.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "cpu/runtime/cache_line.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {


std::size_t line_bytes(std::int64_t count) { return align_to_line(static_cast<std::size_t>(count) * widest_item); }

}  // namespace

Epilogue::Epilogue(std::vector<InstructionSpec> code, DataType result, std::size_t inputs, DataType sums)
    : code_(std::move(code)), operands_(inputs < first_operand ? 0 : inputs - first_operand) {
    if (operands_ > most_operands) {
        throw std::invalid_argument("too many tensors are read after a product");
    }
    for (std::size_t i = 0; i < code_.size(); ++i) {
        const auto exists = [&](std::int16_t operand) {
            const auto number = static_cast<std::size_t>(operand < 0 ? ~operand : operand);
            return operand < 0 ? number < i : number == 0 || (number >= first_operand && number < inputs);
        };
        if (code_[i].kernel == nullptr || code_[i].operands.size() > most_operands ||
            !std::ranges::all_of(code_[i].operands, exists)) {
            throw std::invalid_argument("an instruction after a product has no kernel, or reads what does not exist");
        }
    }
    if (result != (code_.empty() ? sums : code_.back().result)) {
        throw std::invalid_argument("the instructions after a product do not give the output's data type");
    }
}

std::size_t Epilogue::scratch_bytes(std::int64_t count) const {
    return (code_.size() + operands_) * line_bytes(count);
}

void Epilogue::run(const float* sums, std::span<const Line> operands, std::byte* out, std::int64_t count,
                   std::byte* scratch) const {
    const std::size_t line = line_bytes(count);
    std::byte* const packed = scratch + code_.size() * line;
    const auto operand = [&](std::int16_t number) -> Operand {
        if (number < 0) {
            return {scratch + static_cast<std::size_t>(~number) * line, false};
        }
        if (number == 0) {
            return {sums, false};
        }
        const std::size_t index = static_cast<std::size_t>(number) - first_operand;
        const Line& given = operands[index];
        const auto item = static_cast<std::int64_t>(item_size(given.type));
        if (given.step == 0 || given.step == item) {
            return {given.data, given.step == 0};
        }
        std::byte* const to = packed + index * line;
        gather_line(to, given.data, given.step, count, static_cast<int>(item));
        return {to, false};
    };
    for (std::size_t i = 0; i < code_.size(); ++i) {
        const InstructionSpec& instruction = code_[i];
        std::array<Operand, most_operands> in{};
        for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
            in[k] = operand(instruction.operands[k]);
        }
        std::byte* const to = i + 1 == code_.size() ? out : scratch + i * line;
        instruction.kernel({to, in.data(), static_cast<std::size_t>(count), instruction.immediates.data(), 0});
    }
}

}  // namespace dmlgraph::cpu
