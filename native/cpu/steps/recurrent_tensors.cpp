#include "cpu/steps/recurrent_tensors.h"

#include <cstring>

#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

void convert_line(Kernel kernel, void* to, const void* from, std::int64_t count) {
    const Operand operand{from, false};
    kernel({to, &operand, static_cast<std::size_t>(count), nullptr, 0});
}

}  // namespace

FloatLines::FloatLines(DataType type) {
    if (type != DataType::float32) {
        widen_ = find_kernel(Opcode::CONVERT, type, DataType::float32);
        narrow_ = find_kernel(Opcode::CONVERT, DataType::float32, type);
    }
}

void FloatLines::read(float* to, const TensorLines& from, const std::byte* first, std::int64_t count,
                      std::byte* spare) const {
    const int item = static_cast<int>(item_size(from.type));
    if (widen_ == nullptr) {
        return gather_line(reinterpret_cast<std::byte*>(to), first, from.step(), count, item);
    }
    if (!from.is_packed()) {
        gather_line(spare, first, from.step(), count, item);
        first = spare;
    }
    convert_line(widen_, to, first, count);
}

void FloatLines::write(const TensorLines& to, std::byte* first, const float* from, std::int64_t count,
                       std::byte* spare) const {
    const int item = static_cast<int>(item_size(to.type));
    std::byte* const target = to.is_packed() ? first : spare;
    if (from == nullptr) {
        std::memset(target, 0, static_cast<std::size_t>(count) * static_cast<std::size_t>(item));
    } else if (narrow_ != nullptr) {
        convert_line(narrow_, target, from, count);
    } else if (to.is_packed()) {
        std::copy_n(from, count, reinterpret_cast<float*>(target));
    } else {
        return scatter_line(first, to.step(), reinterpret_cast<const std::byte*>(from), count, item);
    }
    if (!to.is_packed()) {
        scatter_line(first, to.step(), target, count, item);
    }
}

}  // namespace dmlgraph::cpu
