// What the processor can do at the most.
#include "cpu/runtime/roof.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include <doctest/doctest.h>

#include "cpu/kernels/level.h"
#include "cpu/kernels/product.h"

namespace dmlgraph::cpu::tests {

TEST_CASE("the work is done, and counted") {
    const ProductKernels& kernels = *chosen_level().products;
    float sum = 0;
    CHECK(kernels.peak(64, &sum) == 64.0 * 12 * 2 * kernels.lanes);
    CHECK_MESSAGE(sum == 64 * 12 * 0.5f, "12 sums, to which each round adds a half");
    CHECK_MESSAGE(kernels.peak(128, &sum) == 2 * kernels.peak(64, &sum), "twice the rounds");
    CHECK(kernels.integers.peak(64, &sum) == 64.0 * 12 * 2 * kernels.lanes * kernels.integers.depths);
    CHECK_MESSAGE(std::bit_cast<std::int32_t>(sum) == 64 * 12 * kernels.integers.depths, "the products are ones");
}

TEST_CASE("the roof of one thread and of more threads than processors") {
    for (const int threads : {1, 5}) {
        const Roof roof = measure_roof(threads);
        CHECK_MESSAGE(roof.operations > 0, threads);
        CHECK_MESSAGE(std::isfinite(roof.operations), threads);
        CHECK_MESSAGE(roof.integer_operations > 0, threads);
        CHECK_MESSAGE(std::isfinite(roof.integer_operations), threads);
        CHECK_MESSAGE(roof.bytes > 0, threads);
    }
}

}  // namespace dmlgraph::cpu::tests
