// The filters of a convolution as lines of a product's operand, group by group.
#pragma once

#include "cpu/products/lines.h"
#include "cpu/products/panels.h"
#include "cpu/products/phases.h"

namespace dmlgraph::cpu {

// Lines that are rows of tensors, whose numbers may lie along several dimensions.
class RowPanels final : public PanelSource {
public:
    explicit RowPanels(const MatrixTensor& rows) : rows_(rows) { rows_.join_dimensions(); }

    void pack(const PanelPart& part, NumbersTo out, const ProductKernels& kernels) const override;
    // The opposite of `pack`: writes the numbers of a panel to where they come from, if they are as wide there.
    void unpack(const PanelPart& part, NumbersAt panel) const;
    // The same lines, if their numbers have one stride; else without data.
    MatrixPanels matrix() const;
    template <class Function>
    void each_address(const Function& function) {
        function(rows_.data);
    }
    auto operator<=>(const RowPanels&) const = default;

private:
    MatrixTensor rows_;
};

// Line o of a group: the numbers of its output o, channel by channel, and tap by tap within each, as the windows have
// them. The batch is {N, groups}; every item of it has the same filters. They are {outputs, channels of a group,
// taps…}, or, for a backward convolution, {channels, outputs of a group, taps…}.
RowPanels filter_panels(const Tensor& filters, std::int64_t groups, bool backward, const Phase& phase);

}  // namespace dmlgraph::cpu
