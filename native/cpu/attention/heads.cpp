#include "cpu/attention/heads.h"

#include <algorithm>

#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t float_item = sizeof(float);

bool is_in_place(const HeadLines& lines) {
    return lines.type == DataType::float32 && (lines.item == float_item || lines.size == 1) &&
           lines.place % float_item == 0;
}

}  // namespace

HeadLines HeadLines::side_by_side(const Tensor& tensor, std::int64_t heads) {
    const std::size_t last = tensor.rank - 1u;
    const std::int64_t size = tensor.sizes[last] / heads, item = tensor.strides[last];
    return {tensor.data, tensor.type, tensor.strides[last - 2], size * item, tensor.strides[last - 1], item, size};
}

HeadLines HeadLines::stacked(const Tensor& tensor, std::int64_t part) {
    const std::size_t last = tensor.rank - 1u;
    return {tensor.data + part * tensor.strides[last - 1],
            tensor.type,
            tensor.strides[last - 4],
            tensor.strides[last - 2],
            tensor.strides[last - 3],
            tensor.strides[last],
            tensor.sizes[last]};
}

HeadLines HeadLines::by_head(const Tensor& tensor) {
    const std::size_t last = tensor.rank - 1u;
    return {tensor.data,
            tensor.type,
            tensor.strides[last - 3],
            tensor.strides[last - 2],
            tensor.strides[last - 1],
            tensor.strides[last],
            tensor.sizes[last]};
}

SingleLines JoinedLines::read(std::int64_t sequence, std::int64_t head, std::int64_t first, std::int64_t count,
                              bool often, float* copies, const ProductKernels& kernels) const {
    const std::int64_t size = this->size(), last = first + count;
    const std::int64_t old = std::clamp(past_places - first, std::int64_t{0}, count);
    const bool in_one = old == 0 || old == count;
    const HeadLines& only = old == 0 ? fresh : past;
    const bool adjacent = only.place == size * float_item;
    if (in_one && is_in_place(only) && (adjacent || !often) && (old != 0 || !bias.present())) {
        const std::byte* const from = only.at(sequence, head, old == 0 ? first - past_places : first);
        return {reinterpret_cast<const float*>(from), only.place / float_item};
    }
    float* const added = copies + count * size;
    if (bias.present() && old < count) {
        kernels.line_of(bias.type)(added, bias.data + head * size * bias.item, bias.item, size);
    }
    float* to = copies;
    for (std::int64_t i = first; i < last; ++i, to += size) {
        const bool is_old = i < past_places;
        const HeadLines& lines = is_old ? past : fresh;
        kernels.line_of(lines.type)(to, lines.at(sequence, head, is_old ? i : i - past_places), lines.item, size);
        for (std::int64_t k = 0; !is_old && bias.present() && k < size; ++k) {
            to[k] += added[k];
        }
    }
    return {copies, size};
}

void write_line(std::byte* out, DataType type, std::int64_t item, const float* numbers, std::int64_t count) {
    constexpr std::int64_t piece = 128;
    if (type == DataType::float32) {
        return scatter_line(out, item, reinterpret_cast<const std::byte*>(numbers), count, float_item);
    }
    static const Kernel convert = find_kernel(Opcode::CONVERT, DataType::float32, DataType::float16);
    std::uint16_t halves[piece];
    for (std::int64_t done = 0; done < count; done += piece) {
        const std::int64_t part = std::min(piece, count - done);
        const Operand operand{numbers + done, false};
        convert({halves, &operand, static_cast<std::size_t>(part), nullptr, 0});
        scatter_line(out + done * item, item, reinterpret_cast<const std::byte*>(halves), part, sizeof(halves[0]));
    }
}

}  // namespace dmlgraph::cpu
