// Weights of 4 or 8 bits whose blocks share a scale and a zero point: they become floats where a product packs them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "cpu/kernels/few_bits.h"
#include "cpu/kernels/kernel.h"
#include "cpu/products/panels.h"
#include "cpu/tensor/data_type.h"

namespace dmlgraph::cpu {

// Where a number of each block is: that of the weight at a line and a depth is number
// line / line_block · line_step + depth / depth_block · depth_step.
struct BlockNumbers {
    std::int64_t line_block = 1;
    std::int64_t line_step = 0;
    std::int64_t depth_block = 1;
    std::int64_t depth_step = 0;

    std::int64_t of_line(std::int64_t line) const { return (line_block == 1 ? line : line / line_block) * line_step; }
    bool is_dense() const {
        return line_block == 1 && line_step == 1;
    }  // numbers of neighbouring lines lie side by side
    std::int64_t of_depth(std::int64_t depth) const { return depth / depth_block * depth_step; }
    auto operator<=>(const BlockNumbers&) const = default;
};

// Integers; those of 4 bits share bytes in pairs, the first in the lower half.
struct FewBits {
    const std::byte* data = nullptr;
    bool four = false;
    bool is_signed = false;

    std::uint8_t at(std::int64_t index) const;  // the bits of an integer of 8
    float number(std::int64_t index) const;
    // Writes the integers from `first` on as bytes.
    void spread(std::int64_t first, std::int64_t count, std::uint8_t* out) const;
    auto operator<=>(const FewBits&) const = default;
};

class BlockWeights final : public LineSource {
public:
    struct Tensors {
        FewBits weights;
        std::int64_t line = 1;   // from line to line
        std::int64_t depth = 1;  // along a line: one of both is 1
        const float* scales = nullptr;
        BlockNumbers scale;
        FewBits zeros;  // data is null if there are no zero points
        BlockNumbers zero;

        template <class Function>
        void each_address(const Function& function) {
            function(weights.data), function(scales), function(zeros.data);
        }
        auto operator<=>(const Tensors&) const = default;
    };

    explicit BlockWeights(const Tensors& tensors);

    bool lies_along() const { return t_.depth == 1; }
    void pack(const PanelPart& part, NumbersTo out, const ProductKernels& kernels) const override;
    void lines(const PanelPart& part, float* out) const override;

private:
    void line_of(std::int64_t line, std::int64_t first, std::int64_t count, float* out) const;
    void pack_along(const PanelPart& part, float* out, const ProductKernels& kernels) const;
    void pack_across(const PanelPart& part, float* out) const;
    void scales_at(std::int64_t depth, const PanelPart& part, float* out) const;
    void zeros_at(std::int64_t depth, const PanelPart& part, std::uint8_t* out) const;
    // (weights − zeros) · scales, of which both may be one number.
    void dequantize(const std::uint8_t* weights, Operand scales, Operand zeros, std::int64_t count, float* out) const;

    Tensors t_;
    Kernel kernel_;
    BlocksKernel blocks_kernel_;
};

}  // namespace dmlgraph::cpu
