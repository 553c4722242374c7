// The kernels of attention: every level has them.
#pragma once

#include "cpu/kernels/attention.h"

namespace dmlgraph::cpu {

namespace baseline {
const AttentionKernels& attention_table();
}
namespace avx2 {
const AttentionKernels& attention_table();
}
namespace avx512 {
const AttentionKernels& attention_table();
}

}  // namespace dmlgraph::cpu
