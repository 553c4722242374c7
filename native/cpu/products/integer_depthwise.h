// Convolutions of 8-bit integers whose every output channel has one input channel.
//
// Some rows of windows are computed at a time. A word has neighbouring taps of a window's row, so the elements that a row
// of taps meets are one word for each window, or a few. Where rows of windows follow one another without a stride, the
// words of a tap do so too, row after row, and a result is a sum of whole vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/products/lines.h"
#include "cpu/products/windows.h"
#include "cpu/products/zero_points.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// The filters' numbers, less their zero points, as words of a row of taps. What a word's number cannot hold is in further
// parts, which are added.
class WordFilters {
public:
    WordFilters() = default;
    // Filters {outputs, 1, taps…}.
    WordFilters(const Tensor& filters, const Windows& windows, const ZeroPoints& zeros, std::int32_t shift, const IntegerKernels& kernels);

    bool present() const { return !words_.empty(); }
    std::int64_t parts() const { return parts_; }
    // Of a filter, for each part, row of taps, and word of that row.
    const std::uint32_t* of(std::int64_t output) const { return words_.data() + output * each_; }
    std::int32_t sum(std::int64_t output) const { return sums_[static_cast<std::size_t>(output)]; }

    static constexpr std::int64_t most_parts = 3;

private:
    std::int64_t parts_ = 1;
    std::int64_t each_ = 0;  // words of a filter
    std::vector<std::uint32_t> words_;
    std::vector<std::int32_t> sums_;
};

struct IntegerDepthwise {
    std::int64_t batch = 1;
    std::int64_t groups = 1;   // input channels
    std::int64_t outputs = 1;  // of a group
    const WindowPanels* windows = nullptr;  // of the integers
    Form form;                              // of these
    std::int32_t zero = 0;                  // their zero point, less the shift
    const WordFilters* filters = nullptr;
    Target target;
    const ProductKernels* kernels = nullptr;
};

std::size_t integer_depthwise_scratch(const Windows& windows, std::size_t operands, const Epilogue& epilogue,
                                      const ProductKernels& kernels);

// The windows have two dimensions at most.
void run_integer_depthwise(RunContext& context, const IntegerDepthwise& convolution);

}  // namespace dmlgraph::cpu
