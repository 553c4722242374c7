#include "directml/dxgi_adapters.h"

#include <string_view>

namespace dmlgraph {
namespace {

using namespace abi;

// UTF-8; a surrogate without its other half becomes U+FFFD.
std::string utf8(std::u16string_view text) {
    const auto is_high = [](char32_t unit) { return unit >= 0xD800 && unit < 0xDC00; };
    const auto is_low = [](char32_t unit) { return unit >= 0xDC00 && unit < 0xE000; };
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        char32_t point = text[i];
        if (is_high(point) && i + 1 < text.size() && is_low(text[i + 1])) {
            point = 0x10000 + ((point - 0xD800) << 10) + (text[++i] - 0xDC00);
        } else if (is_high(point) || is_low(point)) {
            point = 0xFFFD;
        }
        const auto add = [&](char32_t lead, int shift) {
            result += static_cast<char>(lead | (point >> shift));
            while (shift > 0) {
                shift -= 6;
                result += static_cast<char>(0x80 | ((point >> shift) & 0x3F));
            }
        };
        if (point < 0x80) {
            add(0, 0);
        } else if (point < 0x800) {
            add(0xC0, 6);
        } else if (point < 0x10000) {
            add(0xE0, 12);
        } else {
            add(0xF0, 18);
        }
    }
    return result;
}

Adapter read_dxgi_adapter(ComPtr<IDXGIAdapter1> handle) {
    DXGI_ADAPTER_DESC1 desc{};
    check_listing(handle->GetDesc1(&desc), "IDXGIAdapter1::GetDesc1");
    Adapter adapter{};
    const std::u16string_view text(desc.Description, std::size(desc.Description));
    adapter.name = utf8(text.substr(0, text.find(u'\0')));
    adapter.kind = desc.Flags & DXGI_ADAPTER_FLAG_SOFTWARE ? AdapterKind::software : AdapterKind::gpu;
    adapter.luid = luid_number(desc.AdapterLuid);
    adapter.dedicated_bytes = desc.DedicatedVideoMemory;
    adapter.shared_bytes = desc.SharedSystemMemory;
    std::int64_t version = 0;
    if (succeeded(handle->CheckInterfaceSupport(IID_IDXGIDevice, &version))) {
        adapter.driver_version = version_text(static_cast<std::uint64_t>(version));
    }
    adapter.dxgi = std::move(handle);
    return adapter;
}

}  // namespace

std::vector<Adapter> list_dxgi_adapters(const AdapterLibraries& libraries) {
    ComPtr<IDXGIFactory1> factory;
    check_listing(libraries.create_dxgi_factory(IDXGIFactory1::iid, factory.put()), "CreateDXGIFactory1");
    std::vector<Adapter> adapters;
    for (std::uint32_t index = 0;; ++index) {
        ComPtr<IDXGIAdapter1> handle;
        const HRESULT code = factory->EnumAdapters1(index, handle.put_typed());
        if (code == DXGI_ERROR_NOT_FOUND) {
            return adapters;
        }
        check_listing(code, "IDXGIFactory1::EnumAdapters1");
        adapters.push_back(read_dxgi_adapter(std::move(handle)));
    }
}

}  // namespace dmlgraph
