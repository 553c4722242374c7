// Weights of 8-bit integers where sums of a few products are 16 bits (see PairKernels): as small words, and what they
// lack.
//
// Most weights are near 0, so few words are too large. What these have beyond the greatest small ones is the rest:
// words that meet the same depth of the other operand once more. A tile takes one of each of its rows at a time, while
// it has the sums in registers; rows with fewer of them have words of zeros.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "cpu/products/panels.h"
#include "cpu/products/zero_points.h"

namespace dmlgraph::cpu {

// The rests of an operand's panels, for the depths that products multiply at a time.
class Rests {
public:
    Rests() = default;
    // Of panels `width` lines wide, `batch` panels apart from place to place, with `depth` words in a line. A small
    // word and those that follow it up to `words` have sums of 16 bits together.
    Rests(const Sizes& batch, std::int64_t width, std::int64_t depth, int words);

    // Makes the words of the next panel small.
    void take(std::int64_t lines, std::int64_t width, std::uint32_t* words);

    bool empty() const { return words_.empty(); }
    std::int64_t count() const { return std::ssize(words_); }  // with the zeros
    // Of a panel and the depths from `from` on that are multiplied at a time.
    RestDepths of(const Sizes& place, std::int64_t panel, std::int64_t from) const;
    // Adds them to the small words of a panel.
    void add_to(const PanelPart& part, std::uint32_t* words) const;

private:
    // Of a panel and the depths that are multiplied at a time: one for each line, `count` times, from the number
    // `first` on.
    struct Part {
        std::int64_t first;
        std::int64_t count;
    };

    Sizes batch_{};
    std::int64_t width_ = 1;
    std::int64_t depth_ = 0;
    std::int64_t depth_each_ = 1;
    int together_ = 1;
    std::vector<Part> parts_;
    std::vector<std::uint32_t> words_;
    std::vector<std::uint16_t> depths_;
};

// Words of four signed numbers as small ones, with `rests`. Panels are packed in their order, whole.
class SmallWords final : public PanelSource {
public:
    SmallWords(const PanelSource& from, Rests& rests) : from_(from), rests_(rests) {}

    void pack(const PanelPart& part, NumbersTo out, const ProductKernels& kernels) const override {
        from_.pack(part, out, kernels);
        rests_.take(part.lines, part.width, out.as<std::uint32_t>());
    }

private:
    const PanelSource& from_;
    Rests& rests_;
};

// An operand's panels of words, and what small ones of them lack.
struct WordPanels {
    Panels panels;
    Rests rests;

    // Returns null if the words lack nothing.
    const Rests* some_rests() const { return rests.empty() ? nullptr : &rests; }
    // Writes the words to where they come from: `to` has an `unpack`, as MatrixPanels has.
    template <class Source>
    void unpack(const Source& to) const;
};

// Words that stay the same: with the kernels that read them, and the sums of their lines.
struct WordWeights final : Weights {
    // `as_small`: as small words of the kernels, if they have few rests, of columns none; else nothing is present.
    WordWeights(const PanelSource& from, const Packing& packing, bool as_small, LineSums sums_of_lines);

    bool present() const { return words.panels.present(); }
    std::size_t bytes() const { return words.panels.bytes() + sums.numbers.size() * sizeof(sums.numbers[0]); }

    const ProductKernels* kernels;
    WordPanels words;
    LineSums sums;
};

// The opposite of SmallWords. `to` has an `unpack`, as MatrixPanels has.
template <class Source>
class WholeWords {
public:
    WholeWords(const Source& to, const Rests& rests) : to_(to), rests_(rests) {}

    void unpack(const PanelPart& part, NumbersAt panel) const {
        const auto* const from = panel.as<std::uint32_t>();
        std::vector<std::uint32_t> words(from, from + part.width * part.depth);
        rests_.add_to(part, words.data());
        to_.unpack(part, words.data());
    }

private:
    const Source& to_;
    const Rests& rests_;
};

template <class Source>
void WordPanels::unpack(const Source& to) const {
    panels.unpack(WholeWords(to, rests));
}

}  // namespace dmlgraph::cpu
