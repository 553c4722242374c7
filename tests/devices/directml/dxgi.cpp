// libdxgi.so: lists the software adapter as DXGI does, first as software and then as a GPU.
#include "abi/dxgi.h"
#include "software_adapter/adapter_identity.h"

using namespace dmlgraph::abi;
using dmlgraph::software::luid_of;

namespace {

template <class Interface>
struct Object : Interface {
    HRESULT QueryInterface(const IID& riid, void** object) override {
        const bool known = riid == Interface::iid || riid == IUnknown::iid;
        *object = known ? static_cast<Interface*>(this) : nullptr;
        return known ? S_OK : E_NOINTERFACE;
    }
    uint32_t AddRef() override { return 1; }
    uint32_t Release() override { return 1; }
    HRESULT SetPrivateData(const GUID&, uint32_t, const void*) override { return E_NOTIMPL; }
    HRESULT SetPrivateDataInterface(const GUID&, const IUnknown*) override { return E_NOTIMPL; }
    HRESULT GetPrivateData(const GUID&, uint32_t*, void*) override { return E_NOTIMPL; }
    HRESULT GetParent(const IID&, void**) override { return E_NOTIMPL; }
};

struct Adapter : Object<IDXGIAdapter1> {
    bool software;

    explicit Adapter(bool is_software) : software(is_software) {}
    HRESULT EnumOutputs(uint32_t, void**) override { return DXGI_ERROR_NOT_FOUND; }
    HRESULT GetDesc(void*) override { return E_NOTIMPL; }
    HRESULT CheckInterfaceSupport(const GUID& name, int64_t* version) override {
        *version = 31LL << 48 | 10LL << 16 | 7;
        return name == IID_IDXGIDevice ? S_OK : DXGI_ERROR_UNSUPPORTED;
    }
    HRESULT GetDesc1(DXGI_ADAPTER_DESC1* desc) override {
        *desc = {};
        // One, two, three and four bytes of UTF-8, and half of a pair.
        constexpr char16_t name[] = {u'a', 0xE4, 0x20AC, 0xD83D, 0xDE00, 0xD83D, u'z', 0};
        for (size_t i = 0; i < sizeof name / sizeof *name; ++i) {
            desc->Description[i] = name[i];
        }
        desc->DedicatedVideoMemory = software ? 0 : 3ull << 30;
        desc->SharedSystemMemory = 1ull << 30;
        desc->AdapterLuid = luid_of(software ? 1 : 0);
        desc->Flags = software ? DXGI_ADAPTER_FLAG_SOFTWARE : DXGI_ADAPTER_FLAG_NONE;
        return S_OK;
    }
} adapters[] = {Adapter(true), Adapter(false)};

struct Factory : Object<IDXGIFactory1> {
    HRESULT EnumAdapters(uint32_t, IDXGIAdapter**) override { return E_NOTIMPL; }
    HRESULT MakeWindowAssociation(HANDLE, uint32_t) override { return E_NOTIMPL; }
    HRESULT GetWindowAssociation(HANDLE*) override { return E_NOTIMPL; }
    HRESULT CreateSwapChain(IUnknown*, void*, void**) override { return E_NOTIMPL; }
    HRESULT CreateSoftwareAdapter(HANDLE, IDXGIAdapter**) override { return E_NOTIMPL; }
    HRESULT EnumAdapters1(uint32_t index, IDXGIAdapter1** adapter) override {
        *adapter = index < 2 ? &adapters[index] : nullptr;
        return *adapter ? S_OK : DXGI_ERROR_NOT_FOUND;
    }
    BOOL IsCurrent() override { return 1; }
} factory;

}  // namespace

extern "C" __attribute__((visibility("default"))) HRESULT CreateDXGIFactory1(const IID& riid, void** result) {
    return factory.QueryInterface(riid, result);
}
