// What libdxcore.so reports about the adapter and libd3d12.so about the device.
#pragma once

#include "abi/base.h"

namespace dmlgraph::software {

inline constexpr abi::LUID adapter_luid{0x646d6c67, 0};  // any value that no other adapter of the machine has
inline constexpr char adapter_description[] = "dmlgraph software adapter";

}  // namespace dmlgraph::software
