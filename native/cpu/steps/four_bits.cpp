#include "cpu/steps/four_bits.h"

#include <algorithm>

#include "cpu/products/block_weights.h"
#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t pairs_of_piece = 16 << 10;

template <class T>
unsigned half_of(T element) {
    constexpr int low = T(-1) < T(0) ? -8 : 0, high = low + 15;
    return static_cast<unsigned>(std::clamp<int>(element, low, high)) & 15u;
}

template <class T>
void join_pairs(const T* in, std::uint8_t* out, std::int64_t pairs) {
    for (std::int64_t i = 0; i < pairs; ++i) {
        out[i] = static_cast<std::uint8_t>(half_of(in[2 * i]) | half_of(in[2 * i + 1]) << 4);
    }
}

class FourBitsStep final : public Step {
public:
    FourBitsStep(const StepTensors& tensors, const FourBitsParameters& parameters)
        : input_(tensors.inputs.at(0)), output_(tensors.outputs.at(0)), parameters_(parameters) {}

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const std::byte* const in = context.data(input_);
        auto* const out = reinterpret_cast<std::uint8_t*>(context.data(output_));
        if (parameters_.spreads) {
            spread(context, {in, true, parameters_.is_signed}, out);
        } else if (parameters_.is_signed) {
            join(context, reinterpret_cast<const std::int8_t*>(in), out);
        } else {
            join(context, reinterpret_cast<const std::uint8_t*>(in), out);
        }
    }
    double cost() const override { return static_cast<double>(parameters_.count) * 1.5; }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(output_, true);
    }

private:
    void spread(RunContext& context, const FewBits& elements, std::uint8_t* out) const {
        constexpr std::int64_t piece = 2 * pairs_of_piece;
        context.each(quotient_up(parameters_.count, piece), cost(), [&](std::int64_t each) {
            const std::int64_t first = each * piece;
            elements.spread(first, std::min(piece, parameters_.count - first), out + first);
        });
    }

    template <class T>
    void join(RunContext& context, const T* in, std::uint8_t* out) const {
        const std::int64_t pairs = parameters_.count / 2;
        context.each(quotient_up(pairs, pairs_of_piece), cost(), [&](std::int64_t piece) {
            const std::int64_t first = piece * pairs_of_piece;
            join_pairs(in + 2 * first, out + first, std::min(pairs_of_piece, pairs - first));
        });
        std::fill(out + pairs, out + output_.sizes[0], std::uint8_t{0});  // the last bytes belong to no element
        if (parameters_.count % 2 != 0) {
            out[pairs] = static_cast<std::uint8_t>(half_of(in[2 * pairs]));
        }
    }

    View input_;
    View output_;
    FourBitsParameters parameters_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const FourBitsParameters& parameters) {
    return std::make_unique<FourBitsStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
