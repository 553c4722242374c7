#include "software_adapter/features.h"

#include <algorithm>
#include <span>
#include <string>

#include "software_adapter/log.h"
#include "software_adapter/resource.h"

namespace dmlgraph::software {
namespace {

// The answers determine which of its shaders DirectML uses: those of shader model 6.2 with 16-bit, 64-bit
// and double arithmetic, without wave operations, for a device that shares the processor's memory.

HRESULT answer(const Strictness& strict, D3D12_FEATURE_DATA_D3D12_OPTIONS& options) {
    options = {};
    options.DoublePrecisionFloatShaderOps = !strict.no_float64;
    options.ResourceBindingTier = D3D12_RESOURCE_BINDING_TIER_3;
    options.TypedUAVLoadAdditionalFormats = true;
    options.MaxGPUVirtualAddressBitsPerResource = address_bits;
    options.ResourceHeapTier = D3D12_RESOURCE_HEAP_TIER_2;
    return S_OK;
}

HRESULT answer(const Strictness& strict, D3D12_FEATURE_DATA_D3D12_OPTIONS1& options) {
    options = {};
    options.WaveLaneCountMin = 4;
    options.WaveLaneCountMax = 4;
    options.TotalLaneCount = 64;
    options.Int64ShaderOps = !strict.no_int64;
    return S_OK;
}

HRESULT answer(const Strictness&, D3D12_FEATURE_DATA_D3D12_OPTIONS4& options) {
    options = {};
    options.Native16BitShaderOpsSupported = true;
    return S_OK;
}

HRESULT answer(const Strictness& strict, D3D12_FEATURE_DATA_FEATURE_LEVELS& levels) {
    if (levels.NumFeatureLevels == 0 || !levels.pFeatureLevelsRequested) {
        return E_INVALIDARG;
    }
    bool found = false;
    for (const auto level : std::span(levels.pFeatureLevelsRequested, levels.NumFeatureLevels)) {
        if (level <= max_feature_level(strict)) {
            levels.MaxSupportedFeatureLevel = found ? std::max(levels.MaxSupportedFeatureLevel, level) : level;
            found = true;
        }
    }
    return found ? S_OK : E_INVALIDARG;
}

HRESULT answer(const Strictness&, D3D12_FEATURE_DATA_SHADER_MODEL& model) {
    model.HighestShaderModel = std::min(model.HighestShaderModel, D3D_SHADER_MODEL_6_2);
    return S_OK;
}

HRESULT answer(const Strictness&, D3D12_FEATURE_DATA_ROOT_SIGNATURE& version) {
    version.HighestVersion = std::min(version.HighestVersion, D3D_ROOT_SIGNATURE_VERSION_1_1);
    return S_OK;
}

HRESULT answer(const Strictness& strict, D3D12_FEATURE_DATA_ARCHITECTURE& architecture) {
    architecture = {architecture.NodeIndex, false, !strict.no_sharing, !strict.no_sharing};
    return S_OK;
}

HRESULT answer(const Strictness& strict, D3D12_FEATURE_DATA_ARCHITECTURE1& architecture) {
    architecture = {architecture.NodeIndex, false, !strict.no_sharing, !strict.no_sharing, false};
    return S_OK;
}

struct Feature {
    D3D12_FEATURE feature;
    uint32_t size;
    HRESULT (*answer)(const Strictness& strict, void* data);
};

template <class Data>
constexpr Feature entry(D3D12_FEATURE feature) {
    return {feature, sizeof(Data),
            [](const Strictness& strict, void* data) { return answer(strict, *static_cast<Data*>(data)); }};
}

constexpr Feature features[] = {
    entry<D3D12_FEATURE_DATA_D3D12_OPTIONS>(D3D12_FEATURE_D3D12_OPTIONS),
    entry<D3D12_FEATURE_DATA_D3D12_OPTIONS1>(D3D12_FEATURE_D3D12_OPTIONS1),
    entry<D3D12_FEATURE_DATA_D3D12_OPTIONS4>(D3D12_FEATURE_D3D12_OPTIONS4),
    entry<D3D12_FEATURE_DATA_FEATURE_LEVELS>(D3D12_FEATURE_FEATURE_LEVELS),
    entry<D3D12_FEATURE_DATA_SHADER_MODEL>(D3D12_FEATURE_SHADER_MODEL),
    entry<D3D12_FEATURE_DATA_ROOT_SIGNATURE>(D3D12_FEATURE_ROOT_SIGNATURE),
    entry<D3D12_FEATURE_DATA_ARCHITECTURE>(D3D12_FEATURE_ARCHITECTURE),
    entry<D3D12_FEATURE_DATA_ARCHITECTURE1>(D3D12_FEATURE_ARCHITECTURE1),
};

}  // namespace

D3D_FEATURE_LEVEL max_feature_level(const Strictness& strict) {
    return strict.generic ? D3D_FEATURE_LEVEL_1_0_GENERIC
           : strict.core  ? D3D_FEATURE_LEVEL_1_0_CORE
                          : D3D_FEATURE_LEVEL_12_0;
}

HRESULT check_feature(const Strictness& strict, D3D12_FEATURE feature, void* data, uint32_t size) {
    const auto* found = std::ranges::find(features, feature, &Feature::feature);
    if (found == std::end(features)) {
        log("CheckFeatureSupport: unknown feature " + std::to_string(feature));
        return E_INVALIDARG;
    }
    return data && size == found->size ? found->answer(strict, data) : E_INVALIDARG;
}

}  // namespace dmlgraph::software
