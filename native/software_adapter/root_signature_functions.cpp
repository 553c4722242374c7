// The library's function that serialises root signatures.
#include <span>
#include <string_view>
#include <vector>

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

}  // namespace
}  // namespace dmlgraph::software

using namespace dmlgraph::software;

extern "C" {

SW_EXPORT HRESULT D3D12SerializeVersionedRootSignature(const D3D12_VERSIONED_ROOT_SIGNATURE_DESC* desc, ID3DBlob** blob,
                                                       ID3DBlob** error_blob) {
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

}  // extern "C"
