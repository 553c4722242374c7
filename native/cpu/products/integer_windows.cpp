#include "cpu/products/integer_windows.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "cpu/kernels/level.h"
#include "cpu/products/small_words.h"
#include "cpu/products/window_product.h"
#include "cpu/products/words.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t sum_bytes = sizeof(std::int32_t);

const Epilogue sums_only({}, DataType::int32, first_operand, DataType::int32);

// The row of ones, whose product is the sums of the columns: each word has the same tap of some channels.
class Ones final : public PanelSource {
public:
    Ones(std::int64_t channels, std::int64_t taps, const IntegerKernels& kernels)
        : taps_(taps), last_(channels / kernels.depths), kernels_(kernels) {
        const auto bits = static_cast<unsigned>(32 / kernels.depths * (channels % kernels.depths));
        rest_ = kernels.ones & ((std::uint32_t{1} << bits) - 1);
    }

    void pack(const PanelPart& part, NumbersTo out, const ProductKernels&) const override {
        for (std::int64_t k = 0; k < part.depth; ++k) {
            out.as<std::uint32_t>()[k] = (part.first_depth + k) / taps_ < last_ ? kernels_.ones : rest_;
        }
    }

private:
    std::int64_t taps_;
    std::int64_t last_;   // word that is whole
    std::uint32_t rest_;  // the word after it
    const IntegerKernels& kernels_;
};

WordTensor filter_words(const Tensor& filters, const IntegerKernels& kernels, RunContext* context) {
    return {filters, 1, Lines::rows, kernels, context};
}

// The words of filters as lines.
RowPanels lines_of(const WordTensor& words, const Convolution& convolution) {
    return filter_panels(words.tensor(), convolution.groups, false, convolution.phase);
}

LineSums sums_of_filters(const WordTensor& words, const Convolution& convolution) {
    const Tensor& filters = words.tensor();
    const std::int64_t each = filters.element_count() / filters.sizes[0];
    const auto* const numbers = reinterpret_cast<const std::uint32_t*>(filters.data);
    LineSums result;
    result.batch[1] = convolution.outputs;
    for (std::int64_t o = 0; o < filters.sizes[0]; ++o) {
        result.numbers.push_back(convolution.kernels->integers.rows.total(numbers + o * each, each));
    }
    return result;
}

// The sums of windows, with what is beyond the tensor.
LineSums sums_of_windows(RunContext& context, const Convolution& convolution, const WindowPanels& windows) {
    ProductSizes sizes = convolution.product(convolution.kernels->integers.depths);
    sizes.m = 1;
    const Ones ones(convolution.channels, convolution.windows().tap_count(), convolution.kernels->integers);
    LineSums result;
    result.batch = {convolution.groups * sizes.n, sizes.n};
    result.numbers.resize(static_cast<std::size_t>(sizes.count() * sizes.n));
    Target to;
    to.epilogue = &sums_only;
    to.out.data = reinterpret_cast<std::byte*>(result.numbers.data());
    to.out.type = DataType::int32;
    to.out.batch = {convolution.groups * sizes.n * sum_bytes, sizes.n * sum_bytes};
    to.out.row = sizes.n * sum_bytes;
    to.out.sizes[0] = sizes.n;
    to.out.strides[0] = sum_bytes;
    multiply_windows(context, convolution, sizes, {nullptr, &ones, nullptr}, windows, std::move(to));
    return result;
}

// With the convolution's kernels. Null if the words are too large for them.
std::shared_ptr<const WordWeights> packed(const RunContext& fixed, const Tensor& filters,
                                          const Convolution& convolution) {
    const ProductKernels* const kernels = convolution.kernels;
    const ProductSizes sizes = convolution.product(kernels->integers.depths);
    const Packing packing{sizes.rank, {1, convolution.groups}, sizes.k, rows_of(sizes, kernels->integers.tiles), false,
                          kernels};
    const auto result = fixed.made<WordWeights>(std::tuple(filters, convolution.groups, packing), [&] {
        const WordTensor words = filter_words(filters, kernels->integers, nullptr);
        const RowPanels lines = lines_of(words, convolution);
        return WordWeights(lines, packing, kernels->integers.words_together > 0, sums_of_filters(words, convolution));
    });
    return result->present() ? result : nullptr;
}

}  // namespace

std::size_t IntegerWindows::scratch_bytes() const {
    const Tiles& tiles = convolution_.kernels->integers.tiles;
    std::size_t most = 0;
    // Other kernels may be used later, with more depths in a word.
    for (const int depths : {convolution_.kernels->integers.depths, most_depths_of_word}) {
        ProductSizes sizes = convolution_.product(depths);
        most = std::max(most, product_scratch(sizes, convolution_.operands, *convolution_.epilogue, tiles));
        sizes.m = 1;  // a row of ones
        most = std::max(most, product_scratch(sizes, 0, sums_only, tiles));
    }
    return most;
}

std::shared_ptr<const Weights> IntegerWindows::pack(const RunContext& fixed, const Tensor& filters,
                                                    const ZeroPoints*) const {
    if (const PairKernels* const pairs = useful_pairs(chosen_level()); pairs != nullptr) {
        Convolution small = convolution_;
        small.kernels = &pairs->small_rows;
        if (auto result = packed(fixed, filters, small)) {
            return result;
        }
    }
    return packed(fixed, filters, convolution_);
}

void IntegerWindows::unpack(const Weights& weights, const Tensor& filters) const {
    const auto& from = static_cast<const WordWeights&>(weights);
    const IntegerKernels& kernels = from.kernels->integers;
    const WordTensor words = filter_words(filters, kernels, nullptr);  // of any integers
    from.words.unpack(lines_of(words, convolution_));
    words.unpack(filters, 1, Lines::rows, kernels);
}

void IntegerWindows::run(RunContext& context, ConvolutionRun& run) const {
    const auto* const weights = static_cast<const WordWeights*>(run.weights);
    Convolution of = convolution_;
    of.kernels = weights != nullptr ? weights->kernels : of.kernels;
    const IntegerKernels& kernels = of.kernels->integers;
    const ZeroPoints input_zeros = run.input_zeros->less(form_of(run.input.type, Lines::columns, kernels).shift);
    const ZeroPoints filter_zeros = run.filter_zeros->less(form_of(run.filters.type, Lines::rows, kernels).shift);
    const WordTensor input(run.input, 2, Lines::columns, kernels, &context);
    WindowPanels windows = of.windows_in(input.tensor());
    const std::uint32_t mask = kernels.depths == 2 ? 0xffff : 0xff;
    // In every number of a word.
    windows.border = (static_cast<std::uint32_t>(input_zeros.of(0)) & mask) * kernels.ones;
    const LineSums window_sums = filter_zeros.all_zero() ? LineSums() : sums_of_windows(context, of, windows);
    const auto multiply = [&](const Side& filters, const LineSums& sums) {
        const std::int64_t terms = of.channels * of.windows().tap_count();
        const ZeroPointTerms correction({filter_zeros, &sums, of.outputs}, {input_zeros, &window_sums}, terms, kernels);
        run.target.correction = &correction;
        multiply_windows(context, of, of.product(kernels.depths), filters, windows, std::move(run.target));
    };
    if (weights != nullptr) {
        return multiply({&weights->words.panels, nullptr, nullptr, weights->words.some_rests()}, weights->sums);
    }
    const WordTensor words = filter_words(run.filters, kernels, &context);
    const RowPanels lines = lines_of(words, of);
    multiply({nullptr, &lines, nullptr}, sums_of_filters(words, of));
}

}  // namespace dmlgraph::cpu
