// Matrix products shared between threads, block by block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

// Multiplies matrices on the calling thread: an inner loop of NumPy's universal function `matmul`
// (PyUFuncGenericFunction). The sizes are {products, M, K, N}. The steps, in bytes, are those of a, b and the result
// from product to product, then those of the rows and columns of a, of b and of the result.
struct MatrixLoop {
    using Function = void (*)(char** arrays, const std::intptr_t* sizes, const std::intptr_t* steps, void* data);

    Function function;
    void* data;
};

// Matrices, with the steps in bytes between them, and between their rows and columns.
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

// Multiplies on up to `workers` threads, including the calling one. The blocks depend on the sizes only, so the results
// are the same for any number of threads.
void multiply(const Products& products, MatrixLoop loop, int workers);

}  // namespace dmlgraph::cpu
