#include "cpu/products/nibbles.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "cpu/kernels/level.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t panels_together = 4;   // whose results a worker stores at once
constexpr std::int64_t rows_together = 128;   // that stay in the second cache
constexpr std::int64_t decoded_depths = 64;   // at a time, where a panel is not whole
constexpr std::uint32_t signs = 0x88888888u;  // of a word of signed nibbles: inverted, they are 8 more

// A worker's memory.
struct NibbleMemory {
    float* rows;  // float32, one behind the other
    float* sums;
    std::byte* line;

    NibbleMemory(Scratch& scratch, std::int64_t depth, std::size_t operands, const Epilogue& epilogue) {
        constexpr std::int64_t width = panels_together * nibble_lines;
        rows = scratch.take(most_nibble_rows * depth);
        sums = scratch.take(most_nibble_rows * width);
        line = Target::take_line(scratch, operands, epilogue, width);
    }
};

// A tile of rows, and where the sums of some panels go.
struct NibbleTile {
    std::int64_t first;
    int rows;
};

// Calls function(memory, tile, panel, sums, step) for each tile of rows and each panel, and stores what it has summed
// up.
template <class Function>
void each_tile(RunContext& context, const ProductSizes& sizes, const Nibbles& weights, const Target& target,
               const Function& function) {
    const std::int64_t across = quotient_up(weights.panels(), panels_together),
                       down = quotient_up(sizes.m, rows_together);
    const auto of_worker = [&](Scratch scratch) {
        return NibbleMemory(scratch, weights.depth(), target.operands.size(), *target.epilogue);
    };
    context.each_with(
        across * down, product_cost(sizes), of_worker, [&](const NibbleMemory& memory, std::int64_t item) {
            const std::int64_t first = item % across * panels_together,
                               last = std::min(weights.panels(), first + panels_together);
            const std::int64_t left = first * nibble_lines, width = std::min(sizes.n, last * nibble_lines) - left;
            const std::int64_t end = std::min(sizes.m, (item / across + 1) * rows_together);
            constexpr std::int64_t step = panels_together * nibble_lines;
            for (std::int64_t row = item / across * rows_together; row < end; row += most_nibble_rows) {
                const NibbleTile tile{row, static_cast<int>(std::min<std::int64_t>(most_nibble_rows, end - row))};
                for (std::int64_t panel = first; panel < last; ++panel) {
                    function(memory, tile, panel, memory.sums + (panel - first) * nibble_lines, step);
                }
                for (std::int64_t r = 0; r < tile.rows; ++r) {
                    target.correct_and_store(memory.sums + r * step, {}, row + r, left, width, memory.line);
                }
            }
        });
}

}  // namespace

bool Nibbles::fit(const BlockWeights::Tensors& tensors, std::int64_t depth) {
    const std::int64_t block = tensors.scale.depth_block;
    const bool alike = tensors.zero.depth_step == 0 || tensors.zero.depth_block % block == 0;
    return tensors.weights.four && alike && block % nibble_depths == 0 && depth % nibble_depths == 0;
}

Nibbles::Nibbles(const BlockWeights::Tensors& from, std::int64_t lines, std::int64_t depth)
    : lines_(lines), depth_(depth), block_(std::min(depth, from.scale.depth_block)) {
    const std::int64_t padded = panels() * nibble_lines, numbers = padded * blocks();
    const std::int64_t less = from.weights.is_signed ? 8 : 0;  // signed nibbles become unsigned, as their zero points
    const auto zero_of = [&](std::int64_t line, std::int64_t block) {
        const std::int64_t index = from.zero.of_line(line) + from.zero.of_depth(block * block_);
        return static_cast<std::uint8_t>((from.zeros.data == nullptr ? 0.0f : from.zeros.number(index)) +
                                         static_cast<float>(less));
    };
    const std::uint8_t first = zero_of(0, 0);
    for (std::int64_t line = 0; line < lines && !varies_; ++line) {
        for (std::int64_t block = 0; block < blocks() && !varies_; ++block) {
            varies_ = zero_of(line, block) != first;
        }
    }
    zero_ = first;
    scales_at_ = static_cast<std::size_t>(padded * depth / 2);
    zeros_at_ = scales_at_ + static_cast<std::size_t>(numbers) * sizeof(float);
    memory_ = Memory(zeros_at_ + (varies_ ? static_cast<std::size_t>(numbers) : 0));
    std::memset(memory_.get(), 0, memory_.bytes());
    const std::uint32_t flip = from.weights.is_signed ? signs : 0;
    for (std::int64_t line = 0; line < lines; ++line) {
        std::uint32_t* const out =
            words() + line / nibble_lines * nibble_lines * depth / nibble_depths + line % nibble_lines;
        for (std::int64_t k = 0; k < depth; k += nibble_depths) {
            out[k / nibble_depths * nibble_lines] = word_of(from, line, k) ^ flip;
        }
        for (std::int64_t block = 0; block < blocks(); ++block) {
            const std::int64_t at = number_at(line, block);
            scales()[at] = from.scales[from.scale.of_line(line) + from.scale.of_depth(block * block_)];
            if (varies_) {
                zeros()[at] = zero_of(line, block);
            }
        }
    }
}

