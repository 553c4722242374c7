// Weights of 8-bit integers where the sums of two products are 16 bits (see PairKernels): as small words, and what they lack.
//
// Most weights are near 0, so few pairs of them are too large. What these have beyond the greatest small ones is the rest: a
// word for each, which is multiplied in a second pass, while the tile's sums are in the first cache.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "cpu/products/panels.h"

namespace dmlgraph::cpu {

// The rests of an operand's panels, for the depths that products multiply at a time: depth by depth.
class Rests {
public:
    Rests() = default;
    // Of panels `width` lines wide, `batch` panels apart from place to place, with `depth` words in a line.
    Rests(const Sizes& batch, std::int64_t width, std::int64_t depth);

    // Makes the words of the next panel small.
    void take(std::int64_t lines, std::int64_t width, float* words);

    bool empty() const { return words_.empty(); }
    // Whether so many words take less time with their rests than twice as many whole ones.
    bool are_few(std::int64_t words) const { return std::ssize(words_) <= words / few; }
    // Of the depths from `from` on that are multiplied at a time.
    std::span<const RestWord> of(const Sizes& place, std::int64_t panel, std::int64_t from) const;
    // Adds them to the small words of a panel.
    void add_to(const PanelPart& part, float* words) const;

private:
    static constexpr std::int64_t few = 16;

    Sizes batch_{};
    std::int64_t width_ = 1;
    std::int64_t depth_ = 0;
    std::int64_t depth_each_ = 1;
    std::vector<std::int64_t> first_{0};  // of each panel and its depths, and the end
    std::vector<RestWord> words_;
};

// Words of four signed numbers as small ones, with `rests`. Panels are packed in their order, whole.
class SmallWords final : public PanelSource {
public:
    SmallWords(const PanelSource& from, Rests& rests) : from_(from), rests_(rests) {}

    void pack(const PanelPart& part, float* out, const ProductKernels& kernels) const override {
        from_.pack(part, out, kernels);
        rests_.take(part.lines, part.width, out);
    }

private:
    const PanelSource& from_;
    Rests& rests_;
};

// The opposite: writes small words and their rests to where the words come from. `to` has an `unpack`, as MatrixPanels has.
template <class Source>
class WholeWords {
public:
    WholeWords(const Source& to, const Rests& rests) : to_(to), rests_(rests) {}

    void unpack(const PanelPart& part, const float* panel) const {
        std::vector<float> words(panel, panel + part.width * part.depth);
        rests_.add_to(part, words.data());
        to_.unpack(part, words.data());
    }

private:
    const Source& to_;
    const Rests& rests_;
};

}  // namespace dmlgraph::cpu
