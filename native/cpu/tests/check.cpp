// Runs the named tests, or all.
#include "cpu/tests/check.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

namespace dmlgraph::cpu::tests {
namespace {

constexpr int most_reports = 20;

struct Entry {
    std::string_view name;
    void (*run)();
};

std::vector<Entry>& entries() {
    static std::vector<Entry> all;
    return all;
}

std::atomic<int> failures{0};
std::mutex reporting;
thread_local std::string case_text;

}  // namespace

void check(bool holds, std::string_view what, std::source_location where) {
    if (!holds && failures++ < most_reports) {
        const std::lock_guard lock(reporting);
        std::fprintf(stderr, "%s:%u: %s: not so: %.*s [%s]\n", where.file_name(), where.line(),
                     where.function_name(), static_cast<int>(what.size()), what.data(), case_text.c_str());
    }
}

void set_case(std::string_view text) {
    case_text = text;
}

bool has_failed() {
    return failures > 0;
}

Test::Test(std::string_view name, void (*run)()) {
    entries().push_back({name, run});
}

std::uint64_t Random::bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

std::int64_t Random::between(std::int64_t first, std::int64_t last) {
    return first + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(last - first + 1));
}

namespace {

int run(const std::vector<std::string_view>& names) {
    int ran = 0;
    for (const Entry& entry : entries()) {
        if (!names.empty() && std::ranges::find(names, entry.name) == names.end()) {
            continue;
        }
        const auto start = std::chrono::steady_clock::now();
        const int before = failures;
        set_case("");
        try {
            entry.run();
        } catch (const std::exception& error) {
            check(false, error.what());
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        std::printf("%-44.*s %s %6.2f s\n", static_cast<int>(entry.name.size()), entry.name.data(),
                    failures == before ? "ok    " : "FAILED", took.count());
        std::fflush(stdout);
        ++ran;
    }
    std::printf("%d tests, %d failures\n", ran, failures.load());
    return failures > 0 || ran == 0 ? 1 : 0;
}

}  // namespace
}  // namespace dmlgraph::cpu::tests

int main(int count, char** arguments) {
    return dmlgraph::cpu::tests::run({arguments + 1, arguments + count});
}
