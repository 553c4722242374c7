// Matrix products shared between threads, block by block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

// What multiplies two matrices on the calling thread: an inner loop of NumPy's universal function `matmul`
// (PyUFuncGenericFunction). The sizes are {products, M, K, N}; the steps, in bytes, those of a, b and the result from
// product to product, then of a's rows and columns, b's and the result's.
struct MatrixLoop {
    using Function = void (*)(char** arrays, const std::intptr_t* sizes, const std::intptr_t* steps, void* data);

    Function function;
    void* data;
};

// Matrices by the steps, in bytes, between them and between their rows and columns.
struct Matrices {
    std::byte* data = nullptr;
    Sizes batch{};
    std::int64_t row = 0;
    std::int64_t column = 0;
};

// result {batch…, M, N} = a {batch…, M, K} · b {batch…, K, N}.
struct Products {
    int rank = 0;   // of the batch
    Sizes batch{};  // its sizes
    std::int64_t m = 0;
    std::int64_t k = 0;
    std::int64_t n = 0;
    Matrices a;
    Matrices b;
    Matrices result;
};

// Multiplies on up to `workers` threads, the calling one among them. The blocks follow from the sizes alone, so that the
// results are the same for any number of threads.
void multiply(const Products& products, MatrixLoop loop, int workers);

}  // namespace dmlgraph::cpu
