#include "cpu/steps/nonzero.h"

#include <algorithm>

namespace dmlgraph::cpu {
namespace {

// One thread: where a row lies depends on all elements before it.
class NonzeroStep final : public Step {
public:
    NonzeroStep(const StepTensors& tensors, const NonzeroParameters& parameters)
        : input_(tensors.inputs.at(0)), output_(tensors.outputs.at(0)), members_(parameters.members) {}

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const std::byte* const in = context.data(input_);
        auto* const out = reinterpret_cast<std::uint32_t*>(context.data(output_));
        switch (input_.type) {  // a float's sign does not count
            case DataType::float16: return find<std::uint16_t>(in, 0x7fff, out);
            case DataType::float32: return find<std::uint32_t>(in, 0x7fffffff, out);
            case DataType::float64: return find<std::uint64_t>(in, 0x7fffffffffffffff, out);
            default: break;
        }
        switch (item_size(input_.type)) {
            case 1: return find<std::uint8_t>(in, 0xff, out);
            case 2: return find<std::uint16_t>(in, 0xffff, out);
            case 4: return find<std::uint32_t>(in, 0xffffffff, out);
            default: return find<std::uint64_t>(in, ~std::uint64_t{0}, out);
        }
    }
    double cost() const override { return static_cast<double>(input_.element_count() * (members_ + 1) * 4); }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(output_, true);
    }

private:
    template <class T>
    void find(const std::byte* in, T mask, std::uint32_t* out) const {
        const auto* x = reinterpret_cast<const T*>(in);
        const std::int64_t count = input_.element_count(), row = input_.sizes[input_.rank - 1];
        std::uint32_t* to = out;
        for (std::int64_t first = 0; first < count; first += row, x += row) {
            const Sizes place = place_in(input_.sizes, input_.rank, first);
            for (std::int64_t i = 0; i < row; ++i) {
                if ((x[i] & mask) != 0) {
                    for (std::int64_t m = 0; m < members_ - 1; ++m) {
                        to[m] = static_cast<std::uint32_t>(place[static_cast<std::size_t>(input_.rank - members_ + m)]);
                    }
                    to[members_ - 1] = static_cast<std::uint32_t>(i);
                    to += members_;
                }
            }
        }
        std::fill(to, out + count * members_, 0u);
    }

    View input_;
    View output_;
    std::int64_t members_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const NonzeroParameters& parameters) {
    return std::make_unique<NonzeroStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
