// One line on stderr for what a caller should know and cannot learn from an HRESULT.
#pragma once

#include <string>

namespace dmlgraph::software {

void log(const std::string& message);

}  // namespace dmlgraph::software
