// What goes wrong between here and DirectML, with its call, code and place.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "abi/base.h"

namespace dmlgraph {

enum class ErrorKind {
    library,         // a library is missing, damaged or too old
    adapter,         // there is no such adapter
    feature_level,   // the device does not reach the level that is asked for
    debug_layer,     // the debug layer is asked for and not installed
    too_large,       // a buffer exceeds what Direct3D 12 can bind
    device_removed,  // the device is lost
    call,            // any other failing HRESULT
    cancelled,       // somebody has asked the run to end
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
    std::string graph;      // names, empty where unknown
    std::string node;
    std::vector<std::string> debug_messages;
};

// Where in the user's graph a call happens.
struct Place {
    std::string_view graph;
    std::string_view node;
};

// "E_INVALIDARG (0x80070057)".
std::string describe(abi::HRESULT code);

}  // namespace dmlgraph
