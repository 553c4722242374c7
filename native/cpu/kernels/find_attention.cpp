// Finds the kernels of attention.
#include "cpu/kernels/attention_tables.h"

namespace dmlgraph::cpu {

const AttentionKernels& attention_kernels(Level level) noexcept {
    switch (level) {
#ifdef DMLGRAPH_X86_LEVELS
        case Level::avx512: return avx512::attention_table();
        case Level::avx2: return avx2::attention_table();
#endif
        default: return baseline::attention_table();
    }
}

}  // namespace dmlgraph::cpu
