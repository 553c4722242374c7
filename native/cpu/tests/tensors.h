// Tensors of the tests: plain numbers, and memory of the executor's caller.
//
// Numbers are doubles, which hold every value of the types up to 32 bits, and small whole numbers of the other types.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "cpu/runtime/executable.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu::tests {

using Shape = std::vector<std::int64_t>;

TensorDesc packed(DataType type, const Shape& sizes);
TensorDesc strided(DataType type, const Shape& sizes, const Shape& strides);
Shape sizes_of(const TensorDesc& desc);
Shape strides_of(const TensorDesc& desc);

// An element in memory.
double load(DataType type, const std::byte* from);
void store(DataType type, std::byte* to, double value);
// A number converted to the type: floats are rounded, integers wrap.
double rounded(DataType type, double value);

// Every coordinate of the sizes, row-major.
void each_coordinate(const TensorDesc& desc, const std::function<void(const Sizes&)>& visit);
std::int64_t place(const TensorDesc& desc, const Sizes& coordinate);

// The layout of a caller's array in memory.
enum class Lie { packed, reversed, transposed, gapped };
inline constexpr Lie lies[] = {Lie::packed, Lie::reversed, Lie::transposed, Lie::gapped};

// Memory of exactly the needed bytes, so that a sanitizer sees accesses beyond them. It begins at an address that is
// aligned to an element and, mostly, to nothing more.
class Block {
public:
    explicit Block(std::size_t bytes) : memory_(new std::byte[bytes]) {}
    std::byte* get() const { return memory_.get(); }

private:
    std::unique_ptr<std::byte[]> memory_;
};

// An array of a tensor's sizes, somewhere in a block.
class TestArray {
public:
    TestArray(const TensorDesc& desc, Lie lie);
    // Some elements after the start of another array, which moves to a block large enough for both; both are
    // packed.
    TestArray(const TensorDesc& desc, TestArray& other, std::int64_t shift);

    const Array& array() const { return array_; }
    void set(const std::vector<double>& numbers);
    std::vector<double> numbers() const;
    // Fills the whole block, and returns whether bytes that no element covers are unchanged.
    void soil();
    bool gaps_are_untouched() const;

private:
    std::byte* element(const Sizes& coordinate) const;

    TensorDesc desc_;
    std::size_t bytes_ = 0;
    std::shared_ptr<Block> block_;
    Array array_;
};

}  // namespace dmlgraph::cpu::tests
