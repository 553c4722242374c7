// A shared library of the system.
#pragma once

#include <filesystem>
#include <string>

namespace dmlgraph {

// A path as text for messages and Python: std::filesystem::path::string() is in the ANSI code page on Windows.
std::string utf8(const std::filesystem::path& path);

class SharedLibrary {
public:
    // Loads a file or, if the path has no directory, the system's library of that name. On Windows that is the one in
    // the system's directory: no other folder is searched, and libraries that a file needs come from its own folder or
    // from the system's. Throws Error (library) with the system's reason.
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

    // The file that was loaded.
    const std::filesystem::path& path() const { return path_; }
    // Of the file, as "1.15.4.0"; empty if it does not tell, as on Linux.
    std::string version() const;

private:
    void* address_of(const char* symbol) const;
    void* required_address_of(const char* symbol) const;

    void* handle_;
    std::filesystem::path path_;
};

}  // namespace dmlgraph
