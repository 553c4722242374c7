#include "directml/shared_library.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include "directml/error.h"

namespace dmlgraph {
namespace {

#ifdef _WIN32
// What Windows says about an error, in UTF-8, and its number.
std::string text_of(DWORD error) {
    wchar_t* wide = nullptr;
    const DWORD length = FormatMessageW(
        FORMAT_MESSAGE_ALLOCATE_BUFFER | FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS |
            FORMAT_MESSAGE_MAX_WIDTH_MASK,
        nullptr, error, 0, reinterpret_cast<wchar_t*>(&wide), 0, nullptr);
    std::string text(static_cast<std::size_t>(length) * 3, '\0');  // of bytes; no UTF-16 unit takes more
    text.resize(static_cast<std::size_t>(WideCharToMultiByte(
        CP_UTF8, 0, wide, static_cast<int>(length), text.data(), static_cast<int>(text.size()), nullptr, nullptr)));
    LocalFree(wide);
    text.resize(text.find_last_not_of(" .") + 1);
    return (text.empty() ? "" : text + " ") + "(Windows error " + std::to_string(error) + ")";
}
#endif

// Returns the library's handle, or null with a reason.
void* open(const std::filesystem::path& path, std::string& reason) {
#ifdef _WIN32
    const DWORD flags = path.has_parent_path()
                            ? LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS
                            : LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
    HMODULE handle = LoadLibraryExW(path.c_str(), nullptr, flags);
    if (!handle) {
        reason = text_of(GetLastError());
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
