#include "cpu/products/borders.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t depths_at_once = 256;  // depths

}  // namespace

void Borders::correct(NumbersTo to, const Sizes& place, std::int64_t row, std::int64_t left, std::int64_t width) const {
    auto* const sums = to.as<float>();
    bool all = true;
    for (std::int64_t i = 0; i < width; ++i) {
        all = all & (sums[i] == sums[i]);
    }
    for (std::int64_t i = 0; !all && i < width; ++i) {
        if (std::isnan(sums[i]) && !windows_.is_inside(left + i)) {
            sums[i] = sum(place, row, left + i);
        }
    }
}

float Borders::sum(const Sizes& place, std::int64_t row, std::int64_t window) const {
    const std::int64_t taps = windows_.windows().tap_count(), depths = windows_.channels * taps;
    std::array<float, depths_at_once> weights, elements;
    float result = 0;
    for (std::int64_t from = 0; from < depths; from += depths_at_once) {
        const std::int64_t depth = std::min(depths_at_once, depths - from);
        filters_.pack({place, row, 1, from, depth, 1}, weights.data(), kernels_);
        windows_.pack({place, window, 1, from, depth, 1}, elements.data(), kernels_);
        for (std::int64_t k = 0; k < depth; ++k) {
            if (windows_.is_inside(window, (from + k) % taps)) {
                result += weights[static_cast<std::size_t>(k)] * elements[static_cast<std::size_t>(k)];
            }
        }
    }
    return result;
}

}  // namespace dmlgraph::cpu
