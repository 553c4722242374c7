#include "software_adapter/fault_plan.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>

namespace dmlgraph::software {
namespace {

constexpr NumberType number_types[] = {
    {"float32", 4, 0x7F800000, 0x00400000, 0x3F800000},
    {"float16", 2, 0x7C00, 0x0200, 0x3C00},
    {"float64", 8, 0x7FF0000000000000, 0x0008000000000000, 0x3FF0000000000000},
    {"int8", 1, 0, 1, 1},
    {"int16", 2, 0, 1, 1},
    {"int32", 4, 0, 1, 1},
    {"int64", 8, 0, 1, 1},
};

struct FaultWord {
    std::string_view name;
    FaultKind kind;
    uint64_t count;  // of `name=N`, where N is left out; 0: it takes no number
    bool needs_type;
};

constexpr FaultWord fault_words[] = {
    {"ulp", FaultKind::ulp, 1, true},          // N units are added to every element
    {"element", FaultKind::element, 0, true},  // one element is another number
    {"row", FaultKind::row, 16, true},         // N neighbouring elements are
    {"nan", FaultKind::nan, 0, true},          // one element is a NaN
    {"random", FaultKind::random, 0, true},    // one element is another number at each run
    {"late", FaultKind::late, 0, false},       // what it writes is seen only after the next dispatch
    {"remove", FaultKind::remove, 0, false},   // it removes the device
    {"hang", FaultKind::hang, 0, false},       // it does not end
};

template <class Number>
Number number_of(std::string_view word, std::string_view digits, int base, const char* needed) {
    Number number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
    if (error != std::errc() || end != digits.data() + digits.size() || number == 0) {
        throw std::invalid_argument(std::string(fault_variable) + ": '" + std::string(word) + "' is wrong: needs " +
                                    needed);
    }
    return number;
}

[[noreturn]] void refuse_word(std::string_view word) {
    std::string text = std::string(fault_variable) + " has the unknown word '" + std::string(word) +
                       "'; words: kernel=HEX, shader=HEX, dispatch=N, reused, log";
    for (const FaultWord& each : fault_words) {
        text.append(", ").append(each.name).append(each.count ? "=N" : "");
    }
    for (const NumberType& each : number_types) {
        text.append(", ").append(each.name);
    }
    throw std::invalid_argument(text);
}

void apply(std::string_view word, FaultPlan& plan) {
    const auto sign = word.find('=');
    const std::string_view name = word.substr(0, sign);
    const std::string_view digits = sign == word.npos ? std::string_view() : word.substr(sign + 1);
    constexpr auto positive = "a positive number, such as 3";
    if (name == "kernel" || name == "shader") {
        const auto needed = "the hexadecimal number of a " + std::string(name) + ", which 'log' tells";
        (name == "kernel" ? plan.kernel : plan.shader) = number_of<uint64_t>(word, digits, 16, needed.c_str());
    } else if (name == "dispatch") {
        plan.dispatch = number_of<uint64_t>(word, digits, 10, positive);
    } else if (word == "reused") {
        plan.reused = true;
    } else if (word == "log") {
        plan.logs = true;
    } else if (const auto* type = std::ranges::find(number_types, word, &NumberType::name);
               type != std::end(number_types)) {
        plan.type = type;
    } else if (const auto* what = std::ranges::find(fault_words, name, &FaultWord::name);
               what != std::end(fault_words) && (what->count || sign == word.npos)) {
        if (plan.kind != FaultKind::nothing) {
            throw std::invalid_argument(std::string(fault_variable) + " asks for two faults: '" + std::string(word) +
                                        "' is the second");
        }
        plan.kind = what->kind;
        plan.count = sign == word.npos ? what->count : number_of<uint64_t>(word, digits, 10, positive);
    } else {
        refuse_word(word);
    }
}

}  // namespace

std::shared_ptr<const FaultPlan> parse_fault(std::string_view text) {
    auto plan = std::make_shared<FaultPlan>();
    if (text.empty()) {
        return nullptr;
    }
    for (std::size_t begin = 0; begin <= text.size();) {
        const auto end = std::min(text.find(',', begin), text.size());
        apply(text.substr(begin, end - begin), *plan);
        begin = end + 1;
    }
    if (plan->kind == FaultKind::nothing && !plan->logs) {
        throw std::invalid_argument(std::string(fault_variable) + " does not say what goes wrong, such as 'element'");
    }
    if (plan->kernel && plan->shader) {
        throw std::invalid_argument(std::string(fault_variable) +
                                    " names both a kernel and a shader: a kernel has one");
    }
    if (plan->kind != FaultKind::nothing && !plan->kernel && !plan->shader && !plan->dispatch) {
        throw std::invalid_argument(std::string(fault_variable) +
                                    " does not say where: needs kernel=HEX, shader=HEX or dispatch=N");
    }
    const auto* word = std::ranges::find(fault_words, plan->kind, &FaultWord::kind);
    if (word != std::end(fault_words) && word->needs_type && !plan->type) {
        throw std::invalid_argument(std::string(fault_variable) + ": '" + std::string(word->name) +
                                    "' needs a data type, such as float32");
    }
    if (plan->reused && (word == std::end(fault_words) || !word->needs_type)) {
        throw std::invalid_argument(std::string(fault_variable) +
                                    ": 'reused' goes with a fault of elements, such as 'row'");
    }
    if (plan->kind == FaultKind::nan && !plan->type->exponent) {
        throw std::invalid_argument(std::string(fault_variable) + ": '" + std::string(plan->type->name) +
                                    "' has no NaN");
    }
    return plan;
}

}  // namespace dmlgraph::software
