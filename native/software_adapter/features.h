// What the device reports about itself.
#pragma once

#include "abi/d3d12.h"

namespace dmlgraph::software {

using namespace abi;

inline constexpr auto max_feature_level = D3D_FEATURE_LEVEL_12_0;

// ID3D12Device::CheckFeatureSupport: fills the feature's struct at `data`. Returns E_INVALIDARG for an unknown
// feature or a struct of the wrong size.
HRESULT check_feature(D3D12_FEATURE feature, void* data, uint32_t size);

}  // namespace dmlgraph::software
