// Finds the kernels of resampling.
#include "cpu/kernels/resampling_tables.h"

namespace dmlgraph::cpu {

const ResamplingKernels& resampling_kernels(Level level) noexcept {
    switch (level) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: return avx512::resampling_table();
        case Level::avx2: return avx2::resampling_table();
#endif
        default: return baseline::resampling_table();
    }
}

}  // namespace dmlgraph::cpu
