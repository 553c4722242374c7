// The machine that this process runs on.
#pragma once

namespace dmlgraph {

// Whether its processor is an ARM; then the process may be emulated.
bool on_arm();

}  // namespace dmlgraph
