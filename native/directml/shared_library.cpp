#include "directml/shared_library.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include "directml/error.h"

namespace dmlgraph {
namespace {

// Returns the library's handle, or null with a reason.
void* open(const std::filesystem::path& path, std::string& reason) {
#ifdef _WIN32
    const DWORD flags = path.has_parent_path()
                            ? LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS
                            : LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
    HMODULE handle = LoadLibraryExW(path.c_str(), nullptr, flags);
    if (!handle) {
        reason = "Windows error " + std::to_string(GetLastError());
    }
    return reinterpret_cast<void*>(handle);
#else
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        reason = dlerror();
    }
    return handle;
#endif
}

}  // namespace

SharedLibrary::SharedLibrary(const std::filesystem::path& path) : path_(path) {
    std::string reason;
    handle_ = open(path, reason);
    if (!handle_) {
        throw Error(ErrorKind::library, "cannot load " + path.string() + ": " + reason);
    }
}

SharedLibrary::~SharedLibrary() {
#ifdef _WIN32
    FreeLibrary(reinterpret_cast<HMODULE>(handle_));
#else
    dlclose(handle_);
#endif
}

void* SharedLibrary::address_of(const char* symbol) const {
#ifdef _WIN32
    return reinterpret_cast<void*>(GetProcAddress(reinterpret_cast<HMODULE>(handle_), symbol));
#else
    return dlsym(handle_, symbol);
#endif
}

void* SharedLibrary::required_address_of(const char* symbol) const {
    void* address = address_of(symbol);
    if (!address) {
        throw Error(ErrorKind::library, path_.string() + " does not have the function " + symbol +
                                            "; it is a different library or too old");
    }
    return address;
}

}  // namespace dmlgraph
