// The kernels of convolutions: every level has them.
#pragma once

#include "cpu/kernels/channel_block.h"
#include "cpu/kernels/contributions.h"
#include "cpu/kernels/convolution.h"

namespace dmlgraph::cpu {

namespace baseline {
const ConvolutionKernels& convolutions();
const ChannelBlockKernels& channel_blocks();
ContributionsKernel contributions_kernel();
}
namespace avx2 {
const ConvolutionKernels& convolutions();
const ChannelBlockKernels& channel_blocks();
ContributionsKernel contributions_kernel();
}
namespace avx512 {
const ConvolutionKernels& convolutions();
const ChannelBlockKernels& channel_blocks();
ContributionsKernel contributions_kernel();
}

}  // namespace dmlgraph::cpu
