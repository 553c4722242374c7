#include "cpu/steps/scan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "cpu/kernels/kernel.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::uint16_t half_one = 0x3c00;     // the bits of a float16
constexpr std::int64_t greatest_block = 1024;  // elements of neighbouring scans that are computed together

// One element after another, each total rounded to the tensor's type. Packed tensors of outer · length · inner
// elements: totals of neighbouring scans are adjacent.
class ScanStep final : public Step {
public:
    ScanStep(const StepTensors& tensors, const ScanParameters& parameters)
        : input_(tensors.inputs.at(0)), output_(tensors.outputs.at(0)), parameters_(parameters) {
        for (int d = 0; d < input_.rank; ++d) {
            (d < parameters.axis ? outer_ : d == parameters.axis ? length_ : inner_) *= input_.sizes[d];
        }
        item_ = static_cast<std::int64_t>(item_size(input_.type));
        block_ = std::min(inner_, greatest_block);
        kernel_ = find_kernel(parameters.is_product ? Opcode::MULTIPLY : Opcode::ADD, input_.type, input_.type);
        if (kernel_ == nullptr) {
            throw std::invalid_argument("there is no running sum or product of this data type");
        }
    }

    void run(RunContext& context) const override {
        if (output_.buffer == no_buffer) {
            return;
        }
        const std::byte* const in = context.data(input_);
        std::byte* const out = context.data(output_);
        const std::int64_t blocks = (inner_ + block_ - 1) / block_;
        context.each(outer_ * blocks, cost(), [&](std::int64_t each) {
            const std::int64_t column = each % blocks * block_;
            const std::int64_t offset = (each / blocks * length_ * inner_ + column) * item_;
            scan(in + offset, out + offset, std::min(block_, inner_ - column));
        });
    }
    double cost() const override { return static_cast<double>(outer_ * length_ * inner_ * item_ * 4); }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(output_, true);
    }

private:
    void scan(const std::byte* in, std::byte* out, std::int64_t count) const {
        std::int64_t step = inner_ * item_;
        if (parameters_.from_end) {
            in += (length_ - 1) * step;
            out += (length_ - 1) * step;
            step = -step;
        }
        if (count == 1 && inner_ == 1) {
            switch (input_.type) {
                case DataType::float32: return scan_line<float>(in, out);
                case DataType::int32:
                case DataType::uint32: return scan_line<std::uint32_t>(in, out);
                case DataType::int64:
                case DataType::uint64: return scan_line<std::uint64_t>(in, out);
                default: break;
            }
        }
        if (parameters_.is_exclusive) {
            set_identity(out, count);
        } else {
            std::memcpy(out, in, static_cast<std::size_t>(count * item_));
        }
        for (std::int64_t i = 1; i < length_; ++i) {
            const std::byte* const next = parameters_.is_exclusive ? in : in + step;
            const std::array<Operand, 2> operands{{{out, false}, {next, false}}};
            kernel_({out + step, operands.data(), static_cast<std::size_t>(count), nullptr, 0});
            in += step;
            out += step;
        }
    }

    template <class T>
    void scan_line(const std::byte* in, std::byte* out) const {
        const auto* x = reinterpret_cast<const T*>(in);
        auto* y = reinterpret_cast<T*>(out);
        const std::int64_t step = parameters_.from_end ? -1 : 1;
        T total = parameters_.is_product ? T{1} : T{0};
        for (std::int64_t i = 0; i < length_; ++i, x += step, y += step) {
            const T next = i == 0 ? *x : static_cast<T>(parameters_.is_product ? total * *x : total + *x);
            *y = parameters_.is_exclusive ? total : next;
            total = next;
        }
    }

    void set_identity(std::byte* out, std::int64_t count) const {
        const auto fill = [&]<class T>(T value) { std::fill_n(reinterpret_cast<T*>(out), count, value); };
        switch (input_.type) {
            case DataType::float32: fill(parameters_.is_product ? 1.0f : 0.0f); break;
            case DataType::float16: fill(parameters_.is_product ? half_one : std::uint16_t{0}); break;
            case DataType::int64:
            case DataType::uint64: fill(static_cast<std::uint64_t>(parameters_.is_product)); break;
            default: fill(static_cast<std::uint32_t>(parameters_.is_product)); break;
        }
    }

    View input_;
    View output_;
    ScanParameters parameters_;
    std::int64_t outer_ = 1;
    std::int64_t length_ = 1;
    std::int64_t inner_ = 1;
    std::int64_t item_ = 0;
    std::int64_t block_ = 1;
    Kernel kernel_ = nullptr;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ScanParameters& parameters) {
    return std::make_unique<ScanStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
