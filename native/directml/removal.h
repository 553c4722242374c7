// Where a removed device stopped: the system's extended data of removed devices (DRED).
#pragma once

#include <string>
#include <vector>

#include "directml/library.h"

namespace dmlgraph {

// Makes the system note the progress of the devices that are created afterwards. It costs a few per cent of their
// time, so it goes with the debug layer. Does nothing on systems that have no such data.
void note_progress(const Library& library);

// Lines for a message: the command lists that had not ended, with the operation each stopped at, and the buffers around
// an address that does not exist. Empty if the system noted nothing.
std::vector<std::string> describe_progress(abi::ID3D12Device& device);

}  // namespace dmlgraph
