#include "directml/desc_arena.h"

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

namespace dmlgraph {
namespace {

using namespace abi;

// Appends structs to a growing block. Until finish(), a pointer holds the offset of its target, so that the
// block may move while it grows.
class BlockWriter {
public:
    // Writes the operator's struct and everything it points to; returns the offset of the struct.
    std::size_t write_operator(const OperatorDesc& op) {
        const StructLayout layout = struct_layout(op);
        const std::size_t start = reserve(layout.size, layout.alignment);
        for (std::size_t i = 0; i < op.fields.size(); ++i) {
            const std::size_t at = start + layout.offsets[i];
            std::visit([&](const auto& value) { write(at, value); }, op.fields[i].value);
        }
        return start;
    }

    std::vector<std::byte> finish() && {
        for (const std::size_t at : pointers_) {
            std::uintptr_t target;
            std::memcpy(&target, &block_[at], sizeof target);
            put(at, reinterpret_cast<std::uintptr_t>(block_.data()) + target);
        }
        return std::move(block_);
    }

private:
    std::size_t reserve(std::size_t size, std::size_t alignment) {
        const std::size_t start = align_up(block_.size(), alignment);
        block_.resize(start + size);
        return start;
    }

    template <class T>
    void put(std::size_t at, const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        std::memcpy(&block_[at], &value, sizeof value);
    }

    void put_pointer(std::size_t at, std::size_t target) {
        put(at, static_cast<std::uintptr_t>(target));
        pointers_.push_back(at);
    }

    // Fields in the struct itself.
    template <class T>
        requires std::is_arithmetic_v<T>
    void write(std::size_t at, T value) {
        put(at, value);
    }
    void write(std::size_t at, const ScalarBytes& value) { put(at, value); }
    void write(std::size_t at, const Size2D& value) { put(at, DML_SIZE_2D{value.width, value.height}); }

    // Fields that are pointers. The block is zeroed, so nothing is written for an absent target.
    template <class T>
        requires std::is_arithmetic_v<T>
    void write(std::size_t at, const std::vector<T>& values) {
        if (values.empty()) {
            return;
        }
        const std::size_t start = reserve(values.size() * sizeof(T), alignof(T));
        std::memcpy(&block_[start], values.data(), values.size() * sizeof(T));
        put_pointer(at, start);
    }

    void write(std::size_t at, const std::optional<ScaleBias>& value) {
        if (value) {
            const std::size_t start = reserve(sizeof(DML_SCALE_BIAS), alignof(DML_SCALE_BIAS));
            put(start, DML_SCALE_BIAS{value->scale, value->bias});
            put_pointer(at, start);
        }
    }

    void write(std::size_t at, const std::optional<TensorDesc>& tensor) {
        if (tensor) {
            write_array(at, std::span(&*tensor, 1));
        }
    }
    void write(std::size_t at, const std::vector<TensorDesc>& tensors) { write_array(at, std::span(tensors)); }

    void write(std::size_t at, const std::shared_ptr<const OperatorDesc>& op) {
        if (op) {
            write_array(at, std::span(&op, 1));
        }
    }
    void write(std::size_t at, const std::vector<std::shared_ptr<const OperatorDesc>>& ops) {
        write_array(at, std::span(ops));
    }

    // Both DML_TENSOR_DESC and DML_OPERATOR_DESC: {type, pointer to the struct of that type}.
    template <class T>
    void write_array(std::size_t at, std::span<const T> elements) {
        if (elements.empty()) {
            return;
        }
        const std::size_t start = reserve(elements.size() * sizeof(DML_OPERATOR_DESC), alignof(DML_OPERATOR_DESC));
        put_pointer(at, start);
        for (std::size_t i = 0; i < elements.size(); ++i) {
            write_element(start + i * sizeof(DML_OPERATOR_DESC), elements[i]);
        }
    }

    void write_element(std::size_t at, const TensorDesc& tensor) {
        const std::size_t start = reserve(sizeof(DML_BUFFER_TENSOR_DESC), alignof(DML_BUFFER_TENSOR_DESC));
        DML_BUFFER_TENSOR_DESC buffer{};
        buffer.DataType = static_cast<DML_TENSOR_DATA_TYPE>(tensor.data_type);
        buffer.Flags = static_cast<DML_TENSOR_FLAGS>(tensor.flags);
        buffer.DimensionCount = static_cast<std::uint32_t>(tensor.sizes.size());
        buffer.TotalTensorSizeInBytes = tensor.total_bytes;
        buffer.GuaranteedBaseOffsetAlignment = tensor.alignment;
        put(start, buffer);
        write(start + offsetof(DML_BUFFER_TENSOR_DESC, Sizes), tensor.sizes);
        if (tensor.strides) {
            write(start + offsetof(DML_BUFFER_TENSOR_DESC, Strides), *tensor.strides);
        }
        put(at, DML_TENSOR_TYPE_BUFFER);
        put_pointer(at + offsetof(DML_TENSOR_DESC, Desc), start);
    }

    void write_element(std::size_t at, const std::shared_ptr<const OperatorDesc>& op) {
        put(at, op->type);
        put_pointer(at + offsetof(DML_OPERATOR_DESC, Desc), write_operator(*op));
    }

    std::vector<std::byte> block_;
    std::vector<std::size_t> pointers_;  // offsets of the pointers inside the block
};

static_assert(sizeof(DML_TENSOR_DESC) == sizeof(DML_OPERATOR_DESC));

std::vector<std::byte> pack(const OperatorDesc& op) {
    BlockWriter writer;
    writer.write_operator(op);
    return std::move(writer).finish();
}

}  // namespace

DescArena::DescArena(const OperatorDesc& op) : type_(op.type), block_(pack(op)) {}

}  // namespace dmlgraph
