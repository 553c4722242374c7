// A shared library of the system.
#pragma once

#include <filesystem>
#include <string>

namespace dmlgraph {

class SharedLibrary {
public:
    // Loads a file or, if the path has no directory, the library that the system finds under that name.
    // Throws Error (library) with the system's reason.
    explicit SharedLibrary(const std::filesystem::path& path);
    ~SharedLibrary();
    SharedLibrary(const SharedLibrary&) = delete;
    SharedLibrary& operator=(const SharedLibrary&) = delete;

    // Null if the library does not have the symbol.
    template <class Function>
    Function* find(const char* symbol) const {
        return reinterpret_cast<Function*>(address_of(symbol));
    }

    // The same, but throws Error (library) if the symbol is missing.
    template <class Function>
    Function* require(const char* symbol) const {
        return reinterpret_cast<Function*>(required_address_of(symbol));
    }

    const std::filesystem::path& path() const { return path_; }

private:
    void* address_of(const char* symbol) const;
    void* required_address_of(const char* symbol) const;

    void* handle_;
    std::filesystem::path path_;
};

}  // namespace dmlgraph
