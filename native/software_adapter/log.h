// Writes one line to stderr with information for the caller that an HRESULT cannot convey.
#pragma once

#include <string>

namespace dmlgraph::software {

void log(const std::string& message);

}  // namespace dmlgraph::software
