// The adapters of this machine, from DXCore.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "directml/library.h"

namespace dmlgraph {

enum class AdapterKind { gpu, npu, software };

struct Adapter {
    std::string name;
    AdapterKind kind;
    std::uint64_t luid;  // the adapter's identity until the system restarts
    bool integrated;
    std::uint64_t dedicated_bytes;  // its own memory
    std::uint64_t shared_bytes;     // system memory that it may use
    std::string driver_version;     // "31.0.10.1"
    abi::ComPtr<abi::IDXCoreAdapter> handle;
};

// Adapters that can compute: hardware before software, and faster before slower as far as the system knows.
// Throws Error (call) when DXCore fails.
std::vector<Adapter> list_adapters(const Library& library);

}  // namespace dmlgraph
