// The libraries that a DirectML program needs, loaded once per process.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>

#include "abi/d3d12.h"
#include "abi/directml.h"
#include "abi/dxcore.h"
#include "abi/dxgi.h"
#include "directml/shared_library.h"

namespace dmlgraph {

// The paths of the libraries; a name without a directory means the system's library.
struct LibraryPaths {
    std::filesystem::path directml;
    std::filesystem::path d3d12;
    std::filesystem::path dxcore;
    std::filesystem::path dxgi;  // used if DXCore cannot be loaded; empty: there is none

    bool operator==(const LibraryPaths&) const = default;
};

// Direct3D 12, and what lists the adapters.
class AdapterLibraries {
public:
    // Throws Error (library).
    explicit AdapterLibraries(const LibraryPaths& paths);

private:
    friend class Library;

    SharedLibrary d3d12_;
    std::unique_ptr<SharedLibrary> dxgi_;    // null if DXCore is there
    std::unique_ptr<SharedLibrary> dxcore_;  // or null

public:
    // The functions of the libraries. One of the first two is null, and so is the debug interface if there is none.
    abi::DXCoreCreateAdapterFactoryFunction* const create_adapter_factory =
        dxcore_ ? dxcore_->require<abi::DXCoreCreateAdapterFactoryFunction>("DXCoreCreateAdapterFactory") : nullptr;
    abi::CreateDXGIFactory1Function* const create_dxgi_factory =
        dxgi_ ? dxgi_->require<abi::CreateDXGIFactory1Function>("CreateDXGIFactory1") : nullptr;
    abi::D3D12CreateDeviceFunction* const d3d12_create_device =
        d3d12_.require<abi::D3D12CreateDeviceFunction>("D3D12CreateDevice");
    abi::D3D12GetDebugInterfaceFunction* const d3d12_get_debug_interface =
        d3d12_.find<abi::D3D12GetDebugInterfaceFunction>("D3D12GetDebugInterface");
};

class Library : public AdapterLibraries {
public:
    // Loads Direct3D 12 and DXCore, then DirectML, which on Linux finds the first two by their SONAME. They
    // stay loaded until the process ends, and a process can load one set only: the same paths return the same
    // object again, other paths throw Error (library).
    static std::shared_ptr<Library> load(const LibraryPaths& paths);

    const LibraryPaths& paths() const { return paths_; }

    // The loaded files of DirectML, Direct3D 12 and what lists the adapters.
    std::array<const SharedLibrary*, 3> files() const {
        return {&directml_, &d3d12_, dxcore_ ? dxcore_.get() : dxgi_.get()};
    }

    // A software adapter counts its work: dispatches, live objects, ...
    bool has_counters() const { return counter_ != nullptr; }
    // UINT64_MAX for an unknown counter.
    std::uint64_t counter(const char* name) const { return counter_ ? counter_(name) : UINT64_MAX; }

    // A software adapter abandons what this thread submits between these two calls once cancelled(context) is
    // not 0; if it is null, never. The second call returns whether it abandoned anything.
    void begin_submission(int (*cancelled)(const void* context), const void* context) const {
        if (begin_ && end_) {
            begin_(cancelled, context);
        }
    }
    bool end_submission() const { return begin_ && end_ && end_() != 0; }

private:
    explicit Library(const LibraryPaths& paths) : AdapterLibraries(paths), paths_(paths), directml_(paths.directml) {}

    using CounterFunction = std::uint64_t(const char* name);
    using BeginFunction = void(int (*cancelled)(const void*), const void* context);
    using EndFunction = int();

    LibraryPaths paths_;
    SharedLibrary directml_;
    CounterFunction* counter_ = d3d12_.find<CounterFunction>("sw_counter");
    BeginFunction* begin_ = d3d12_.find<BeginFunction>("sw_begin");
    EndFunction* end_ = d3d12_.find<EndFunction>("sw_end");

public:
    abi::DMLCreateDevice1Function* const dml_create_device =
        directml_.require<abi::DMLCreateDevice1Function>("DMLCreateDevice1");

    // Held during an execution whose dispatches are counted: the counters are global to the process. The adapter
    // that counts runs one list at a time anyway.
    std::mutex counting;
};

}  // namespace dmlgraph
