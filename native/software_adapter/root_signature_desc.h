// A root signature as plain data, and its serialised form.
//
// Version 1.0 is stored as the equivalent 1.1. The serialised form is the one that Direct3D's own libraries
// write: a DXBC container with a part RTS0. Its digest is left 0.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

#include "abi/d3d12.h"

namespace dmlgraph::software {

using namespace abi;

struct RootParameter {
    D3D12_ROOT_PARAMETER_TYPE type;
    D3D12_SHADER_VISIBILITY visibility;
    std::vector<D3D12_DESCRIPTOR_RANGE1> ranges;  // of a descriptor table
    D3D12_ROOT_CONSTANTS constants;               // of 32-bit constants
    D3D12_ROOT_DESCRIPTOR1 descriptor;            // of a root CBV, SRV or UAV
};

struct RootSignatureDesc {
    D3D_ROOT_SIGNATURE_VERSION version;  // of the original desc or serialised form
    D3D12_ROOT_SIGNATURE_FLAGS flags;
    std::vector<RootParameter> parameters;
    std::vector<D3D12_STATIC_SAMPLER_DESC> static_samplers;
};

// A root signature breaks a rule of Direct3D; the message says which.
struct RootSignatureError : std::runtime_error {
    using runtime_error::runtime_error;
};

// Converts a part of either version to version 1.1.
D3D12_DESCRIPTOR_RANGE1 upgrade(const D3D12_DESCRIPTOR_RANGE& range);
D3D12_ROOT_DESCRIPTOR1 upgrade(const D3D12_ROOT_DESCRIPTOR& descriptor);
inline const D3D12_DESCRIPTOR_RANGE1& upgrade(const D3D12_DESCRIPTOR_RANGE1& range) { return range; }
inline const D3D12_ROOT_DESCRIPTOR1& upgrade(const D3D12_ROOT_DESCRIPTOR1& descriptor) { return descriptor; }

// These throw RootSignatureError. `parse` accepts any container that has a part RTS0, for example a shader's.
RootSignatureDesc from_versioned(const D3D12_VERSIONED_ROOT_SIGNATURE_DESC& desc);
void validate(const RootSignatureDesc& desc);
std::vector<uint32_t> serialize(const RootSignatureDesc& desc);
RootSignatureDesc parse(std::span<const std::byte> container);

}  // namespace dmlgraph::software
