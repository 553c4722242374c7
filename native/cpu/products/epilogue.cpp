#include "cpu/products/epilogue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "cpu/region/chains.h"
#include "cpu/runtime/cache_line.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

// The code with sums, products and bounds in a row as one instruction. It may take numbers, which are operands from
// `first_number` on.
std::vector<InstructionSpec> with_chains(const std::vector<InstructionSpec>& code, std::vector<float>& numbers,
                                         std::size_t first_number) {
    Region region;
    for (const InstructionSpec& each : code) {
        RegionInstruction made;
        made.opcode = each.opcode;
        made.operand = each.operand;
        made.result = each.result;
        made.kernel = each.kernel;
        made.first_operand = static_cast<std::int32_t>(region.operands.size());
        made.operand_count = static_cast<std::int32_t>(each.operands.size());
        made.first_immediate = static_cast<std::int32_t>(region.immediates.size());
        for (const std::int16_t operand : each.operands) {
            region.operands.push_back({operand >= 0, operand >= 0 ? operand : ~operand});
        }
        region.immediates.insert(region.immediates.end(), each.immediates.begin(), each.immediates.end());
        region.instructions.push_back(made);
    }
    region.stores.push_back({{}, {false, static_cast<std::int32_t>(code.size()) - 1}});
    join_chains(region, [&](float number) {
        numbers.push_back(number);
        return Reference{true, static_cast<std::int32_t>(first_number + numbers.size() - 1)};
    });
    std::vector<InstructionSpec> joined;
    for (const RegionInstruction& each : region.instructions) {
        InstructionSpec& made = joined.emplace_back(InstructionSpec{each.opcode, each.operand, each.result, each.kernel, {}, {}});
        for (std::int32_t k = 0; k < each.operand_count; ++k) {
            const Reference& from = region.operands[static_cast<std::size_t>(each.first_operand + k)];
            made.operands.push_back(static_cast<std::int16_t>(from.load ? from.index : ~from.index));
        }
        const auto first = region.immediates.begin() + each.first_immediate;
        made.immediates.assign(first, first + static_cast<std::ptrdiff_t>(immediate_count(each.opcode)));
    }
    return joined;
}

// What an instruction does with a sum; nothing if kernels cannot do it.
std::optional<SumFunction> function_of(const InstructionSpec& instruction) {
    using Kind = SumFunction::Kind;
    const auto immediate = [&](std::size_t k) { return static_cast<float>(instruction.immediates[k].f); };
    SumFunction function;
    switch (instruction.opcode) {
        case Opcode::RELU: function = {Kind::threshold, 0.0f, 0.0f}; break;
        case Opcode::THRESHOLD: function = {Kind::threshold, immediate(0), 0.0f}; break;
        case Opcode::CLIP: function = {Kind::clip, immediate(0), immediate(1)}; break;
        case Opcode::LEAKY_RELU: function = {Kind::leaky_relu, immediate(0), 0.0f}; break;
        case Opcode::HARD_SIGMOID: function = {Kind::hard_sigmoid, immediate(0), immediate(1)}; break;
        case Opcode::HARD_SWISH: function = {Kind::hard_swish, immediate(0), immediate(1)}; break;
        default: return std::nullopt;
    }
    const bool numbers = !std::isnan(function.first) && !std::isnan(function.second);
    const bool flatter = function.kind != Kind::leaky_relu || (function.first > 0.0f && function.first <= 1.0f);
    return numbers && flatter ? std::optional(function) : std::nullopt;
}

