// Backward convolutions of floats as one product of all taps and all elements.
//
// Element i contributes its multiple of tap k to the output at i · stride + k · dilation − padding. A product whose
// rows are the outputs' taps, and whose columns are the elements, gives all contributions. Then those of each output
// are added up, phase by phase, and the phases become rows. Unlike a product for each phase (see products/phases.h)
// this reads elements once, has long rows of sums for few outputs, too, and multiplies nothing beyond the tensor.
//
// A block is some outputs and a band of the picture, whose contributions stay in the second cache. Neighbouring bands
// share elements, which are multiplied again. Each sum is added up over the channels, in the order of the depths, then
// over the taps: results do not depend on blocks, tiles or the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/products/convolution.h"

namespace dmlgraph::cpu {

// How a picture and a group's outputs are divided into blocks.
struct ContributionBlocks {
    std::int64_t steps = 1;  // strides of outputs that a band has
    std::int64_t units = 1;  // of outputs
    double time = 0;         // that all of them take, in that of a vector's multiply-add
};

struct ContributionShape {
    Windows windows;           // of the forward convolution, except `counts`, the sizes of the output
    Spatial sizes{};           // of the input
    std::int64_t channels;     // of a group
    std::int64_t outputs;      // of a group
    std::int64_t unit = 1;     // outputs whose lines are divided into panels together: a line is a tap of an output
    Division lines;            // of a unit
    std::size_t along = 0;     // the dimension along which bands follow one another
    bool one_band = false;     // whether there is only one: elements of several do not lie side by side
    ContributionBlocks alone;  // of one worker and a picture

    ContributionShape(const Windows& windows, const Spatial& sizes, std::int64_t channels, std::int64_t outputs,
                      const Tiles& tiles, std::size_t cache_bytes);

    std::int64_t taps() const { return windows.tap_count(); }
    std::int64_t units() const { return quotient_up(outputs, unit); }
    // Strides of outputs along the bands' dimension.
    std::int64_t steps() const;
};

class Contributions final : public ConvolutionMethod {
public:
    // Whether this takes less time than a product for each phase. Sums depend on it, so it is the same on every
    // processor.
    static bool fits(const Convolution& convolution, const std::vector<Phase>& phases);
    explicit Contributions(const Convolution& convolution);

    std::size_t scratch_bytes() const override;
    std::shared_ptr<const Weights> pack(const RunContext& fixed, const Tensor& filters,
                                        const ZeroPoints*) const override;
    void run(RunContext& context, ConvolutionRun& run) const override;

private:
    ContributionShape shape_;
};

}  // namespace dmlgraph::cpu
