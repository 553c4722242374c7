#include "software_adapter/root_signature_desc.h"

#include <string>

namespace dmlgraph::software {
namespace {

// The flags that version 1.0 implies, since it does not have flags.
constexpr auto implied_range_flags =
    D3D12_DESCRIPTOR_RANGE_FLAG_DESCRIPTORS_VOLATILE | D3D12_DESCRIPTOR_RANGE_FLAG_DATA_VOLATILE;
constexpr auto implied_sampler_flags = D3D12_DESCRIPTOR_RANGE_FLAG_DESCRIPTORS_VOLATILE;
constexpr auto implied_descriptor_flags = D3D12_ROOT_DESCRIPTOR_FLAG_DATA_VOLATILE;

template <class T>
std::span<const T> items(const T* pointer, uint32_t count) {
    if (count > 0 && !pointer) {
        throw RootSignatureError("the pointer to " + std::to_string(count) + " parameters or ranges is null");
    }
    return {pointer, count};
}

template <class Desc>
RootSignatureDesc from_desc(D3D_ROOT_SIGNATURE_VERSION version, const Desc& desc) {
    RootSignatureDesc result{version, desc.Flags, {}, {}};
    for (const auto& given : items(desc.pParameters, desc.NumParameters)) {
        RootParameter parameter{given.ParameterType, given.ShaderVisibility, {}, {}, {}};
        switch (given.ParameterType) {
            case D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE:
                for (const auto& range :
                     items(given.DescriptorTable.pDescriptorRanges, given.DescriptorTable.NumDescriptorRanges)) {
                    parameter.ranges.push_back(upgrade(range));
                }
                break;
            case D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS: parameter.constants = given.Constants; break;
            default: parameter.descriptor = upgrade(given.Descriptor);
        }
        result.parameters.push_back(std::move(parameter));
    }
    const auto samplers = items(desc.pStaticSamplers, desc.NumStaticSamplers);
    result.static_samplers.assign(samplers.begin(), samplers.end());
    return result;
}

// Registers first <= r < end of one kind (b, t, u or s) and space.
struct Registers {
    uint32_t parameter;
    D3D12_DESCRIPTOR_RANGE_TYPE kind;
    D3D12_SHADER_VISIBILITY visibility;
    uint32_t space;
    uint64_t first;
    uint64_t end;

