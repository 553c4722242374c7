#include "directml/probe.h"

#ifndef _WIN32
#include <dlfcn.h>
#endif

#include <memory>
#include <tuple>

#include "directml/adapter.h"
#include "directml/error.h"

namespace dmlgraph {
namespace {

using namespace abi;

// The reason why no adapter works, empty if one does.
std::string find_problem(const AdapterLibraries& libraries) {
    std::string problem = "it has no adapter that can compute";
    for (const Adapter& adapter : list_adapters(libraries)) {
        for (const auto level : levels_of(adapter)) {
            // Without a place for the device, none is made.
            const HRESULT code = libraries.d3d12_create_device(adapter.unknown(), level, ID3D12Device::iid, nullptr);
            if (succeeded(code)) {
                return {};
            }
            problem = "D3D12CreateDevice on " + adapter.name + " failed with " + describe(code);
        }
    }
    return problem;
}

bool is_loaded([[maybe_unused]] const std::filesystem::path& path) {
#ifdef _WIN32
    return false;  // Windows gives each library its own, whatever is loaded
#else
    void* const handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle) {
        dlclose(handle);
    }
    return handle != nullptr;
#endif
}

}  // namespace

Probe probe_direct3d(const LibraryPaths& paths) {
    Probe result;
    try {
        auto libraries = std::make_unique<AdapterLibraries>(paths);
        result.problem = find_problem(*libraries);
        if (result.problem.empty()) {
            std::ignore = libraries.release();  // never unloaded: drivers have threads
        }
    } catch (const Error& error) {
        result.problem = error.message;
    }
    result.stays = !result.problem.empty() && (is_loaded(paths.d3d12) || is_loaded(paths.dxcore));
    return result;
}

}  // namespace dmlgraph
