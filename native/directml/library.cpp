#include "directml/library.h"

#include <mutex>

#include "directml/error.h"

namespace dmlgraph {
namespace {

// DXCore, or null with DXGI in its place. Throws Error (library) if neither can be loaded.
std::unique_ptr<SharedLibrary> load_dxcore(const LibraryPaths& paths, std::unique_ptr<SharedLibrary>& dxgi) {
    try {
        return std::make_unique<SharedLibrary>(paths.dxcore);
    } catch (const Error&) {
        if (paths.dxgi.empty()) {
            throw;
        }
        dxgi = std::make_unique<SharedLibrary>(paths.dxgi);
        return nullptr;
    }
}

}  // namespace

AdapterLibraries::AdapterLibraries(const LibraryPaths& paths)
    : d3d12_(paths.d3d12), dxcore_(load_dxcore(paths, dxgi_)) {}

std::shared_ptr<Library> Library::load(const LibraryPaths& paths) {
    static std::mutex mutex;
    // Never destroyed: at the end of the process other threads may still run code of the libraries.
    static auto& loaded = *new std::shared_ptr<Library>;

    const std::lock_guard lock(mutex);
    if (!loaded) {
        loaded.reset(new Library(paths));
    } else if (loaded->paths() != paths) {
        throw Error(ErrorKind::library, "this process already uses " + utf8(loaded->paths().directml) + " over " +
                                            utf8(loaded->paths().d3d12) + " and cannot load " + utf8(paths.directml) +
                                            " over " + utf8(paths.d3d12) + " too; use a separate process");
    }
    return loaded;
}

}  // namespace dmlgraph
