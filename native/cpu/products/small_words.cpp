#include "cpu/products/small_words.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <utility>

#include "cpu/products/product.h"
#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

constexpr int most_of_pairs = 128;  // 255 · 128 < 2^15
constexpr std::int64_t few = 3;     // of so many words one may be a rest: then they take less time than whole ones
constexpr std::size_t pairs_of_word = 2, numbers_of_word = 4;

std::int8_t number_of(std::uint32_t word, std::size_t k) { return static_cast<std::int8_t>(word >> 8 * k); }

std::uint32_t at_number(int number, std::size_t k) { return (static_cast<std::uint32_t>(number) & 0xff) << 8 * k; }

// Number by number: a + sign · b.
std::uint32_t sum_of(std::uint32_t a, std::uint32_t b, int sign) {
    std::uint32_t result = 0;
    for (std::size_t k = 0; k < numbers_of_word; ++k) {
        result |= at_number(number_of(a, k) + sign * number_of(b, k), k);
    }
    return result;
}

// The sums of the numbers above 0 and of those below, less what may be added up in 16 bits: of pair k of several words.
struct Excess {
    std::array<int, pairs_of_word> above{}, below{};

    explicit Excess(std::span<const std::uint32_t> words) {
        above.fill(-most_of_pairs), below.fill(-most_of_pairs);
        for (const std::uint32_t word : words) {
            for (std::size_t k = 0; k < numbers_of_word; ++k) {
                const int number = number_of(word, k);
                (number > 0 ? above : below)[k / pairs_of_word] += number > 0 ? number : -number;
            }
        }
    }
    bool any() const {
        return std::ranges::any_of(above, [](int each) { return each > 0; }) ||
               std::ranges::any_of(below, [](int each) { return each > 0; });
    }
    // What of a word is beyond: its own pairs are small.
    std::uint32_t rest_of(std::uint32_t word) const {
        std::uint32_t rest = 0;
        for (std::size_t pair = 0; pair < pairs_of_word; ++pair) {
            int left_above = std::clamp(above[pair], 0, most_of_pairs),
                left_below = std::clamp(below[pair], 0, most_of_pairs);
            for (std::size_t k = pair * pairs_of_word; k < (pair + 1) * pairs_of_word; ++k) {
                const int number = number_of(word, k), taken = std::clamp(number, -left_below, left_above);
                (taken > 0 ? left_above : left_below) -= taken > 0 ? taken : -taken;
                rest |= at_number(taken, k);
            }
        }
        return rest;
    }
};

// The rests of words that are added up together, which become small: calls function(word's index, rest).
template <class Function>
void take_rests(std::span<std::uint32_t> words, const Function& function) {
    for (Excess excess(words); excess.any(); excess = Excess(words)) {
        // The word that leaves the least to others.
        std::size_t best = 0;
        int most = 0;
        std::uint32_t best_rest = 0;
        for (std::size_t i = 0; i < words.size(); ++i) {
            const std::uint32_t rest = excess.rest_of(words[i]);
            int taken = 0;
            for (std::size_t k = 0; k < numbers_of_word; ++k) {
                taken += std::abs(number_of(rest, k));
            }
            if (taken > most) {
                best = i, most = taken, best_rest = rest;
            }
        }
        words[best] = sum_of(words[best], best_rest, -1);
        function(best, best_rest);
    }
}

}  // namespace

Rests::Rests(const Sizes& batch, std::int64_t width, std::int64_t depth, int words)
    : batch_(batch), width_(width), depth_(depth), depth_each_(depth_at_a_time(depth)), together_(words) {}

void Rests::take(std::int64_t lines, std::int64_t width, std::uint32_t* words) {
    struct Rest {
        std::int64_t depth;
        std::uint32_t word;
    };
    std::vector<std::vector<Rest>> of_lines(static_cast<std::size_t>(lines));
    for (std::int64_t from = 0; from < depth_; from += depth_each_) {
        const std::int64_t depth = std::min(depth_each_, depth_ - from);
        std::size_t most = 0;
        for (std::int64_t i = 0; i < lines; ++i) {
            std::vector<Rest>& rests = of_lines[static_cast<std::size_t>(i)];
            rests.clear();
            for (std::int64_t k = 0; k < depth; k += together_) {
                std::array<std::uint32_t, most_words_together> several;
                const auto some =
                    std::span(several).first(static_cast<std::size_t>(std::min<std::int64_t>(together_, depth - k)));
                std::uint32_t* const first = words + (from + k) * width + i;
                for (std::size_t j = 0; j < some.size(); ++j) {
                    some[j] = first[static_cast<std::int64_t>(j) * width];
                }
                take_rests(some, [&](std::size_t j, std::uint32_t rest) {
                    rests.push_back({k + static_cast<std::int64_t>(j), rest});
                    first[static_cast<std::int64_t>(j) * width] = some[j];
                });
            }
            most = std::max(most, rests.size());
        }
        parts_.push_back({std::ssize(words_), static_cast<std::int64_t>(most)});
        for (std::size_t r = 0; r < most; ++r) {
            for (const std::vector<Rest>& rests : of_lines) {
                words_.push_back(r < rests.size() ? rests[r].word : 0);
                depths_.push_back(static_cast<std::uint16_t>(r < rests.size() ? rests[r].depth : 0));
            }
        }
    }
}

RestDepths Rests::of(const Sizes& place, std::int64_t panel, std::int64_t from) const {
    for (int d = 0; d < max_rank; ++d) {
        panel += place[d] * batch_[d];
    }
    const Part& part = parts_[static_cast<std::size_t>(panel * quotient_up(depth_, depth_each_) + from / depth_each_)];
    return {words_.data() + part.first, depths_.data() + part.first, part.count};
}

void Rests::add_to(const PanelPart& part, std::uint32_t* words) const {
    if (empty()) {
        return;
    }
    for (std::int64_t from = 0; from < depth_; from += depth_each_) {
        const RestDepths rests = of(part.batch, part.first / width_, from);
        for (std::int64_t r = 0; r < rests.count * part.lines; ++r) {
            std::uint32_t& word = words[(from + rests.depths[r]) * part.width + r % part.lines];
            word = sum_of(word, rests.words[r], 1);
        }
    }
}

namespace {

WordPanels pack_small(const PanelSource& from, const Packing& packing) {
    const IntegerKernels& kernels = packing.kernels->integers;
    Sizes steps{};
    std::int64_t panels = packing.division.count(), lines = packing.division.lines;
    for (int d = packing.rank - 1; d >= 0; --d) {
        steps[d] = packing.batch[d] == 1 ? 0 : panels;
        panels *= packing.batch[d], lines *= packing.batch[d];
    }
    WordPanels result{{}, Rests(steps, packing.division.width, packing.depth, kernels.words_together)};
    result.panels = Panels(SmallWords(from, result.rests), packing);
    const bool may_rest = !kernels.unsigned_rows;
    return result.rests.count() <= (may_rest ? lines * packing.depth / few : 0) ? std::move(result) : WordPanels();
}

}  // namespace

WordWeights::WordWeights(const PanelSource& from, const Packing& packing, bool as_small, LineSums sums_of_lines)
    : kernels(packing.kernels),
      words(as_small ? pack_small(from, packing) : WordPanels{Panels(from, packing), {}}),
      sums(std::move(sums_of_lines)) {}

}  // namespace dmlgraph::cpu
