// The serialised form of root signatures. All numbers are little-endian uint32_t; offsets in the part RTS0
// count from its first byte.
//
//   container: "DXBC", digest[4], 1, size, part count, offset of each part
//   part:      name, size, bytes
//   RTS0:      version, parameter count, their offset, static sampler count, their offset, flags
//   parameter: type, visibility, offset of its payload
//   payload:   table: range count, offset of the ranges; constants: register, space, count;
//              descriptor: register, space, and from version 1.1 flags
//   range:     type, count, first register, space, from 1.1 flags, offset in the table
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "software_adapter/root_signature_desc.h"

namespace dmlgraph::software {
namespace {

constexpr uint32_t fourcc(const char (&name)[5]) {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
        code |= static_cast<uint32_t>(static_cast<unsigned char>(name[i])) << 8 * i;
    }
    return code;
}

constexpr uint32_t container_name = fourcc("DXBC");
constexpr uint32_t part_name = fourcc("RTS0");
constexpr size_t container_header = 32;
constexpr size_t part_header = 8;
using SamplerWords = std::array<uint32_t, 13>;  // D3D12_STATIC_SAMPLER_DESC as it is

class Writer {
public:
    uint32_t size() const { return static_cast<uint32_t>(words_.size() * sizeof(uint32_t)); }
    void put(uint32_t value) { words_.push_back(value); }
    void put_all(std::span<const uint32_t> values) { words_.insert(words_.end(), values.begin(), values.end()); }
    // Reserves space for an offset that is not known yet; `point_here` fills it in.
    size_t reserve() {
        words_.push_back(0);
        return words_.size() - 1;
    }
    void point_here(size_t place) { words_[place] = size(); }
    std::vector<uint32_t> take() { return std::move(words_); }

private:
    std::vector<uint32_t> words_;
};

void write_payload(Writer& out, const RootParameter& parameter, bool has_flags) {
    switch (parameter.type) {
        case D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE: {
            out.put(static_cast<uint32_t>(parameter.ranges.size()));
            const auto ranges = out.reserve();
            out.point_here(ranges);
            for (const auto& range : parameter.ranges) {
                out.put(range.RangeType);
                out.put(range.NumDescriptors);
                out.put(range.BaseShaderRegister);
                out.put(range.RegisterSpace);
                if (has_flags) {
                    out.put(range.Flags);
                }
                out.put(range.OffsetInDescriptorsFromTableStart);
            }
            break;
        }
        case D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS:
            out.put(parameter.constants.ShaderRegister);
            out.put(parameter.constants.RegisterSpace);
            out.put(parameter.constants.Num32BitValues);
            break;
        default:
            out.put(parameter.descriptor.ShaderRegister);
            out.put(parameter.descriptor.RegisterSpace);
            if (has_flags) {
                out.put(parameter.descriptor.Flags);
            }
    }
}

std::vector<uint32_t> write_part(const RootSignatureDesc& desc) {
    const bool has_flags = desc.version != D3D_ROOT_SIGNATURE_VERSION_1_0;
    Writer out;
    out.put(desc.version);
    out.put(static_cast<uint32_t>(desc.parameters.size()));
    const auto parameters = out.reserve();
    out.put(static_cast<uint32_t>(desc.static_samplers.size()));
    const auto samplers = out.reserve();
    out.put(desc.flags);
    out.point_here(parameters);
    std::vector<size_t> payloads;
    for (const auto& parameter : desc.parameters) {
        out.put(parameter.type);
        out.put(parameter.visibility);
        payloads.push_back(out.reserve());
    }
    for (size_t i = 0; i < payloads.size(); ++i) {
        out.point_here(payloads[i]);
        write_payload(out, desc.parameters[i], has_flags);
    }
    out.point_here(samplers);
    for (const auto& sampler : desc.static_samplers) {
        out.put_all(std::bit_cast<SamplerWords>(sampler));
    }
    return out.take();
}

// Reads one number after another; throws at the end of the bytes.
class Reader {
public:
    Reader(std::span<const std::byte> bytes, size_t offset) : bytes_(bytes), at_(offset) {}

