// Convolutions whose every output channel has one input channel.
//
// Some rows of windows are computed at a time. Their elements are copied into planes with the padding as zeros, a plane for
// each remainder of their columns by the stride. So the elements of a tap lie side by side for the windows of a row, and
// a result is a sum of vectors. Small windows that are near each other are read where they lie, if the level loads parts of
// vectors fast; those of float16 become float32 first, without padding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/convolution.h"
#include "cpu/products/lines.h"
#include "cpu/products/windows.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

struct Depthwise {
    std::int64_t batch = 1;
    std::int64_t groups = 1;   // input channels
    std::int64_t outputs = 1;  // of a group
    const WindowPanels* windows = nullptr;
    const Panels* panels = nullptr;        // of the filters, each of one line, if they have been packed
    const PanelSource* filters = nullptr;  // line o of a group: the taps of its output o
    Target target;
    const ProductKernels* kernels = nullptr;
    const ConvolutionKernels* planes = nullptr;
};

std::size_t depthwise_scratch(const Windows& windows, const Spatial& sizes, std::size_t operands, const Epilogue& epilogue,
                              const ConvolutionKernels& kernels);

void run_depthwise(RunContext& context, const Depthwise& convolution);

}  // namespace dmlgraph::cpu
