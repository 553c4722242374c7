// Weights of 4 bits whose blocks share a scale and a zero point, packed for kernels that decode them in registers, and
// their products.
//
// In memory they take their 4 bits, and the scales 32; zero points take a byte each, unless all are the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/few_bits.h"
#include "cpu/products/block_weights.h"
#include "cpu/products/product.h"

namespace dmlgraph::cpu {

// All lines, in panels of `nibble_lines`; a last one with fewer has others whose scales are 0.
class Nibbles final : public Weights, public PanelSource {
public:
    // Whether kernels can read weights of these sizes: their blocks are whole words of nibbles.
    static bool fit(const BlockWeights::Tensors& tensors, std::int64_t depth);

    Nibbles(const BlockWeights::Tensors& from, std::int64_t lines, std::int64_t depth);

    // 16 lines, from a depth on that is a multiple of 8, and of the block or within the only one.
    NibblePanel panel(std::int64_t index) const;
    std::int64_t lines() const { return lines_; }
    std::int64_t depth() const { return depth_; }
    std::int64_t block() const { return block_; }
    std::size_t bytes() const { return memory_.bytes(); }
    std::int64_t panels() const { return quotient_up(lines_, std::int64_t{nibble_lines}); }

    void pack(const PanelPart& part, NumbersTo out, const ProductKernels& kernels) const override;

    // The opposite of packing: writes each to where it comes from.
    void unpack_weights(const BlockWeights::Tensors& to, std::byte* out) const;
    void unpack_scales(const BlockWeights::Tensors& to, float* out) const;
    void unpack_zeros(const BlockWeights::Tensors& to, std::byte* out) const;

private:
    std::int64_t blocks() const { return quotient_up(depth_, block_); }
    std::uint32_t* words() const { return reinterpret_cast<std::uint32_t*>(memory_.get()); }
    float* scales() const { return reinterpret_cast<float*>(memory_.get() + scales_at_); }
    std::uint8_t* zeros() const { return reinterpret_cast<std::uint8_t*>(memory_.get() + zeros_at_); }
    std::int64_t number_at(std::int64_t line, std::int64_t block) const;
    std::uint32_t word_of(const BlockWeights::Tensors& from, std::int64_t line, std::int64_t depth) const;

    std::int64_t lines_;
    std::int64_t depth_;
    std::int64_t block_;
    std::size_t scales_at_ = 0;
    std::size_t zeros_at_ = 0;
    bool varies_ = false;  // whether zero points do
    float zero_ = 0;
    Memory memory_;
};

// Rows of 8-bit integers and, for each, a scale for each block.
struct ByteRows {
    const std::int8_t* numbers = nullptr;
    std::int64_t step = 0;  // from row to row
    const float* scales = nullptr;
    std::int64_t scales_step = 0;
};

// So many rows of floats are multiplied faster than by weights that become panels first.
inline constexpr std::int64_t most_rows_of_nibbles = 3 * most_nibble_rows;

std::size_t nibble_scratch(std::int64_t depth, std::size_t operands, const Epilogue& epilogue);

// Multiplies rows by the weights: few of floats, or any number of integers.
void run_nibbles(RunContext& context, const ProductSizes& sizes, const MatrixPanels& rows, const Nibbles& weights,
                 const Target& target, const ProductKernels& kernels);
void run_nibbles(RunContext& context, const ProductSizes& sizes, const ByteRows& rows, const Nibbles& weights,
                 const Target& target, const ProductKernels& kernels);

}  // namespace dmlgraph::cpu
