// Tests and checks.
#pragma once

#include <cstdint>
#include <source_location>
#include <string_view>

namespace dmlgraph::cpu::tests {

// Reports a failed check, and continues. Several threads may call it.
void check(bool holds, std::string_view what, std::source_location where = std::source_location::current());

// Text that is added to failures: the case of a table, or the seed.
void set_case(std::string_view text);

bool has_failed();

struct Test {
    Test(std::string_view name, void (*run)());
};

// The same numbers everywhere (SplitMix64).
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t bits();
    // From first to last, both included.
    std::int64_t between(std::int64_t first, std::int64_t last);
    bool chance(int percent) { return between(0, 99) < percent; }

private:
    std::uint64_t state_;
};

// Thread sanitizers are slow, and do not follow a forked process.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool watches_threads = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool watches_threads = true;
#else
inline constexpr bool watches_threads = false;
#endif
#else
inline constexpr bool watches_threads = false;
#endif

}  // namespace dmlgraph::cpu::tests

#define CPU_TEST(name)                                                  \
    static void name();                                                 \
    static const ::dmlgraph::cpu::tests::Test name##_test{#name, name}; \
    static void name()
