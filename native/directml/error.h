// Errors of calls to DirectML and its libraries, with call, code and place.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "abi/base.h"

namespace dmlgraph {

enum class ErrorKind {
    library,         // a library is missing or damaged
    outdated,        // DirectML is too old
    adapter,         // the adapter does not exist
    feature_level,   // the device does not reach the required level
    debug_layer,     // the debug layer was requested but is not installed
    too_large,       // a buffer is larger than Direct3D 12 can bind
    device_removed,  // the device is lost
    call,            // any other failing HRESULT
    cancelled,       // the run was cancelled
    use,             // the caller's own mistake: wrong index, wrong order
};

std::string_view name(ErrorKind kind);

class Error : public std::exception {
public:
    Error(ErrorKind kind, std::string message) : kind(kind), message(std::move(message)) {}

    const char* what() const noexcept override { return message.c_str(); }

    ErrorKind kind;
    std::string message;
    std::string call;       // the function that failed, if one did
    abi::HRESULT code = 0;  // what it returned
    std::string graph;      // graph and node are names, empty if unknown
    std::string node;
    std::vector<std::string> debug_messages;
};

// The part of the user's graph that a call is about.
struct Place {
    std::string_view graph;
    std::string_view node;
};

// "E_INVALIDARG (0x80070057)".
std::string describe(abi::HRESULT code);

}  // namespace dmlgraph
