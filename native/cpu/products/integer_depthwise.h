// Convolutions of 8-bit integers whose every output channel has one input channel.
//
// Some rows of windows are computed at a time. A word has neighbouring taps of a window's row, so the elements that a
// row of taps meets are one word for each window, or a few. Where rows of windows follow one another without a stride,
// the words of a tap do so too, row after row, and a result is a sum of whole vectors.
#pragma once

#include "cpu/products/convolution.h"

namespace dmlgraph::cpu {

class IntegerDepthwise final : public ConvolutionMethod {
public:
    // Windows have two dimensions at most.
    static bool fits(const Convolution& convolution) { return convolution.is_by_channel(); }
    explicit IntegerDepthwise(const Convolution& convolution)
        : ConvolutionMethod(convolution, convolution.product(convolution.kernels->integers.depths)) {}

    std::size_t scratch_bytes() const override;
    std::shared_ptr<const Weights> pack(const RunContext& fixed, const Tensor& filters,
                                        const ZeroPoints* filter_zeros) const override;
    void run(RunContext& context, ConvolutionRun& run) const override;
};

}  // namespace dmlgraph::cpu
