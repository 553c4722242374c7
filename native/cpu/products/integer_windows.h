// Convolutions of 8-bit integers as products of words: filters, and windows that are packed as panels.
#pragma once

#include "cpu/products/convolution.h"

namespace dmlgraph::cpu {

class IntegerWindows final : public ConvolutionMethod {
public:
    static bool fits(const Convolution&) { return true; }
    explicit IntegerWindows(const Convolution& convolution)
        : ConvolutionMethod(convolution, convolution.product(convolution.kernels->integers.depths)) {}

    std::size_t scratch_bytes() const override;
    // As small words, if the level has kernels for these and the filters fit.
    std::shared_ptr<const Weights> pack(const RunContext& fixed, const Tensor& filters,
                                        const ZeroPoints*) const override;
    bool keeps() const override { return true; }
    void unpack(const Weights& weights, const Tensor& filters) const override;
    void run(RunContext& context, ConvolutionRun& run) const override;
};

}  // namespace dmlgraph::cpu
