// The working memory of a recurrent network, in float32. Lines of hidden units are padded to whole vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {

struct RecurrentSizes {
    std::int64_t steps = 1;
    std::int64_t batch = 1;
    std::int64_t directions = 1;
    std::int64_t inputs = 1;  // of a step
    std::int64_t hidden = 1;
    std::int64_t gates = 1;
    std::int64_t line = 1;   // hidden, in whole vectors
    std::int64_t chunk = 1;  // steps whose inputs are multiplied at a time
};

class RecurrentMemory {
public:
    // At `memory`, which has `bytes`.
    RecurrentMemory(std::byte* memory, const RecurrentSizes& sizes) : memory_(memory), sizes_(sizes) {
        const std::int64_t rows = sizes.directions * sizes.batch;
        sums_ = take(rows * sizes.chunk * sizes.gates * sizes.line);
        states_ = take(rows * 4 * sizes.line);
        other_ = take(rows * sizes.line);
        panels_ = take(rows * sizes.hidden);
        biases_ = take(sizes.directions * sizes.gates * sizes.hidden);
        other_biases_ = take(sizes.directions * sizes.line);
        peepholes_ = take(sizes.directions * 3 * sizes.line);
        spare_ = take(2 * sizes.gates * sizes.hidden);
    }

    std::size_t bytes() const { return static_cast<std::size_t>(used_); }

    // {B, gates, line} of a step of the chunk, after W · X: rows follow one another.
    float* sums(std::int64_t direction, std::int64_t step) const {
        return sums_ + (direction * sizes_.chunk + step) * sizes_.batch * sizes_.gates * sizes_.line;
    }
    std::int64_t sums_count() const { return sizes_.directions * sizes_.chunk * sizes_.batch * sizes_.gates * sizes_.line; }
    // A line before step `step`, or after step `step` − 1.
    float* hidden(std::int64_t direction, std::int64_t step, std::int64_t row) const { return state(direction, step % 2, row); }
    float* cell(std::int64_t direction, std::int64_t step, std::int64_t row) const { return state(direction, 2 + step % 2, row); }
    // A line that GRU needs.
    float* other(std::int64_t direction, std::int64_t row) const { return other_ + (direction * sizes_.batch + row) * sizes_.line; }
    // Rows as the operand of a product, from a row on.
    float* panels(std::int64_t direction, std::int64_t row) const { return panels_ + (direction * sizes_.batch + row) * sizes_.hidden; }

    float* biases(std::int64_t direction) const { return biases_ + direction * sizes_.gates * sizes_.hidden; }  // {gates, H}
    float* other_biases(std::int64_t direction) const { return other_biases_ + direction * sizes_.line; }
    float* peepholes(std::int64_t direction) const { return peepholes_ + direction * 3 * sizes_.line; }  // {3, line}
    float* spare() const { return spare_; }  // for a line of any tensor except X, W and R

private:
    float* take(std::int64_t count) {
        auto* const taken = reinterpret_cast<float*>(memory_ + used_);
        used_ += static_cast<std::int64_t>(align_to_line(static_cast<std::size_t>(count) * sizeof(float)));
        return taken;
    }
    float* state(std::int64_t direction, std::int64_t number, std::int64_t row) const {
        return states_ + ((direction * 4 + number) * sizes_.batch + row) * sizes_.line;
    }

    std::byte* memory_;
    RecurrentSizes sizes_;
    std::int64_t used_ = 0;
    float* sums_;
    float* states_;
    float* other_;
    float* panels_;
    float* biases_;
    float* other_biases_;
    float* peepholes_;
    float* spare_;
};

}  // namespace dmlgraph::cpu
