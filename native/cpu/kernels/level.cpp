// The kernels of a level.
#include "cpu/kernels/level.h"

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {

#define DMLGRAPH_FAMILY(name) &name##_kernels,
#define DMLGRAPH_KERNELS_OF(Type, name) name##_kernels,
constexpr Level level{
    {}, {DMLGRAPH_FAMILIES(DMLGRAPH_FAMILY)}, DMLGRAPH_KERNELS(DMLGRAPH_KERNELS_OF) & product_kernels};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
