// Finds the kernels of convolutions.
#include "cpu/kernels/convolution_tables.h"

namespace dmlgraph::cpu {

const ConvolutionKernels& convolution_kernels(Level level) noexcept {
    switch (level) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: return avx512::convolutions();
        case Level::avx2: return avx2::convolutions();
#endif
        default: return baseline::convolutions();
    }
}

}  // namespace dmlgraph::cpu