std::optional<Epilogue::Sums> sums_of(const std::vector<InstructionSpec>& code) {
    constexpr auto single = DataType::float32, half = DataType::float16;
    using Kind = SumFunction::Kind;
    Epilogue::Sums sums;
    std::vector<Kernel> to_single(code.size());             // by instruction: what makes an operand float32
    std::vector<std::size_t> operand(code.size());          // … its index
    std::int16_t total = 0;                                 // the sums, or what became of them
    const auto is_given = [](std::int16_t number) { return number >= static_cast<std::int16_t>(first_operand); };
    const auto index_of = [](std::int16_t number) { return static_cast<std::size_t>(number) - first_operand; };
    for (std::size_t i = 0; i < code.size(); ++i) {
        const InstructionSpec& each = code[i];
        if (each.operands.empty()) {
            return std::nullopt;
        }
        const std::int16_t first = each.operands[0];
        if (each.opcode == Opcode::CONVERT && is_given(first) && each.operand == half && each.result == single) {
            to_single[i] = each.kernel, operand[i] = index_of(first);
            continue;
        }
        const bool is_rounding = each.opcode == Opcode::CONVERT && first == total && each.operand == single && each.result == half;
        SumFunction& function = sums.rounds ? sums.rounded_function : sums.function;
        if (!is_rounding && (each.operand != (sums.rounds ? half : single) || each.result != each.operand || function.kind != Kind::none)) {
            return std::nullopt;
        }
        if (is_rounding && !sums.rounds) {
            sums.rounds = true;
        } else if (each.opcode == Opcode::ADD) {
            const std::int16_t other = each.operands[first == total ? 1 : 0];
            const std::size_t made = other < 0 ? static_cast<std::size_t>(~other) : 0;  // by this instruction
            if (each.operands[first == total ? 0 : 1] != total || (other < 0 ? to_single[made] == nullptr || sums.rounds : !is_given(other))) {
                return std::nullopt;
            }
            if (!sums.rounds) {
                sums.summands.push_back(other < 0 ? Epilogue::Summand{operand[made], to_single[made]} : Epilogue::Summand{index_of(other), nullptr});
            } else if (!sums.rounded_summand) {
                sums.rounded_summand = index_of(other);
            } else {
                return std::nullopt;
            }
        } else if (const std::optional<SumFunction> found = function_of(each); found && first == total) {
            function = *found;
        } else if (each.operands.size() == 1 && first == total && !sums.rounds && i + 1 == code.size()) {
            sums.last = each;
        } else {
            return std::nullopt;
        }
        if (sums.rounds && function.kind != Kind::none && function.kind != Kind::threshold && function.kind != Kind::clip && &function == &sums.rounded_function) {
            return std::nullopt;  // others are rounded at every step
        }
        total = static_cast<std::int16_t>(~static_cast<int>(i));
    }
    return sums;
}

std::optional<Epilogue::Requantized> requantized_of(const std::vector<InstructionSpec>& code) {
    const auto is_given = [](std::int16_t number) { return number >= static_cast<std::int16_t>(first_operand); };
    const auto index_of = [](std::int16_t number) { return static_cast<std::size_t>(number) - first_operand; };
    const bool adds = code.size() == 2 && code[0].opcode == Opcode::ADD_TO_FLOAT && code[0].operands[0] == 0 && is_given(code[0].operands[1]);
    if (code.empty() || (code.size() > 1 && !adds)) {
        return std::nullopt;
    }
    const InstructionSpec& last = code.back();
    const std::int16_t sums = adds ? ~std::int16_t{0} : std::int16_t{0};
    if (last.opcode != Opcode::REQUANTIZE || last.operands[0] != sums || !is_given(last.operands[1]) || !is_given(last.operands[2])) {
        return std::nullopt;
    }
    Epilogue::Requantized result{index_of(last.operands[1]), index_of(last.operands[2]), std::nullopt};
    if (adds) {
        result.summand = index_of(code[0].operands[1]);
    }
    return result;
}

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
    sums_ = sums_of(code_);
    requantized_ = requantized_of(code_);
    if (!code_.empty()) {
        code_ = with_chains(code_, numbers_, first_operand + operands_);
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
        if (index >= operands_) {
            return {&numbers_[index - operands_], true};
        }
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
        std::array<Operand, most_operands> in;
        for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
            in[k] = operand(instruction.operands[k]);
        }
        std::byte* const to = i + 1 == code_.size() ? out : scratch + i * line;
        instruction.kernel({to, in.data(), static_cast<std::size_t>(count), instruction.immediates.data(), 0});
    }
}

}  // namespace dmlgraph::cpu
