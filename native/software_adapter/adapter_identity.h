// What libdxcore.so reports about the adapters and libd3d12.so about their devices.
#pragma once

#include <cstddef>
#include <optional>

#include "abi/base.h"
#include "software_adapter/strictness.h"

namespace dmlgraph::software {

inline constexpr abi::LUID first_luid{0x646d6c67, 0};  // any value that no other adapter of the machine has
inline constexpr char adapter_description[] = "dmlgraph software adapter";

inline abi::LUID luid_of(std::size_t adapter) {
    return {first_luid.LowPart + static_cast<uint32_t>(adapter), first_luid.HighPart};
}

inline std::optional<std::size_t> adapter_of(const abi::LUID& luid) {
    for (std::size_t adapter = 0; adapter < adapter_count(); ++adapter) {
        if (luid_of(adapter) == luid) {
            return adapter;
        }
    }
    return std::nullopt;
}

}  // namespace dmlgraph::software
