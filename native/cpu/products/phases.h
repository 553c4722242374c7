// A convolution as products of filters and windows: a forward one is one product, a backward one is a product for each
// phase of its output.
//
// Backward, element i adds its multiple of tap k to the output at i · stride + k · dilation − padding. So the outputs
// whose places have the same remainder by the stride, a phase, are sums over the same taps of neighbouring elements: a
// forward convolution with some of the taps, in reverse order.
#pragma once

#include <vector>

#include "cpu/products/windows.h"

namespace dmlgraph::cpu {

// The outputs first, first + step, …, which are as many as there are windows. Tap t of a window meets tap
// first_tap + t · tap_step of the filter. A window may have no taps: then the sums are zero.
struct Phase {
    Windows windows;
    Spatial first{};
    Spatial step{1, 1, 1};
    Spatial first_tap{};
    Spatial tap_step{1, 1, 1};
};

// The windows are those of the forward convolution, except `counts`, the sizes of the backward one's output.
std::vector<Phase> backward_phases(const Windows& windows, const Spatial& input);

}  // namespace dmlgraph::cpu
