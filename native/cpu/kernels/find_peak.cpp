// Finds the kernel of the chosen level.
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/peak.h"

namespace dmlgraph::cpu {

PeakKernel peak_kernel() noexcept {
    switch (chosen_level()) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: return &avx512::multiply_and_add;
        case Level::avx2: return &avx2::multiply_and_add;
#endif
        default: return &baseline::multiply_and_add;
    }
}

}  // namespace dmlgraph::cpu
