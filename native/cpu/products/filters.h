// The filters of a convolution as rows of a product, group by group.
#pragma once

#include "cpu/products/lines.h"
#include "cpu/products/panels.h"
#include "cpu/products/phases.h"

namespace dmlgraph::cpu {

// Row o of a group: the numbers of its output o, channel by channel, and tap by tap within each, as the windows have them. The batch is
// {N, groups}; every item of it has the same filters.
class FilterPanels final : public PanelSource {
public:
    // Filters {outputs, channels of a group, taps…}, or, for a backward convolution, {channels, outputs of a group, taps…}.
    FilterPanels(const Tensor& filters, std::int64_t groups, bool backward, const Phase& phase);

    // Of 8-bit integers:
    ZeroPoints zeros;       // by output of all groups
    bool as_words = false;  // else floats, less their zero point

    void pack(const PanelPart& part, float* out, const ProductKernels& kernels) const override;

private:
    void pack_words(const PanelPart& part, float* out, const ProductKernels& kernels) const;

    MatrixTensor rows_;
    std::int64_t channels_;  // of a group
    std::int64_t outputs_;   // of a group
    std::int64_t taps_;
};

}  // namespace dmlgraph::cpu
