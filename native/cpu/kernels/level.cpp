// The kernels of a level.
#include "cpu/kernels/level.h"

#define DMLGRAPH_TEXT_OF(name) #name
#define DMLGRAPH_TEXT(name) DMLGRAPH_TEXT_OF(name)

namespace dmlgraph::cpu::DMLGRAPH_LEVEL {

#define DMLGRAPH_FAMILY(name) &name##_kernels,
#define DMLGRAPH_KERNELS_OF(Type, name) name##_kernels,
constexpr Level level{DMLGRAPH_TEXT(DMLGRAPH_LEVEL),
                      {DMLGRAPH_FAMILIES(DMLGRAPH_FAMILY)},
                      DMLGRAPH_KERNELS(DMLGRAPH_KERNELS_OF) & product_kernels};

}  // namespace dmlgraph::cpu::DMLGRAPH_LEVEL
