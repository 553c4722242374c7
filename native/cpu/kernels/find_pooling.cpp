// Finds the kernels of pooling.
#include "cpu/kernels/pooling_tables.h"

#ifdef DMLGRAPH_X86_LEVELS
#define DMLGRAPH_OF_LEVEL(call)                   \
    switch (level) {                              \
        case Level::avx512: return avx512::call;  \
        case Level::avx2: return avx2::call;      \
        default: return baseline::call;           \
    }
#else
#define DMLGRAPH_OF_LEVEL(call) \
    static_cast<void>(level);   \
    return baseline::call;
#endif

namespace dmlgraph::cpu {

std::int64_t RowsCall::begin() const {
    const std::int64_t before = first < 0 ? (stride - 1 - first) / stride : 0;
    return before < count ? before : count;
}

std::int64_t RowsCall::end() const {
    const std::int64_t from = begin(), room = size - 1 - first - (taps - 1) * dilation;  // for the last result's first tap
    const std::int64_t last = room < 0 ? 0 : room / stride + 1;
    return last < from ? from : last < count ? last : count;
}

const PoolingKernels* maximum_kernels(DataType type, Level level) noexcept { DMLGRAPH_OF_LEVEL(maximum_kernels(type)) }
const PoolingKernels& sum_kernels(Level level) noexcept { DMLGRAPH_OF_LEVEL(sum_kernels()) }
const PoolingKernels& wide_sum_kernels(Level level) noexcept { DMLGRAPH_OF_LEVEL(wide_sum_kernels()) }
NumbersKernel numbers_kernel(DataType type, Level level) noexcept { DMLGRAPH_OF_LEVEL(numbers_kernel(type)) }
const GradientKernels* gradient_kernels(DataType type, Level level) noexcept { DMLGRAPH_OF_LEVEL(gradient_kernels(type)) }
MagnitudeKernel magnitude_kernel(Level level) noexcept { DMLGRAPH_OF_LEVEL(magnitude_kernel()) }

}  // namespace dmlgraph::cpu
