#include "cpu/steps/integer_convolution.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "cpu/products/filters.h"
#include "cpu/products/integer_depthwise.h"
#include "cpu/products/words.h"
#include "cpu/products/zero_points.h"
#include "cpu/steps/convolution_tensors.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t filters_port = ConvolutionTensors::filters_port;
constexpr std::int64_t item = sizeof(std::int32_t);

const Epilogue sums_only({}, DataType::int32, first_operand, DataType::int32);

// The row of ones, whose product is the sums of the columns: each word has the same tap of some channels.
class Ones final : public PanelSource {
public:
    Ones(std::int64_t channels, std::int64_t taps, const IntegerKernels& kernels) : taps_(taps), last_(channels / kernels.depths), kernels_(kernels) {
        const auto bits = static_cast<unsigned>(32 / kernels.depths * (channels % kernels.depths));
        rest_ = kernels.ones & ((std::uint32_t{1} << bits) - 1);
    }

    void pack(const PanelPart& part, float* out, const ProductKernels&) const override {
        for (std::int64_t k = 0; k < part.depth; ++k) {
            out[k] = std::bit_cast<float>((part.first_depth + k) / taps_ < last_ ? kernels_.ones : rest_);
        }
    }

private:
    std::int64_t taps_;
    std::int64_t last_;   // word that is whole
    std::uint32_t rest_;  // the word after it
    const IntegerKernels& kernels_;
};

class IntegerConvolutionStep final : public Step {
public:
    IntegerConvolutionStep(const StepTensors& tensors, const ConvolutionParameters& parameters)
        : tensors_(tensors, parameters),
          phase_{.windows = tensors_.windows},
          sizes_(tensors_.sizes_of(phase_.windows, kernels().depths)),
          by_channel_(tensors_.is_by_channel(phase_.windows)) {
        if (tensors_.backward) {
            throw std::invalid_argument("a convolution of integers is a forward one");
        }
    }

    void prepare(const RunContext& fixed) override {
        if (!tensors_.inputs.known(fixed, filters_port)) {
            return;
        }
        if (const PairKernels* const pairs = pair_kernels(); pairs != nullptr && !by_channel_) {
            const ProductKernels& others = *tensors_.kernels;
            use(pairs->small_rows);
            packed_ = pack(fixed);
            if (packed_ != nullptr) {
                return;
            }
            use(others);
        }
        packed_ = pack(fixed);
    }

    std::unique_ptr<const State> keep(const RunContext& kept) const override {
        auto result = std::make_unique<KeptFilters>();
        if (packed_ == nullptr && tensors_.inputs.known(kept, filters_port)) {
            result->filters = pack(kept);
        }
        return result;
    }

    bool keeps(BufferId input) const override { return packed_ != nullptr && packed_->words.present() && tensors_.inputs.only_operand(input, filters_port); }

    void unpack(BufferId, const RunContext& to) const override {
        const WordTensor words = filter_words(to, kernels(), nullptr);  // of any integers
        const RowPanels filters = filter_panels(words.tensor(), tensors_.groups, false, phase_);
        packed_->words.unpack(filters);
        words.unpack(to.tensor(tensors_.inputs[filters_port]), 1, Lines::rows, kernels());
    }

    void run(RunContext& context) const override {
        if (tensors_.output.buffer == no_buffer) {
            return;
        }
        const auto* const kept = static_cast<const KeptFilters*>(context.state);
        const PackedFilters* const packed = (packed_ != nullptr || kept == nullptr ? packed_ : kept->filters).get();
        if (by_channel_) {
            run_by_channel(context, packed);
        } else {
            run_as_product(context, packed);
        }
    }

    Kind kind() const override { return Kind::native; }
    double cost() const override { return product_cost(sizes_); }
    std::size_t scratch_bytes() const override {
        const std::size_t operands = tensors_.inputs.size() - first_operand;
        if (by_channel_) {
            return integer_depthwise_scratch(phase_.windows, operands, tensors_.epilogue, *tensors_.kernels);
        }
        std::size_t most = 0;
        // Other kernels may be used later, with more depths in a word.
        for (const int depths : {kernels().depths, most_depths_of_word}) {
            ProductSizes sizes = tensors_.sizes_of(phase_.windows, depths);
            most = std::max(most, product_scratch(sizes, operands, tensors_.epilogue, tensors_.tiles()));
            sizes.m = 1;  // a row of ones
            most = std::max(most, product_scratch(sizes, 0, sums_only, tensors_.tiles()));
        }
        return most;
    }
    void visit(const Visitor& visitor) override { tensors_.visit(visitor); }

private:
    struct PackedFilters {
        WordPanels words;
        LineSums sums;           // if there are these
        WordFilters by_channel;
    };

    // Those that stay the same for several runs, or null.
    struct KeptFilters final : State {
        std::shared_ptr<const PackedFilters> filters;
    };

    // Of filters and zero points that are known. Null if the words are too large for the kernels.
    std::shared_ptr<const PackedFilters> pack(const RunContext& fixed) const {
        if (by_channel_) {
            return std::make_shared<const PackedFilters>(PackedFilters{{}, {}, words_by_channel(fixed)});
        }
        const Tensor tensor = fixed.tensor(tensors_.inputs[filters_port]);
        const Packing packing{sizes_.rank, {1, tensors_.groups}, sizes_.k, rows_of(sizes_, tensors_.tiles()), false, tensors_.kernels};
        const auto result = fixed.made<PackedFilters>(std::tuple(tensor, tensors_.groups, packing), [&] {
            const WordTensor words = filter_words(fixed, kernels(), nullptr);
            const RowPanels filters = filter_panels(words.tensor(), tensors_.groups, false, phase_);
            const bool as_small = kernels().words_together > 0;
            return PackedFilters{as_small ? pack_small(filters, packing) : WordPanels{Panels(filters, packing), {}}, filter_sums(words), {}};
        });
        return result->words.present() ? result : nullptr;
    }

