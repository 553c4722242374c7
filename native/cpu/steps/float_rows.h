// Rows of tensors, the elements of the last dimension, as floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernel.h"
#include "cpu/products/lines.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

class FloatRows {
public:
    // Throws std::invalid_argument if there is no conversion of the tensor's data type to float32.
    explicit FloatRows(const View& tensor);

    std::int64_t width() const { return width_; }
    // The row of `tensor` at `from`: in the tensor, or written to `out`. `packed` is scratch memory of a row.
    const float* load(const Tensor& tensor, const std::byte* from, float* out, std::byte* packed) const;

private:
    Kernel convert_ = nullptr;  // null: the elements are floats
    std::int64_t width_;        // elements of a row
};

// The place of a row of `tensor`, less what the dimensions of `axes` add.
template <class Axes>
const std::byte* row_at(const Tensor& tensor, const Sizes& place, const Axes& axes) {
    const std::byte* first = tensor.data;
    for (int d = 0; d + 1 < tensor.rank; ++d) {
        bool is_axis = false;
        for (const auto& axis : axes) {
            is_axis = is_axis || axis.dimension == d;
        }
        first += is_axis ? 0 : place[static_cast<std::size_t>(d)] * tensor.strides[static_cast<std::size_t>(d)];
    }
    return first;
}

// An output whose batch is all dimensions but the last one.
MatrixTensor rows_of(const Tensor& tensor);

// Calls function(place, scratch memory of the worker) for each row of a tensor, on the threads of a run.
template <class Function>
void each_row(RunContext& context, const View& tensor, double cost, const Function& function) {
    std::int64_t rows = 1;
    for (int d = 0; d + 1 < tensor.rank; ++d) {
        rows *= tensor.sizes[static_cast<std::size_t>(d)];
    }
    context.each_with(
        rows, cost, [](Scratch scratch) { return scratch.take<std::byte>(0); },
        [&](std::byte* scratch, std::int64_t i) { function(place_in(tensor.sizes, tensor.rank - 1, i), scratch); });
}

}  // namespace dmlgraph::cpu
