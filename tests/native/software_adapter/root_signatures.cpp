#include "harness.h"

static const D3D12_STATIC_SAMPLER_DESC sampler{
    21, 1, 2, 3, 0.5f, 4, 5, 2, -1.5f, 8.0f, 6, 7, D3D12_SHADER_VISIBILITY_ALL};

static ComPtr<ID3D12VersionedRootSignatureDeserializer> round_trip(
    const D3D12_VERSIONED_ROOT_SIGNATURE_DESC& desc) {
    ComPtr<ID3DBlob> blob;
    CHECK_OK(D3D12SerializeVersionedRootSignature(&desc, blob.put_typed(), nullptr));
    CHECK(std::memcmp(blob->GetBufferPointer(), "DXBC", 4) == 0);
    ComPtr<ID3D12VersionedRootSignatureDeserializer> result;
    CHECK_OK(D3D12CreateVersionedRootSignatureDeserializer(blob->GetBufferPointer(), blob->GetBufferSize(),
                                                           ID3D12VersionedRootSignatureDeserializer::iid,
                                                           result.put()));
    return result;
}

ADAPTER_CHECK(root_signature_1_1) {
    const D3D12_DESCRIPTOR_RANGE1 ranges[] = {
        {D3D12_DESCRIPTOR_RANGE_TYPE_SRV, 3, 1, 2, D3D12_DESCRIPTOR_RANGE_FLAG_DATA_STATIC, 4},
        {D3D12_DESCRIPTOR_RANGE_TYPE_UAV, UINT32_MAX, 7, 1, D3D12_DESCRIPTOR_RANGE_FLAG_DESCRIPTORS_VOLATILE,
         descriptor_range_offset_append},
    };
    D3D12_ROOT_PARAMETER1 parameters[5]{};
    parameters[0].ParameterType = D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE;
    parameters[0].DescriptorTable = {2, ranges};
    parameters[1].ParameterType = D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS;
    parameters[1].Constants = {3, 4, 5};
    const D3D12_ROOT_PARAMETER_TYPE views[] = {D3D12_ROOT_PARAMETER_TYPE_CBV, D3D12_ROOT_PARAMETER_TYPE_SRV,
                                               D3D12_ROOT_PARAMETER_TYPE_UAV};
    for (uint32_t i = 0; i < 3; ++i) {
        parameters[2 + i].ParameterType = views[i];
        parameters[2 + i].Descriptor = {20 + i, 30 + i, D3D12_ROOT_DESCRIPTOR_FLAG_DATA_STATIC};
    }
    D3D12_VERSIONED_ROOT_SIGNATURE_DESC desc{D3D_ROOT_SIGNATURE_VERSION_1_1, {}};
    desc.Desc_1_1 = {5, parameters, 1, &sampler, D3D12_ROOT_SIGNATURE_FLAG_CBV_SRV_UAV_HEAP_DIRECTLY_INDEXED};

    const auto deserializer = round_trip(desc);
    const auto& read = *deserializer->GetUnconvertedRootSignatureDesc();
    CHECK_EQUAL(read.Version, D3D_ROOT_SIGNATURE_VERSION_1_1);
    CHECK_EQUAL(read.Desc_1_1.Flags, desc.Desc_1_1.Flags);
    CHECK_EQUAL(read.Desc_1_1.NumParameters, 5);
    const auto* got = read.Desc_1_1.pParameters;
    CHECK_EQUAL(got[0].DescriptorTable.NumDescriptorRanges, 2);
    CHECK(std::memcmp(got[0].DescriptorTable.pDescriptorRanges, ranges, sizeof ranges) == 0);
    CHECK(std::memcmp(&got[1].Constants, &parameters[1].Constants, sizeof(D3D12_ROOT_CONSTANTS)) == 0);
    for (int i = 2; i < 5; ++i) {
        CHECK_EQUAL(got[i].ParameterType, parameters[i].ParameterType);
        CHECK(std::memcmp(&got[i].Descriptor, &parameters[i].Descriptor, sizeof(D3D12_ROOT_DESCRIPTOR1)) ==
              0);
    }
    CHECK_EQUAL(read.Desc_1_1.NumStaticSamplers, 1);
    CHECK(std::memcmp(read.Desc_1_1.pStaticSamplers, &sampler, sizeof sampler) == 0);

    const D3D12_VERSIONED_ROOT_SIGNATURE_DESC* old = nullptr;
    CHECK_OK(deserializer->GetRootSignatureDescAtVersion(D3D_ROOT_SIGNATURE_VERSION_1_0, &old));
    CHECK_EQUAL(old->Version, D3D_ROOT_SIGNATURE_VERSION_1_0);
    const auto& old_range = old->Desc_1_0.pParameters[0].DescriptorTable.pDescriptorRanges[1];
    CHECK_EQUAL(old_range.BaseShaderRegister, 7);
    CHECK_EQUAL(old_range.OffsetInDescriptorsFromTableStart, descriptor_range_offset_append);
    CHECK_EQUAL(old->Desc_1_0.pParameters[4].Descriptor.RegisterSpace, 32);
}