    // Multiplies with these kernels from now on.
    void use(const ProductKernels& kernels) {
        tensors_.kernels = &kernels;
        sizes_ = tensors_.sizes_of(phase_.windows, kernels.integers.depths);
    }

    void run_as_product(RunContext& context, const PackedFilters* packed) const {
        const ZeroPoints x_zeros = zeros(context, 0), filter_zeros = zeros(context, filters_port);
        const WordTensor x(tensors_.grouped(context), 2, Lines::columns, kernels(), &context);
        WindowPanels windows = tensors_.windows_in(x.tensor(), phase_.windows);
        windows.border = repeated(x_zeros.of(0));
        const LineSums window_sums = filter_zeros.all_zero() ? LineSums() : sums_of(context, windows);
        const auto multiply = [&](const Side& filters, const LineSums& sums) {
            const std::int64_t terms = tensors_.channels * phase_.windows.tap_count();
            const ZeroPointTerms correction({filter_zeros, &sums, tensors_.outputs}, {x_zeros, &window_sums}, terms, kernels());
            Target to = tensors_.target(context, phase_);
            to.correction = &correction;
            tensors_.multiply(context, sizes_, filters, windows, std::move(to));
        };
        if (packed != nullptr) {
            return multiply({&packed->words.panels, nullptr, nullptr, packed->words.some_rests()}, packed->sums);
        }
        const WordTensor words = filter_words(context, kernels(), &context);
        const RowPanels filters = filter_panels(words.tensor(), tensors_.groups, false, phase_);
        multiply({nullptr, &filters, nullptr}, filter_sums(words));
    }

    void run_by_channel(RunContext& context, const PackedFilters* packed) const {
        const WindowPanels windows = tensors_.windows_in(tensors_.grouped(context), phase_.windows);
        const WordFilters made = packed != nullptr ? WordFilters() : words_by_channel(context);
        const Form form = form_of(windows.type(), Lines::columns, kernels());
        run_integer_depthwise(context, {sizes_.batch[0], tensors_.groups, tensors_.outputs, &windows, form, zeros(context, 0).of(0),
                                        packed != nullptr ? &packed->by_channel : &made, tensors_.target(context, phase_), tensors_.kernels});
    }

    std::int32_t shift_of(std::size_t port) const {
        return form_of(tensors_.inputs[port].type, port == filters_port ? Lines::rows : Lines::columns, kernels()).shift;
    }

    ZeroPoints zeros(const RunContext& context, std::size_t port) const {
        return tensors_.inputs.zero_points(context, port, shift_of(port));
    }

    // The word whose numbers are all the same.
    float repeated(std::int32_t number) const {
        const std::uint32_t mask = kernels().depths == 2 ? 0xffff : 0xff;
        return std::bit_cast<float>((static_cast<std::uint32_t>(number) & mask) * kernels().ones);
    }

    const IntegerKernels& kernels() const { return tensors_.kernels->integers; }

    WordTensor filter_words(const RunContext& context, const IntegerKernels& kernels, RunContext* shared) const {
        return {context.tensor(tensors_.inputs[filters_port]), 1, Lines::rows, kernels, shared};
    }

    WordFilters words_by_channel(const RunContext& context) const {
        return {context.tensor(tensors_.inputs[filters_port]), phase_.windows, zeros(context, filters_port), shift_of(filters_port), kernels()};
    }

    LineSums filter_sums(const WordTensor& words) const {
        const Tensor& filters = words.tensor();
        const std::int64_t each = filters.element_count() / filters.sizes[0];
        LineSums result;
        result.batch[1] = tensors_.outputs;
        for (std::int64_t o = 0; o < filters.sizes[0]; ++o) {
            result.numbers.push_back(kernels().rows.total(reinterpret_cast<const std::uint32_t*>(filters.data) + o * each, each));
        }
        return result;
    }

    // The sums of windows, with what is beyond the tensor.
    LineSums sums_of(RunContext& context, const WindowPanels& windows) const {
        ProductSizes sizes = sizes_;
        sizes.m = 1;
        const Ones ones(tensors_.channels, phase_.windows.tap_count(), kernels());
        LineSums result;
        result.batch = {tensors_.groups * sizes.n, sizes.n};
        result.numbers.resize(static_cast<std::size_t>(sizes.count() * sizes.n));
        Target to;
        to.epilogue = &sums_only;
        to.out.data = reinterpret_cast<std::byte*>(result.numbers.data());
        to.out.type = DataType::int32;
        to.out.batch = {tensors_.groups * sizes.n * item, sizes.n * item};
        to.out.row = sizes.n * item;
        to.out.sizes[0] = sizes.n;
        to.out.strides[0] = item;
        tensors_.multiply(context, sizes, {nullptr, &ones, nullptr}, windows, std::move(to));
        return result;
    }

    ConvolutionTensors tensors_;
    Phase phase_;
    ProductSizes sizes_;    // whose depths are words
    bool by_channel_;       // whether an output channel has one input channel
    std::shared_ptr<const PackedFilters> packed_;  // if the filters are the same in all runs
};

}  // namespace

std::unique_ptr<Step> make_integer_step(const StepTensors& tensors, const ConvolutionParameters& parameters) {
    return std::make_unique<IntegerConvolutionStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
