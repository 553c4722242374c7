// libdxcore.so and libd3d12.so of a system without a GPU that works, as WSL2 has them.
// NO_FACTORY: DXCore fails. NO_ADAPTER: it lists none. Otherwise it lists one that no device can be made of.
#include "abi/d3d12.h"
#include "abi/dxcore.h"

using namespace dmlgraph::abi;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <class Interface>
struct Object : Interface {
    HRESULT QueryInterface(const IID&, void** object) override {
        *object = static_cast<Interface*>(this);
        return S_OK;
    }
    uint32_t AddRef() override { return 1; }
    uint32_t Release() override { return 1; }
};

struct Adapter : Object<IDXCoreAdapter> {
    bool IsValid() override { return true; }
    bool IsAttributeSupported(const GUID&) override { return true; }
    bool IsPropertySupported(DXCoreAdapterProperty) override { return false; }
    HRESULT GetProperty(DXCoreAdapterProperty, size_t, void*) override { return E_INVALIDARG; }
    HRESULT GetPropertySize(DXCoreAdapterProperty, size_t*) override { return E_INVALIDARG; }
    bool IsQueryStateSupported(DXCoreAdapterState) override { return false; }
    HRESULT QueryState(DXCoreAdapterState, size_t, const void*, size_t, void*) override { return E_INVALIDARG; }
    bool IsSetStateSupported(DXCoreAdapterState) override { return false; }
    HRESULT SetState(DXCoreAdapterState, size_t, const void*, size_t, const void*) override { return E_INVALIDARG; }
    HRESULT GetFactory(const IID&, void**) override { return E_NOINTERFACE; }
} adapter;

struct List : Object<IDXCoreAdapterList> {
    HRESULT GetAdapter(uint32_t, const IID& riid, void** result) override {
        return adapter.QueryInterface(riid, result);
    }
#ifdef NO_ADAPTER
    uint32_t GetAdapterCount() override { return 0; }
#else
    uint32_t GetAdapterCount() override { return 1; }
#endif
    bool IsStale() override { return false; }
    HRESULT GetFactory(const IID&, void**) override { return E_NOINTERFACE; }
    HRESULT Sort(uint32_t, const DXCoreAdapterPreference*) override { return S_OK; }
    bool IsAdapterPreferenceSupported(DXCoreAdapterPreference) override { return false; }
} list;

struct Factory : Object<IDXCoreAdapterFactory> {
    HRESULT CreateAdapterList(uint32_t, const GUID*, const IID& riid, void** result) override {
        return list.QueryInterface(riid, result);
    }
    HRESULT GetAdapterByLuid(const LUID&, const IID&, void**) override { return E_INVALIDARG; }
    bool IsNotificationTypeSupported(DXCoreNotificationType) override { return false; }
    HRESULT RegisterEventNotification(IUnknown*, DXCoreNotificationType, DXCoreNotificationCallback*, void*,
                                      uint32_t*) override {
        return E_NOTIMPL;
    }
    HRESULT UnregisterEventNotification(uint32_t) override { return E_NOTIMPL; }
} factory;

}  // namespace

EXPORT HRESULT DXCoreCreateAdapterFactory([[maybe_unused]] const IID& riid, [[maybe_unused]] void** result) {
#ifdef NO_FACTORY
    return E_NOINTERFACE;
#else
    return factory.QueryInterface(riid, result);
#endif
}

EXPORT HRESULT D3D12CreateDevice(IUnknown*, D3D_FEATURE_LEVEL, const IID&, void**) {
    return DXGI_ERROR_UNSUPPORTED;
}
