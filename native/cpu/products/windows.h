// The windows of a convolution as the columns of a product: column o consists of the elements of window o, channel by
// channel, and tap by tap within each.
#pragma once

#include <array>
#include <cstdint>

#include "cpu/products/panels.h"

namespace dmlgraph::cpu {

inline constexpr int most_spatial = 3;
using Spatial = std::array<std::int64_t, most_spatial>;  // along the last dimensions; those that a tensor lacks are 1

// What a tensor has along its spatial dimensions, which come after `outer` others; those that it lacks are `missing`.
Spatial spatial(const Sizes& of, int outer, int rank, std::int64_t missing);

// Along a dimension, tap k of window o is at o · stride + k · dilation − padding.
struct Windows {
    Spatial taps{1, 1, 1};
    Spatial strides{1, 1, 1};
    Spatial dilations{1, 1, 1};
    Spatial padding{};  // before the first element
    Spatial counts{1, 1, 1};
    bool mirrored = false;  // whether the taps come in reverse order

    std::int64_t tap_count() const { return taps[0] * taps[1] * taps[2]; }
    std::int64_t count() const { return counts[0] * counts[1] * counts[2]; }
    // The coordinates of a tap.
    Spatial tap(std::int64_t index) const;
    // Whether each window is the element at its own place.
    bool is_element(const Spatial& sizes) const;
    // Whether the first of three dimensions has a single window of its single element.
    bool is_flat(const Spatial& sizes) const;
    // Whether there is one window, which has the tensor's elements in their order.
    bool is_whole(const Spatial& sizes) const;
};

// The batch is {N, groups}. Elements beyond the tensor are `border`. Strides in bytes.
class WindowPanels final : public PanelSource {
public:
    WindowPanels(const Windows& windows, const Spatial& sizes, DataType type)
        : windows_(windows), sizes_(sizes), type_(type) {}

    void pack(const PanelPart& part, NumbersTo out, const ProductKernels& kernels) const override;

    // Whether all elements of a window, or one at a tap, are the tensor's.
    bool is_inside(std::int64_t window) const;
    bool is_inside(std::int64_t window, std::int64_t tap) const;
    // The channels as rows of a matrix if every window is one element; else, or if the elements do not have one stride,
    // without data.
    MatrixPanels elements() const;

    const Windows& windows() const { return windows_; }
    const Spatial& sizes() const { return sizes_; }
    DataType type() const { return type_; }

    const std::byte* data = nullptr;
    std::array<std::int64_t, 2> batch{};
    std::int64_t channels = 1;  // of a group
    std::int64_t channel = 0;   // from channel to channel
    Spatial strides{};
    std::uint32_t border = 0;  // its bits

private:
    Windows windows_;
    Spatial sizes_;
    DataType type_;
};

}  // namespace dmlgraph::cpu
