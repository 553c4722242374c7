// Names of Direct3D 12 and DirectML objects, for debuggers, PIX and messages about a removed device.
#pragma once

#include <string>
#include <string_view>

#include "abi/d3d12.h"
#include "abi/directml.h"
#include "abi/wide_text.h"

namespace dmlgraph {

// Every name starts with this.
inline constexpr std::string_view name_prefix = "dmlgraph: ";

template <class Object>
void set_name(Object& object, std::string_view what) {
    object.SetName(abi::wide(std::string(name_prefix) + std::string(what)).c_str());
}

}  // namespace dmlgraph
