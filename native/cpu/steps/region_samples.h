// Where regions of interest are sampled along a dimension of an image, as `Aligning` in dmlgraph/operators/roi.py
// defines it.
#pragma once

#include <cstdint>
#include <vector>

namespace dmlgraph::cpu {

// What all regions have in common.
struct Sampling {
    bool is_nearest = false;
    bool aligns_to_corners = false;
    double into = 0;         // the offset of pixels in the input
    double out_of = 0;       // … and in the output
    std::int64_t least = 1;  // samples for each output element
    std::int64_t most = 1;
};

// An element of the image, and its weight in a sample.
struct Tap {
    std::int32_t at = 0;
    float weight = 0;
};

class Samples {
public:
    // Of a region from `begin` to `end` for `count` output elements, in an image of `size`. Throws std::bad_alloc if
    // there are too many.
    Samples(const Sampling& sampling, float begin, float end, std::int64_t size, std::int64_t count);

    std::int64_t per_output() const { return per_output_; }
    // The taps of a sample, of which there are two, or one if it is the nearest element; null if the sample is outside.
    const Tap* taps(std::int64_t sample) const {
        return inside_[static_cast<std::size_t>(sample)] != 0 ? &taps_[static_cast<std::size_t>(2 * sample)] : nullptr;
    }
    std::int64_t inside_of(std::int64_t output) const;
    // The sum of an output's samples that are inside, as few taps.
    std::vector<Tap> sum_of(std::int64_t output) const;
    // The elements that samples inside read: from `first` up to, excluding, `last`.
    std::int64_t first() const { return first_; }
    std::int64_t last() const { return last_; }

private:
    std::int64_t per_output_ = 1;
    int taps_of_sample_ = 2;
    std::vector<Tap> taps_;  // two for each sample, also where it has one
    std::vector<char> inside_;
    std::int64_t first_ = 0;
    std::int64_t last_ = 0;
};

}  // namespace dmlgraph::cpu
