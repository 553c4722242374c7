#include "cpu/products/small_words.h"

#include <algorithm>
#include <bit>

#include "cpu/products/product.h"
#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

constexpr int most_of_pair = 128;  // 255 · 128 < 2^15

std::int8_t number_of(std::uint32_t word, int k) { return static_cast<std::int8_t>(word >> 8 * k); }

std::uint32_t at_number(int number, int k) { return (static_cast<std::uint32_t>(number) & 0xff) << 8 * k; }

// What the first numbers of a word's pairs have beyond those with which the pairs are small.
std::uint32_t rest_of(std::uint32_t word) {
    std::uint32_t rest = 0;
    for (const int k : {0, 2}) {
        const int a = number_of(word, k), b = number_of(word, k + 1);
        const int above = std::max(a, 0) + std::max(b, 0) - most_of_pair, below = std::min(a, 0) + std::min(b, 0) + most_of_pair;
        rest |= at_number(std::max(above, 0) + std::min(below, 0), k);
    }
    return rest;
}

// Number by number.
std::uint32_t sum_of(std::uint32_t a, std::uint32_t b) {
    std::uint32_t result = 0;
    for (int k = 0; k < 4; ++k) {
        result |= at_number(number_of(a, k) + number_of(b, k), k);
    }
    return result;
}

std::uint32_t difference_of(std::uint32_t a, std::uint32_t b) {
    std::uint32_t result = 0;
    for (int k = 0; k < 4; ++k) {
        result |= at_number(number_of(a, k) - number_of(b, k), k);
    }
    return result;
}

}  // namespace

Rests::Rests(const Sizes& batch, std::int64_t width, std::int64_t depth)
    : batch_(batch), width_(width), depth_(depth), depth_each_(depth_at_a_time(depth)) {}

void Rests::take(std::int64_t lines, std::int64_t width, float* words) {
    for (std::int64_t from = 0; from < depth_; from += depth_each_) {
        for (std::int64_t k = from; k < std::min(from + depth_each_, depth_); ++k) {
            for (std::int64_t i = 0; i < lines; ++i) {
                float& number = words[k * width + i];
                const auto word = std::bit_cast<std::uint32_t>(number);
                if (const std::uint32_t rest = rest_of(word); rest != 0) {
                    words_.push_back({static_cast<std::uint16_t>(k - from), static_cast<std::uint16_t>(i), rest});
                    number = std::bit_cast<float>(difference_of(word, rest));
                }
            }
        }
        first_.push_back(std::ssize(words_));
    }
}

std::span<const RestWord> Rests::of(const Sizes& place, std::int64_t panel, std::int64_t from) const {
    for (int d = 0; d < max_rank; ++d) {
        panel += place[d] * batch_[d];
    }
    const std::int64_t* const first = first_.data() + panel * quotient_up(depth_, depth_each_) + from / depth_each_;
    return {words_.data() + first[0], words_.data() + first[1]};
}

void Rests::add_to(const PanelPart& part, float* words) const {
    if (empty()) {
        return;
    }
    for (std::int64_t from = 0; from < depth_; from += depth_each_) {
        for (const RestWord& rest : of(part.batch, part.first / width_, from)) {
            float& word = words[(from + rest.depth) * part.width + rest.line];
            word = std::bit_cast<float>(sum_of(std::bit_cast<std::uint32_t>(word), rest.word));
        }
    }
}

}  // namespace dmlgraph::cpu
