#include "cpu/steps/fold.h"

#include <algorithm>
#include <utility>

#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

// Row by row of the images: each is the sum of rows of patches, whose elements lie `stride` apart in it.
class FoldStep final : public Step {
public:
    FoldStep(const StepTensors& tensors, FoldParameters parameters)
        : input_(tensors.inputs.at(0)), output_(tensors.outputs.at(0)), p_(std::move(parameters)) {
        for (std::size_t d = 0; d < last(); ++d) {
            rows_ *= p_.sizes[d];
        }
        for (const std::int64_t each : p_.window) {
            taps_ *= each;
        }
        for (const std::int64_t each : p_.blocks) {
            blocks_ *= each;
        }
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        switch (input_.type) {
            case DataType::float32:
                return output_.type == DataType::float64 ? fold<float, double, double>(context)
                                                         : fold<float, double, float>(context);
            case DataType::float64: return fold<double, double, double>(context);
            default: break;
        }
        switch (item_size(input_.type)) {
            case 1: return fold<std::uint8_t, std::uint8_t, std::uint8_t>(context);
            case 2: return fold<std::uint16_t, std::uint16_t, std::uint16_t>(context);
            case 4: return fold<std::uint32_t, std::uint32_t, std::uint32_t>(context);
            default: return fold<std::uint64_t, std::uint64_t, std::uint64_t>(context);
        }
    }
    double cost() const override { return static_cast<double>(p_.planes * taps_ * blocks_) * 8; }
    std::size_t scratch_bytes() const override { return static_cast<std::size_t>(p_.sizes.back()) * sizeof(double); }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(output_, true);
    }

private:
    std::size_t last() const { return p_.sizes.size() - 1; }

    template <class In, class Sum, class Out>
    void fold(RunContext& context) const {
        const auto* const in = reinterpret_cast<const In*>(context.data(input_));
        auto* const out = reinterpret_cast<Out*>(context.data(output_));
        const std::int64_t width = p_.sizes.back();
        context.parallel(p_.planes * rows_, cost(), [&](int worker, Chunks& chunks) {
            auto* const sums = reinterpret_cast<Sum*>(context.scratch(worker));
            for (std::int64_t first = 0, end = 0; chunks.next(first, end);) {
                for (std::int64_t row = first; row < end; ++row) {
                    std::fill_n(sums, width, Sum{});
                    add_rows(in + row / rows_ * taps_ * blocks_, row % rows_, sums);
                    std::transform(sums, sums + width, out + row * width,
                                   [](Sum each) { return static_cast<Out>(each); });
                }
            }
        });
    }

    // Adds the rows of a plane's patches that lie in a row of its image.
    template <class In, class Sum>
    void add_rows(const In* patches, std::int64_t row, Sum* sums) const {
        Sizes place{};
        for (std::size_t d = last(); d-- > 0;) {
            place[d] = row % p_.sizes[d];
            row /= p_.sizes[d];
        }
        const std::int64_t along = p_.window.back();
        for (std::int64_t tap = 0; tap < taps_; tap += along) {
            const std::int64_t block = block_at(place, tap / along);
            for (std::int64_t x = 0; block >= 0 && x < along; ++x) {
                add_row(patches + (tap + x) * blocks_ + block, x, sums);
            }
        }
    }

    // The first block of the row of windows whose elements `tap`, counted without the last dimension, are at this
    // place. Returns −1 if no window has that element there.
    std::int64_t block_at(const Sizes& place, std::int64_t tap) const {
        Sizes element{};
        for (std::size_t d = last(); d-- > 0;) {
            element[d] = tap % p_.window[d];
            tap /= p_.window[d];
        }
        std::int64_t block = 0;
        for (std::size_t d = 0; d < last(); ++d) {
            const std::int64_t start = place[d] + p_.padding[d] - element[d] * p_.dilations[d];
            if (start < 0 || start % p_.strides[d] != 0 || start / p_.strides[d] >= p_.blocks[d]) {
                return -1;
            }
            block = block * p_.blocks[d] + start / p_.strides[d];
        }
        return block * p_.blocks.back();
    }

    template <class In, class Sum>
    void add_row(const In* terms, std::int64_t element, Sum* sums) const {
        const std::int64_t stride = p_.strides.back(), start = element * p_.dilations.back() - p_.padding.back();
        const std::int64_t first = start < 0 ? quotient_up(-start, stride) : 0;
        const std::int64_t end =
            std::min(p_.blocks.back(), quotient_up(std::max<std::int64_t>(p_.sizes.back() - start, 0), stride));
        if (stride == 1) {
            for (std::int64_t b = first; b < end; ++b) {
                sums[start + b] = static_cast<Sum>(sums[start + b] + terms[b]);
            }
            return;
        }
        for (std::int64_t b = first; b < end; ++b) {
            Sum& sum = sums[start + b * stride];
            sum = static_cast<Sum>(sum + terms[b]);
        }
    }

    View input_;
    View output_;
    FoldParameters p_;
    std::int64_t rows_ = 1;    // of a plane
    std::int64_t taps_ = 1;    // elements of the window
    std::int64_t blocks_ = 1;  // of all dimensions
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const FoldParameters& parameters) {
    return std::make_unique<FoldStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
