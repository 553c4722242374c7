// The call that tests ask to fail: sw_fail_call in shader_abi.h.
#pragma once

namespace dmlgraph::software {

enum class Fault { none, out_of_memory, removal };

// Counts a call that may fail, and says how it is to.
Fault next_fault();

}  // namespace dmlgraph::software
