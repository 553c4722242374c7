#include "cpu/steps/product_inputs.h"

#include <algorithm>
#include <stdexcept>

#include "cpu/products/epilogue.h"
#include "cpu/steps/only_reader.h"

namespace dmlgraph::cpu {
namespace {

bool is_float(DataType type) { return type == DataType::float32 || type == DataType::float16; }

}  // namespace

ProductInputs::ProductInputs(const StepTensors& tensors) : views_(tensors.inputs) {
    const DataType a = views_.at(0).type, b = views_.at(1).type;
    if (!(is_float(a) && is_float(b)) && !(is_byte(a) && is_byte(b))) {
        throw std::invalid_argument("the operands of a product are float32 or float16, or both are 8-bit integers");
    }
    if (integers()) {
        if (views_.size() < first_operand + zero_points_.size()) {
            throw std::invalid_argument("a product of integers lacks zero points");
        }
        zero_points_ = {views_[views_.size() - 2], views_.back()};
        for (const View& each : zero_points_) {
            if (each.buffer != no_buffer && !is_byte(each.type)) {
                throw std::invalid_argument("zero points are 8-bit integers");
            }
        }
        views_.resize(views_.size() - zero_points_.size());
    }
    while (views_.size() > first_operand && views_.back().buffer == no_buffer) {
        views_.pop_back();
    }
}

bool ProductInputs::reads(BufferId buffer) const {
    return std::ranges::any_of(views_, [&](const View& view) { return view.buffer == buffer; });
}

bool ProductInputs::only_operand(BufferId buffer, std::size_t operand) const {
    const auto is_it = [&](const View& view) { return view.buffer == buffer; };
    return reads_only_at(views_, operand, buffer) && std::ranges::none_of(zero_points_, is_it);
}

bool ProductInputs::known(const RunContext& context, std::size_t operand) const {
    const View& zero = zero_points_[operand];
    return context.has(views_[operand]) && (zero.buffer == no_buffer || context.has(zero));
}

ZeroPoints ProductInputs::zero_points(const RunContext& context, std::size_t operand) const {
    const View& view = zero_points_[operand];
    if (view.buffer == no_buffer) {
        return {nullptr, view.type, 0, 1};
    }
    const Tensor found = context.tensor(view);
    std::int64_t step = 0;
    for (int d = 0; d < found.rank; ++d) {
        step = found.sizes[d] > 1 ? found.strides[d] : step;
    }
    return {found.data, found.type, step, found.element_count()};
}

void ProductInputs::visit(const Step::Visitor& visitor) {
    for (View& view : views_) {
        visitor(view, false);
    }
    for (View& view : zero_points_) {
        visitor(view, false);
    }
}

}  // namespace dmlgraph::cpu
