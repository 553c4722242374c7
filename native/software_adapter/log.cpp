#include "software_adapter/log.h"

#include <cstdio>

namespace dmlgraph::software {

void log(const std::string& message) { std::fprintf(stderr, "dmlgraph software adapter: %s\n", message.c_str()); }

}  // namespace dmlgraph::software
