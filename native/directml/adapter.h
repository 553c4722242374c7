// The adapters of this machine: from DXCore, or from DXGI where there is no DXCore.
#pragma once

#include <cstdint>
#include <span>
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
    std::uint64_t dedicated_bytes;            // its own memory
    std::uint64_t shared_bytes;               // system memory that it may use
    std::string driver_version;               // "31.0.10.1"
    abi::ComPtr<abi::IDXCoreAdapter> handle;  // null if DXGI lists it
    abi::ComPtr<abi::IDXGIAdapter1> dxgi;     // null if DXCore lists it

    // What Direct3D 12 makes a device of.
    abi::IUnknown* unknown() const {
        return handle ? static_cast<abi::IUnknown*>(handle.get()) : static_cast<abi::IUnknown*>(dxgi.get());
    }
};

// Adapters that can compute: hardware before software, and faster before slower as far as the system knows.
// Throws Error (call) when DXCore or DXGI fails.
std::vector<Adapter> list_adapters(const AdapterLibraries& libraries);

// The feature levels of Direct3D 12 to try on an adapter, best first.
std::span<const abi::D3D_FEATURE_LEVEL> levels_of(const Adapter& adapter);

// For both of them. Throws Error (call) if the code is a failure.
void check_listing(abi::HRESULT code, const char* call);
std::uint64_t luid_number(const abi::LUID& luid);
std::string version_text(std::uint64_t version);  // 16 bits for each of four numbers

}  // namespace dmlgraph
