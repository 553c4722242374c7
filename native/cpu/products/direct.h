// Convolutions of floats as products whose windows are read from planes.
//
// A patch is some neighbouring windows, row by row. For some channels at a time, the elements that its windows have at
// a tap are copied into planes, with the padding as zeros, and a plane is read at an offset for each tap. Then every
// panel of filters meets the windows in registers.
//
// Vectors go along the outputs, or across windows where that takes less time. Along the outputs, every window of a tile
// has a place of its own in a plane, if there are registers for their addresses: all taps share the planes, one for
// each channel and each remainder of a tap by the stride, and a copy is as large as the input. The sums are transposed
// before they are stored. Across windows, the elements of neighbouring ones must lie side by side from row to row: so
// there is a plane for each place of a tap along a row.
//
// Each sum is added up in the order of its depths, which follow from the sizes alone: results do not depend on patches,
// tiles or the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/products/convolution.h"

namespace dmlgraph::cpu {

// How a convolution is divided. In windows, outputs and channels.
struct DirectShape {
    std::int64_t channels = 1;       // of a group
    bool along = false;              // whether vectors go along the outputs
    Division filters;                // the panels of a group's filters; padded if `along`
    std::int64_t channels_each = 1;  // that are summed up at a time
    std::int64_t rows = 1;           // of a patch at most
    std::int64_t columns = 1;        // of its rows: all, or of a single row some
    std::int64_t floats = 0;         // that a channel has in planes, at most

    // For groups of `channels` input and `outputs` output channels.
    DirectShape(const Windows& windows, std::int64_t channels, std::int64_t outputs, const ConvolutionKernels& kernels);
};

class Direct final : public FilterMethod {
public:
    static bool fits(const Convolution& convolution);
    explicit Direct(const Convolution& convolution);

    std::size_t scratch_bytes() const override;
    void compute(RunContext& context, const Operands& operands) const override;

private:
    Direct(const Convolution& convolution, const DirectShape& shape);

    DirectShape shape_;
};

}  // namespace dmlgraph::cpu