    bool collide(const Registers& other) const {
        const bool seen_together = visibility == other.visibility || visibility == D3D12_SHADER_VISIBILITY_ALL ||
                                   other.visibility == D3D12_SHADER_VISIBILITY_ALL;
        return kind == other.kind && space == other.space && seen_together && first < other.end && other.first < end;
    }
};

D3D12_DESCRIPTOR_RANGE_TYPE kind_of(D3D12_ROOT_PARAMETER_TYPE type) {
    switch (type) {
        case D3D12_ROOT_PARAMETER_TYPE_SRV: return D3D12_DESCRIPTOR_RANGE_TYPE_SRV;
        case D3D12_ROOT_PARAMETER_TYPE_UAV: return D3D12_DESCRIPTOR_RANGE_TYPE_UAV;
        default: return D3D12_DESCRIPTOR_RANGE_TYPE_CBV;
    }
}

// The parameter's share of the size of the root arguments, in units of 4 bytes.
uint32_t root_cost(const RootParameter& parameter) {
    switch (parameter.type) {
        case D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE: return 1;
        case D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS: return parameter.constants.Num32BitValues;
        default: return 2;
    }
}
constexpr uint64_t max_root_cost = 64;

void validate_table(const std::string& name, const std::vector<D3D12_DESCRIPTOR_RANGE1>& ranges) {
    bool unbounded = false;
    for (const auto& range : ranges) {
        if (range.RangeType > D3D12_DESCRIPTOR_RANGE_TYPE_SAMPLER || range.NumDescriptors == 0) {
            throw RootSignatureError(name + ": a range has an unknown type or no descriptors");
        }
        if ((range.RangeType == D3D12_DESCRIPTOR_RANGE_TYPE_SAMPLER) !=
            (ranges[0].RangeType == D3D12_DESCRIPTOR_RANGE_TYPE_SAMPLER)) {
            throw RootSignatureError(name + ": samplers cannot share a table with other descriptors");
        }
        if (unbounded && range.OffsetInDescriptorsFromTableStart == descriptor_range_offset_append) {
            throw RootSignatureError(name + ": no range can be appended to an unbounded one");
        }
        unbounded = range.NumDescriptors == UINT32_MAX;
    }
}

}  // namespace

D3D12_DESCRIPTOR_RANGE1 upgrade(const D3D12_DESCRIPTOR_RANGE& range) {
    D3D12_DESCRIPTOR_RANGE1 result{};
    result.RangeType = range.RangeType;
    result.NumDescriptors = range.NumDescriptors;
    result.BaseShaderRegister = range.BaseShaderRegister;
    result.RegisterSpace = range.RegisterSpace;
    result.Flags = range.RangeType == D3D12_DESCRIPTOR_RANGE_TYPE_SAMPLER ? implied_sampler_flags : implied_range_flags;
    result.OffsetInDescriptorsFromTableStart = range.OffsetInDescriptorsFromTableStart;
    return result;
}

D3D12_ROOT_DESCRIPTOR1 upgrade(const D3D12_ROOT_DESCRIPTOR& descriptor) {
    return {descriptor.ShaderRegister, descriptor.RegisterSpace, implied_descriptor_flags};
}

RootSignatureDesc from_versioned(const D3D12_VERSIONED_ROOT_SIGNATURE_DESC& desc) {
    switch (desc.Version) {
        case D3D_ROOT_SIGNATURE_VERSION_1_0: return from_desc(desc.Version, desc.Desc_1_0);
        case D3D_ROOT_SIGNATURE_VERSION_1_1: return from_desc(desc.Version, desc.Desc_1_1);
    }
    throw RootSignatureError("root signature version " + std::to_string(desc.Version) + " is not 1.0 or 1.1");
}

void validate(const RootSignatureDesc& desc) {
    std::vector<Registers> taken;
    uint64_t cost = 0;
    for (uint32_t i = 0; i < desc.parameters.size(); ++i) {
        const auto& parameter = desc.parameters[i];
        const std::string name = "root parameter " + std::to_string(i);
        if (parameter.type > D3D12_ROOT_PARAMETER_TYPE_UAV) {
            throw RootSignatureError(name + ": unknown type " + std::to_string(parameter.type));
        }
        cost += root_cost(parameter);
        auto take = [&](D3D12_DESCRIPTOR_RANGE_TYPE kind, uint32_t space, uint32_t first, uint64_t count) {
            taken.push_back({i, kind, parameter.visibility, space, first, first + count});
        };
        if (parameter.type == D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE) {
            validate_table(name, parameter.ranges);
            for (const auto& range : parameter.ranges) {
                take(range.RangeType, range.RegisterSpace, range.BaseShaderRegister, range.NumDescriptors);
            }
        } else if (parameter.type == D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS) {
            take(kind_of(parameter.type), parameter.constants.RegisterSpace, parameter.constants.ShaderRegister, 1);
        } else {
            take(kind_of(parameter.type), parameter.descriptor.RegisterSpace, parameter.descriptor.ShaderRegister, 1);
        }
    }
    if (cost > max_root_cost) {
        throw RootSignatureError("the root arguments take " + std::to_string(cost) + " of " +
                                 std::to_string(max_root_cost) + " 32-bit values");
    }
    for (size_t i = 0; i < taken.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
            if (taken[i].collide(taken[j])) {
                throw RootSignatureError("root parameters " + std::to_string(taken[j].parameter) + " and " +
                                         std::to_string(taken[i].parameter) + " use the same registers");
            }
        }
    }
}

}  // namespace dmlgraph::software
