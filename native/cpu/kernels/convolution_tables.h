// The kernels of convolutions: every level has them.
#pragma once

#include "cpu/kernels/channel_block.h"
#include "cpu/kernels/convolution.h"

namespace dmlgraph::cpu {

namespace baseline {
const ConvolutionKernels& convolutions();
const ChannelBlockKernels& channel_blocks();
}
namespace avx2 {
const ConvolutionKernels& convolutions();
const ChannelBlockKernels& channel_blocks();
}
namespace avx512 {
const ConvolutionKernels& convolutions();
const ChannelBlockKernels& channel_blocks();
}

}  // namespace dmlgraph::cpu