ADAPTER_CHECK(root_signature_1_0) {
    const D3D12_DESCRIPTOR_RANGE ranges[] = {{D3D12_DESCRIPTOR_RANGE_TYPE_CBV, 2, 3, 4, 5}};
    const D3D12_DESCRIPTOR_RANGE samplers[] = {{D3D12_DESCRIPTOR_RANGE_TYPE_SAMPLER, 1, 0, 0, 0}};
    D3D12_ROOT_PARAMETER parameters[3]{};
    parameters[0].DescriptorTable = {1, ranges};
    parameters[1].DescriptorTable = {1, samplers};
    parameters[2].ParameterType = D3D12_ROOT_PARAMETER_TYPE_UAV;
    parameters[2].Descriptor = {8, 9};
    D3D12_VERSIONED_ROOT_SIGNATURE_DESC desc{D3D_ROOT_SIGNATURE_VERSION_1_0, {}};
    desc.Desc_1_0 = {3, parameters, 0, nullptr, D3D12_ROOT_SIGNATURE_FLAG_NONE};

    const auto deserializer = round_trip(desc);
    const auto& read = *deserializer->GetUnconvertedRootSignatureDesc();
    CHECK_EQUAL(read.Version, D3D_ROOT_SIGNATURE_VERSION_1_0);
    const auto& table = read.Desc_1_0.pParameters[0].DescriptorTable;
    CHECK(std::memcmp(table.pDescriptorRanges, ranges, sizeof ranges) == 0);
    CHECK_EQUAL(read.Desc_1_0.pParameters[2].Descriptor.ShaderRegister, 8);

    // Version 1.0 means volatile descriptors and data.
    const D3D12_VERSIONED_ROOT_SIGNATURE_DESC* upgraded = nullptr;
    CHECK_OK(deserializer->GetRootSignatureDescAtVersion(D3D_ROOT_SIGNATURE_VERSION_1_1, &upgraded));
    const auto* got = upgraded->Desc_1_1.pParameters;
    CHECK_EQUAL(got[0].DescriptorTable.pDescriptorRanges[0].Flags,
                D3D12_DESCRIPTOR_RANGE_FLAG_DESCRIPTORS_VOLATILE | D3D12_DESCRIPTOR_RANGE_FLAG_DATA_VOLATILE);
    CHECK_EQUAL(got[0].DescriptorTable.pDescriptorRanges[0].OffsetInDescriptorsFromTableStart, 5);
    CHECK_EQUAL(got[1].DescriptorTable.pDescriptorRanges[0].Flags,
                D3D12_DESCRIPTOR_RANGE_FLAG_DESCRIPTORS_VOLATILE);
    CHECK_EQUAL(got[2].Descriptor.Flags, D3D12_ROOT_DESCRIPTOR_FLAG_DATA_VOLATILE);
}

static std::string serialize_error(std::span<const D3D12_ROOT_PARAMETER1> parameters) {
    D3D12_VERSIONED_ROOT_SIGNATURE_DESC desc{D3D_ROOT_SIGNATURE_VERSION_1_1, {}};
    desc.Desc_1_1 = {static_cast<uint32_t>(parameters.size()), parameters.data(), 0, nullptr, {}};
    ComPtr<ID3DBlob> blob;
    ComPtr<ID3DBlob> error;
    CHECK_EQUAL(D3D12SerializeVersionedRootSignature(&desc, blob.put_typed(), error.put_typed()),
                E_INVALIDARG);
    CHECK(!blob && error);
    const std::string text = static_cast<const char*>(error->GetBufferPointer());
    CHECK_EQUAL(text.size() + 1, error->GetBufferSize());
    return text;
}

