// The same numbers everywhere (SplitMix64).
#pragma once

#include <cstdint>

namespace dmlgraph::cpu::tests {

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t bits() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    // first … last, both included.
    std::int64_t between(std::int64_t first, std::int64_t last) {
        return first + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(last - first + 1));
    }
    bool chance(int percent) { return between(0, 99) < percent; }

private:
    std::uint64_t state_;
};

}  // namespace dmlgraph::cpu::tests
