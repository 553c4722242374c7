#include "directml/adapter.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "directml/error.h"

namespace dmlgraph {
namespace {

using namespace abi;

void check(HRESULT code, const char* call) {
    if (failed(code)) {
        Error error(ErrorKind::call, std::string("cannot list the adapters: ") + call + " failed with " + describe(code));
        error.call = call;
        error.code = code;
        throw error;
    }
}

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

std::string version_text(std::uint64_t version) {
    std::string text;
    for (int shift = 48; shift >= 0; shift -= 16) {
        text += std::to_string((version >> shift) & 0xffff) + (shift ? "." : "");
    }
    return text;
}

AdapterKind kind_of(IDXCoreAdapter& adapter) {
    if (!property<bool>(adapter, DXCoreAdapterProperty::IsHardware)) {
        return AdapterKind::software;
    }
    // Systems older than the NPU attribute list NPUs as adapters that can compute but not draw.
    const bool npu = adapter.IsAttributeSupported(DXCORE_HARDWARE_TYPE_ATTRIBUTE_NPU) ||
                     !adapter.IsAttributeSupported(DXCORE_ADAPTER_ATTRIBUTE_D3D12_GRAPHICS);
    return npu ? AdapterKind::npu : AdapterKind::gpu;
}

Adapter describe(ComPtr<IDXCoreAdapter> handle) {
    Adapter adapter;
    adapter.name = description(*handle);
    adapter.kind = kind_of(*handle);
    const auto luid = property<LUID>(*handle, DXCoreAdapterProperty::InstanceLuid);
    adapter.luid = static_cast<std::uint64_t>(static_cast<std::uint32_t>(luid.HighPart)) << 32 | luid.LowPart;
    adapter.integrated = property<bool>(*handle, DXCoreAdapterProperty::IsIntegrated);
    adapter.dedicated_bytes = property<std::uint64_t>(*handle, DXCoreAdapterProperty::DedicatedAdapterMemory);
    adapter.shared_bytes = property<std::uint64_t>(*handle, DXCoreAdapterProperty::SharedSystemMemory);
    adapter.driver_version =
        version_text(property<std::uint64_t>(*handle, DXCoreAdapterProperty::DriverVersion));
    adapter.handle = std::move(handle);
    return adapter;
}

}  // namespace

std::vector<Adapter> list_adapters(const Library& library) {
    ComPtr<IDXCoreAdapterFactory> factory;
    check(library.create_adapter_factory(IDXCoreAdapterFactory::iid, factory.put()),
          "DXCoreCreateAdapterFactory");

    // Some NPUs only have the second attribute; an adapter with both is listed once.
    std::vector<Adapter> adapters;
    for (const GUID& attribute :
         {DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE, DXCORE_ADAPTER_ATTRIBUTE_D3D12_GENERIC_ML}) {
        ComPtr<IDXCoreAdapterList> list;
        check(factory->CreateAdapterList(1, &attribute, IDXCoreAdapterList::iid, list.put()),
              "CreateAdapterList");
        constexpr auto fastest = DXCoreAdapterPreference::HighPerformance;
        if (list->IsAdapterPreferenceSupported(fastest)) {
            list->Sort(1, &fastest);
        }
        for (std::uint32_t i = 0; i < list->GetAdapterCount(); ++i) {
            ComPtr<IDXCoreAdapter> handle;
            check(list->GetAdapter(i, IDXCoreAdapter::iid, handle.put()), "IDXCoreAdapterList::GetAdapter");
            Adapter adapter = describe(std::move(handle));
            if (std::ranges::find(adapters, adapter.luid, &Adapter::luid) == adapters.end()) {
                adapters.push_back(std::move(adapter));
            }
        }
    }
    std::ranges::stable_partition(adapters, [](const Adapter& a) { return a.kind != AdapterKind::software; });
    return adapters;
}

}  // namespace dmlgraph
