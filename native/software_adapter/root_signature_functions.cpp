// The library's functions that serialise root signatures and read them again.
#include <span>
#include <string_view>
#include <vector>

#include "software_adapter/log.h"
#include "software_adapter/object.h"
#include "software_adapter/root_signature_desc.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {
namespace {

// An ID3DBlob that holds bytes.
class Blob final : public Counted<ID3DBlob> {
public:
    explicit Blob(std::span<const std::byte> bytes) : bytes_(bytes.begin(), bytes.end()) {}

    void* GetBufferPointer() override { return bytes_.data(); }
    size_t GetBufferSize() override { return bytes_.size(); }

private:
    std::vector<std::byte> bytes_;
};

// The structs of one version, which point to each other.
class DescStorage {
public:
    DescStorage(const RootSignatureDesc& desc, D3D_ROOT_SIGNATURE_VERSION version)
        : samplers_(desc.static_samplers), versioned_{version, {}} {
        const auto count = static_cast<uint32_t>(desc.parameters.size());
        const auto sampler_count = static_cast<uint32_t>(samplers_.size());
        if (version == D3D_ROOT_SIGNATURE_VERSION_1_0) {
            fill(desc, parameters_, ranges_);
            versioned_.Desc_1_0 = {count, parameters_.data(), sampler_count, samplers_.data(), desc.flags};
        } else {
            fill(desc, parameters1_, ranges1_);
            versioned_.Desc_1_1 = {count, parameters1_.data(), sampler_count, samplers_.data(), desc.flags};
        }
    }
    DescStorage(const DescStorage&) = delete;
    DescStorage& operator=(const DescStorage&) = delete;

    const D3D12_VERSIONED_ROOT_SIGNATURE_DESC* get() const { return &versioned_; }

private:
    static void assign(const D3D12_DESCRIPTOR_RANGE1& from, D3D12_DESCRIPTOR_RANGE1& to) { to = from; }
    static void assign(const D3D12_DESCRIPTOR_RANGE1& from, D3D12_DESCRIPTOR_RANGE& to) {
        to = {from.RangeType, from.NumDescriptors, from.BaseShaderRegister, from.RegisterSpace,
              from.OffsetInDescriptorsFromTableStart};
    }
    static void assign(const D3D12_ROOT_DESCRIPTOR1& from, D3D12_ROOT_DESCRIPTOR1& to) { to = from; }
    static void assign(const D3D12_ROOT_DESCRIPTOR1& from, D3D12_ROOT_DESCRIPTOR& to) {
        to = {from.ShaderRegister, from.RegisterSpace};
    }

    template <class Parameter, class Range>
    static void fill(const RootSignatureDesc& desc, std::vector<Parameter>& parameters,
                     std::vector<std::vector<Range>>& ranges) {
        for (const auto& from : desc.parameters) {
            auto& to = parameters.emplace_back();
            auto& table = ranges.emplace_back();
            to.ParameterType = from.type;
            to.ShaderVisibility = from.visibility;
            if (from.type == D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE) {
                for (const auto& range : from.ranges) {
                    assign(range, table.emplace_back());
                }
                to.DescriptorTable = {static_cast<uint32_t>(table.size()), table.data()};
            } else if (from.type == D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS) {
                to.Constants = from.constants;
            } else {
                assign(from.descriptor, to.Descriptor);
            }
        }
    }

    std::vector<D3D12_STATIC_SAMPLER_DESC> samplers_;
    std::vector<D3D12_ROOT_PARAMETER> parameters_;
    std::vector<D3D12_ROOT_PARAMETER1> parameters1_;
    std::vector<std::vector<D3D12_DESCRIPTOR_RANGE>> ranges_;
    std::vector<std::vector<D3D12_DESCRIPTOR_RANGE1>> ranges1_;
    D3D12_VERSIONED_ROOT_SIGNATURE_DESC versioned_;
};

class Deserializer final : public Counted<ID3D12VersionedRootSignatureDeserializer> {
public:
    explicit Deserializer(const RootSignatureDesc& desc)
        : version_(desc.version),
          desc_1_0_(desc, D3D_ROOT_SIGNATURE_VERSION_1_0),
          desc_1_1_(desc, D3D_ROOT_SIGNATURE_VERSION_1_1) {}

    HRESULT GetRootSignatureDescAtVersion(D3D_ROOT_SIGNATURE_VERSION version,
                                          const D3D12_VERSIONED_ROOT_SIGNATURE_DESC** desc) override {
        const bool known =
            version == D3D_ROOT_SIGNATURE_VERSION_1_0 || version == D3D_ROOT_SIGNATURE_VERSION_1_1;
        if (!known || !desc) {
            return E_INVALIDARG;
        }
        *desc = at(version);
        return S_OK;
    }
    const D3D12_VERSIONED_ROOT_SIGNATURE_DESC* GetUnconvertedRootSignatureDesc() override {
        return at(version_);
    }

private:
    const D3D12_VERSIONED_ROOT_SIGNATURE_DESC* at(D3D_ROOT_SIGNATURE_VERSION version) const {
        return (version == D3D_ROOT_SIGNATURE_VERSION_1_0 ? desc_1_0_ : desc_1_1_).get();
    }

    D3D_ROOT_SIGNATURE_VERSION version_;
    DescStorage desc_1_0_;
    DescStorage desc_1_1_;
};

}  // namespace
}  // namespace dmlgraph::software

using namespace dmlgraph::software;

extern "C" {

SW_EXPORT HRESULT D3D12SerializeVersionedRootSignature(const D3D12_VERSIONED_ROOT_SIGNATURE_DESC* desc,
                                                       ID3DBlob** blob, ID3DBlob** error_blob) {
    if (error_blob) {
        *error_blob = nullptr;
    }
    if (!desc || !blob) {
        return E_INVALIDARG;
    }
    *blob = nullptr;
    try {
        const auto plain = from_versioned(*desc);
        validate(plain);
        const auto words = serialize(plain);
        *blob = new Blob(std::as_bytes(std::span(words)));
        return S_OK;
    } catch (const RootSignatureError& error) {
        if (error_blob) {
            const std::string_view text = error.what();
            *error_blob = new Blob(std::as_bytes(std::span(text.data(), text.size() + 1)));
        }
        return E_INVALIDARG;
    } catch (const std::bad_alloc&) {
        return E_OUTOFMEMORY;
    }
}

SW_EXPORT HRESULT D3D12SerializeRootSignature(const D3D12_ROOT_SIGNATURE_DESC* desc,
                                              D3D_ROOT_SIGNATURE_VERSION version, ID3DBlob** blob,
                                              ID3DBlob** error_blob) {
    if (!desc || version != D3D_ROOT_SIGNATURE_VERSION_1_0) {
        return E_INVALIDARG;
    }
    D3D12_VERSIONED_ROOT_SIGNATURE_DESC versioned{version, {}};
    versioned.Desc_1_0 = *desc;
    return D3D12SerializeVersionedRootSignature(&versioned, blob, error_blob);
}

SW_EXPORT HRESULT D3D12CreateVersionedRootSignatureDeserializer(const void* data, size_t size,
                                                                const IID& riid, void** deserializer) {
    if (!data || !deserializer) {
        return E_INVALIDARG;
    }
    try {
        return create<Deserializer>(riid, deserializer, parse({static_cast<const std::byte*>(data), size}));
    } catch (const RootSignatureError& error) {
        log(error.what());
        return E_INVALIDARG;
    }
}

}  // extern "C"
