// The debug layer of Direct3D 12, which belongs to the process.
//
// Switching it on removes every device that exists, also those of other code in the process. So it is decided once,
// before the first device.
#pragma once

#include "directml/library.h"

namespace dmlgraph {

// Decides at the first call whether the layer is on: it is switched on if it is wanted. Returns whether it is on.
// With it the system notes what removed devices did, and if `gpu_validation` is true, it checks what shaders do.
// Throws Error (debug_layer) if it is wanted but missing, or wanted too late.
bool decide_debug_layer(const Library& library, bool wanted, bool gpu_validation);

}  // namespace dmlgraph
