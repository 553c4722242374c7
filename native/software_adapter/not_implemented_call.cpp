#include "software_adapter/not_implemented_call.h"

#include <string>

#include "software_adapter/counters.h"
#include "software_adapter/log.h"

namespace dmlgraph::software {

void count_not_implemented(const char* name, bool first) {
    ++counters.not_implemented;
    if (first) {
        log(std::string("not implemented: ") + name);
    }
}

}  // namespace dmlgraph::software
