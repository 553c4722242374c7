// Convolutions whose every output channel has one input channel.
//
// Some rows of windows are computed at a time. Their elements are copied into planes with the padding as zeros, a plane
// for each remainder of their columns by the stride. So the elements of a tap lie side by side for the windows of a
// row, and a result is a sum of vectors. Small windows that are near each other are read where they lie, if the level
// loads parts of vectors fast; those of float16 become float32 first, without padding.
#pragma once

#include "cpu/products/convolution.h"

namespace dmlgraph::cpu {

class Depthwise final : public FilterMethod {
public:
    static bool fits(const Convolution& convolution) { return convolution.is_by_channel(); }
    explicit Depthwise(const Convolution& convolution) : FilterMethod(convolution, {convolution.outputs, 1}, false) {}

    std::size_t scratch_bytes() const override;
    void compute(RunContext& context, const Operands& operands) const override;

private:
    // The weights of an output, in the order of the tensor.
    const float* weights_of(const Operands& operands, const Sizes& place, std::int64_t output, float* memory) const;
    // Whether channels are read where they lie, or as they lie once they are floats.
    bool reads_pictures(const WindowPanels& from) const;
};

}  // namespace dmlgraph::cpu
