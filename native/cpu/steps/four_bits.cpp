#include "cpu/steps/four_bits.h"

#include <algorithm>

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t pairs_of_piece = 16 << 10;

// An element of a byte's lower half, `sign`: 8 for signed ones, whose highest bit is repeated; else 0.
std::uint8_t element_of(unsigned half, unsigned sign) { return static_cast<std::uint8_t>((half ^ sign) - sign); }

void spread_pairs(const std::uint8_t* in, std::uint8_t* out, std::int64_t pairs, unsigned sign) {
    for (std::int64_t i = 0; i < pairs; ++i) {
        out[2 * i] = element_of(in[i] & 15u, sign);
        out[2 * i + 1] = element_of(in[i] >> 4, sign);
    }
}

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
        const auto* const in = reinterpret_cast<const std::uint8_t*>(context.data(input_));
        auto* const out = reinterpret_cast<std::uint8_t*>(context.data(output_));
        const std::int64_t pairs = parameters_.count / 2;
        context.each((pairs + pairs_of_piece - 1) / pairs_of_piece, cost(), [&](std::int64_t piece) {
            const std::int64_t first = piece * pairs_of_piece, count = std::min(pairs_of_piece, pairs - first);
            if (parameters_.spreads) {
                spread_pairs(in + first, out + 2 * first, count, sign());
            } else if (parameters_.is_signed) {
                join_pairs(reinterpret_cast<const std::int8_t*>(in) + 2 * first, out + first, count);
            } else {
                join_pairs(in + 2 * first, out + first, count);
            }
        });
        if (parameters_.spreads) {
            if (parameters_.count % 2 != 0) {
                out[2 * pairs] = element_of(in[pairs] & 15u, sign());
            }
            return;
        }
        std::fill(out + pairs, out + output_.sizes[0], std::uint8_t{0});  // the last bytes belong to no element
        if (parameters_.count % 2 != 0) {
            const std::uint8_t last = in[2 * pairs];
            out[pairs] = static_cast<std::uint8_t>(parameters_.is_signed ? half_of(static_cast<std::int8_t>(last)) : half_of(last));
        }
    }
    Kind kind() const override { return Kind::native; }
    double cost() const override { return static_cast<double>(parameters_.count) * 1.5; }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(output_, true);
    }

private:
    unsigned sign() const { return parameters_.is_signed ? 8u : 0u; }

    View input_;
    View output_;
    FourBitsParameters parameters_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const FourBitsParameters& parameters) {
    return std::make_unique<FourBitsStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
