// Windows that reach beyond the tensor, in convolutions where nothing is there: backward ones.
#pragma once

#include "cpu/products/lines.h"
#include "cpu/products/windows.h"

namespace dmlgraph::cpu {

// A product takes elements beyond the tensor as zeros, and zero times an infinite or NaN weight is NaN. So sums that
// are NaN are added up again, without those elements.
class Borders final : public Correction {
public:
    Borders(const PanelSource& filters, const WindowPanels& windows, const ProductKernels& kernels)
        : filters_(filters), windows_(windows), kernels_(kernels) {}

    void correct(NumbersTo sums, const Sizes& place, std::int64_t row, std::int64_t left,
                 std::int64_t width) const override;

private:
    float sum(const Sizes& place, std::int64_t row, std::int64_t window) const;

    const PanelSource& filters_;
    const WindowPanels& windows_;
    const ProductKernels& kernels_;
};

}  // namespace dmlgraph::cpu
