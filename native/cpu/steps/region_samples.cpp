#include "cpu/steps/region_samples.h"

#include <algorithm>
#include <cmath>
#include <new>

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t most_samples = 1 << 24;  // of a region along a dimension: 300 MB

// In float32, where a length near a multiple of `count` may be that.
std::int64_t samples_for_output(const Sampling& sampling, float length, std::int64_t count) {
    if (std::isnan(length)) {
        return sampling.least;
    }
    const double wanted = std::ceil(std::abs(length) / static_cast<float>(count));
    return static_cast<std::int64_t>(
        std::clamp(wanted, static_cast<double>(sampling.least), static_cast<double>(sampling.most)));
}

// The element at or below a place, `more` elements further; the nearest one that exists. NaN is at the first element.
std::int32_t element_at(double place, int more, std::int64_t size) {
    const double below = std::isnan(place) ? 0 : std::floor(place);
    return static_cast<std::int32_t>(std::clamp(below + more, 0.0, static_cast<double>(size - 1)));
}

}  // namespace

Samples::Samples(const Sampling& sampling, float begin, float end, std::int64_t size, std::int64_t count) {
    taps_of_sample_ = sampling.is_nearest ? 1 : 2;
    per_output_ = samples_for_output(sampling, end - begin, count);
    const auto start = static_cast<double>(begin);
    const double length = static_cast<double>(end) - start;
    if (per_output_ > most_samples / count) {
        throw std::bad_alloc();
    }
    const std::int64_t total = count * per_output_;
    const bool aligned = sampling.aligns_to_corners;
    const double step = length / static_cast<double>(aligned ? total - 1 : total);
    first_ = size;
    for (std::int64_t s = 0; s < total; ++s) {
        const bool is_middle = aligned && total == 1;
        const double place = is_middle ? start + length / 2 - sampling.into
                                       : (static_cast<double>(s) - sampling.out_of) * step + start - sampling.into;
        // Aligned to corners, the edges are the outermost elements; else they extend for less than one element.
        const auto bound = static_cast<double>(size);
        const bool outside = aligned ? place < 0 || place > bound - 1 : place <= -1 || place >= bound;
        const double part = place - std::floor(place);
        Tap one{element_at(sampling.is_nearest ? place + 0.5 : place, 0, size), static_cast<float>(1 - part)};
        Tap other{element_at(place, 1, size), static_cast<float>(part)};
        if (sampling.is_nearest) {
            one.weight = 1;
            other.at = one.at;
        }
        taps_.insert(taps_.end(), {one, other});
        inside_.push_back(outside ? 0 : 1);
        if (!outside) {
            first_ = std::min<std::int64_t>(first_, one.at);
            last_ = std::max<std::int64_t>(last_, other.at + 1);
        }
    }
    first_ = std::min(first_, last_);
}

std::int64_t Samples::inside_of(std::int64_t output) const {
    const auto begin = inside_.begin() + output * per_output_;
    return std::count(begin, begin + per_output_, 1);
}

std::vector<Tap> Samples::sum_of(std::int64_t output) const {
    std::vector<Tap> result;
    for (std::int64_t s = output * per_output_; s < (output + 1) * per_output_; ++s) {
        const Tap* const two = taps(s);
        for (int i = 0; two != nullptr && i < taps_of_sample_; ++i) {
            const Tap& each = two[i];
            // A weight of 0 stays by itself: infinity times it is NaN.
            const auto same = std::find_if(result.begin(), result.end(), [&](const Tap& other) {
                return other.at == each.at && other.weight != 0 && each.weight != 0;
            });
            if (same == result.end()) {
                result.push_back(each);
            } else {
                same->weight += each.weight;
            }
        }
    }
    return result;
}

}  // namespace dmlgraph::cpu
