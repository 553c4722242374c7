// Convolutions whose every output channel has one input channel, in blocks of channels: for short rows of windows,
// along which vectors would have few lanes with work.
//
// The elements of as many channels as a vector has lanes become cells, by transposing squares of them, with cells of
// zeros around the picture. The sums over the taps of a cell's neighbours are then transposed back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/products/depthwise.h"

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

// Whether the elements of planes, float32 or float16, lie as blocks read them: side by side, `channel` bytes from plane
// to plane.
bool has_pictures(DataType type, const Spatial& sizes, const Spatial& strides, std::int64_t channel);

class BlockedDepthwise final : public FilterMethod {
public:
    static bool fits(const Convolution& convolution);
    explicit BlockedDepthwise(const Convolution& convolution);

    // Pictures may lie in another way.
    bool keeps() const override { return false; }
    std::size_t scratch_bytes() const override;
    void compute(RunContext& context, const Operands& operands) const override;

private:
    CellPlane plane_;
    Depthwise rows_;  // for other pictures
};

}  // namespace dmlgraph::cpu
