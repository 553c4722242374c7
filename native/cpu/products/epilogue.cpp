#include "cpu/products/epilogue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "cpu/region/formula_draft.h"
#include "cpu/region/formulas.h"
#include "cpu/runtime/cache_line.h"
#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

// The code as a region of a line: its loads are the sums, then the inputs of the step, from `first_operand` on.
Region region_of(const std::vector<InstructionSpec>& code, std::size_t inputs) {
    Region region;
    region.rank = 1;
    region.sizes[0] = 2;  // elements differ
    region.loads.resize(std::max(inputs, first_operand));
    for (View& each : region.loads) {
        each.strides[0] = 1;
    }
    for (const InstructionSpec& each : code) {
        RegionInstruction made;
        made.opcode = each.opcode;
        made.operand = each.operand;
        made.result = each.result;
        made.kernel = each.kernel;
        made.first_operand = static_cast<std::int32_t>(region.operands.size());
        made.operand_count = static_cast<std::int32_t>(each.operands.size());
        made.first_immediate = static_cast<std::int32_t>(region.immediates.size());
        for (std::size_t k = 0; k < each.operands.size(); ++k) {
            const std::int16_t operand = each.operands[k];
            region.operands.push_back({operand >= 0, operand >= 0 ? operand : ~operand});
            if (operand >= 0 && (k == 0 || find_meaning(each.opcode) != nullptr)) {  // others have types of their own
                region.loads[static_cast<std::size_t>(operand)].type =
                    each.opcode == Opcode::IF && k == 0 ? DataType::uint8 : each.operand;
            }
        }
        region.immediates.insert(region.immediates.end(), each.immediates.begin(), each.immediates.end());
        region.instructions.push_back(made);
    }
    region.stores.push_back({{}, {false, static_cast<std::int32_t>(code.size()) - 1}});
    join_formulas(region);
    return region;
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
        default: return std::nullopt;
    }
    return std::isnan(function.first) || std::isnan(function.second) ? std::nullopt : std::optional(function);
}

std::optional<Epilogue::Sums> sums_of(const std::vector<InstructionSpec>& code) {
    constexpr auto single = DataType::float32, half = DataType::float16;
    using Kind = SumFunction::Kind;
    Epilogue::Sums sums;
    std::vector<Kernel> to_single(code.size());     // by instruction: what makes an operand float32
    std::vector<std::size_t> operand(code.size());  // … its index
    std::int16_t total = 0;                         // the sums, or what became of them
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
        const bool is_rounding =
            each.opcode == Opcode::CONVERT && first == total && each.operand == single && each.result == half;
        SumFunction& function = sums.rounds ? sums.rounded_function : sums.function;
        if (!is_rounding && (each.operand != (sums.rounds ? half : single) || each.result != each.operand ||
                             function.kind != Kind::none)) {
            return std::nullopt;
        }
        if (is_rounding && !sums.rounds) {
            sums.rounds = true;
        } else if (each.opcode == Opcode::ADD) {
            const std::int16_t other = each.operands[first == total ? 1 : 0];
            const std::size_t made = other < 0 ? static_cast<std::size_t>(~other) : 0;  // by this instruction
            if (each.operands[first == total ? 0 : 1] != total ||
                (other < 0 ? to_single[made] == nullptr || sums.rounds : !is_given(other))) {
                return std::nullopt;
            }
            if (!sums.rounds) {
                sums.summands.push_back(other < 0 ? Epilogue::Summand{operand[made], to_single[made]}
                                                  : Epilogue::Summand{index_of(other), nullptr});
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
        total = static_cast<std::int16_t>(~static_cast<int>(i));
    }
    return sums;
}

std::optional<Epilogue::Requantized> requantized_of(const std::vector<InstructionSpec>& code) {
    const auto is_given = [](std::int16_t number) { return number >= static_cast<std::int16_t>(first_operand); };
    const auto index_of = [](std::int16_t number) { return static_cast<std::size_t>(number) - first_operand; };
    const bool adds = code.size() == 2 && code[0].opcode == Opcode::ADD_TO_FLOAT && code[0].operands[0] == 0 &&
                      is_given(code[0].operands[1]);
    if (code.empty() || (code.size() > 1 && !adds)) {
        return std::nullopt;
    }
    const InstructionSpec& last = code.back();
    const std::int16_t sums = adds ? ~std::int16_t{0} : std::int16_t{0};
    if (last.opcode != Opcode::REQUANTIZE || last.operands[0] != sums || !is_given(last.operands[1]) ||
        !is_given(last.operands[2])) {
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

Epilogue::Epilogue(const std::vector<InstructionSpec>& code, DataType result, std::size_t inputs, DataType sums)
    : operands_(inputs < first_operand ? 0 : inputs - first_operand) {
    if (operands_ > most_operands) {
        throw std::invalid_argument("too many tensors are read after a product");
    }
    for (std::size_t i = 0; i < code.size(); ++i) {
        const auto exists = [&](std::int16_t operand) {
            const auto number = static_cast<std::size_t>(operand < 0 ? ~operand : operand);
            return operand < 0 ? number < i : number == 0 || (number >= first_operand && number < inputs);
        };
        if (code[i].kernel == nullptr || code[i].operands.size() > most_operands ||
            !std::ranges::all_of(code[i].operands, exists)) {
            throw std::invalid_argument("an instruction after a product has no kernel, or reads what does not exist");
        }
    }
    if (result != (code.empty() ? sums : code.back().result)) {
        throw std::invalid_argument("the instructions after a product do not give the output's data type");
    }
    sums_ = sums_of(code);
    requantized_ = requantized_of(code);
    if (!code.empty()) {
        region_ = region_of(code, inputs);
    }
}

std::size_t Epilogue::scratch_bytes(std::int64_t count) const {
    return (region_.instructions.size() + operands_) * line_bytes(count);
}

void Epilogue::run(const void* sums, std::span<const Line> operands, std::byte* out, std::int64_t count,
                   std::byte* scratch) const {
    const std::size_t line = line_bytes(count), last = region_.instructions.size() - 1;
    std::byte* const packed = scratch + region_.instructions.size() * line;
    const auto operand = [&](const Reference& from) -> Operand {
        if (!from.load) {
            return {scratch + index_of(from) * line, false};
        }
        if (from.index == 0) {
            return {sums, false};
        }
        const std::size_t index = index_of(from) - first_operand;
        const Line& given = operands[index];
        const auto item = static_cast<std::int64_t>(item_size(given.type));
        if (given.step == 0 || given.step == item) {
            return {given.data, given.step == 0};
        }
        std::byte* const to = packed + index * line;
        gather_line(to, given.data, given.step, count, static_cast<int>(item));
        return {to, false};
    };
    for (std::size_t i = 0; i <= last; ++i) {
        const RegionInstruction& instruction = region_.instructions[i];
        std::array<Operand, most_formula_operands> in;
        for (int k = 0; k < instruction.operand_count; ++k) {
            in[static_cast<std::size_t>(k)] = operand(region_.operand(instruction, k));
        }
        const Immediate* const immediates = region_.immediates.data() + instruction.first_immediate;
        instruction.kernel(
            {i == last ? out : scratch + i * line, in.data(), static_cast<std::size_t>(count), immediates, 0});
    }
}

}  // namespace dmlgraph::cpu
