// The three libraries a DirectML program needs, loaded once for the process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>

#include "abi/d3d12.h"
#include "abi/directml.h"
#include "abi/dxcore.h"
#include "directml/shared_library.h"

namespace dmlgraph {

// Where to find them; the plain name of a library means the system's.
struct LibraryPaths {
    std::filesystem::path directml;
    std::filesystem::path d3d12;
    std::filesystem::path dxcore;

    bool operator==(const LibraryPaths&) const = default;
};

class Library {
public:
    // Loads Direct3D 12 and DXCore, then DirectML, which on Linux finds the first two by their SONAME. They
    // stay loaded until the process ends, and a process can hold one set of them: loading the same paths
    // again gives the same object, other paths are an Error (library).
    static std::shared_ptr<Library> load(const LibraryPaths& paths);

    const LibraryPaths& paths() const { return paths_; }

    // A software adapter counts its work: dispatches, live objects, ...
    bool has_counters() const { return counter_ != nullptr; }
    // UINT64_MAX for a counter there is not.
    std::uint64_t counter(const char* name) const { return counter_ ? counter_(name) : UINT64_MAX; }

    // A software adapter gives up what this thread submits between these two once cancelled(context) is not 0;
    // null: never. The second one says whether it did.
    void begin_submission(int (*cancelled)(const void* context), const void* context) const {
        if (begin_ && end_) {
            begin_(cancelled, context);
        }
    }
    bool end_submission() const { return begin_ && end_ && end_() != 0; }

private:
    explicit Library(const LibraryPaths& paths)
        : paths_(paths), d3d12_(paths.d3d12), dxcore_(paths.dxcore), directml_(paths.directml) {}

    using CounterFunction = std::uint64_t(const char* name);
    using BeginFunction = void(int (*cancelled)(const void*), const void* context);
    using EndFunction = int();

    LibraryPaths paths_;
    SharedLibrary d3d12_;
    SharedLibrary dxcore_;
    SharedLibrary directml_;
    CounterFunction* counter_ = d3d12_.find<CounterFunction>("sw_counter");
    BeginFunction* begin_ = d3d12_.find<BeginFunction>("sw_begin");
    EndFunction* end_ = d3d12_.find<EndFunction>("sw_end");

public:
    // The functions that are called; the debug interface is null where there is none.
    abi::DXCoreCreateAdapterFactoryFunction* const create_adapter_factory =
        dxcore_.require<abi::DXCoreCreateAdapterFactoryFunction>("DXCoreCreateAdapterFactory");
    abi::D3D12CreateDeviceFunction* const d3d12_create_device =
        d3d12_.require<abi::D3D12CreateDeviceFunction>("D3D12CreateDevice");
    abi::D3D12GetDebugInterfaceFunction* const d3d12_get_debug_interface =
        d3d12_.find<abi::D3D12GetDebugInterfaceFunction>("D3D12GetDebugInterface");
    abi::DMLCreateDevice1Function* const dml_create_device =
        directml_.require<abi::DMLCreateDevice1Function>("DMLCreateDevice1");

    // Held during an execution whose dispatches are counted: counters are the process's. The adapter that
    // counts runs one list at a time anyway.
    std::mutex counting;
};

}  // namespace dmlgraph
