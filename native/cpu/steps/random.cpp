#include "cpu/steps/random.h"

#include <algorithm>
#include <array>

#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

constexpr int counter_words = 4;
constexpr int state_words = 6;
constexpr int rounds = 10;
constexpr std::int64_t lanes = 16;  // counts that are mixed together
constexpr std::int64_t lanes_of_piece = 256;

using Words = std::array<std::array<std::uint32_t, lanes>, counter_words>;

// The counter plus a number.
std::array<std::uint32_t, counter_words> moved(const std::uint32_t* counter, std::uint64_t by) {
    std::array<std::uint32_t, counter_words> result{};
    for (std::size_t i = 0; i < counter_words; ++i) {
        const std::uint64_t sum = counter[i] + (by & 0xffffffff);
        result[i] = static_cast<std::uint32_t>(sum);
        by = (by >> 32) + (sum >> 32);
    }
    return result;
}

void mix(Words& c, std::uint32_t k0, std::uint32_t k1) {
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < lanes; ++i) {
            const std::uint64_t left = std::uint64_t{0xD2511F53} * c[0][i], right = std::uint64_t{0xCD9E8D57} * c[2][i];
            c[0][i] = static_cast<std::uint32_t>(right >> 32) ^ c[1][i] ^ k0;
            c[1][i] = static_cast<std::uint32_t>(right);
            c[2][i] = static_cast<std::uint32_t>(left >> 32) ^ c[3][i] ^ k1;
            c[3][i] = static_cast<std::uint32_t>(left);
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

class RandomStep final : public Step {
public:
    RandomStep(const StepTensors& tensors, const RandomParameters& parameters)
        : state_(tensors.inputs.at(0)), output_(tensors.outputs.at(0)), p_(parameters) {}

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const auto* const state = reinterpret_cast<const std::uint32_t*>(context.data(state_));
        auto* const out = reinterpret_cast<std::uint32_t*>(context.data(output_));
        const std::int64_t counts = quotient_up(p_.count, std::int64_t{counter_words});
        if (p_.is_state) {
            std::ranges::copy(moved(state, static_cast<std::uint64_t>(counts)), out);
            std::copy(state + counter_words, state + state_words, out + counter_words);
            return;
        }
        constexpr std::int64_t piece = lanes * lanes_of_piece;
        context.each(quotient_up(counts, piece), cost(), [&](std::int64_t each) {
            for (std::int64_t first = each * piece; first < std::min((each + 1) * piece, counts); first += lanes) {
                fill(state, first, out);
            }
        });
    }
    double cost() const override { return p_.is_state ? 0 : static_cast<double>(p_.count) * 16; }
    void visit(const Visitor& visitor) override {
        visitor(state_, false);
        visitor(output_, true);
    }

private:
    // The words of the counts from `first` on.
    void fill(const std::uint32_t* state, std::int64_t first, std::uint32_t* out) const {
        Words words;
        for (std::size_t i = 0; i < lanes; ++i) {
            const auto counter = moved(state, static_cast<std::uint64_t>(first) + i);
            for (std::size_t w = 0; w < counter_words; ++w) {
                words[w][i] = counter[w];
            }
        }
        mix(words, state[counter_words], state[counter_words + 1]);
        const std::int64_t start = first * counter_words, end = std::min(start + lanes * counter_words, p_.count);
        for (std::int64_t at = start; at < end; ++at) {
            out[at] = words[static_cast<std::size_t>(at % counter_words)]
                           [static_cast<std::size_t>((at - start) / counter_words)];
        }
    }

    View state_;
    View output_;
    RandomParameters p_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const RandomParameters& parameters) {
    return std::make_unique<RandomStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
