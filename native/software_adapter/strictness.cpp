#include "software_adapter/strictness.h"

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <variant>
#include <vector>

namespace dmlgraph::software {
namespace {

constexpr char variable[] = "DMLGRAPH_SOFTWARE_STRICT";
constexpr char all[] = "strict";

using Flag = bool Strictness::*;
using Number = std::uint64_t Strictness::*;

struct Option {
    std::string_view name;
    std::variant<Flag, Number> field;
    bool in_all;  // a correct program works under it: the option `strict` includes it
};

constexpr Option options[] = {
    {"gpu", &Strictness::gpu, false},
    {"npu", &Strictness::npu, false},
    {"core", &Strictness::core, false},
    {"generic", &Strictness::generic, false},
    {"no_int64", &Strictness::no_int64, false},
    {"no_float64", &Strictness::no_float64, false},
    {"no_sharing", &Strictness::no_sharing, false},
    {"custom_heaps", &Strictness::custom_heaps, true},
    {"readback", &Strictness::readback, true},
    {"budget", &Strictness::budget, false},
    {"validation", &Strictness::validation, true},
    {"one_device", &Strictness::one_device, true},
    {"late_debug", &Strictness::late_debug, true},
    {"gpu_timeout", &Strictness::gpu_timeout, true},
    {"async", &Strictness::async, false},
    {"remove_at", &Strictness::remove_at, false},
    {"hang_at", &Strictness::hang_at, false},
    {"fail_signal", &Strictness::fail_signal, false},
    {"fail_signals_from", &Strictness::fail_signals_from, false},
    {"fail_event", &Strictness::fail_event, false},
};

std::string refusal(std::string_view word) {
    std::string text = std::string(variable) + " has the unknown option '" + std::string(word) + "'; options: " + all;
    for (const Option& option : options) {
        text.append(", ").append(option.name);
        text += std::holds_alternative<Number>(option.field) ? "=N" : "";
    }
    return text;
}

// Throws std::invalid_argument with the reason for the user.
void apply(std::string_view word, Strictness& to) {
    if (word.empty()) {
        return;
    }
    if (word == all) {
        for (const Option& option : options) {
            if (option.in_all) {
                to.*std::get<Flag>(option.field) = true;
            }
        }
        return;
    }
    const auto sign = word.find('=');
    const auto name = word.substr(0, sign);
    for (const Option& option : options) {
        if (option.name != name) {
            continue;
        }
        if (const auto* flag = std::get_if<Flag>(&option.field)) {
            if (sign != word.npos) {
                break;
            }
            to.** flag = true;
            return;
        }
        const auto digits = sign == word.npos ? std::string_view() : word.substr(sign + 1);
        auto& number = to.*std::get<Number>(option.field);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
        if (error != std::errc() || end != digits.data() + digits.size() || number == 0) {
            throw std::invalid_argument(std::string(variable) + ": '" + std::string(name) +
                                        "' needs a positive number, such as " + std::string(name) + "=3; got '" +
                                        std::string(word) + "'");
        }
        return;
    }
    throw std::invalid_argument(refusal(word));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const auto end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == text.npos) {
            return parts;
        }
        text.remove_prefix(end + 1);
    }
}

struct Environment {
    std::vector<Strictness> adapters{Strictness{}};
    std::string error;
};

Environment read_environment() {
    Environment result;
    const char* text = std::getenv(variable);
    if (!text) {
        return result;
    }
    try {
        std::vector<Strictness> adapters;
        for (const auto group : split(text, ';')) {
            auto& adapter = adapters.emplace_back();
            for (const auto word : split(group, ',')) {
                apply(word, adapter);
            }
        }
        result.adapters = std::move(adapters);
    } catch (const std::invalid_argument& error) {
        result.error = error.what();
    }
    return result;
}

// Read once, and never destroyed: objects may outlive static storage.
const Environment& environment() {
    static const auto* read = new Environment(read_environment());
    return *read;
}

}  // namespace

std::size_t adapter_count() { return environment().adapters.size(); }

const Strictness& strictness(std::size_t adapter) { return environment().adapters[adapter]; }

const std::string& strictness_error() { return environment().error; }

}  // namespace dmlgraph::software