// Where the scale of a line's block is.
std::int64_t Nibbles::number_at(std::int64_t line, std::int64_t block) const {
    return (line / nibble_lines * blocks() + block) * nibble_lines + line % nibble_lines;
}

std::uint32_t Nibbles::word_of(const BlockWeights::Tensors& from, std::int64_t line, std::int64_t depth) const {
    const std::int64_t first = line * from.line + depth * from.depth;
    std::uint32_t word = 0;
    if (from.depth == 1 && first % 2 == 0) {
        for (std::int64_t i = 0; i < nibble_depths / 2; ++i) {
            word |= std::to_integer<std::uint32_t>(from.weights.data[first / 2 + i]) << 8 * i;
        }
        return word;
    }
    for (std::int64_t k = 0; k < nibble_depths; ++k) {
        word |= (from.weights.at(first + k * from.depth) & 15u) << 4 * k;
    }
    return word;
}

NibblePanel Nibbles::panel(std::int64_t index) const {
    const std::int64_t numbers = index * nibble_lines * blocks();
    return {words() + index * nibble_lines * depth_ / nibble_depths,
            scales() + numbers,
            varies_ ? zeros() + numbers : nullptr,
            zero_,
            depth_,
            block_};
}

void Nibbles::pack(const PanelPart& part, NumbersTo out, const ProductKernels&) const {
    const auto decode = chosen_level().few_bits.nibble_panel;
    const std::int64_t end = part.first_depth + part.depth;
    alignas(64) std::array<float, decoded_depths * nibble_lines> some;
    for (std::int64_t index = part.first / nibble_lines; index * nibble_lines < part.first + part.width; ++index) {
        const std::int64_t first = std::max(part.first, index * nibble_lines);
        const std::int64_t count = std::min(part.first + part.width, (index + 1) * nibble_lines) - first;
        const std::int64_t there = std::clamp<std::int64_t>(part.first + part.lines - first, 0, count);
        for (std::int64_t from = part.first_depth, next = 0; from < end; from = next) {
            // Whole words of one block, or whole blocks; the depths before `from` are decoded, too.
            const std::int64_t block = from / block_, start = from / nibble_depths * nibble_depths;
            next = std::min({end, start + decoded_depths, (block + 1) * block_});
            float* const to = out.as<float>() + (from - part.first_depth) * part.width + (first - part.first);
            if (there > 0) {
                NibblePanel panel = this->panel(index);
                panel.words += start / nibble_depths * nibble_lines;
                panel.scales += block * nibble_lines;
                panel.zeros += panel.zeros == nullptr ? 0 : block * nibble_lines;
                panel.depth = panel.block = quotient_up(next - start, std::int64_t{nibble_depths}) * nibble_depths;
                const bool whole =
                    count == nibble_lines && there == count && start == from && next == start + panel.depth;
                decode({panel, whole ? to : some.data(), whole ? part.width : nibble_lines});
                if (whole) {
                    continue;
                }
            }
            for (std::int64_t k = from; k < next; ++k) {
                float* const of_depth = to + (k - from) * part.width;
                std::copy_n(some.data() + (k - start) * nibble_lines + first % nibble_lines, there, of_depth);
                std::fill(of_depth + there, of_depth + count, 0.0f);
            }
        }
    }
}

void Nibbles::unpack_weights(const BlockWeights::Tensors& to, std::byte* out) const {
    const std::uint32_t flip = to.weights.is_signed ? signs : 0;
    std::fill_n(out, quotient_up(lines_ * depth_, std::int64_t{2}), std::byte{});
    for (std::int64_t line = 0; line < lines_; ++line) {
        const std::uint32_t* const in = panel(line / nibble_lines).words + line % nibble_lines;
        for (std::int64_t k = 0; k < depth_; ++k) {
            const std::uint32_t word = in[k / nibble_depths * nibble_lines] ^ flip;
            const std::int64_t index = line * to.line + k * to.depth;
            out[index / 2] |= static_cast<std::byte>((word >> k % nibble_depths * 4 & 15u) << index % 2 * 4);
        }
    }
}

