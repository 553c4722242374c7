// Convolutions, and the methods that compute them.
//
// A method is a class. Methods are in one ordered list, and the first that fits computes a convolution. A backward one
// is computed by all taps at once (see products/contributions.h), or phase by phase (see products/phases.h), each by a
// method of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/kernels/channel_block.h"
#include "cpu/kernels/contributions.h"
#include "cpu/kernels/convolution.h"
#include "cpu/products/filters.h"
#include "cpu/products/phases.h"
#include "cpu/products/product.h"
#include "cpu/products/windows.h"
#include "cpu/products/zero_points.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// What is the same in all runs.
struct Convolution {
    std::int64_t batch = 1;
    std::int64_t groups = 1;
    std::int64_t channels = 1;  // of a group
    std::int64_t outputs = 1;   // of a group
    Spatial sizes{1, 1, 1};     // of the input
    Phase phase{};              // of a backward one in one product: the windows of the forward one, except `counts`
    // Whether filters are {channels, outputs of a group, taps…}, else {outputs, channels of a group, taps…}.
    bool backward = false;
    std::size_t operands = 0;  // of the epilogue
    const Epilogue* epilogue = nullptr;
    DataType sums = DataType::float32;  // int32: of integers
    const ProductKernels* kernels = nullptr;
    const ConvolutionKernels* planes = nullptr;
    const ChannelBlockKernels* blocks = nullptr;
    ContributionsKernel add_up = nullptr;

    const Windows& windows() const { return phase.windows; }
    // The product of filters, and of windows, `depths_each` of whose channels are a depth.
    ProductSizes product(std::int64_t depths_each = 1) const;
    // Whether each output has one channel, and sums over the taps take less time than a product.
    bool is_by_channel() const;
    // The windows of an input {N, groups, C / groups, …}.
    WindowPanels windows_in(const Tensor& input) const;
};

// What a run reads and writes. The zero points are those of integers, without any shift.
struct ConvolutionRun {
    Tensor input;  // {N, groups, C / groups, …}
    Tensor filters;
    Target target;
    const Weights* weights = nullptr;  // what a method has packed of the filters, if it has
    const ZeroPoints* input_zeros = nullptr;
    const ZeroPoints* filter_zeros = nullptr;
};

class ConvolutionMethod {
public:
    ConvolutionMethod(const Convolution& convolution, const ProductSizes& sizes)
        : convolution_(convolution), sizes_(sizes) {}
    virtual ~ConvolutionMethod() = default;
    ConvolutionMethod(const ConvolutionMethod&) = delete;
    ConvolutionMethod& operator=(const ConvolutionMethod&) = delete;

    const Phase& phase() const { return convolution_.phase; }
    double cost() const { return product_cost(sizes_); }
    // Scratch memory that each worker needs.
    virtual std::size_t scratch_bytes() const = 0;
    // The filters as this reads them; null if there are no terms. `filter_zeros`: of integers.
    virtual std::shared_ptr<const Weights> pack(const RunContext& fixed, const Tensor& filters,
                                                const ZeroPoints* filter_zeros) const = 0;
    // Whether it reads no filters once they are packed, and can write them back.
    virtual bool keeps() const { return false; }
    virtual void unpack(const Weights& weights, const Tensor& filters) const {
        static_cast<void>(weights), static_cast<void>(filters);
    }
    // Uses up the target.
    virtual void run(RunContext& context, ConvolutionRun& run) const = 0;

protected:
    Convolution convolution_;
    ProductSizes sizes_;
};

// Methods for floats whose filters are lines, packed as panels.
class FilterMethod : public ConvolutionMethod {
public:
    std::shared_ptr<const Weights> pack(const RunContext& fixed, const Tensor& filters, const ZeroPoints*) const final;
    // Backward convolutions read filters again where sums are NaN.
    bool keeps() const override { return !convolution_.backward; }
    void unpack(const Weights& weights, const Tensor& filters) const final;
    void run(RunContext& context, ConvolutionRun& run) const final;

    struct Operands {
        const WindowPanels& windows;
        const RowPanels& filters;  // line o of a group: its output o
        const Panels* panels;      // of the filters, if they have been packed
        Target& target;
    };
    virtual void compute(RunContext& context, const Operands& operands) const = 0;

protected:
    FilterMethod(const Convolution& convolution, const Division& panels, bool padded)
        : FilterMethod(convolution, convolution.product(), panels, padded) {}
    FilterMethod(const Convolution& convolution, const ProductSizes& sizes, const Division& panels, bool padded)
        : ConvolutionMethod(convolution, sizes),
          packing_{sizes.rank, {1, convolution.groups}, sizes.k, panels, padded, convolution.kernels} {}

    RowPanels filters_in(const Tensor& filters) const {
        return filter_panels(filters, convolution_.groups, convolution_.backward, phase());
    }

    Packing packing_;
};

// One method, or those of all phases.
std::vector<std::unique_ptr<ConvolutionMethod>> methods_of(const Convolution& convolution);

}  // namespace dmlgraph::cpu
