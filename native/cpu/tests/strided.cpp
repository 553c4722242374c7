// Copies between packed memory and memory with strides, compared with loops.
#include "cpu/tensor/strided.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "cpu/tests/tensors.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr DataType types[] = {DataType::uint8, DataType::int16, DataType::float32, DataType::int64};

std::vector<double> counted(std::size_t count) {
    std::vector<double> numbers(count);
    for (std::size_t i = 0; i < count; ++i) {
        numbers[i] = static_cast<double>(i % 251);
    }
    return numbers;
}

Tensor tensor_of(const TestArray& array, const TensorDesc& desc) {
    Tensor tensor{array.array().data, desc.type, desc.rank, desc.sizes, array.array().strides};
    if (array.array().packed) {
        tensor.strides = whole(0, desc, true).strides;
    }
    return tensor;
}

}  // namespace

TEST_CASE("copies between arrays of every kind") {
    const Shape cases[] = {{1}, {17}, {5, 9}, {3, 40, 33}, {2, 1, 3, 700}, {2, 2, 2, 2, 2, 2, 2, 3}};
    for (const DataType type : types) {
        for (const Shape& sizes : cases) {
            for (const Lie from : lies) {
                for (const Lie to : lies) {
                    const TensorDesc desc = packed(type, sizes);
                    TestArray in(desc, from), out(desc, to);
                    const std::vector<double> numbers = counted(static_cast<std::size_t>(desc.element_count()));
                    in.set(numbers);
                    copy(tensor_of(out, desc), tensor_of(in, desc));
                    CHECK_MESSAGE((out.numbers() == numbers && out.gaps_are_untouched()), "a copy is what was copied");
                }
            }
        }
    }
}

TEST_CASE("pieces of a tensor") {
    for (const DataType type : types) {
        const TensorDesc desc = packed(type, {4, 7, 23});
        const int item = static_cast<int>(item_size(type));
        for (const Lie lie : lies) {
            TestArray in(desc, lie), out(desc, lie);
            const std::vector<double> numbers = counted(static_cast<std::size_t>(desc.element_count()));
            in.set(numbers);
            out.set(numbers);
            const Tensor from = tensor_of(in, desc), to = tensor_of(out, desc);
            for (std::int64_t first = 0; first < 644; first += 13) {
                for (const std::int64_t count : {1, 13, 22, 60}) {
                    const std::int64_t length = std::min<std::int64_t>(count, 644 - first);
                    const Block piece(static_cast<std::size_t>(length * item));
                    gather(piece.get(), from.data, 3, from.sizes, from.strides, first, length, item);
                    bool right = true;
                    for (std::int64_t i = 0; i < length; ++i) {
                        right =
                            right && load(type, piece.get() + i * item) == numbers[static_cast<std::size_t>(first + i)];
                    }
                    CHECK_MESSAGE(right, "gather");
                    scatter(to.data, 3, to.sizes, to.strides, piece.get(), first, length, item);
                }
            }
            CHECK_MESSAGE((out.numbers() == numbers && out.gaps_are_untouched()), "scatter");
        }
    }
}

TEST_CASE("rectangles") {
    for (const DataType type : types) {
        const auto item = static_cast<std::int64_t>(item_size(type));
        for (const std::int64_t rows : {1, 3, 4, 31, 33}) {
            for (const std::int64_t columns : {1, 4, 5, 32, 37}) {
                for (const Lie lie : lies) {
                    const TensorDesc desc = packed(type, {rows, columns});
                    TestArray in(desc, lie), out(desc, lie);
                    const std::vector<double> numbers = counted(static_cast<std::size_t>(rows * columns));
                    in.set(numbers);
                    const Tensor from = tensor_of(in, desc), to = tensor_of(out, desc);
                    TestArray middle(desc, Lie::packed), in_lines(desc, Lie::packed);
                    in_lines.set(numbers);
                    std::byte* const line = middle.array().data;
                    gather_tile(line, {from.data, from.strides[0], from.strides[1], rows, columns},
                                static_cast<int>(item));
                    CHECK_MESSAGE(middle.numbers() == numbers, "gather_tile");
                    const Tile target{to.data, to.strides[0], to.strides[1], rows, columns};
                    scatter_tile(target, line, static_cast<int>(item));
                    CHECK_MESSAGE((out.numbers() == numbers && out.gaps_are_untouched()), "scatter_tile");
                    gather_tile(line, {from.data, from.strides[0], 0, rows, columns}, static_cast<int>(item));
                    CHECK_MESSAGE(load(type, line + (columns - 1) * item) == numbers[0],
                                  "gather_tile of a repeated column");
                    repeat(line, in_lines.array().data, rows, columns, static_cast<int>(item));
                    CHECK_MESSAGE(
                        load(type, line + (rows * columns - 1) * item) == numbers[static_cast<std::size_t>(rows) - 1],
                        "repeat");
                }
            }
        }
    }
}

TEST_CASE("copies past the caches") {
    for (const std::size_t bytes : {0, 1, 63, 64, 65, 127, 128, 1000, 4096, 5001}) {
        for (const std::size_t shift : {0, 1, 16, 63}) {
            const Block in(bytes + shift + 1), out(bytes + 64 + shift);
            for (std::size_t i = 0; i < bytes; ++i) {
                in.get()[shift + 1 + i] = static_cast<std::byte>(i * 7);
            }
            std::memset(out.get(), 0, bytes + 64 + shift);
            stream_copy(out.get() + shift, in.get() + shift + 1, bytes);
            finish_streams();
            CHECK_MESSAGE((std::memcmp(out.get() + shift, in.get() + shift + 1, bytes) == 0 &&
                           out.get()[shift + bytes] == std::byte{0}),
                          std::to_string(bytes), " bytes");
        }
    }
}

}  // namespace dmlgraph::cpu::tests
