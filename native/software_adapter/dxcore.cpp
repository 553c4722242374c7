// libdxcore.so: a list of one adapter.
//
// The factory, the list and the adapter never change, so each exists once and is never destroyed; references
// are counted only for the results of AddRef and Release.
#include "abi/dxcore.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "software_adapter/adapter_identity.h"

namespace dmlgraph::software {
namespace {

using namespace abi;

IDXCoreAdapterFactory* factory();
IDXCoreAdapter* adapter();

constexpr GUID supported_attributes[] = {
    DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE,
    DXCORE_ADAPTER_ATTRIBUTE_D3D12_GENERIC_ML,
};

bool supports(const GUID& attribute) {
    return std::ranges::find(supported_attributes, attribute) != std::end(supported_attributes);
}

template <class Interface>
class Permanent : public Interface {
public:
    HRESULT QueryInterface(const IID& riid, void** object) final {
        if (!object) {
            return E_POINTER;
        }
        const bool known = riid == Interface::iid || riid == IUnknown::iid;
        *object = known ? static_cast<Interface*>(this) : nullptr;
        if (known) {
            AddRef();
        }
        return known ? S_OK : E_NOINTERFACE;
    }
    uint32_t AddRef() final { return ++references_; }
    uint32_t Release() final { return --references_; }

private:
    std::atomic<uint32_t> references_{1};
};

uint64_t memory_bytes() {
    return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

uint64_t free_memory_bytes() {
    return static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

// A property's bytes.
struct Property {
    char bytes[sizeof adapter_description] = {};
    size_t size = 0;
};

template <class T>
Property property_of(const T& value) {
    static_assert(sizeof value <= sizeof(Property::bytes));
    Property result;
    std::memcpy(result.bytes, &value, sizeof value);
    result.size = sizeof value;
    return result;
}

// Size 0 for a property that does not exist.
Property find_property(DXCoreAdapterProperty property) {
    switch (property) {
        case DXCoreAdapterProperty::InstanceLuid:
            return property_of(adapter_luid);
        case DXCoreAdapterProperty::DriverVersion:
            return property_of(uint64_t{1} << 48);  // 1.0.0.0
        case DXCoreAdapterProperty::DriverDescription:
            return property_of(adapter_description);
        case DXCoreAdapterProperty::HardwareID:
            return property_of(DXCoreHardwareID{});
        case DXCoreAdapterProperty::HardwareIDParts:
            return property_of(DXCoreHardwareIDParts{});
        case DXCoreAdapterProperty::KmdModelVersion:
            return property_of(uint32_t{0});
        case DXCoreAdapterProperty::ComputePreemptionGranularity:
        case DXCoreAdapterProperty::GraphicsPreemptionGranularity:
            return property_of(uint16_t{0});
        case DXCoreAdapterProperty::DedicatedAdapterMemory:
        case DXCoreAdapterProperty::DedicatedSystemMemory:
            return property_of(uint64_t{0});
        case DXCoreAdapterProperty::SharedSystemMemory:
            return property_of(memory_bytes());
        case DXCoreAdapterProperty::IsIntegrated:
            return property_of(true);
        case DXCoreAdapterProperty::AcgCompatible:
        case DXCoreAdapterProperty::IsHardware:
        case DXCoreAdapterProperty::IsDetachable:
            return property_of(false);
    }
    return {};
}

class Adapter final : public Permanent<IDXCoreAdapter> {
public:
    bool IsValid() override { return true; }
    bool IsAttributeSupported(const GUID& attribute) override { return supports(attribute); }
    bool IsPropertySupported(DXCoreAdapterProperty property) override {
        return find_property(property).size > 0;
    }
    HRESULT GetProperty(DXCoreAdapterProperty property, size_t size, void* data) override {
        const auto found = find_property(property);
        if (!data || found.size == 0 || size < found.size) {
            return E_INVALIDARG;
        }
        std::memcpy(data, found.bytes, found.size);
        return S_OK;
    }
    HRESULT GetPropertySize(DXCoreAdapterProperty property, size_t* size) override {
        const auto found = find_property(property);
        if (!size || found.size == 0) {
            return E_INVALIDARG;
        }
        *size = found.size;
        return S_OK;
    }
    bool IsQueryStateSupported(DXCoreAdapterState state) override {
        return state == DXCoreAdapterState::AdapterMemoryBudget;
    }
    HRESULT QueryState(DXCoreAdapterState state, size_t input_size, const void* input, size_t output_size,
                       void* output) override {
        if (!IsQueryStateSupported(state)) {
            return DXGI_ERROR_UNSUPPORTED;
        }
        if (!input || input_size < sizeof(DXCoreAdapterMemoryBudgetNodeSegmentGroup) || !output ||
            output_size < sizeof(DXCoreAdapterMemoryBudget)) {
            return E_INVALIDARG;
        }
        const auto budget = memory_bytes();
        *static_cast<DXCoreAdapterMemoryBudget*>(output) = {budget, budget - free_memory_bytes(), 0, 0};
        return S_OK;
    }
    bool IsSetStateSupported(DXCoreAdapterState) override { return false; }
    HRESULT SetState(DXCoreAdapterState, size_t, const void*, size_t, const void*) override {
        return DXGI_ERROR_UNSUPPORTED;
    }
    HRESULT GetFactory(const IID& riid, void** result) override {
        return factory()->QueryInterface(riid, result);
    }
};

// Contains the adapter, or nothing if the adapter does not have a requested attribute.
class AdapterList final : public Permanent<IDXCoreAdapterList> {
public:
    explicit AdapterList(uint32_t count) : count_(count) {}

    HRESULT GetAdapter(uint32_t index, const IID& riid, void** result) override {
        return index < count_ ? adapter()->QueryInterface(riid, result) : E_INVALIDARG;
    }
    uint32_t GetAdapterCount() override { return count_; }
    bool IsStale() override { return false; }
    HRESULT GetFactory(const IID& riid, void** result) override {
        return factory()->QueryInterface(riid, result);
    }
    HRESULT Sort(uint32_t, const DXCoreAdapterPreference*) override { return S_OK; }
    bool IsAdapterPreferenceSupported(DXCoreAdapterPreference) override { return true; }

private:
    uint32_t count_;
};

class Factory final : public Permanent<IDXCoreAdapterFactory> {
public:
    HRESULT CreateAdapterList(uint32_t attribute_count, const GUID* attributes, const IID& riid,
                              void** list) override {
        if (attribute_count == 0 || !attributes) {
            return E_INVALIDARG;
        }
        static AdapterList empty(0);
        static AdapterList full(1);
        const bool fits = std::all_of(attributes, attributes + attribute_count, supports);
        return (fits ? full : empty).QueryInterface(riid, list);
    }
    HRESULT GetAdapterByLuid(const LUID& luid, const IID& riid, void** result) override {
        return luid == adapter_luid ? adapter()->QueryInterface(riid, result) : E_INVALIDARG;
    }
    // The list never changes, so there is nothing to notify about.
    bool IsNotificationTypeSupported(DXCoreNotificationType) override { return false; }
    HRESULT RegisterEventNotification(IUnknown*, DXCoreNotificationType, DXCoreNotificationCallback*, void*,
                                      uint32_t*) override {
        return DXGI_ERROR_UNSUPPORTED;
    }
    HRESULT UnregisterEventNotification(uint32_t) override { return DXGI_ERROR_UNSUPPORTED; }
};

IDXCoreAdapterFactory* factory() {
    static Factory instance;
    return &instance;
}

IDXCoreAdapter* adapter() {
    static Adapter instance;
    return &instance;
}

}  // namespace
}  // namespace dmlgraph::software

extern "C" __attribute__((visibility("default"))) dmlgraph::abi::HRESULT DXCoreCreateAdapterFactory(
    const dmlgraph::abi::IID& riid, void** result) {
    return dmlgraph::software::factory()->QueryInterface(riid, result);
}
