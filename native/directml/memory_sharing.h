// Whether DirectML may work on memory that processor and adapter share, so that nothing is copied between them.
#pragma once

#include <memory>

namespace dmlgraph {

class Device;

// DirectML documents memory of the default kind only. Memory that both share works where the hardware has one
// coherent memory, with the full Direct3D level 11_0, on x86-64, and not with an old DirectML; that it works here is
// then tried with a tiny graph. Everywhere else tensors are staged.
//
// It is tried once per adapter and process. A system that refuses such memory may remove the device: the caller must
// look at Device::lost(). The next device of that adapter does not try again.
bool can_bind_shared_memory(const std::shared_ptr<Device>& device);

}  // namespace dmlgraph