    uint32_t get() {
        uint32_t value;
        if (at_ > bytes_.size() || sizeof value > bytes_.size() - at_) {
            throw RootSignatureError("the serialised root signature is truncated");
        }
        std::memcpy(&value, bytes_.data() + at_, sizeof value);
        at_ += sizeof value;
        return value;
    }
    template <class Enum>
    Enum get() {
        return static_cast<Enum>(get());
    }

private:
    std::span<const std::byte> bytes_;
    size_t at_;
};

std::span<const std::byte> find_part(std::span<const std::byte> container) {
    Reader header(container, 0);
    if (header.get() != container_name) {
        throw RootSignatureError("a serialised root signature must start with DXBC");
    }
    Reader offsets(container, container_header - 4);
    for (uint32_t parts = offsets.get(); parts > 0; --parts) {
        const uint32_t offset = offsets.get();
        Reader part(container, offset);
        const uint32_t name = part.get();
        const uint32_t size = part.get();
        if (name == part_name) {
            const auto rest = container.subspan(offset + part_header);
            if (size > rest.size()) {
                throw RootSignatureError("the serialised root signature is truncated");
            }
            return rest.first(size);
        }
    }
    throw RootSignatureError("the container does not contain a root signature");
}

RootParameter read_parameter(std::span<const std::byte> part, Reader& entry, bool has_flags) {
    RootParameter result{};
    result.type = entry.get<D3D12_ROOT_PARAMETER_TYPE>();
    result.visibility = entry.get<D3D12_SHADER_VISIBILITY>();
    Reader payload(part, entry.get());
    switch (result.type) {
        case D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE: {
            const uint32_t count = payload.get();
            Reader ranges(part, payload.get());
            for (uint32_t i = 0; i < count; ++i) {
                D3D12_DESCRIPTOR_RANGE range{};
                range.RangeType = ranges.get<D3D12_DESCRIPTOR_RANGE_TYPE>();
                range.NumDescriptors = ranges.get();
                range.BaseShaderRegister = ranges.get();
                range.RegisterSpace = ranges.get();
                auto upgraded = upgrade(range);
                if (has_flags) {
                    upgraded.Flags = ranges.get<D3D12_DESCRIPTOR_RANGE_FLAGS>();
                }
                upgraded.OffsetInDescriptorsFromTableStart = ranges.get();
                result.ranges.push_back(upgraded);
            }
            break;
        }
        case D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS:
            result.constants.ShaderRegister = payload.get();
            result.constants.RegisterSpace = payload.get();
            result.constants.Num32BitValues = payload.get();
            break;
        default: {
            D3D12_ROOT_DESCRIPTOR descriptor{};
            descriptor.ShaderRegister = payload.get();
            descriptor.RegisterSpace = payload.get();
            result.descriptor = upgrade(descriptor);
            if (has_flags) {
                result.descriptor.Flags = payload.get<D3D12_ROOT_DESCRIPTOR_FLAGS>();
            }
        }
    }
    return result;
}

}  // namespace

std::vector<uint32_t> serialize(const RootSignatureDesc& desc) {
    const auto part = write_part(desc);
    const auto part_offset = static_cast<uint32_t>(container_header + 4);
    Writer out;
    out.put(container_name);
    for (int i = 0; i < 4; ++i) {
        out.put(0);
    }
    out.put(1);
    const auto part_size = static_cast<uint32_t>(part.size() * sizeof(uint32_t));
    out.put(static_cast<uint32_t>(part_offset + part_header + part_size));
    out.put(1);
    out.put(part_offset);
    out.put(part_name);
    out.put(part_size);
    out.put_all(part);
    return out.take();
}

RootSignatureDesc parse(std::span<const std::byte> container) {
    const auto part = find_part(container);
    Reader header(part, 0);
    RootSignatureDesc desc{};
    desc.version = header.get<D3D_ROOT_SIGNATURE_VERSION>();
    if (desc.version != D3D_ROOT_SIGNATURE_VERSION_1_0 && desc.version != D3D_ROOT_SIGNATURE_VERSION_1_1) {
        throw RootSignatureError("root signature version " + std::to_string(desc.version) + " is not 1.0 or 1.1");
    }
    const bool has_flags = desc.version != D3D_ROOT_SIGNATURE_VERSION_1_0;
    const uint32_t parameter_count = header.get();
    Reader parameters(part, header.get());
    const uint32_t sampler_count = header.get();
    Reader samplers(part, header.get());
    desc.flags = header.get<D3D12_ROOT_SIGNATURE_FLAGS>();
    for (uint32_t i = 0; i < parameter_count; ++i) {
        desc.parameters.push_back(read_parameter(part, parameters, has_flags));
    }
    for (uint32_t i = 0; i < sampler_count; ++i) {
        SamplerWords words;
        for (auto& word : words) {
            word = samplers.get();
        }
        desc.static_samplers.push_back(std::bit_cast<D3D12_STATIC_SAMPLER_DESC>(words));
    }
    validate(desc);
    return desc;
}

}  // namespace dmlgraph::software
