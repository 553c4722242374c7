// The part of DXCore that is used: its list of adapters. Vtables are complete and in order.
#pragma once

#include "abi/base.h"

namespace dmlgraph::abi {

enum class DXCoreAdapterProperty : uint32_t {
    InstanceLuid = 0,                   // LUID
    DriverVersion = 1,                  // uint64_t, 16 bits for each of four numbers
    DriverDescription = 2,              // char[], UTF-8 with its NUL
    HardwareID = 3,                     // DXCoreHardwareID
    KmdModelVersion = 4,                // uint32_t
    ComputePreemptionGranularity = 5,   // uint16_t
    GraphicsPreemptionGranularity = 6,  // uint16_t
    DedicatedAdapterMemory = 7,         // uint64_t, bytes; so are the next two
    DedicatedSystemMemory = 8,
    SharedSystemMemory = 9,
    AcgCompatible = 10,  // bool; so are the next three
    IsHardware = 11,
    IsIntegrated = 12,
    IsDetachable = 13,
    HardwareIDParts = 14,  // DXCoreHardwareIDParts
};

enum class DXCoreAdapterState : uint32_t {
    IsDriverUpdateInProgress = 0,  // uint8_t
    AdapterMemoryBudget = 1,       // in: DXCoreAdapterMemoryBudgetNodeSegmentGroup, out: DXCoreAdapterMemoryBudget
};

enum class DXCoreSegmentGroup : uint32_t {
    Local = 0,
    NonLocal = 1,
};

enum class DXCoreNotificationType : uint32_t {
    AdapterListStale = 0,
    AdapterNoLongerValid = 1,
    AdapterBudgetChange = 2,
    AdapterHardwareContentProtectionTeardown = 3,
};

enum class DXCoreAdapterPreference : uint32_t {
    Hardware = 0,
    MinimumPower = 1,
    HighPerformance = 2,
};

struct DXCoreHardwareID {
    uint32_t vendorID;
    uint32_t deviceID;
    uint32_t subSysID;
    uint32_t revision;
};

struct DXCoreHardwareIDParts {
    uint32_t vendorID;
    uint32_t deviceID;
    uint32_t subSystemID;
    uint32_t subVendorID;
    uint32_t revisionID;
};

struct DXCoreAdapterMemoryBudgetNodeSegmentGroup {
    uint32_t nodeIndex;
    DXCoreSegmentGroup segmentGroup;
};

struct DXCoreAdapterMemoryBudget {
    uint64_t budget;
    uint64_t currentUsage;
    uint64_t availableForReservation;
    uint64_t currentReservation;
};

// Attributes for filtering the list of adapters.
inline constexpr GUID DXCORE_ADAPTER_ATTRIBUTE_D3D11_GRAPHICS = guid("8c47866b-7583-450d-f0f0-6bada895af4b");
inline constexpr GUID DXCORE_ADAPTER_ATTRIBUTE_D3D12_GRAPHICS = guid("0c9ece4d-2f6e-4f01-8c96-e89e331b47b1");
inline constexpr GUID DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE = guid("248e2800-a793-4724-abaa-23a6de1be090");
inline constexpr GUID DXCORE_ADAPTER_ATTRIBUTE_D3D12_GENERIC_ML = guid("b71b0d41-1088-422f-a27c-0250b7d3a988");
inline constexpr GUID DXCORE_HARDWARE_TYPE_ATTRIBUTE_GPU = guid("b69eb219-3ded-4464-979f-a00bd4687006");
inline constexpr GUID DXCORE_HARDWARE_TYPE_ATTRIBUTE_NPU = guid("d46140c4-add7-451b-9e56-06fe8c3b58ed");

struct IDXCoreAdapter : IUnknown {
    static constexpr IID iid = guid("f0db4c7f-fe5a-42a2-bd62-f2a6cf6fc83e");
    virtual bool IsValid() = 0;
    virtual bool IsAttributeSupported(const GUID& attribute) = 0;
    virtual bool IsPropertySupported(DXCoreAdapterProperty property) = 0;
    virtual HRESULT GetProperty(DXCoreAdapterProperty property, size_t size, void* data) = 0;
    virtual HRESULT GetPropertySize(DXCoreAdapterProperty property, size_t* size) = 0;
    virtual bool IsQueryStateSupported(DXCoreAdapterState state) = 0;
    virtual HRESULT QueryState(DXCoreAdapterState state, size_t input_size, const void* input, size_t output_size,
                               void* output) = 0;
    virtual bool IsSetStateSupported(DXCoreAdapterState state) = 0;
    virtual HRESULT SetState(DXCoreAdapterState state, size_t details_size, const void* details, size_t data_size,
                             const void* data) = 0;
    virtual HRESULT GetFactory(const IID& riid, void** factory) = 0;
};

struct IDXCoreAdapterList : IUnknown {
    static constexpr IID iid = guid("526c7776-40e9-459b-b711-f32ad76dfc28");
    virtual HRESULT GetAdapter(uint32_t index, const IID& riid, void** adapter) = 0;
    virtual uint32_t GetAdapterCount() = 0;
    virtual bool IsStale() = 0;
    virtual HRESULT GetFactory(const IID& riid, void** factory) = 0;
    virtual HRESULT Sort(uint32_t count, const DXCoreAdapterPreference* preferences) = 0;
    virtual bool IsAdapterPreferenceSupported(DXCoreAdapterPreference preference) = 0;
};

using DXCoreNotificationCallback = void(DXCoreNotificationType type, IUnknown* object, void* context);

struct IDXCoreAdapterFactory : IUnknown {
    static constexpr IID iid = guid("78ee5945-c36e-4b13-a669-005dd11c0f06");
    virtual HRESULT CreateAdapterList(uint32_t attribute_count, const GUID* attributes, const IID& riid,
                                      void** list) = 0;
    virtual HRESULT GetAdapterByLuid(const LUID& luid, const IID& riid, void** adapter) = 0;
    virtual bool IsNotificationTypeSupported(DXCoreNotificationType type) = 0;
    virtual HRESULT RegisterEventNotification(IUnknown* object, DXCoreNotificationType type,
                                              DXCoreNotificationCallback* callback, void* context,
                                              uint32_t* cookie) = 0;
    virtual HRESULT UnregisterEventNotification(uint32_t cookie) = 0;
};

// The library's only function, which is looked up by name.
using DXCoreCreateAdapterFactoryFunction = HRESULT(const IID& riid, void** factory);

}  // namespace dmlgraph::abi
