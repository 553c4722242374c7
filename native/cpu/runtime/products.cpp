#include "cpu/runtime/products.h"

#include <algorithm>
#include <array>

#include "cpu/runtime/thread_pool.h"

namespace dmlgraph::cpu {
namespace {

// In multiply-adds. A thread does about 2^15 of them in a microsecond.
constexpr std::int64_t worth_sharing_products = 1 << 18;
constexpr std::int64_t block_work = 1 << 20;

constexpr std::int64_t most_blocks = 16;  // of all products together
// The side of a block. Each block packs its own parts of a and b, which costs little compared with the work of 256 by
// 256, or if the other side is short.
constexpr std::int64_t least_side = 128;
constexpr std::int64_t ample_side = 256;
constexpr std::int64_t vector_side = 1024;  // if a is a vector, b is read once: blocks are one page wide
constexpr std::int64_t unit = 16;           // blocks begin at multiples of it, as the tiles of BLAS kernels do

// The number of blocks along the rows and the columns of each product.
struct Grid {
    std::int64_t rows = 1;
    std::int64_t columns = 1;
};

Grid grid_of(const Products& products, std::int64_t count) {
    Grid grid;
    const double work = static_cast<double>(products.m) * static_cast<double>(products.k) * static_cast<double>(products.n);
    while (count * grid.rows * grid.columns < most_blocks &&
           work / static_cast<double>(grid.rows * grid.columns) > static_cast<double>(block_work)) {
        const std::int64_t height = products.m / grid.rows, width = products.n / grid.columns;
        const std::int64_t halved = std::max(height, width) / 2;
        const std::int64_t least = std::max(least_side, std::min({height, width, ample_side}));
        if (halved < (products.m == 1 ? vector_side : least)) {
            break;
        }
        (height >= width ? grid.rows : grid.columns) *= 2;
    }
    return grid;
}

// The beginning of part i of `count` parts of a side.
std::int64_t begin(std::int64_t side, std::int64_t i, std::int64_t count) {
    return i == count ? side : side * i / count / unit * unit;
}

}  // namespace

void multiply(const Products& products, MatrixLoop loop, int workers) {
    std::int64_t count = 1;
    for (int d = 0; d < products.rank; ++d) {
        count *= products.batch[d];
    }
    if (count == 0 || products.m == 0 || products.n == 0) {
        return;
    }
    const Grid grid = grid_of(products, count);
    const std::int64_t blocks = grid.rows * grid.columns;
    const Matrices &a = products.a, &b = products.b, &result = products.result;
    const auto block = [&](std::int64_t i) {
        std::int64_t index = i / blocks;
        const std::int64_t row = i % blocks / grid.columns, column = i % grid.columns;
        const std::int64_t top = begin(products.m, row, grid.rows), left = begin(products.n, column, grid.columns);
        std::byte* from_a = a.data + top * a.row;
        std::byte* from_b = b.data + left * b.column;
        std::byte* to = result.data + top * result.row + left * result.column;
        for (int d = products.rank - 1; d >= 0; --d) {
            const std::int64_t place = index % products.batch[d];
            index /= products.batch[d];
            from_a += place * a.batch[d];
            from_b += place * b.batch[d];
            to += place * result.batch[d];
        }
        std::array<char*, 3> arrays{reinterpret_cast<char*>(from_a), reinterpret_cast<char*>(from_b),
                                    reinterpret_cast<char*>(to)};
        const std::array<std::intptr_t, 4> sizes{1, begin(products.m, row + 1, grid.rows) - top, products.k,
                                                 begin(products.n, column + 1, grid.columns) - left};
        const std::array<std::intptr_t, 9> steps{0,     0,        0,          a.row,        a.column,
                                                 b.row, b.column, result.row, result.column};
        loop.function(arrays.data(), sizes.data(), steps.data(), loop.data);
    };
    const double work = static_cast<double>(count) * static_cast<double>(products.m) *
                        static_cast<double>(products.k) * static_cast<double>(products.n);
    run_parallel(count * blocks, work < static_cast<double>(worth_sharing_products) ? 1 : workers, [&](int, Chunks& chunks) {
        for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
            for (std::int64_t i = first; i < last; ++i) {
                block(i);
            }
        }
    });
}

}  // namespace dmlgraph::cpu
