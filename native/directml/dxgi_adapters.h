// The adapters from DXGI, for systems without DXCore. DXGI does not list NPUs.
#pragma once

#include <vector>

#include "directml/adapter.h"

namespace dmlgraph {

// In DXGI's order: the adapter of the primary display first. Throws Error (call).
std::vector<Adapter> list_dxgi_adapters(const AdapterLibraries& libraries);

}  // namespace dmlgraph
