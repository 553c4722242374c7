// Sums in registers, as many as hide the time from an instruction's operands to its result.
#include "cpu/kernels/peak.h"

#include "cpu/kernels/vector.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {

double multiply_and_add(std::int64_t rounds, float* sum_of_all) noexcept {
    constexpr int sums = 12;
    Vector s[sums];
    for (int i = 0; i < sums; ++i) {
        s[i] = repeated(static_cast<float>(i));
    }
    const Vector factor = repeated(0.5f), term = repeated(1.0f);  // each sum goes towards 2
    for (std::int64_t r = 0; r < rounds; ++r) {
        DMLGRAPH_UNROLL
        for (int i = 0; i < sums; ++i) {
            s[i] = product_sum(s[i], factor, term);
        }
    }
    Vector total = s[0];
    for (int i = 1; i < sums; ++i) {
        total = sum(total, s[i]);
    }
    float numbers[lanes];
    store(numbers, total);
    *sum_of_all = numbers[0];
    return 2.0 * sums * lanes * static_cast<double>(rounds);
}

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
