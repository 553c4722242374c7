#include "cpu/products/phases.h"

#include <algorithm>
#include <numeric>

namespace dmlgraph::cpu {
namespace {

// The taps first, first + step, … of a dimension.
struct Taps {
    std::int64_t first;
    std::int64_t step;
    std::int64_t count;
};

// By remainder of the outputs: the taps that are at some element's distance from them.
std::vector<Taps> taps_by_remainder(const Windows& windows, std::size_t d, std::int64_t stride) {
    const std::int64_t dilation = windows.dilations[d], step = stride / std::gcd(stride, dilation);
    std::vector<Taps> found(static_cast<std::size_t>(std::min(stride, windows.counts[d])), Taps{0, step, 0});
    for (std::int64_t k = 0; k < std::min(windows.taps[d], step); ++k) {
        const std::int64_t remainder = (k * dilation - windows.padding[d]) % stride;
        const auto at = static_cast<std::size_t>(remainder < 0 ? remainder + stride : remainder);
        if (at < found.size()) {
            found[at] = {k, step, (windows.taps[d] - 1 - k) / step + 1};
        }
    }
    return found;
}

// The phase that begins at the output `first`, along one dimension.
void set_phase(Phase& phase, const Windows& windows, std::size_t d, std::int64_t stride, std::int64_t first,
               const Taps& taps) {
    const std::int64_t last = taps.first + (taps.count - 1) * taps.step, dilation = windows.dilations[d];
    phase.first[d] = first;
    phase.step[d] = stride;
    phase.first_tap[d] = windows.mirrored ? windows.taps[d] - 1 - last : last;
    phase.tap_step[d] = windows.mirrored ? taps.step : -taps.step;
    phase.windows.taps[d] = taps.count;
    phase.windows.strides[d] = 1;
    phase.windows.dilations[d] = taps.step * dilation / stride;
    phase.windows.padding[d] = taps.count == 0 ? 0 : (last * dilation - first - windows.padding[d]) / stride;
    phase.windows.counts[d] = (windows.counts[d] - first + stride - 1) / stride;
    phase.windows.mirrored = false;
}

// The distance between the outputs of a phase. What a single element is multiplied with is a tap for each output: they
// are phases of their own, unless they are too many.
std::int64_t stride_of_phases(const Windows& windows, std::size_t d, std::int64_t input) {
    constexpr std::int64_t most_outputs = 8;
    const std::int64_t reached = (windows.taps[d] - 1) * windows.dilations[d] + 1;
    return input > 1 ? windows.strides[d] : reached <= most_outputs ? reached : 1;
}

}  // namespace

std::vector<Phase> backward_phases(const Windows& windows, const Spatial& input) {
    std::vector<Phase> phases(1);
    for (std::size_t d = 0; d < most_spatial; ++d) {
        const std::int64_t stride = stride_of_phases(windows, d, input[d]);
        const std::vector<Taps> taps = taps_by_remainder(windows, d, stride);
        std::vector<Phase> finer;
        for (const Phase& phase : phases) {
            for (std::size_t first = 0; first < taps.size(); ++first) {
                finer.push_back(phase);
                set_phase(finer.back(), windows, d, stride, static_cast<std::int64_t>(first), taps[first]);
            }
        }
        phases = std::move(finer);
    }
    return phases;
}

}  // namespace dmlgraph::cpu
