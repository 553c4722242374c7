// Compute pipelines: a shader, the locations of its registers' views, and its kernels.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "software_adapter/object.h"
#include "software_adapter/root_signature.h"

namespace dmlgraph::software {

class PipelineState final : public DeviceChild<ID3D12PipelineState, ID3D12Pageable> {
public:
    PipelineState(const DeviceOwner& owner, ComPtr<RootSignature> root_signature, std::span<const std::byte> dxbc,
                  const SwShaderInfo& info, std::vector<RootBinding> bindings);

    const RootSignature& root_signature() const { return *root_signature_; }
    std::span<const std::byte> dxbc() const { return dxbc_; }

    // The registers that the shader declares, and for each range the location of its views in the root arguments.
    std::span<const SwResourceRange> ranges() const { return {info_.ranges, info_.range_count}; }
    std::span<const RootBinding> bindings() const { return bindings_; }

    // The kernel for views of these formats, one for each range; compiled on first use. Returns null if it cannot
    // be compiled (then the device is lost) or if the compiler is interrupted (then the submission is abandoned).
    const SwKernel* kernel(SwView* const* views);

private:
    const SwKernel* compile(std::vector<uint32_t> formats);

    ComPtr<RootSignature> root_signature_;
    std::vector<std::byte> dxbc_;
    SwShaderInfo info_;
    std::vector<RootBinding> bindings_;
    std::mutex mutex_;
    std::map<std::vector<uint32_t>, SwKernel> kernels_;  // by formats
};

HRESULT create_compute_pipeline(const DeviceOwner& owner, const D3D12_COMPUTE_PIPELINE_STATE_DESC& desc,
                                const IID& riid, void** pipeline);

}  // namespace dmlgraph::software
