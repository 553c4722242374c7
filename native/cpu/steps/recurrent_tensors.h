// The tensors of a recurrent network line by line, as floats.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernel.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

// The last four dimensions of a tensor: any, D, B and H, or I. Strides in bytes.
struct TensorLines {
    std::byte* data;
    DataType type;
    std::array<std::int64_t, 4> strides;

    explicit TensorLines(const Tensor& tensor) : data(tensor.data), type(tensor.type) {
        std::copy_n(tensor.strides.begin() + tensor.rank - 4, 4, strides.begin());
    }
    std::byte* at(std::int64_t first, std::int64_t second, std::int64_t third, std::int64_t element = 0) const {
        return data + first * strides[0] + second * strides[1] + third * strides[2] + element * strides[3];
    }
    std::int64_t step() const { return strides[3]; }
    bool is_packed() const { return step() == static_cast<std::int64_t>(item_size(type)); }
};

// Copies between lines of tensors, float32 or float16, and packed floats.
class FloatLines {
public:
    explicit FloatLines(DataType type);

    // Whether the elements are floats in memory, too.
    bool are_singles() const { return widen_ == nullptr; }
    // `count` elements; `spare` has room for them.
    void read(float* to, const TensorLines& from, const std::byte* first, std::int64_t count, std::byte* spare) const;
    // From null: zeros.
    void write(const TensorLines& to, std::byte* first, const float* from, std::int64_t count, std::byte* spare) const;

private:
    Kernel widen_ = nullptr;  // of float16
    Kernel narrow_ = nullptr;
};

}  // namespace dmlgraph::cpu
