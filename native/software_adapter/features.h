// What the device reports about itself.
#pragma once

#include "abi/d3d12.h"
#include "software_adapter/strictness.h"

namespace dmlgraph::software {

using namespace abi;

// The highest feature level of an adapter's devices.
D3D_FEATURE_LEVEL max_feature_level(const Strictness& strict);

// ID3D12Device::CheckFeatureSupport: fills the feature's struct at `data`. Returns E_INVALIDARG for an unknown
// feature or a struct of the wrong size.
HRESULT check_feature(const Strictness& strict, D3D12_FEATURE feature, void* data, uint32_t size);

}  // namespace dmlgraph::software
