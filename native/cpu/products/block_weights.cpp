#include "cpu/products/block_weights.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "cpu/kernels/few_bits.h"
#include "cpu/kernels/level.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t depths_at_a_time = 64;
constexpr std::int64_t most_blocks = 64;  // of a line at a time

// The index behind a block, or `end`.
std::int64_t end_of_block(std::int64_t at, std::int64_t block, std::int64_t end) {
    return std::min(end, (at / block + 1) * block);
}

BlocksKernel kernel_of(const FewBits& weights) {
    const FewBitsKernels& kernels = chosen_level().few_bits;
    return weights.four        ? (weights.is_signed ? kernels.int4 : kernels.uint4)
           : weights.is_signed ? kernels.int8
                               : kernels.uint8;
}

}  // namespace

std::uint8_t FewBits::at(std::int64_t index) const {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(data);
    if (!four) {
        return bytes[index];
    }
    const unsigned half = index % 2 != 0 ? bytes[index / 2] >> 4 : bytes[index / 2] & 15u, sign = is_signed ? 8u : 0u;
    return static_cast<std::uint8_t>((half ^ sign) - sign);
}

float FewBits::number(std::int64_t index) const {
    const std::uint8_t byte = at(index);
    return is_signed ? static_cast<float>(static_cast<std::int8_t>(byte)) : static_cast<float>(byte);
}

void FewBits::spread(std::int64_t first, std::int64_t count, std::uint8_t* out) const {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(data);
    if (!four) {
        std::copy(bytes + first, bytes + first + count, out);
        return;
    }
    const std::int64_t end = first + count;
    for (; first < end && first % 2 != 0; ++first) {
        *out++ = at(first);
    }
    const std::int64_t pairs = (end - first) / 2;
    chosen_level().few_bits.spread(out, bytes + first / 2, pairs, is_signed ? 8 : 0);
    if (first + 2 * pairs < end) {
        out[2 * pairs] = at(end - 1);
    }
}

BlockWeights::BlockWeights(const Tensors& tensors)
    : t_(tensors),
      kernel_(find_kernel(tensors.zeros.data != nullptr ? Opcode::DEQUANTIZE_FROM : Opcode::DEQUANTIZE,
                          tensors.weights.is_signed ? DataType::int8 : DataType::uint8, DataType::float32)),
      blocks_kernel_(kernel_of(tensors.weights)) {
    if (kernel_ == nullptr || (t_.line != 1 && t_.depth != 1)) {
        throw std::invalid_argument("weights in blocks are 8-bit integers whose lines or columns lie side by side");
    }
}

void BlockWeights::pack(const PanelPart& part, NumbersTo out, const ProductKernels& kernels) const {
    lies_along() ? pack_along(part, out.as<float>(), kernels) : pack_across(part, out.as<float>());
}

void BlockWeights::lines(const PanelPart& part, float* out) const {
    for (std::int64_t l = 0; l < part.lines; ++l) {
        line_of(part.first + l, part.first_depth, part.depth, out + l * part.depth);
    }
}

// Of weights that lie along a line: as many blocks at a time as begin at whole bytes.
void BlockWeights::line_of(std::int64_t line, std::int64_t first, std::int64_t count, float* out) const {
    const bool has_zeros = t_.zeros.data != nullptr;
    const std::int64_t block = t_.scale.depth_block, end = first + count;
    const bool alike = (!has_zeros || t_.zero.depth_block == block) && (!t_.weights.four || block % 2 == 0);
    std::array<float, most_blocks> scales, zeros{};
    for (std::int64_t at = first, next = 0; at < end; at = next) {
        const std::int64_t index = line * t_.line + at;
        const bool is_odd = t_.weights.four && index % 2 != 0;
        next = end_of_block(at, block, end);
        if (has_zeros) {
            next = std::min(next, end_of_block(at, t_.zero.depth_block, end));
        }
        if (is_odd) {
            next = at + 1;
        } else if (alike && at % block == 0) {
            next = std::min(end, at + most_blocks * block);
        }
        const std::int64_t scale = t_.scale.of_line(line) + t_.scale.of_depth(at),
                           zero = t_.zero.of_line(line) + t_.zero.of_depth(at);
        for (std::int64_t i = 0, from = at; from < next; ++i, from += block) {
            scales[static_cast<std::size_t>(i)] = t_.scales[scale + i * t_.scale.depth_step];
            zeros[static_cast<std::size_t>(i)] = has_zeros ? t_.zeros.number(zero + i * t_.zero.depth_step) : 0.0f;
        }
        if (is_odd) {
            out[at - first] = (t_.weights.number(index) - zeros[0]) * scales[0];
        } else {
            const auto* const in =
                reinterpret_cast<const std::uint8_t*>(t_.weights.data) + (t_.weights.four ? index / 2 : index);
            blocks_kernel_({out + (at - first), in, next - at, block, scales.data(), zeros.data()});
        }
    }
}