void Nibbles::unpack_scales(const BlockWeights::Tensors& to, float* out) const {
    for (std::int64_t line = 0; line < lines_; ++line) {
        for (std::int64_t block = 0; block < blocks(); ++block) {
            out[to.scale.of_line(line) + to.scale.of_depth(block * block_)] = scales()[number_at(line, block)];
        }
    }
}

void Nibbles::unpack_zeros(const BlockWeights::Tensors& to, std::byte* out) const {
    const std::uint32_t flip = to.weights.is_signed ? 8 : 0;
    for (std::int64_t line = 0; line < lines_; ++line) {
        for (std::int64_t block = 0; block < blocks(); ++block) {
            const std::int64_t index = to.zero.of_line(line) + to.zero.of_depth(block * block_);
            const std::uint32_t zero = varies_ ? zeros()[number_at(line, block)] : static_cast<std::uint32_t>(zero_);
            const unsigned shift = index % 2 * 4;
            out[index / 2] = (out[index / 2] & static_cast<std::byte>(0xf0u >> shift)) |
                             static_cast<std::byte>((zero ^ flip) << shift);
        }
    }
}

std::size_t nibble_scratch(std::int64_t depth, std::size_t operands, const Epilogue& epilogue) {
    return scratch_of<NibbleMemory>(depth, operands, epilogue);
}

void run_nibbles(RunContext& context, const ProductSizes& sizes, const MatrixPanels& rows, const Nibbles& weights,
                 const Target& target, const ProductKernels& kernels) {
    const auto multiply = chosen_level().few_bits.nibble_rows;
    const bool in_place = rows.type == DataType::float32 && rows.lies_along() &&
                          rows.line % static_cast<std::int64_t>(sizeof(float)) == 0;
    each_tile(
        context, sizes, weights, target,
        [&](const NibbleMemory& memory, const NibbleTile& tile, std::int64_t panel, float* sums, std::int64_t step) {
            const float* a = reinterpret_cast<const float*>(rows.data + tile.first * rows.line);
            std::int64_t a_step = rows.line / std::int64_t{sizeof(float)};
            if (!in_place) {
                a = memory.rows, a_step = sizes.k;
                for (std::int64_t r = 0; r < tile.rows && sums == memory.sums; ++r) {
                    rows.pack({Sizes{}, tile.first + r, 1, 0, sizes.k, 1}, memory.rows + r * sizes.k, kernels);
                }
            }
            multiply({weights.panel(panel), a, a_step, tile.rows, sums, step});
        });
}

void run_nibbles(RunContext& context, const ProductSizes& sizes, const ByteRows& rows, const Nibbles& weights,
                 const Target& target, const ProductKernels& kernels) {
    const IntegerKernels& integers = kernels.integers;
    const std::int64_t blocks = quotient_up(weights.depth(), weights.block()),
                       words_step = weights.depth() / nibble_depths * integers.words_of_nibbles;
    const auto words = std::make_unique_for_overwrite<std::uint32_t[]>(static_cast<std::size_t>(sizes.m * words_step));
    const auto totals = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(2 * sizes.m * blocks));
    float* const scales = totals.get() + sizes.m * blocks;
    context.each(sizes.m, static_cast<double>(sizes.m * weights.depth()), [&](std::int64_t row) {
        const std::int8_t* const numbers = rows.numbers + row * rows.step;
        integers.nibble_words(words.get() + row * words_step, numbers, weights.depth());
        for (std::int64_t b = 0; b < blocks; ++b) {
            const std::int64_t first = b * weights.block(), end = std::min(weights.depth(), first + weights.block());
            int total = 0;
            for (std::int64_t k = first; k < end; ++k) {
                total -= numbers[k];
            }
            totals[static_cast<std::size_t>(row * blocks + b)] = static_cast<float>(total);
        }
        std::copy_n(rows.scales + row * rows.scales_step, blocks, scales + row * blocks);
    });
    each_tile(context, sizes, weights, target,
              [&](const NibbleMemory&, const NibbleTile& tile, std::int64_t panel, float* sums, std::int64_t step) {
                  const std::int64_t numbers = tile.first * blocks;
                  integers.nibble_rows({weights.panel(panel), words.get() + tile.first * words_step, words_step,
                                        scales + numbers, totals.get() + numbers, blocks, tile.rows, sums, step});
              });
}

}  // namespace dmlgraph::cpu
