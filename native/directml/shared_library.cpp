#include "directml/shared_library.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include <cstring>
#include <utility>

#include "directml/error.h"

namespace dmlgraph {
namespace {

#ifdef _WIN32
// What Windows says about an error, in UTF-8, and its number.
std::string text_of(DWORD error) {
    wchar_t* wide = nullptr;
    const DWORD length = FormatMessageW(FORMAT_MESSAGE_ALLOCATE_BUFFER | FORMAT_MESSAGE_FROM_SYSTEM |
                                            FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK,
                                        nullptr, error, 0, reinterpret_cast<wchar_t*>(&wide), 0, nullptr);
    std::string text(static_cast<std::size_t>(length) * 3, '\0');  // of bytes; no UTF-16 unit takes more
    text.resize(static_cast<std::size_t>(WideCharToMultiByte(CP_UTF8, 0, wide, static_cast<int>(length), text.data(),
                                                             static_cast<int>(text.size()), nullptr, nullptr)));
    LocalFree(wide);
    text.resize(text.find_last_not_of(" .") + 1);
    return (text.empty() ? "" : text + " ") + "(Windows error " + std::to_string(error) + ")";
}
#endif

#ifdef _WIN32
// The folder of the system's libraries. Paths may be longer than MAX_PATH.
std::filesystem::path system_directory() {
    std::wstring path(GetSystemDirectoryW(nullptr, 0), L'\0');
    path.resize(GetSystemDirectoryW(path.data(), static_cast<UINT>(path.size())));
    return path;
}

std::filesystem::path path_of(HMODULE module) {
    constexpr std::size_t longest = 1 << 15;  // of Windows' paths
    std::wstring path(longest, L'\0');
    path.resize(GetModuleFileNameW(module, path.data(), static_cast<DWORD>(path.size())));
    return path;
}
#endif

struct Opened {
    void* handle;  // null with a reason
    std::filesystem::path path;
    std::string reason;
};

Opened open(const std::filesystem::path& path) {
#ifdef _WIN32
    const bool system = !path.has_parent_path();
    const auto full = system ? system_directory() / path : std::filesystem::absolute(path);
    const DWORD flags = LOAD_LIBRARY_SEARCH_SYSTEM32 | (system ? 0 : LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR);
    HMODULE const module = LoadLibraryExW(full.c_str(), nullptr, flags);
    if (!module) {
        return {nullptr, full, text_of(GetLastError())};
    }
    return {reinterpret_cast<void*>(module), path_of(module), {}};
#else
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    return {handle, path, handle ? "" : dlerror()};
#endif
}

}  // namespace

std::string utf8(const std::filesystem::path& path) {
    const std::u8string text = path.u8string();
    return {text.begin(), text.end()};
}

SharedLibrary::SharedLibrary(const std::filesystem::path& path) {
    Opened opened = open(path);
    if (!opened.handle) {
        throw Error(ErrorKind::library, "cannot load " + utf8(opened.path) + ": " + opened.reason);
    }
    handle_ = opened.handle;
    path_ = std::move(opened.path);
}

std::string SharedLibrary::version() const {
#ifdef _WIN32
    // The resource VS_VERSIONINFO: three 16-bit numbers, the key "VS_VERSION_INFO" with its NUL, and at the next
    // multiple of four bytes VS_FIXEDFILEINFO.
    constexpr std::size_t offset = (3 * sizeof(WORD) + 16 * sizeof(wchar_t) + 3) / 4 * 4;
    constexpr DWORD signature = 0xFEEF04BD;
    auto* const module = reinterpret_cast<HMODULE>(handle_);
    HRSRC const resource = FindResourceW(module, MAKEINTRESOURCEW(VS_VERSION_INFO), MAKEINTRESOURCEW(16));
    HGLOBAL const loaded = resource ? LoadResource(module, resource) : nullptr;
    const auto* const bytes = loaded ? static_cast<const char*>(LockResource(loaded)) : nullptr;
    VS_FIXEDFILEINFO info{};
    if (!bytes || SizeofResource(module, resource) < offset + sizeof info) {
        return {};
    }
    std::memcpy(&info, bytes + offset, sizeof info);
    if (info.dwSignature != signature) {
        return {};
    }
    std::string text;
    for (const DWORD part : {info.dwFileVersionMS, info.dwFileVersionLS}) {
        text += (text.empty() ? "" : ".") + std::to_string(HIWORD(part)) + "." + std::to_string(LOWORD(part));
    }
    return text;
#else
    return {};
#endif
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
        throw Error(ErrorKind::library,
                    utf8(path_) + " does not have the function " + symbol + "; it is a different library or too old");
    }
    return address;
}

}  // namespace dmlgraph