ADAPTER_CHECK(root_signature_errors) {
    D3D12_ROOT_PARAMETER1 two[2]{};
    two[0].ParameterType = D3D12_ROOT_PARAMETER_TYPE_CBV;
    two[0].Descriptor = {1, 0, {}};
    two[1].ParameterType = D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS;
    two[1].Constants = {1, 0, 4};
    CHECK(serialize_error(two).find("root parameters 0 and 1 use the same registers") != std::string::npos);

    two[1].Constants = {2, 0, 63};
    CHECK(serialize_error(two).find("65 of 64") != std::string::npos);

    const D3D12_DESCRIPTOR_RANGE1 mixed[] = {{D3D12_DESCRIPTOR_RANGE_TYPE_SRV, 1, 0, 0, {}, 0},
                                             {D3D12_DESCRIPTOR_RANGE_TYPE_SAMPLER, 1, 0, 0, {}, 1}};
    D3D12_ROOT_PARAMETER1 table{};
    table.DescriptorTable = {2, mixed};
    CHECK(serialize_error({&table, 1}).find("samplers") != std::string::npos);

    const D3D12_DESCRIPTOR_RANGE1 behind[] = {
        {D3D12_DESCRIPTOR_RANGE_TYPE_SRV, UINT32_MAX, 0, 0, {}, 0},
        {D3D12_DESCRIPTOR_RANGE_TYPE_UAV, 1, 0, 0, {}, descriptor_range_offset_append}};
    table.DescriptorTable = {2, behind};
    CHECK(serialize_error({&table, 1}).find("unbounded") != std::string::npos);

    table.DescriptorTable = {2, nullptr};
    CHECK(serialize_error({&table, 1}).find("is null") != std::string::npos);

    D3D12_VERSIONED_ROOT_SIGNATURE_DESC desc{static_cast<D3D_ROOT_SIGNATURE_VERSION>(9), {}};
    ComPtr<ID3DBlob> blob;
    CHECK_EQUAL(D3D12SerializeVersionedRootSignature(&desc, blob.put_typed(), nullptr), E_INVALIDARG);
    CHECK_EQUAL(D3D12SerializeVersionedRootSignature(nullptr, blob.put_typed(), nullptr), E_INVALIDARG);
}

// Cut off anywhere, and with any byte changed, a serialised root signature is refused or read: never more.
ADAPTER_CHECK(root_signature_damaged) {
    const D3D12_DESCRIPTOR_RANGE1 ranges[] = {one_uav};
    D3D12_ROOT_PARAMETER1 parameters[2]{};
    parameters[0].DescriptorTable = {1, ranges};
    parameters[1].ParameterType = D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS;
    parameters[1].Constants = {0, 0, 2};
    D3D12_VERSIONED_ROOT_SIGNATURE_DESC desc{D3D_ROOT_SIGNATURE_VERSION_1_1, {}};
    desc.Desc_1_1 = {2, parameters, 1, &sampler, {}};
    ComPtr<ID3DBlob> blob;
    CHECK_OK(D3D12SerializeVersionedRootSignature(&desc, blob.put_typed(), nullptr));
    const auto* bytes = static_cast<const unsigned char*>(blob->GetBufferPointer());
    const std::vector<unsigned char> good(bytes, bytes + blob->GetBufferSize());

    auto device = create_device();
    auto parse = [&](const std::vector<unsigned char>& data) {
        ComPtr<ID3D12RootSignature> result;
        return device->CreateRootSignature(0, data.data(), data.size(), ID3D12RootSignature::iid,
                                           result.put());
    };
    CHECK_OK(parse(good));
    for (size_t size = 0; size < good.size(); ++size) {
        CHECK_EQUAL(parse({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)}), E_INVALIDARG);
    }
    int refused = 0;
    for (size_t at = 0; at < good.size(); ++at) {
        for (const unsigned char value : {0x00, 0x01, 0x7f, 0xff}) {
            auto data = good;
            data[at] = value;
            const HRESULT result = parse(data);
            CHECK(result == S_OK || result == E_INVALIDARG);
            refused += result == E_INVALIDARG;
        }
    }
    CHECK(refused > 100);
}
