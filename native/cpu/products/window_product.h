// Convolutions as products of filters, and of windows that are packed as panels.
#pragma once

#include "cpu/products/convolution.h"

namespace dmlgraph::cpu {

// Multiplies filters, which are rows, and windows.
void multiply_windows(RunContext& context, const Convolution& convolution, const ProductSizes& sizes,
                      const Side& filters, const WindowPanels& windows, Target to);

// For any floats.
class WindowProduct final : public FilterMethod {
public:
    static bool fits(const Convolution&) { return true; }
    explicit WindowProduct(const Convolution& convolution);

    std::size_t scratch_bytes() const override;
    void compute(RunContext& context, const Operands& operands) const override;
};

// Of few windows: they are the rows of a product, and the filters its columns, since vectors lie along these. The
// windows of several images are one product if they are the images, else one for each.
class FewWindows final : public FilterMethod {
public:
    static bool fits(const Convolution& convolution);
    explicit FewWindows(const Convolution& convolution);

    // Where the windows' results do not lie in a line, filters are read again.
    bool keeps() const override { return is_whole() && FilterMethod::keeps(); }
    std::size_t scratch_bytes() const override;
    void compute(RunContext& context, const Operands& operands) const override;

private:
    // Whether filters are read one after the other by few windows. In memory they may lie in another way: then they are
    // packed before, since the order of a sum's terms must not depend on it.
    bool streams() const { return sizes_.m <= most_streamed_rows; }
    bool is_whole() const { return phase().windows.is_whole(convolution_.sizes); }
    RowPanels images_of(const WindowPanels& from) const;
};

}  // namespace dmlgraph::cpu
