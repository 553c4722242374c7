#include "cpu/steps/float_rows.h"

#include <algorithm>
#include <stdexcept>

#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {

FloatRows::FloatRows(const View& tensor) {
    if (tensor.rank < 1) {
        throw std::invalid_argument("a tensor without dimensions has no rows");
    }
    width_ = tensor.sizes[static_cast<std::size_t>(tensor.rank - 1)];
    if (tensor.type != DataType::float32) {
        convert_ = find_kernel(Opcode::CONVERT, tensor.type, DataType::float32);
        if (convert_ == nullptr) {
            throw std::invalid_argument("there is no resampling of this data type");
        }
    }
}

const float* FloatRows::load(const Tensor& tensor, const std::byte* from, float* out, std::byte* packed) const {
    const auto item = static_cast<std::int64_t>(item_size(tensor.type));
    const std::int64_t stride = tensor.strides[static_cast<std::size_t>(tensor.rank - 1)];
    if (convert_ == nullptr) {
        if (stride == item) {
            return reinterpret_cast<const float*>(from);
        }
        gather_line(reinterpret_cast<std::byte*>(out), from, stride, width_, static_cast<int>(item));
        return out;
    }
    if (stride != item) {
        gather_line(packed, from, stride, width_, static_cast<int>(item));
        from = packed;
    }
    const Operand operand{from, false};
    convert_({out, &operand, static_cast<std::size_t>(width_), nullptr, 0});
    return out;
}

MatrixTensor rows_of(const Tensor& tensor) {
    MatrixTensor result;
    result.data = tensor.data;
    result.type = tensor.type;
    std::copy_n(tensor.strides.begin(), tensor.rank - 1, result.batch.begin());
    result.sizes[0] = tensor.sizes[static_cast<std::size_t>(tensor.rank - 1)];
    result.strides[0] = tensor.strides[static_cast<std::size_t>(tensor.rank - 1)];
    return result;
}

}  // namespace dmlgraph::cpu
