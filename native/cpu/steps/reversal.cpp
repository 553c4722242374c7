#include "cpu/steps/reversal.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace dmlgraph::cpu {
namespace {

// Neighbouring sequences of the same length, whose elements are copied together.
struct Run {
    std::int64_t first;  // of all sequences
    std::int64_t count;
    std::int64_t length;
};

class ReversalStep final : public Step {
public:
    ReversalStep(const StepTensors& tensors, const ReversalParameters& parameters)
        : input_(tensors.inputs.at(0)),
          lengths_(tensors.inputs.at(1)),
          output_(tensors.outputs.at(0)),
          p_(parameters),
          item_(static_cast<std::int64_t>(item_size(input_.type))) {
        if (lengths_.type != DataType::uint32 && lengths_.type != DataType::uint64) {
            throw std::invalid_argument("the lengths of sequences are uint32 or uint64");
        }
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const std::byte* const lengths = context.data(lengths_);
        const std::byte* const in = context.data(input_);
        std::byte* const out = context.data(output_);
        if (p_.inner == 1) {
            context.each(p_.outer, cost(), [&](std::int64_t each) {
                const std::int64_t offset = each * p_.size * item_;
                reverse_line(in + offset, out + offset, length_at(lengths, each));
            });
            return;
        }
        const std::vector<Run> runs = runs_of(lengths);
        context.each(p_.size, cost(), [&](std::int64_t place) {
            for (const Run& each : runs) {
                const std::int64_t from = place < each.length ? std::min(each.length - 1 - place, p_.size - 1) : place;
                std::memcpy(out + offset(each, place), in + offset(each, from),
                            static_cast<std::size_t>(each.count * item_));
            }
        });
    }
    double cost() const override { return static_cast<double>(p_.outer * p_.size * p_.inner * item_) * 2; }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(lengths_, false);
        visitor(output_, true);
    }

private:
    // From twice the size on, all lengths repeat the last element.
    std::int64_t length_at(const std::byte* lengths, std::int64_t index) const {
        const std::uint64_t length = lengths_.type == DataType::uint64
                                         ? reinterpret_cast<const std::uint64_t*>(lengths)[index]
                                         : reinterpret_cast<const std::uint32_t*>(lengths)[index];
        return static_cast<std::int64_t>(std::min(length, static_cast<std::uint64_t>(2 * p_.size)));
    }

    std::vector<Run> runs_of(const std::byte* lengths) const {
        std::vector<Run> runs;
        for (std::int64_t i = 0; i < p_.outer * p_.inner; ++i) {
            const std::int64_t length = length_at(lengths, i);
            if (i % p_.inner != 0 && length == runs.back().length) {
                ++runs.back().count;
            } else {
                runs.push_back({i, 1, length});
            }
        }
        return runs;
    }

    std::int64_t offset(const Run& run, std::int64_t place) const {
        return ((run.first / p_.inner * p_.size + place) * p_.inner + run.first % p_.inner) * item_;
    }

    void reverse_line(const std::byte* in, std::byte* out, std::int64_t length) const {
        switch (item_) {
            case 1: return reverse<std::uint8_t>(in, out, length);
            case 2: return reverse<std::uint16_t>(in, out, length);
            case 4: return reverse<std::uint32_t>(in, out, length);
            default: return reverse<std::uint64_t>(in, out, length);
        }
    }

    template <class T>
    void reverse(const std::byte* in, std::byte* out, std::int64_t length) const {
        const auto* const from = reinterpret_cast<const T*>(in);
        auto* const to = reinterpret_cast<T*>(out);
        const std::int64_t beyond = std::clamp<std::int64_t>(length - p_.size, 0, p_.size);  // repeat the last element
        const std::int64_t reversed = std::min(length, p_.size), last = length - 1;
        std::fill_n(to, beyond, from[p_.size - 1]);
        for (std::int64_t i = beyond; i < reversed; ++i) {
            to[i] = from[last - i];
        }
        std::copy(from + reversed, from + p_.size, to + reversed);
    }

    View input_;
    View lengths_;
    View output_;
    ReversalParameters p_;
    std::int64_t item_;  // bytes of an element
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ReversalParameters& parameters) {
    return std::make_unique<ReversalStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
