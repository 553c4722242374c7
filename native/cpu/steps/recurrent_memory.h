// The working memory of a recurrent network, in float32.
//
// A plane has a line of hidden units for each sequence. Lines are padded to whole vectors, or follow one another
// without gaps, so that few hidden units of many sequences fill vectors too. Whole vectors are stored then, row after
// row, each over the end of the one before; behind the last row of a group there is room for a vector.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/runtime/scratch.h"

namespace dmlgraph::cpu {

struct RecurrentSizes {
    std::int64_t steps = 1;
    std::int64_t batch = 1;
    std::int64_t directions = 1;
    std::int64_t inputs = 1;  // of a step
    std::int64_t hidden = 1;
    std::int64_t gates = 1;
    std::int64_t lanes = 1;    // of a vector
    std::int64_t vectors = 1;  // of the hidden units
    std::int64_t line = 1;     // floats from row to row of a plane: `hidden`, or in whole vectors
    std::int64_t groups = 1;   // of rows, at most
    std::int64_t chunk = 1;    // steps whose inputs are multiplied at a time

    std::int64_t all() const { return gates * hidden; }
    std::int64_t all_line() const { return (all() + lanes - 1) / lanes * lanes; }  // in whole vectors
    // Floats. An odd number of cache lines keeps the planes of a step in different places of the caches.
    std::int64_t plane() const {
        const std::int64_t line_floats = std::int64_t{cache_line} / std::int64_t{sizeof(float)};
        return ((batch * line + groups * lanes + line_floats - 1) / line_floats | 1) * line_floats;
    }
    // Of a step: the sums of each gate, and of GRU also r ∘ H or Rh · H.
    std::int64_t planes() const { return gates == 3 ? 4 : gates; }
};

class RecurrentMemory {
public:
    RecurrentMemory(Scratch& scratch, const RecurrentSizes& sizes) : sizes_(sizes), plane_(sizes.plane()) {
        const std::int64_t directions = sizes.directions;
        projected_ = scratch.take(directions * sizes.chunk * sizes.batch * sizes.all_line() + sizes.lanes);
        planes_ = scratch.take(directions * sizes.planes() * plane_);
        states_ = scratch.take(directions * (sizes.gates == 4 ? 4 : 2) * plane_);
        biases_ = scratch.take(directions * sizes.all_line());
        other_biases_ = scratch.take(directions * sizes.vectors * sizes.lanes);
        peepholes_ = scratch.take(sizes.gates == 4 ? directions * 3 * plane_ : 0);
        spare_ = scratch.take(2 * sizes.all());
    }

    std::int64_t plane() const { return plane_; }

    // W · X of a step of the chunk: rows of {gates, H}, `all_line` apart. Whole vectors can be read.
    float* projected(std::int64_t direction, std::int64_t step) const {
        return projected_ + (direction * sizes_.chunk + step) * sizes_.batch * sizes_.all_line();
    }
    // The planes of a step, one after the other.
    float* planes(std::int64_t direction) const { return planes_ + direction * sizes_.planes() * plane_; }
    // A plane before step `step`, or after step `step` − 1.
    float* hidden(std::int64_t direction, std::int64_t step) const { return state(direction, step % 2); }
    float* cell(std::int64_t direction, std::int64_t step) const { return state(direction, 2 + step % 2); }

    float* biases(std::int64_t direction) const {
        return biases_ + direction * sizes_.all_line();
    }  // {gates, H}, then zeros
    // Of Rh: H, in whole vectors.
    float* other_biases(std::int64_t direction) const {
        return other_biases_ + direction * sizes_.vectors * sizes_.lanes;
    }
    float* peepholes(std::int64_t direction) const {
        return peepholes_ + direction * 3 * plane_;
    }  // three planes: the same in every row
    float* spare() const { return spare_; }  // for a line of any tensor except X, W and R

private:
    float* state(std::int64_t direction, std::int64_t number) const {
        return states_ + (direction * (sizes_.gates == 4 ? 4 : 2) + number) * plane_;
    }

    RecurrentSizes sizes_;
    std::int64_t plane_;
    float* projected_;
    float* planes_;
    float* states_;
    float* biases_;
    float* other_biases_;
    float* peepholes_;
    float* spare_;
};

}  // namespace dmlgraph::cpu
