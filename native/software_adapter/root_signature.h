// Root signature objects: they map a shader's registers to the locations of their views.
#pragma once

#include <optional>

#include "software_adapter/object.h"
#include "software_adapter/root_signature_desc.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {

// The root parameter for a range of registers, and for a descriptor table the offset of the range from its
// start, in descriptors.
struct RootBinding {
    uint32_t parameter;
    uint32_t offset;
    bool is_volatile;  // the descriptors may change after they are recorded
};

class RootSignature final : public DeviceChild<ID3D12RootSignature> {
public:
    RootSignature(const DeviceOwner& owner, RootSignatureDesc desc);

    const RootSignatureDesc& desc() const { return desc_; }

    // Empty if no root parameter that is visible to compute shaders covers the range.
    std::optional<RootBinding> find(const SwResourceRange& range) const;

    // Whether arguments for one are valid for the other.
    bool same_as(const RootSignature& other) const { return this == &other || serialized_ == other.serialized_; }

private:
    RootSignatureDesc desc_;
    std::vector<uint32_t> serialized_;
};

}  // namespace dmlgraph::software
