// The part of DXGI that is used where there is no DXCore: its list of adapters. Vtables are complete and in order.
#pragma once

#include "abi/base.h"

namespace dmlgraph::abi {

enum DXGI_ADAPTER_FLAG : uint32_t {
    DXGI_ADAPTER_FLAG_NONE = 0,
    DXGI_ADAPTER_FLAG_SOFTWARE = 2,
};

struct DXGI_ADAPTER_DESC1 {
    char16_t Description[128];  // with its NUL
    uint32_t VendorId;
    uint32_t DeviceId;
    uint32_t SubSysId;
    uint32_t Revision;
    size_t DedicatedVideoMemory;  // bytes; so are the next two
    size_t DedicatedSystemMemory;
    size_t SharedSystemMemory;
    LUID AdapterLuid;
    uint32_t Flags;  // DXGI_ADAPTER_FLAG
};

// The interface that CheckInterfaceSupport reports the driver's version for.
inline constexpr GUID IID_IDXGIDevice = guid("54ec77fa-1377-44e6-8c32-88fd5f44c84c");

struct IDXGIObject : IUnknown {
    static constexpr IID iid = guid("aec22fb8-76f3-4639-9be0-28eb43a67a2e");
    virtual HRESULT SetPrivateData(const GUID& name, uint32_t data_size, const void* data) = 0;
    virtual HRESULT SetPrivateDataInterface(const GUID& name, const IUnknown* unknown) = 0;
    virtual HRESULT GetPrivateData(const GUID& name, uint32_t* data_size, void* data) = 0;
    virtual HRESULT GetParent(const IID& riid, void** parent) = 0;
};

struct IDXGIAdapter : IDXGIObject {
    static constexpr IID iid = guid("2411e7e1-12ac-4ccf-bd14-9798e8534dc0");
    virtual HRESULT EnumOutputs(uint32_t index, void** output) = 0;
    virtual HRESULT GetDesc(void* desc) = 0;
    virtual HRESULT CheckInterfaceSupport(const GUID& interface_name, int64_t* driver_version) = 0;
};

struct IDXGIAdapter1 : IDXGIAdapter {
    static constexpr IID iid = guid("29038f61-3839-4626-91fd-086879011a05");
    virtual HRESULT GetDesc1(DXGI_ADAPTER_DESC1* desc) = 0;
};

struct IDXGIAdapter2 : IDXGIAdapter1 {
    static constexpr IID iid = guid("0aa1ae0a-fa0e-4b84-8644-e05ff8e5acb5");
    virtual HRESULT GetDesc2(void* desc) = 0;
};

enum DXGI_MEMORY_SEGMENT_GROUP : uint32_t {
    DXGI_MEMORY_SEGMENT_GROUP_LOCAL = 0,
};

struct DXGI_QUERY_VIDEO_MEMORY_INFO {
    uint64_t Budget;
    uint64_t CurrentUsage;
    uint64_t AvailableForReservation;
    uint64_t CurrentReservation;
};

struct IDXGIAdapter3 : IDXGIAdapter2 {
    static constexpr IID iid = guid("645967a4-1392-4310-a798-8053ce3e93fd");
    virtual HRESULT RegisterHardwareContentProtectionTeardownStatusEvent(HANDLE event, uint32_t* cookie) = 0;
    virtual void UnregisterHardwareContentProtectionTeardownStatus(uint32_t cookie) = 0;
    virtual HRESULT QueryVideoMemoryInfo(uint32_t node_index, DXGI_MEMORY_SEGMENT_GROUP group,
                                         DXGI_QUERY_VIDEO_MEMORY_INFO* info) = 0;
    virtual HRESULT SetVideoMemoryReservation(uint32_t node_index, DXGI_MEMORY_SEGMENT_GROUP group,
                                              uint64_t reservation) = 0;
    virtual HRESULT RegisterVideoMemoryBudgetChangeNotificationEvent(HANDLE event, uint32_t* cookie) = 0;
    virtual void UnregisterVideoMemoryBudgetChangeNotification(uint32_t cookie) = 0;
};

struct IDXGIFactory : IDXGIObject {
    static constexpr IID iid = guid("7b7166ec-21c7-44ae-b21a-c9ae321ae369");
    virtual HRESULT EnumAdapters(uint32_t index, IDXGIAdapter** adapter) = 0;
    virtual HRESULT MakeWindowAssociation(HANDLE window, uint32_t flags) = 0;
    virtual HRESULT GetWindowAssociation(HANDLE* window) = 0;
    virtual HRESULT CreateSwapChain(IUnknown* device, void* desc, void** swap_chain) = 0;
    virtual HRESULT CreateSoftwareAdapter(HANDLE module, IDXGIAdapter** adapter) = 0;
};

struct IDXGIFactory1 : IDXGIFactory {
    static constexpr IID iid = guid("770aae78-f26f-4dba-a829-253c83d1b387");
    virtual HRESULT EnumAdapters1(uint32_t index, IDXGIAdapter1** adapter) = 0;
    virtual BOOL IsCurrent() = 0;
};

// The library's function that is used, which is looked up by name.
using CreateDXGIFactory1Function = HRESULT(const IID& riid, void** factory);

}  // namespace dmlgraph::abi
