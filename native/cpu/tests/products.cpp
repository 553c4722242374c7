// Matrix products in blocks: each number is computed once, for any sizes, steps and numbers of workers.
#include "cpu/runtime/products.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/tests/random.h"
#include "cpu/tests/sanitizers.h"

namespace dmlgraph::cpu::tests {
namespace {

// Multiplies floats as matmul's loop does, and adds the product to the output: a number that is computed twice is wrong.
// Records the sizes of its calls.
struct Loop {
    std::mutex mutex;
    std::vector<std::array<std::intptr_t, 4>> calls;

    static void multiply(char** arrays, const std::intptr_t* sizes, const std::intptr_t* steps, void* data) {
        auto& self = *static_cast<Loop*>(data);
        const auto [count, m, k, n] = std::array{sizes[0], sizes[1], sizes[2], sizes[3]};
        for (std::intptr_t i = 0; i < m; ++i) {
            for (std::intptr_t j = 0; j < n; ++j) {
                float sum = 0;
                for (std::intptr_t l = 0; l < k; ++l) {
                    sum += at(arrays[0] + i * steps[3] + l * steps[4]) * at(arrays[1] + l * steps[5] + j * steps[6]);
                }
                at(arrays[2] + i * steps[7] + j * steps[8]) += sum;
            }
        }
        const std::lock_guard lock(self.mutex);
        self.calls.push_back({count, m, k, n});
    }

    static float& at(char* place) { return *reinterpret_cast<float*>(place); }
};

// {batch…, rows, columns} in memory, with transposed matrices if requested, and gaps between rows.
struct Tensors {
    std::vector<float> numbers;
    Matrices matrices;

    Tensors(const Products& products, std::int64_t rows, std::int64_t columns, bool transposed, bool repeated,
            std::int64_t gap, bool counted) {
        const std::int64_t length = (transposed ? rows : columns) + gap;
        std::int64_t size = length * (transposed ? columns : rows);
        matrices.row = (transposed ? 1 : length) * std::int64_t{sizeof(float)};
        matrices.column = (transposed ? length : 1) * std::int64_t{sizeof(float)};
        for (int d = products.rank - 1; d >= 0; --d) {
            matrices.batch[d] = repeated ? 0 : size * std::int64_t{sizeof(float)};
            size *= repeated ? 1 : products.batch[d];
        }
        numbers.resize(static_cast<std::size_t>(size));
        for (std::size_t i = 0; counted && i < numbers.size(); ++i) {
            numbers[i] = static_cast<float>(i % 7) - 3;
        }
        matrices.data = reinterpret_cast<std::byte*>(numbers.data());
    }
};

struct Case {
    std::int64_t m, k, n;
    std::vector<std::int64_t> batch;
};

void compare(const Case& sizes, Random& random) {
    Products products;
    products.rank = static_cast<int>(sizes.batch.size());
    std::ranges::copy(sizes.batch, products.batch.begin());
    products.m = sizes.m, products.k = sizes.k, products.n = sizes.n;
    const std::int64_t gap = random.between(0, 2);
    const Tensors a(products, sizes.m, sizes.k, random.chance(30), random.chance(30), gap, true);
    const Tensors b(products, sizes.k, sizes.n, random.chance(30), random.chance(30), gap, true);
    products.a = a.matrices;
    products.b = b.matrices;
    std::vector<float> expected;
    std::vector<std::array<std::intptr_t, 4>> blocks;
    const bool transposed = random.chance(20);
    for (const int workers : {1, 2, 3, 8}) {
        Tensors result(products, sizes.m, sizes.n, transposed, false, gap, false);
        products.result = result.matrices;
        Loop loop;
        multiply(products, {&Loop::multiply, &loop}, workers);
        std::ranges::sort(loop.calls);
        if (workers > 1) {
            CHECK_MESSAGE(loop.calls == blocks, "the blocks are the same for any number of workers");
            CHECK_MESSAGE(result.numbers == expected, "so are the numbers");
            continue;
        }
        blocks = loop.calls;
        expected = result.numbers;
        Tensors whole(products, sizes.m, sizes.n, transposed, false, gap, false);
        std::int64_t count = 1;
        for (const std::int64_t size : sizes.batch) {
            count *= size;
        }
        for (std::int64_t i = 0; i < count; ++i) {
            std::int64_t rest = i;
            std::array<std::byte*, 3> places{a.matrices.data, b.matrices.data, whole.matrices.data};
            for (int d = products.rank - 1; d >= 0; --d) {
                const std::int64_t place = rest % products.batch[d];
                rest /= products.batch[d];
                places[0] += place * a.matrices.batch[d];
                places[1] += place * b.matrices.batch[d];
                places[2] += place * whole.matrices.batch[d];
            }
            std::array<char*, 3> arrays{};
            std::ranges::transform(places, arrays.begin(), [](std::byte* each) { return reinterpret_cast<char*>(each); });
            const std::array<std::intptr_t, 4> all{1, sizes.m, sizes.k, sizes.n};
            const std::array<std::intptr_t, 9> steps{0,
                                                     0,
                                                     0,
                                                     a.matrices.row,
                                                     a.matrices.column,
                                                     b.matrices.row,
                                                     b.matrices.column,
                                                     whole.matrices.row,
                                                     whole.matrices.column};
            Loop::multiply(arrays.data(), all.data(), steps.data(), &loop);
        }
        CHECK_MESSAGE(expected == whole.numbers, "the blocks make the product, and nothing between rows is touched");
    }
}

}  // namespace

TEST_CASE("products in blocks") {
    Random random(11);
    const std::vector<Case> cases{
        {1, 1, 1, {}},     {5, 3, 7, {2, 3}},    {300, 20, 700, {}}, {700, 20, 300, {}},       {1, 300, 4500, {}},
        {4500, 300, 1, {}}, {64, 100, 784, {}},  {64, 64, 64, {4}},  {130, 70, 530, {3}},      {0, 5, 5, {}},
        {5, 5, 5, {0}},     {257, 65, 1031, {1}}, {3, 0, 4, {2}},     {2, 2, 2, {1, 2, 1, 3}}, {513, 40, 513, {2, 2}},
    };
    for (const Case& each : cases) {
        INFO(each.m, " × ", each.k, " × ", each.n);
        compare(each, random);
    }
    for (int i = 0; i < (watches_threads ? 5 : 25); ++i) {
        Case each{random.between(1, 400), random.between(1, 60), random.between(1, 900), {}};
        for (std::int64_t d = random.between(0, 2); d > 0; --d) {
            each.batch.push_back(random.between(1, 3));
        }
        INFO(each.m, " × ", each.k, " × ", each.n);
        compare(each, random);
    }
}

TEST_CASE("large products are cut") {
    Products products;
    products.m = 1024, products.k = 16, products.n = 1024;
    const Tensors a(products, 1024, 16, false, false, 0, true), b(products, 16, 1024, false, false, 0, true);
    Tensors result(products, 1024, 1024, false, false, 0, false);
    products.a = a.matrices, products.b = b.matrices, products.result = result.matrices;
    Loop loop;
    multiply(products, {&Loop::multiply, &loop}, 1);
    CHECK_MESSAGE(loop.calls.size() == 16, "in sixteen blocks");
    CHECK_MESSAGE((std::ranges::all_of(loop.calls, [](const auto& each) { return each[1] == 256 && each[3] == 256; })),
                  "of 256 by 256");
}

}  // namespace dmlgraph::cpu::tests
