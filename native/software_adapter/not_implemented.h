// What the methods of Direct3D 12 do that this adapter does not implement (DMLGRAPH_OPTIONAL in abi/base.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace dmlgraph::software {

// Counts the call. The `first` call of a method is logged by its name, which is in the signature.
void note_not_implemented(const char* signature, bool first);

// The result: E_NOTIMPL, or 0.
struct NotImplemented {
    template <class Result>
    operator Result() const {
        if constexpr (std::is_same_v<Result, int32_t>) {
            return static_cast<int32_t>(0x80004001);
        } else {
            return Result{};
        }
    }
};

}  // namespace dmlgraph::software
