// Kernels of 4-bit weights at every instruction-set level, on memory of exactly the needed bytes. Whole numbers and
// scales that are powers of two: sums are exact.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/kernels/few_bits.h"
#include "cpu/kernels/level.h"
#include "cpu/products/nibbles.h"
#include "cpu/tests/context.h"
#include "cpu/tests/random.h"

namespace dmlgraph::cpu::tests {
namespace {

template <class T>
struct Exactly {
    std::unique_ptr<T[]> memory;
    std::int64_t count;

    explicit Exactly(std::int64_t count) : memory(new T[static_cast<std::size_t>(count)]), count(count) {}
    T& operator[](std::int64_t index) const { return memory[static_cast<std::size_t>(index)]; }
};

// A matrix of nibbles, line by line, with a scale and a zero point for each block of a line.
struct Weights4 {
    std::int64_t lines, depth, block, blocks;
    Exactly<std::uint8_t> nibbles, zeros;  // zero points as nibbles, which share bytes
    Exactly<float> scales;
    bool is_signed;

    Weights4(std::int64_t lines, std::int64_t depth, std::int64_t block, bool varies, bool is_signed, Random& random)
        : lines(lines),
          depth(depth),
          block(block),
          blocks((depth + block - 1) / block),
          nibbles(lines * depth / 2),
          zeros((lines * blocks + 1) / 2),
          scales(lines * blocks),
          is_signed(is_signed) {
        for (std::int64_t i = 0; i < nibbles.count; ++i) {
            nibbles[i] = static_cast<std::uint8_t>(random.between(0, 255));
        }
        for (std::int64_t i = 0; i < zeros.count; ++i) {
            zeros[i] = varies ? static_cast<std::uint8_t>(random.between(0, 255)) : 0x88;
        }
        for (std::int64_t i = 0; i < scales.count; ++i) {
            scales[i] = random.chance(50) ? 0.5f : 2.0f;
        }
    }
    BlockWeights::Tensors tensors() const {
        BlockWeights::Tensors t;
        t.weights = {reinterpret_cast<const std::byte*>(nibbles.memory.get()), true, is_signed};
        t.line = depth, t.depth = 1;
        t.scales = scales.memory.get();
        t.scale = {1, blocks, block, 1};
        t.zeros = {reinterpret_cast<const std::byte*>(zeros.memory.get()), true, is_signed};
        t.zero = t.scale;
        return t;
    }
    float at(std::int64_t line, std::int64_t k) const {
        const BlockWeights::Tensors t = tensors();
        const std::int64_t number = line * blocks + k / block;
        return (t.weights.number(line * depth + k) - t.zeros.number(number)) * scales[number];
    }
};

void check_floats(const FewBitsKernels& kernels, const Weights4& weights, const Nibbles& packed, int rows,
                  Random& random) {
    const std::int64_t gap = random.between(0, 3), step = weights.depth + gap;
    const Exactly<float> a((rows - 1) * step + weights.depth);
    for (std::int64_t i = 0; i < a.count; ++i) {
        a[i] = static_cast<float>(random.between(-4, 4));
    }
    for (std::int64_t p = 0; p < packed.panels(); ++p) {
        const std::int64_t sums_step = nibble_lines + random.between(0, 2);
        const Exactly<float> sums((rows - 1) * sums_step + nibble_lines);
        kernels.nibble_rows({packed.panel(p), a.memory.get(), step, rows, sums.memory.get(), sums_step});
        const Exactly<float> panel((weights.depth - 1) * sums_step + nibble_lines);
        kernels.nibble_panel({packed.panel(p), panel.memory.get(), sums_step});
        bool right = true;
        for (std::int64_t l = 0; l < nibble_lines && p * nibble_lines + l < weights.lines; ++l) {
            for (std::int64_t k = 0; k < weights.depth; ++k) {
                right = right && panel[k * sums_step + l] == weights.at(p * nibble_lines + l, k);
            }
            for (std::int64_t r = 0; r < rows; ++r) {
                float expected = 0;
                for (std::int64_t k = 0; k < weights.depth; ++k) {
                    expected += a[r * step + k] * weights.at(p * nibble_lines + l, k);
                }
                right = right && sums[r * sums_step + l] == expected;
            }
        }
        CHECK(right);
    }
}

void check_bytes(const IntegerKernels& kernels, const Weights4& weights, const Nibbles& packed, int rows,
                 Random& random) {
    const std::int64_t words_step = weights.depth / nibble_depths * kernels.words_of_nibbles;
    const Exactly<std::int8_t> a(rows * weights.depth);
    const Exactly<std::uint32_t> words(rows * words_step);
    const Exactly<float> scales(rows * weights.blocks), totals(rows * weights.blocks);
    for (std::int64_t i = 0; i < a.count; ++i) {
        a[i] =
            static_cast<std::int8_t>(random.chance(30) ? (random.chance(50) ? -128 : 127) : random.between(-128, 127));
    }
    for (std::int64_t i = 0; i < scales.count; ++i) {
        scales[i] = random.chance(50) ? 0.25f : 1.0f;
        totals[i] = 0;
    }
    for (std::int64_t r = 0; r < rows; ++r) {
        kernels.nibble_words(words.memory.get() + r * words_step, a.memory.get() + r * weights.depth, weights.depth);
        for (std::int64_t k = 0; k < weights.depth; ++k) {
            totals[r * weights.blocks + k / weights.block] -= static_cast<float>(a[r * weights.depth + k]);
        }
    }
    for (std::int64_t p = 0; p < packed.panels(); ++p) {
        const Exactly<float> sums(rows * nibble_lines);
        kernels.nibble_rows({packed.panel(p), words.memory.get(), words_step, scales.memory.get(), totals.memory.get(),
                             weights.blocks, rows, sums.memory.get(), nibble_lines});
        bool right = true;
        for (std::int64_t l = 0; l < nibble_lines && p * nibble_lines + l < weights.lines; ++l) {
            for (std::int64_t r = 0; r < rows; ++r) {
                float expected = 0;
                for (std::int64_t k = 0; k < weights.depth; ++k) {
                    const float scale = scales[r * weights.blocks + k / weights.block];
                    expected +=
                        scale * static_cast<float>(a[r * weights.depth + k]) * weights.at(p * nibble_lines + l, k);
                }
                right = right && sums[r * nibble_lines + l] == expected;
            }
        }
        CHECK(right);
    }
}

TEST_CASE("4-bit weights at every level") {
    Random random(35);
    for (const Level& level : levels()) {
        for (int rows = 1; rows <= most_nibble_rows; ++rows) {
            const std::int64_t block =
                std::array<std::int64_t, 6>{8, 16, 24, 32, 40, 256}[static_cast<std::size_t>(random.between(0, 5))];
            const std::int64_t depth = 8 * random.between(1, 40);
            const Weights4 weights(random.between(1, 40), depth, std::min(block, depth), random.chance(50),
                                   random.chance(50), random);
            const Nibbles packed(weights.tensors(), weights.lines, weights.depth);
            INFO(level.name, ": ", rows, " rows, ", weights.lines, " lines of ", weights.depth, ", blocks of ",
                 weights.block);
            check_floats(level.few_bits, weights, packed, rows, random);
            check_bytes(level.integers, weights, packed, rows, random);
            check_bytes(level.products->integers, weights, packed, rows, random);
        }
    }
}

TEST_CASE("4-bit weights as panels of any part") {
    Random random(36);
    for (int i = 0; i < 200; ++i) {
        const std::int64_t depth = 8 * random.between(1, 20),
                           block = std::min<std::int64_t>(depth, 8 * random.between(1, 6));
        const Weights4 weights(random.between(1, 70), depth, block, random.chance(50), random.chance(50), random);
        const Nibbles packed(weights.tensors(), weights.lines, depth);
        const std::int64_t first = random.between(0, weights.lines - 1),
                           lines = random.between(1, weights.lines - first), width = lines + random.between(0, 20);
        const std::int64_t from = random.between(0, depth - 1), depths = random.between(1, depth - from);
        const Exactly<float> out(width * depths);
        packed.pack({Sizes{}, first, lines, from, depths, width}, out.memory.get(), *chosen_level().products);
        bool right = true;
        for (std::int64_t k = 0; k < depths; ++k) {
            for (std::int64_t l = 0; l < width; ++l) {
                right = right && out[k * width + l] == (l < lines ? weights.at(first + l, from + k) : 0.0f);
            }
        }
        CHECK(right);
    }
}

TEST_CASE("packed 4-bit weights keep every bit") {
    Random random(37);
    for (int i = 0; i < 50; ++i) {
        const std::int64_t depth = 8 * random.between(1, 20), block = 8 * random.between(1, depth / 8);
        const Weights4 weights(random.between(1, 70), depth, block, random.chance(50), random.chance(50), random);
        const BlockWeights::Tensors tensors = weights.tensors();
        const Nibbles packed(tensors, weights.lines, depth);
        const Exactly<std::uint8_t> nibbles(weights.nibbles.count), zeros(weights.zeros.count);
        const Exactly<float> scales(weights.scales.count);
        zeros[zeros.count - 1] = weights.zeros[zeros.count - 1];  // half of it may belong to no zero point
        packed.unpack_weights(tensors, reinterpret_cast<std::byte*>(nibbles.memory.get()));
        packed.unpack_scales(tensors, scales.memory.get());
        packed.unpack_zeros(tensors, reinterpret_cast<std::byte*>(zeros.memory.get()));
        CHECK(std::equal(nibbles.memory.get(), nibbles.memory.get() + nibbles.count, weights.nibbles.memory.get()));
        CHECK(std::equal(scales.memory.get(), scales.memory.get() + scales.count, weights.scales.memory.get()));
        CHECK(std::equal(zeros.memory.get(), zeros.memory.get() + zeros.count, weights.zeros.memory.get()));
    }
}

}  // namespace
}  // namespace dmlgraph::cpu::tests
