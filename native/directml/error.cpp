#include "directml/error.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace dmlgraph {
namespace {

using namespace abi;

constexpr std::array<std::pair<HRESULT, std::string_view>, 18> names{{
    {S_OK, "S_OK"},
    {E_NOTIMPL, "E_NOTIMPL"},
    {E_NOINTERFACE, "E_NOINTERFACE"},
    {E_POINTER, "E_POINTER"},
    {E_ABORT, "E_ABORT"},
    {E_FAIL, "E_FAIL"},
    {E_UNEXPECTED, "E_UNEXPECTED"},
    {E_ACCESSDENIED, "E_ACCESSDENIED"},
    {E_OUTOFMEMORY, "E_OUTOFMEMORY"},
    {E_INVALIDARG, "E_INVALIDARG"},
    {DXGI_ERROR_INVALID_CALL, "DXGI_ERROR_INVALID_CALL"},
    {DXGI_ERROR_NOT_FOUND, "DXGI_ERROR_NOT_FOUND"},
    {DXGI_ERROR_UNSUPPORTED, "DXGI_ERROR_UNSUPPORTED"},
    {DXGI_ERROR_DEVICE_REMOVED, "DXGI_ERROR_DEVICE_REMOVED"},
    {DXGI_ERROR_DEVICE_HUNG, "DXGI_ERROR_DEVICE_HUNG"},
    {DXGI_ERROR_DEVICE_RESET, "DXGI_ERROR_DEVICE_RESET"},
    {DXGI_ERROR_DRIVER_INTERNAL_ERROR, "DXGI_ERROR_DRIVER_INTERNAL_ERROR"},
    {DXGI_ERROR_SDK_COMPONENT_MISSING, "DXGI_ERROR_SDK_COMPONENT_MISSING"},
}};

}  // namespace

std::string_view name(ErrorKind kind) {
    constexpr std::array<std::string_view, 10> kinds{"library",     "outdated",  "adapter",        "feature_level",
                                                     "debug_layer", "too_large", "device_removed", "call",
                                                     "cancelled",   "use"};
    return kinds[static_cast<std::size_t>(kind)];
}

std::string describe(HRESULT code) {
    std::array<char, 16> digits;
    std::snprintf(digits.data(), digits.size(), "0x%08X", static_cast<unsigned>(code));
    const auto known = std::ranges::find(names, code, [](const auto& entry) { return entry.first; });
    return known == names.end() ? digits.data() : std::string(known->second) + " (" + digits.data() + ")";
}

}  // namespace dmlgraph