void BlockWeights::pack_along(const PanelPart& part, float* out, const ProductKernels& kernels) const {
    alignas(64) std::array<float, widest_panel * depths_at_a_time> floats;
    for (std::int64_t k = 0; k < part.depth; k += depths_at_a_time) {
        const std::int64_t depth = std::min(depths_at_a_time, part.depth - k);
        lines({part.batch, part.first, part.lines, part.first_depth + k, depth, part.width}, floats.data());
        constexpr std::int64_t item = sizeof(float);
        kernels.pack({out + k * part.width, part.width, reinterpret_cast<const std::byte*>(floats.data()), depth * item,
                      item, part.lines, depth});
    }
}

// Of weights whose lines lie side by side at a depth.
void BlockWeights::pack_across(const PanelPart& part, float* out) const {
    std::array<std::uint8_t, most_streamed_columns> bytes, zeros;
    std::array<float, most_streamed_columns> scales;
    const bool has_zeros = t_.zeros.data != nullptr;
    const std::int64_t end = part.first_depth + part.depth;
    for (std::int64_t k = part.first_depth, next = k; k < end; ++k, out += part.width) {
        if (k == next) {
            next = std::min(end_of_block(k, t_.scale.depth_block, end),
                            has_zeros ? end_of_block(k, t_.zero.depth_block, end) : end);
            scales_at(k, part, scales.data());
            if (has_zeros) {
                zeros_at(k, part, zeros.data());
            }
        }
        t_.weights.spread(k * t_.depth + part.first, part.lines, bytes.data());
        dequantize(bytes.data(), {scales.data(), false}, {zeros.data(), false}, part.lines, out);
        std::fill(out + part.lines, out + part.width, 0.0f);
    }
}

// The scales of a part's lines at a depth.
void BlockWeights::scales_at(std::int64_t depth, const PanelPart& part, float* out) const {
    const float* const of_depth = t_.scales + t_.scale.of_depth(depth);
    if (t_.scale.is_dense()) {
        std::copy_n(of_depth + part.first, part.lines, out);
        return;
    }
    for (std::int64_t l = 0; l < part.lines; ++l) {
        out[l] = of_depth[t_.scale.of_line(part.first + l)];
    }
}

void BlockWeights::zeros_at(std::int64_t depth, const PanelPart& part, std::uint8_t* out) const {
    const std::int64_t of_depth = t_.zero.of_depth(depth);
    if (t_.zero.is_dense()) {
        t_.zeros.spread(of_depth + part.first, part.lines, out);
        return;
    }
    for (std::int64_t l = 0; l < part.lines; ++l) {
        out[l] = t_.zeros.at(of_depth + t_.zero.of_line(part.first + l));
    }
}

void BlockWeights::dequantize(const std::uint8_t* weights, Operand scales, Operand zeros, std::int64_t count,
                              float* out) const {
    const std::array<Operand, 3> operands{{{weights, false}, scales, zeros}};
    kernel_({out, operands.data(), static_cast<std::size_t>(count), nullptr, 0});
}

}  // namespace dmlgraph::cpu
