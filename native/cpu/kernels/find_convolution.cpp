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

const ChannelBlockKernels& channel_block_kernels(Level level) noexcept {
    switch (level) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: return avx512::channel_blocks();
        case Level::avx2: return avx2::channel_blocks();
#endif
        default: return baseline::channel_blocks();
    }
}

ContributionsKernel contributions_kernel(Level level) noexcept {
    switch (level) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: return avx512::contributions_kernel();
        case Level::avx2: return avx2::contributions_kernel();
#endif
        default: return baseline::contributions_kernel();
    }
}

}  // namespace dmlgraph::cpu
