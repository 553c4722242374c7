// Convolutions whose every output channel has one input channel.
//
// Some rows of windows are computed at a time. Their elements are copied into a plane with the padding as zeros, divided
// into phases: the elements whose places have the same remainders by the strides. So the elements of a tap lie side by
// side for all windows, row after row, and a result is a sum of whole vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/products/lines.h"
#include "cpu/products/windows.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

struct Depthwise {
    std::int64_t batch = 1;
    std::int64_t groups = 1;   // input channels
    std::int64_t outputs = 1;  // of a group
    const WindowPanels* windows = nullptr;
    const PanelSource* filters = nullptr;  // line o of a group: the taps of its output o
    Target target;
    const ProductKernels* kernels = nullptr;
};

// Whether the windows have two dimensions at most, which `run_depthwise` needs.
bool is_flat(const Windows& windows, const Spatial& sizes);

// The sums of so many products of 8-bit integers, less their zero points, are exact in float32.
inline constexpr std::int64_t most_exact_taps = (1 << 24) / (255 * 255);

// Makes such sums int32.
class WholeSums final : public Correction {
public:
    void correct(float* sums, const Sizes& place, std::int64_t row, std::int64_t left, std::int64_t width) const override;
};

std::size_t depthwise_scratch(const Windows& windows, std::size_t operands, const Epilogue& epilogue,
                              const ProductKernels& kernels);

void run_depthwise(RunContext& context, const Depthwise& convolution);

}  // namespace dmlgraph::cpu
