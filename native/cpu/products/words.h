// 8-bit integers as words, several depths in each (see kernels/product.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/products/panels.h"
#include "cpu/products/zero_points.h"
#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Memory of a run, from the pool.
class PooledMemory {
public:
    PooledMemory() = default;
    explicit PooledMemory(std::size_t bytes);
    PooledMemory(PooledMemory&& other) noexcept
        : bytes_(other.bytes_), memory_(std::exchange(other.memory_, nullptr)) {}
    PooledMemory& operator=(PooledMemory other) noexcept {
        std::swap(bytes_, other.bytes_);
        std::swap(memory_, other.memory_);
        return *this;
    }
    ~PooledMemory();

    std::byte* get() const { return memory_; }

private:
    std::size_t bytes_ = 0;
    std::byte* memory_ = nullptr;
};

// A tensor of integers, with words in place of the numbers along one dimension; packed, though its dimensions may be in
// another order. A last word that lacks numbers has zeros.
class WordTensor {
public:
    WordTensor() = default;
    // On the threads of the context, or on this one if it is null.
    WordTensor(const Tensor& integers, int dimension, Lines side, const IntegerKernels& kernels, RunContext* context);

    const Tensor& tensor() const { return tensor_; }  // uint32; the memory is this object's
    // The opposite of what the constructor does, with the same arguments.
    void unpack(const Tensor& integers, int dimension, Lines side, const IntegerKernels& kernels) const;

private:
    PooledMemory memory_;
    Tensor tensor_;
};

// A batch of matrices as words along their depth.
class WordMatrices {
public:
    // Of 8-bit integers, `lines` × `depths` each. Matrices that repeat along a dimension of the batch are converted
    // once.
    WordMatrices(const MatrixPanels& integers, int rank, const Sizes& batch, std::int64_t lines, std::int64_t depths,
                 Lines side, const IntegerKernels& kernels, RunContext* context);

    const MatrixPanels& panels() const { return panels_; }
    // Writes the integers back to where they come from.
    void unpack() const { words_.unpack(integers_, rank_ + 1, side_, kernels_); }
    // Of each line.
    LineSums sums() const;

private:
    Tensor integers_;
    WordTensor words_;
    MatrixPanels panels_;
    int rank_;
    Lines side_;
    const IntegerKernels& kernels_;
};

}  // namespace dmlgraph::cpu
