#include "software_adapter/root_signature.h"

namespace dmlgraph::software {
namespace {

// DXIL's resource classes in Direct3D's numbering.
D3D12_DESCRIPTOR_RANGE_TYPE range_type(const SwResourceRange& range) {
    static_assert(D3D12_DESCRIPTOR_RANGE_TYPE_SRV == 0 && D3D12_DESCRIPTOR_RANGE_TYPE_UAV == 1 &&
                  D3D12_DESCRIPTOR_RANGE_TYPE_CBV == 2 && D3D12_DESCRIPTOR_RANGE_TYPE_SAMPLER == 3);
    return static_cast<D3D12_DESCRIPTOR_RANGE_TYPE>(range.resource_class);
}

// Whether the `count` registers from `lower` on (or all, if unbounded) include those of the shader.
bool covers(uint32_t lower, uint32_t count, const SwResourceRange& range) {
    if (range.lower < lower) {
        return false;
    }
    return count == UINT32_MAX ||
           (range.count != UINT32_MAX && uint64_t{range.lower} + range.count <= uint64_t{lower} + count);
}

std::optional<RootBinding> find_in_table(const RootParameter& table, uint32_t parameter, const SwResourceRange& range) {
    uint32_t offset = 0;
    for (const auto& candidate : table.ranges) {
        if (candidate.OffsetInDescriptorsFromTableStart != descriptor_range_offset_append) {
            offset = candidate.OffsetInDescriptorsFromTableStart;
        }
        if (candidate.RangeType == range_type(range) && candidate.RegisterSpace == range.space &&
            covers(candidate.BaseShaderRegister, candidate.NumDescriptors, range)) {
            return RootBinding{parameter, offset + (range.lower - candidate.BaseShaderRegister),
                               (candidate.Flags & D3D12_DESCRIPTOR_RANGE_FLAG_DESCRIPTORS_VOLATILE) != 0};
        }
        offset += candidate.NumDescriptors;
    }
    return std::nullopt;
}

bool is_root_view(const RootParameter& parameter, const SwResourceRange& range) {
    const bool constants = parameter.type == D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS;
    const bool right_class =
        parameter.type == D3D12_ROOT_PARAMETER_TYPE_SRV   ? range_type(range) == D3D12_DESCRIPTOR_RANGE_TYPE_SRV
        : parameter.type == D3D12_ROOT_PARAMETER_TYPE_UAV ? range_type(range) == D3D12_DESCRIPTOR_RANGE_TYPE_UAV
                                                          : range_type(range) == D3D12_DESCRIPTOR_RANGE_TYPE_CBV;
    const auto space = constants ? parameter.constants.RegisterSpace : parameter.descriptor.RegisterSpace;
    const auto lower = constants ? parameter.constants.ShaderRegister : parameter.descriptor.ShaderRegister;
    return right_class && space == range.space && covers(lower, 1, range);
}

}  // namespace

RootSignature::RootSignature(const DeviceOwner& owner, RootSignatureDesc desc)
    : DeviceChild(owner), desc_(std::move(desc)), serialized_(serialize(desc_)) {}

std::optional<RootBinding> RootSignature::find(const SwResourceRange& range) const {
    for (uint32_t i = 0; i < desc_.parameters.size(); ++i) {
        const auto& parameter = desc_.parameters[i];
        if (parameter.visibility != D3D12_SHADER_VISIBILITY_ALL) {
            continue;
        }
        if (parameter.type == D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE) {
            if (const auto binding = find_in_table(parameter, i, range)) {
                return binding;
            }
        } else if (is_root_view(parameter, range)) {
            return RootBinding{i, 0, false};
        }
    }
    return std::nullopt;
}

}  // namespace dmlgraph::software
