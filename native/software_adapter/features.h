// What the device says of itself.
#pragma once

#include "abi/d3d12.h"

namespace dmlgraph::software {

using namespace abi;

inline constexpr auto max_feature_level = D3D_FEATURE_LEVEL_12_0;

// ID3D12Device::CheckFeatureSupport: fills the feature's struct at `data`. E_INVALIDARG for a feature that is
// not known or a struct of another size.
HRESULT check_feature(D3D12_FEATURE feature, void* data, uint32_t size);

}  // namespace dmlgraph::software
