// What the processor can do at the most.
#include "cpu/runtime/roof.h"

#include <cmath>
#include <initializer_list>

#include <doctest/doctest.h>

#include "cpu/kernels/peak.h"

namespace dmlgraph::cpu::tests {

TEST_CASE("the work is done, and counted") {
    float sum = 0;
    const double operations = peak_kernel()(64, &sum);
    CHECK_MESSAGE(std::abs(sum - 24.0f) < 1e-4f, "12 sums, each of which goes towards 2");
    CHECK_MESSAGE(operations >= 64 * 12 * 2 * 4, "at least 4 floats in a vector");
    CHECK_MESSAGE(peak_kernel()(128, &sum) == 2 * operations, "twice the rounds");
}

TEST_CASE("the roof of one thread and of more threads than processors") {
    for (const int threads : {1, 5}) {
        const Roof roof = measure_roof(threads);
        CHECK_MESSAGE(roof.operations > 0, threads);
        CHECK_MESSAGE(std::isfinite(roof.operations), threads);
        CHECK_MESSAGE(roof.bytes > 0, threads);
    }
}

}  // namespace dmlgraph::cpu::tests
