#include "harness.h"

static const D3D12_STATIC_SAMPLER_DESC sampler{
    21, 1, 2, 3, 0.5f, 4, 5, 2, -1.5f, 8.0f, 6, 7, D3D12_SHADER_VISIBILITY_ALL};

// The words of the part RTS0 that a desc becomes, which a root signature can be made of.
static std::vector<uint32_t> serialized(const D3D12_VERSIONED_ROOT_SIGNATURE_DESC& desc) {
    ComPtr<ID3DBlob> blob;
    CHECK_OK(D3D12SerializeVersionedRootSignature(&desc, blob.put_typed(), nullptr));
    ComPtr<ID3D12RootSignature> made;
    CHECK_OK(create_device()->CreateRootSignature(0, blob->GetBufferPointer(), blob->GetBufferSize(),
                                                  ID3D12RootSignature::iid, made.put()));
    std::vector<uint32_t> words(blob->GetBufferSize() / sizeof(uint32_t));
    std::memcpy(words.data(), blob->GetBufferPointer(), blob->GetBufferSize());
    const auto bytes = static_cast<uint32_t>(blob->GetBufferSize());
    const std::vector<uint32_t> header{0x43425844, 0, 0, 0, 0, 1, bytes, 1, 36, 0x30535452, bytes - 44};
    CHECK(std::vector<uint32_t>(words.begin(), words.begin() + 11) == header);
    return {words.begin() + 11, words.end()};
}

ADAPTER_CHECK(root_signature_1_1) {
    const D3D12_DESCRIPTOR_RANGE1 ranges[] = {
        {D3D12_DESCRIPTOR_RANGE_TYPE_SRV, 3, 1, 2, D3D12_DESCRIPTOR_RANGE_FLAG_DATA_STATIC, 4},
        {D3D12_DESCRIPTOR_RANGE_TYPE_UAV, UINT32_MAX, 7, 1, D3D12_DESCRIPTOR_RANGE_FLAG_DESCRIPTORS_VOLATILE,
         descriptor_range_offset_append},
    };
    D3D12_ROOT_PARAMETER1 parameters[3]{};
    parameters[0].DescriptorTable = {2, ranges};
    parameters[1].ParameterType = D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS;
    parameters[1].Constants = {3, 4, 5};
    parameters[2].ParameterType = D3D12_ROOT_PARAMETER_TYPE_UAV;
    parameters[2].Descriptor = {22, 32, D3D12_ROOT_DESCRIPTOR_FLAG_DATA_STATIC};
    D3D12_VERSIONED_ROOT_SIGNATURE_DESC desc{D3D_ROOT_SIGNATURE_VERSION_1_1, {}};
    desc.Desc_1_1 = {3, parameters, 1, &sampler, D3D12_ROOT_SIGNATURE_FLAG_CBV_SRV_UAV_HEAP_DIRECTLY_INDEXED};
    auto words = serialized(desc);
    CHECK_EQUAL(words.size(), 35 + 13);
    CHECK(std::memcmp(words.data() + 35, &sampler, sizeof sampler) == 0);
    words.resize(35);
    const std::vector<uint32_t> expected{
        2, 3, 24, 1, 140, 0x400,             // version; parameters and samplers: count, offset; flags
        0, 0, 60, 1, 0, 116, 4, 0, 128,         // parameters: type, visibility, offset
        2, 68, 0, 3, 1, 2, 8, 4,                // the table's ranges: type, count, register, space, flags, offset
        1, UINT32_MAX, 7, 1, 1, UINT32_MAX,     //
        3, 4, 5, 22, 32, 8};                    // the constants; the view
    CHECK(words == expected);
}

// Version 1.0 has no flags.
ADAPTER_CHECK(root_signature_1_0) {
    const D3D12_DESCRIPTOR_RANGE ranges[] = {{D3D12_DESCRIPTOR_RANGE_TYPE_CBV, 2, 3, 4, 5}};
    D3D12_ROOT_PARAMETER parameters[2]{};
    parameters[0].DescriptorTable = {1, ranges};
    parameters[1].ParameterType = D3D12_ROOT_PARAMETER_TYPE_UAV;
    parameters[1].Descriptor = {8, 9};
    D3D12_VERSIONED_ROOT_SIGNATURE_DESC desc{D3D_ROOT_SIGNATURE_VERSION_1_0, {}};
    desc.Desc_1_0 = {2, parameters, 0, nullptr, D3D12_ROOT_SIGNATURE_FLAG_NONE};
    const std::vector<uint32_t> expected{1, 2, 24, 0, 84, 0, 0, 0, 48, 4, 0, 76, 1, 56, 2, 2, 3, 4, 5, 8, 9};
    CHECK(serialized(desc) == expected);
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
