// Whether the system's Direct3D 12 works, asked without leaving libraries behind that keep DirectML from another one.
//
// On Linux DirectML takes libd3d12.so and libdxcore.so by their names, from the libraries that the process has loaded.
// WSL2 has them even if it has no GPU that works. Once they are loaded for good, DirectML cannot run on the software
// adapter.
#pragma once

#include <string>

#include "directml/library.h"

namespace dmlgraph {

struct Probe {
    std::string problem;  // empty: an adapter works, and the libraries stay loaded
    bool stays = false;   // there is a problem, but the libraries cannot be unloaded
};

// Lists the adapters and asks whether Direct3D 12 makes a device of one of them. `paths.directml` is not loaded.
Probe probe_direct3d(const LibraryPaths& paths);

}  // namespace dmlgraph
