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

    void pack(const PanelPart& part, float* out, const ProductKernels& kernels) const override;

private:
    MatrixTensor rows_;
};

}  // namespace dmlgraph::cpu
