// libdxcore.so: a list of the adapters, which is one unless the environment asks for more (strictness.h).
//
// The factory, the lists and the adapters never change, so each exists once and is never destroyed.
#include "abi/dxcore.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "software_adapter/adapter_identity.h"
#include "software_adapter/log.h"
#include "software_adapter/permanent.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {
namespace {

using namespace abi;

IDXCoreAdapterFactory* factory();
IDXCoreAdapter* adapter(size_t index);

bool supports(size_t index, const GUID& attribute) {
    const Strictness& strict = strictness(index);
    if (attribute == DXCORE_ADAPTER_ATTRIBUTE_D3D12_GENERIC_ML) {
        return true;
    }
    if (attribute == DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE) {
        return !strict.npu && !strict.generic;
    }
    return attribute == DXCORE_HARDWARE_TYPE_ATTRIBUTE_GPU && strict.gpu;
}

uint64_t memory_bytes() {
    return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

uint64_t free_memory_bytes() {
    return static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

// What libd3d12.so has allocated. It is a separate library, which this one does not load.
uint64_t device_bytes() {
    void* const d3d12 = dlopen("libd3d12.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!d3d12) {
        return 0;
    }
    auto* const counter = reinterpret_cast<decltype(&sw_counter)>(dlsym(d3d12, "sw_counter"));
    const uint64_t bytes = counter ? counter("device_bytes") : 0;
    dlclose(d3d12);
    return bytes;
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
Property find_property(size_t index, DXCoreAdapterProperty property) {
    switch (property) {
        case DXCoreAdapterProperty::InstanceLuid: return property_of(luid_of(index));
        case DXCoreAdapterProperty::DriverVersion: return property_of(uint64_t{1} << 48);  // 1.0.0.0
        case DXCoreAdapterProperty::DriverDescription: return property_of(adapter_description);
        case DXCoreAdapterProperty::HardwareID: return property_of(DXCoreHardwareID{});
        case DXCoreAdapterProperty::HardwareIDParts: return property_of(DXCoreHardwareIDParts{});
        case DXCoreAdapterProperty::KmdModelVersion: return property_of(uint32_t{0});
        case DXCoreAdapterProperty::ComputePreemptionGranularity:
        case DXCoreAdapterProperty::GraphicsPreemptionGranularity: return property_of(uint16_t{0});
        case DXCoreAdapterProperty::DedicatedAdapterMemory:
        case DXCoreAdapterProperty::DedicatedSystemMemory: return property_of(uint64_t{0});
        case DXCoreAdapterProperty::SharedSystemMemory: return property_of(memory_bytes());
        case DXCoreAdapterProperty::IsIntegrated: return property_of(true);
        case DXCoreAdapterProperty::IsHardware: return property_of(strictness(index).gpu || strictness(index).npu);
        case DXCoreAdapterProperty::AcgCompatible:
        case DXCoreAdapterProperty::IsDetachable: return property_of(false);
    }
    return {};
}

class Adapter final : public Permanent<IDXCoreAdapter> {
public:
    explicit Adapter(size_t index) : index_(index) {}

    bool IsValid() override { return true; }
    bool IsAttributeSupported(const GUID& attribute) override { return supports(index_, attribute); }
    bool IsPropertySupported(DXCoreAdapterProperty property) override {
        return find_property(index_, property).size > 0;
    }
    HRESULT GetProperty(DXCoreAdapterProperty property, size_t size, void* data) override {
        const auto found = find_property(index_, property);
        if (!data || found.size == 0 || size < found.size) {
            return E_INVALIDARG;
        }
        std::memcpy(data, found.bytes, found.size);
        return S_OK;
    }
    HRESULT GetPropertySize(DXCoreAdapterProperty property, size_t* size) override {
        const auto found = find_property(index_, property);
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
        const auto limit = strictness(index_).budget;
        *static_cast<DXCoreAdapterMemoryBudget*>(output) =
            limit ? DXCoreAdapterMemoryBudget{limit, device_bytes(), 0, 0}
                  : DXCoreAdapterMemoryBudget{memory_bytes(), memory_bytes() - free_memory_bytes(), 0, 0};
        return S_OK;
    }
    bool IsSetStateSupported(DXCoreAdapterState) override { return false; }
    HRESULT SetState(DXCoreAdapterState, size_t, const void*, size_t, const void*) override {
        return DXGI_ERROR_UNSUPPORTED;
    }
    HRESULT GetFactory(const IID& riid, void** result) override { return factory()->QueryInterface(riid, result); }

private:
    size_t index_;
};

// The adapters that have all requested attributes.
class AdapterList final : public Permanent<IDXCoreAdapterList> {
public:
    explicit AdapterList(std::vector<size_t> indices) : indices_(std::move(indices)) {}

    HRESULT GetAdapter(uint32_t index, const IID& riid, void** result) override {
        return index < indices_.size() ? adapter(indices_[index])->QueryInterface(riid, result) : E_INVALIDARG;
    }
    uint32_t GetAdapterCount() override { return static_cast<uint32_t>(indices_.size()); }
    bool IsStale() override { return false; }
    HRESULT GetFactory(const IID& riid, void** result) override { return factory()->QueryInterface(riid, result); }
    HRESULT Sort(uint32_t, const DXCoreAdapterPreference*) override { return S_OK; }
    bool IsAdapterPreferenceSupported(DXCoreAdapterPreference) override { return true; }

private:
    std::vector<size_t> indices_;
};

AdapterList& list_of(std::span<const GUID> attributes) {
    std::vector<size_t> indices;
    for (size_t index = 0; index < adapter_count(); ++index) {
        if (std::ranges::all_of(attributes, [&](const GUID& each) { return supports(index, each); })) {
            indices.push_back(index);
        }
    }
    static std::mutex mutex;
    static auto& lists = *new std::map<std::vector<size_t>, AdapterList*>;
    const std::lock_guard lock(mutex);
    AdapterList*& list = lists[indices];
    if (!list) {
        list = new AdapterList(indices);
    }
    return *list;
}

class Factory final : public Permanent<IDXCoreAdapterFactory> {
public:
    HRESULT CreateAdapterList(uint32_t attribute_count, const GUID* attributes, const IID& riid, void** list) override {
        if (attribute_count == 0 || !attributes) {
            return E_INVALIDARG;
        }
        return list_of({attributes, attribute_count}).QueryInterface(riid, list);
    }
    HRESULT GetAdapterByLuid(const LUID& luid, const IID& riid, void** result) override {
        const auto index = adapter_of(luid);
        return index ? adapter(*index)->QueryInterface(riid, result) : E_INVALIDARG;
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

IDXCoreAdapter* adapter(size_t index) {
    static const auto& all = *[] {
        auto* made = new std::vector<Adapter*>;
        for (size_t each = 0; each < adapter_count(); ++each) {
            made->push_back(new Adapter(each));
        }
        return made;
    }();
    return all[index];
}

}  // namespace
}  // namespace dmlgraph::software

extern "C" __attribute__((visibility("default"))) dmlgraph::abi::HRESULT DXCoreCreateAdapterFactory(
    const dmlgraph::abi::IID& riid, void** result) {
    using namespace dmlgraph::software;
    if (!strictness_error().empty()) {
        log(strictness_error());
        return dmlgraph::abi::E_INVALIDARG;
    }
    return factory()->QueryInterface(riid, result);
}
