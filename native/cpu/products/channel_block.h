// Convolutions whose every output channel has one input channel, in blocks of channels: for short rows of windows, along
// which vectors would have few lanes with work.
//
// The elements of as many channels as a vector has lanes become cells, by transposing squares of them, with cells of zeros
// around the picture. The sums over the taps of a cell's neighbours are then transposed back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/kernels/channel_block.h"
#include "cpu/products/lines.h"
#include "cpu/products/panels.h"
#include "cpu/products/windows.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Where a picture's elements lie among cells.
class CellPlane {
public:
    // Of windows that have two dimensions at most, for vectors of so many lanes.
    CellPlane(const Windows& windows, const Spatial& sizes, int lanes);

    // How many cells there are.
    static std::int64_t count(const Windows& windows, const Spatial& sizes);
    // Whether this takes less time than going along rows.
    static bool pays(const Windows& windows, const Spatial& sizes, int lanes);

    // In cells. The last cell of a plane takes what is not an element of the picture.
    std::int64_t pitch;
    std::int64_t cells;
    std::vector<std::int64_t> places;  // see GatherCall
};

struct BlockedDepthwise {
    std::int64_t batch = 1;
    std::int64_t channels = 1;
    const CellPlane* plane = nullptr;
    const WindowPanels* windows = nullptr;  // not mirrored
    const Panels* panels = nullptr;         // of the filters, padded, each of as many lines as a vector has lanes, if they have been packed
    const PanelSource* filters = nullptr;   // line c: the taps of channel c
    Target target;                          // whose rows are channels
    const ProductKernels* packing = nullptr;
    const ChannelBlockKernels* kernels = nullptr;
};

// Whether the elements of planes, float32 or float16, lie as blocks read them: side by side, `channel` bytes from plane to plane.
bool has_pictures(DataType type, const Spatial& sizes, const Spatial& strides, std::int64_t channel);

std::size_t blocked_depthwise_scratch(const Windows& windows, const CellPlane& plane, int lanes, std::size_t operands,
                                      const Epilogue& epilogue);

void run_blocked_depthwise(RunContext& context, const BlockedDepthwise& convolution);

}  // namespace dmlgraph::cpu
