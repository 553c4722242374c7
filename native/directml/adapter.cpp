#include "directml/adapter.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "directml/dxgi_adapters.h"
#include "directml/error.h"

namespace dmlgraph {
namespace {

using namespace abi;

// The property, or zero if the adapter does not report it.
template <class T>
T property(IDXCoreAdapter& adapter, DXCoreAdapterProperty which) {
    T value{};
    if (adapter.IsPropertySupported(which) && failed(adapter.GetProperty(which, sizeof value, &value))) {
        value = {};
    }
    return value;
}

std::string description(IDXCoreAdapter& adapter) {
    std::size_t size = 0;
    if (failed(adapter.GetPropertySize(DXCoreAdapterProperty::DriverDescription, &size))) {
        return {};
    }
    std::string text(size, '\0');
    if (failed(adapter.GetProperty(DXCoreAdapterProperty::DriverDescription, size, text.data()))) {
        return {};
    }
    return text.c_str();  // without the NUL and anything after it
}

AdapterKind kind_of(IDXCoreAdapter& adapter) {
    if (!property<bool>(adapter, DXCoreAdapterProperty::IsHardware)) {
        return AdapterKind::software;
    }
    // A GPU may compute only. Systems older than the two first attributes tell by the third: their NPUs do not draw.
    if (adapter.IsAttributeSupported(DXCORE_HARDWARE_TYPE_ATTRIBUTE_GPU)) {
        return AdapterKind::gpu;
    }
    const bool npu = adapter.IsAttributeSupported(DXCORE_HARDWARE_TYPE_ATTRIBUTE_NPU) ||
                     !adapter.IsAttributeSupported(DXCORE_ADAPTER_ATTRIBUTE_D3D12_GRAPHICS);
    return npu ? AdapterKind::npu : AdapterKind::gpu;
}

Adapter read_dxcore_adapter(ComPtr<IDXCoreAdapter> handle) {
    Adapter adapter{};
    adapter.name = description(*handle);
    adapter.kind = kind_of(*handle);
    adapter.luid = luid_number(property<LUID>(*handle, DXCoreAdapterProperty::InstanceLuid));
    adapter.integrated = property<bool>(*handle, DXCoreAdapterProperty::IsIntegrated);
    adapter.dedicated_bytes = property<std::uint64_t>(*handle, DXCoreAdapterProperty::DedicatedAdapterMemory);
    adapter.shared_bytes = property<std::uint64_t>(*handle, DXCoreAdapterProperty::SharedSystemMemory);
    adapter.driver_version = version_text(property<std::uint64_t>(*handle, DXCoreAdapterProperty::DriverVersion));
    adapter.handle = std::move(handle);
    return adapter;
}

std::vector<Adapter> list_dxcore_adapters(const AdapterLibraries& libraries) {
    ComPtr<IDXCoreAdapterFactory> factory;
    check_listing(libraries.create_adapter_factory(IDXCoreAdapterFactory::iid, factory.put()),
                  "DXCoreCreateAdapterFactory");

    // Some NPUs only have the second attribute; an adapter with both is listed once.
    std::vector<Adapter> adapters;
    for (const GUID& attribute :
         {DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE, DXCORE_ADAPTER_ATTRIBUTE_D3D12_GENERIC_ML}) {
        ComPtr<IDXCoreAdapterList> list;
        check_listing(factory->CreateAdapterList(1, &attribute, IDXCoreAdapterList::iid, list.put()),
                      "CreateAdapterList");
        constexpr auto fastest = DXCoreAdapterPreference::HighPerformance;
        if (list->IsAdapterPreferenceSupported(fastest)) {
            list->Sort(1, &fastest);
        }
        for (std::uint32_t i = 0; i < list->GetAdapterCount(); ++i) {
            ComPtr<IDXCoreAdapter> handle;
            check_listing(list->GetAdapter(i, IDXCoreAdapter::iid, handle.put()), "IDXCoreAdapterList::GetAdapter");
            Adapter adapter = read_dxcore_adapter(std::move(handle));
            if (std::ranges::find(adapters, adapter.luid, &Adapter::luid) == adapters.end()) {
                adapters.push_back(std::move(adapter));
            }
        }
    }
    return adapters;
}

}  // namespace

void check_listing(HRESULT code, const char* call) {
    if (failed(code)) {
        Error error(ErrorKind::call,
                    "cannot list the adapters: " + std::string(call) + " failed with " + describe(code));
        error.call = call;
        error.code = code;
        throw error;
    }
}

std::uint64_t luid_number(const LUID& luid) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(luid.HighPart)) << 32 | luid.LowPart;
}

std::string version_text(std::uint64_t version) {
    std::string text;
    for (int shift = 48; shift >= 0; shift -= 16) {
        text += std::to_string((version >> shift) & 0xffff) + (shift ? "." : "");
    }
    return text;
}

std::vector<Adapter> list_adapters(const AdapterLibraries& libraries) {
    std::vector<Adapter> adapters =
        libraries.create_adapter_factory ? list_dxcore_adapters(libraries) : list_dxgi_adapters(libraries);
    std::ranges::stable_partition(adapters, [](const Adapter& a) { return a.kind != AdapterKind::software; });
    return adapters;
}

// Adapters that are not graphics adapters have only the two last levels: 1_0_CORE computes, 1_0_GENERIC runs the
// driver's own operators only.
std::span<const D3D_FEATURE_LEVEL> levels_of(const Adapter& adapter) {
    static constexpr std::array graphics{D3D_FEATURE_LEVEL_11_0, D3D_FEATURE_LEVEL_1_0_CORE};
    static constexpr std::array others{D3D_FEATURE_LEVEL_1_0_CORE, D3D_FEATURE_LEVEL_1_0_GENERIC};
    return adapter.kind == AdapterKind::npu ? std::span(others) : std::span(graphics);
}

}  // namespace dmlgraph
