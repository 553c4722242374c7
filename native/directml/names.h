// Names of Direct3D 12 and DirectML objects, for debuggers, PIX and messages about a removed device.
#pragma once

#include <string>
#include <string_view>

#include "abi/d3d12.h"
#include "abi/directml.h"

namespace dmlgraph {

// UTF-8 text in the system's wide characters; U+FFFD for what is not UTF-8.
std::wstring wide(std::string_view text);
// The reverse.
std::string narrow(std::wstring_view text);

// Every name starts with this.
inline constexpr std::string_view name_prefix = "dmlgraph: ";

template <class Object>
void set_name(Object& object, std::string_view what) {
    object.SetName(wide(std::string(name_prefix) + std::string(what)).c_str());
}

}  // namespace dmlgraph
