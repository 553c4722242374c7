// The part of DirectML that is used: the structs, interfaces and functions of its binary interface.
//
// Names and members are DirectML's own. Operator descs are not declared here: they are packed from their fields
// (directml/desc_arena.h), so that an operator's struct is described in one place only.
#pragma once

#include "abi/base.h"

namespace dmlgraph::abi {

struct ID3D12CommandList;
struct ID3D12Device;
struct ID3D12Resource;

// Sizes and alignments in bytes.
constexpr uint64_t DML_TEMPORARY_BUFFER_ALIGNMENT = 256;
constexpr uint64_t DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT = 16;

// --- Tensors and operators

enum DML_OPERATOR_TYPE : uint32_t { DML_OPERATOR_INVALID = 0 };
enum DML_TENSOR_DATA_TYPE : uint32_t { DML_TENSOR_DATA_TYPE_UNKNOWN = 0 };
enum DML_TENSOR_TYPE : uint32_t { DML_TENSOR_TYPE_INVALID = 0, DML_TENSOR_TYPE_BUFFER = 1 };
enum DML_TENSOR_FLAGS : uint32_t { DML_TENSOR_FLAG_NONE = 0, DML_TENSOR_FLAG_OWNED_BY_DML = 1 };

struct DML_BUFFER_TENSOR_DESC {
    DML_TENSOR_DATA_TYPE DataType;
    DML_TENSOR_FLAGS Flags;
    uint32_t DimensionCount;
    const uint32_t* Sizes;
    const uint32_t* Strides;
    uint64_t TotalTensorSizeInBytes;
    uint32_t GuaranteedBaseOffsetAlignment;
};

struct DML_TENSOR_DESC {
    DML_TENSOR_TYPE Type;
    const void* Desc;
};

struct DML_SCALE_BIAS {
    float Scale;
    float Bias;
};

struct DML_SIZE_2D {
    uint32_t Width;
    uint32_t Height;
};

struct DML_OPERATOR_DESC {
    DML_OPERATOR_TYPE Type;
    const void* Desc;
};

// --- Device features

enum DML_FEATURE_LEVEL : uint32_t {
    DML_FEATURE_LEVEL_1_0 = 0x1000,
    DML_FEATURE_LEVEL_2_0 = 0x2000,
    DML_FEATURE_LEVEL_2_1 = 0x2100,
    DML_FEATURE_LEVEL_3_0 = 0x3000,
    DML_FEATURE_LEVEL_3_1 = 0x3100,
    DML_FEATURE_LEVEL_4_0 = 0x4000,
    DML_FEATURE_LEVEL_4_1 = 0x4100,
    DML_FEATURE_LEVEL_5_0 = 0x5000,
    DML_FEATURE_LEVEL_5_1 = 0x5100,
    DML_FEATURE_LEVEL_5_2 = 0x5200,
    DML_FEATURE_LEVEL_6_0 = 0x6000,
    DML_FEATURE_LEVEL_6_1 = 0x6100,
    DML_FEATURE_LEVEL_6_2 = 0x6200,
    DML_FEATURE_LEVEL_6_3 = 0x6300,
    DML_FEATURE_LEVEL_6_4 = 0x6400,
};

enum DML_FEATURE : uint32_t {
    DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT = 0,
    DML_FEATURE_FEATURE_LEVELS = 1,
};

struct DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT {
    DML_TENSOR_DATA_TYPE DataType;
};

struct DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT {
    BOOL IsSupported;
};

struct DML_FEATURE_QUERY_FEATURE_LEVELS {
    uint32_t RequestedFeatureLevelCount;
    const DML_FEATURE_LEVEL* RequestedFeatureLevels;
};

struct DML_FEATURE_DATA_FEATURE_LEVELS {
    DML_FEATURE_LEVEL MaxSupportedFeatureLevel;
};

enum DML_CREATE_DEVICE_FLAGS : uint32_t {
    DML_CREATE_DEVICE_FLAG_NONE = 0,
    DML_CREATE_DEVICE_FLAG_DEBUG = 1,
};

enum DML_EXECUTION_FLAGS : uint32_t {
    DML_EXECUTION_FLAG_NONE = 0,
    DML_EXECUTION_FLAG_DISABLE_META_COMMANDS = 2,
    DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE = 4,
};

// --- Interfaces, each with its methods in vtable order

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
#endif

struct IDMLObject : IUnknown {
    static constexpr IID iid = guid("c8263aac-9e0c-4a2d-9b8e-007521a3317c");
    virtual HRESULT GetPrivateData(const GUID& guid, uint32_t* dataSize, void* data) = 0;
    virtual HRESULT SetPrivateData(const GUID& guid, uint32_t dataSize, const void* data) = 0;
    virtual HRESULT SetPrivateDataInterface(const GUID& guid, IUnknown* data) = 0;
    virtual HRESULT SetName(const wchar_t* name) = 0;
};

struct IDMLDeviceChild : IDMLObject {
    static constexpr IID iid = guid("27e83142-8165-49e3-974e-2fd66e4cb69d");
    virtual HRESULT GetDevice(const IID& riid, void** ppv) = 0;
};

struct IDMLPageable : IDMLDeviceChild {
    static constexpr IID iid = guid("b1ab0825-4542-4a4b-8617-6dde6e8f6201");
};

struct IDMLOperator : IDMLDeviceChild {
    static constexpr IID iid = guid("26caae7a-3081-4633-9581-226fbe57695d");
};

struct DML_BINDING_PROPERTIES {
    uint32_t RequiredDescriptorCount;
    uint64_t TemporaryResourceSize;
    uint64_t PersistentResourceSize;
};

struct IDMLDispatchable : IDMLPageable {
    static constexpr IID iid = guid("dcb821a8-1039-441e-9f1c-b1759c2f3cec");
    DMLGRAPH_STRUCT_GETTER(DML_BINDING_PROPERTIES, GetBindingProperties)
};

struct IDMLCompiledOperator : IDMLDispatchable {
    static constexpr IID iid = guid("6b15e56a-bf5c-4902-92d8-da3a650afea4");
};

struct IDMLOperatorInitializer : IDMLDispatchable {
    static constexpr IID iid = guid("427c1113-435c-469c-8676-4d5dd072f813");
    virtual HRESULT Reset(uint32_t operatorCount, IDMLCompiledOperator* const* operators) = 0;
};

// --- Binding

enum DML_BINDING_TYPE : uint32_t {
    DML_BINDING_TYPE_NONE = 0,
    DML_BINDING_TYPE_BUFFER = 1,
    DML_BINDING_TYPE_BUFFER_ARRAY = 2,
};

struct DML_BINDING_DESC {
    DML_BINDING_TYPE Type;
    const void* Desc;
};

struct DML_BUFFER_BINDING {
    ID3D12Resource* Buffer;
    uint64_t Offset;
    uint64_t SizeInBytes;
};

struct DML_BUFFER_ARRAY_BINDING {
    uint32_t BindingCount;
    const DML_BUFFER_BINDING* Bindings;
};

// The two handles are a D3D12_CPU_DESCRIPTOR_HANDLE and a D3D12_GPU_DESCRIPTOR_HANDLE: structs of one number.
struct DML_BINDING_TABLE_DESC {
    IDMLDispatchable* Dispatchable;
    uint64_t CPUDescriptorHandle;
    uint64_t GPUDescriptorHandle;
    uint32_t SizeInDescriptors;
};

struct IDMLBindingTable : IDMLDeviceChild {
    static constexpr IID iid = guid("29c687dc-de74-4e3b-ab00-1168f2fc3cfc");
    virtual void BindInputs(uint32_t bindingCount, const DML_BINDING_DESC* bindings) = 0;
    virtual void BindOutputs(uint32_t bindingCount, const DML_BINDING_DESC* bindings) = 0;
    virtual void BindTemporaryResource(const DML_BINDING_DESC* binding) = 0;
    virtual void BindPersistentResource(const DML_BINDING_DESC* binding) = 0;
    virtual HRESULT Reset(const DML_BINDING_TABLE_DESC* desc) = 0;
};

struct IDMLCommandRecorder : IDMLDeviceChild {
    static constexpr IID iid = guid("e6857a76-2e3e-4fdd-bff4-5d2ba10fb453");
    virtual void RecordDispatch(ID3D12CommandList* commandList, IDMLDispatchable* dispatchable,
                                IDMLBindingTable* bindings) = 0;
};

// --- Graphs

enum DML_GRAPH_NODE_TYPE : uint32_t {
    DML_GRAPH_NODE_TYPE_OPERATOR = 1,
    DML_GRAPH_NODE_TYPE_CONSTANT = 2,
};

struct DML_GRAPH_NODE_DESC {
    DML_GRAPH_NODE_TYPE Type;
    const void* Desc;
};

struct DML_OPERATOR_GRAPH_NODE_DESC {
    IDMLOperator* Operator;
    const char* Name;
};

struct DML_CONSTANT_DATA_GRAPH_NODE_DESC {
    const void* Data;
    size_t DataSize;
    const char* Name;
};

enum DML_GRAPH_EDGE_TYPE : uint32_t {
    DML_GRAPH_EDGE_TYPE_INPUT = 1,
    DML_GRAPH_EDGE_TYPE_OUTPUT = 2,
    DML_GRAPH_EDGE_TYPE_INTERMEDIATE = 3,
};

struct DML_GRAPH_EDGE_DESC {
    DML_GRAPH_EDGE_TYPE Type;
    const void* Desc;
};

struct DML_INPUT_GRAPH_EDGE_DESC {
    uint32_t GraphInputIndex;
    uint32_t ToNodeIndex;
    uint32_t ToNodeInputIndex;
    const char* Name;
};

struct DML_OUTPUT_GRAPH_EDGE_DESC {
    uint32_t FromNodeIndex;
    uint32_t FromNodeOutputIndex;
    uint32_t GraphOutputIndex;
    const char* Name;
};

struct DML_INTERMEDIATE_GRAPH_EDGE_DESC {
    uint32_t FromNodeIndex;
    uint32_t FromNodeOutputIndex;
    uint32_t ToNodeIndex;
    uint32_t ToNodeInputIndex;
    const char* Name;
};

struct DML_GRAPH_DESC {
    uint32_t InputCount;
    uint32_t OutputCount;
    uint32_t NodeCount;
    const DML_GRAPH_NODE_DESC* Nodes;
    uint32_t InputEdgeCount;
    const DML_GRAPH_EDGE_DESC* InputEdges;
    uint32_t OutputEdgeCount;
    const DML_GRAPH_EDGE_DESC* OutputEdges;
    uint32_t IntermediateEdgeCount;
    const DML_GRAPH_EDGE_DESC* IntermediateEdges;
};

// --- Devices

struct IDMLDevice : IDMLObject {
    static constexpr IID iid = guid("6dbd6437-96fd-423f-a98c-ae5e7c2a573f");
    virtual HRESULT CheckFeatureSupport(DML_FEATURE feature, uint32_t featureQueryDataSize,
                                        const void* featureQueryData, uint32_t featureSupportDataSize,
                                        void* featureSupportData) = 0;
    virtual HRESULT CreateOperator(const DML_OPERATOR_DESC* desc, const IID& riid, void** ppv) = 0;
    virtual HRESULT CompileOperator(IDMLOperator* op, DML_EXECUTION_FLAGS flags, const IID& riid, void** ppv) = 0;
    virtual HRESULT CreateOperatorInitializer(uint32_t operatorCount, IDMLCompiledOperator* const* operators,
                                              const IID& riid, void** ppv) = 0;
    virtual HRESULT CreateCommandRecorder(const IID& riid, void** ppv) = 0;
    virtual HRESULT CreateBindingTable(const DML_BINDING_TABLE_DESC* desc, const IID& riid, void** ppv) = 0;
    virtual HRESULT Evict(uint32_t count, IDMLPageable* const* ppObjects) = 0;
    virtual HRESULT MakeResident(uint32_t count, IDMLPageable* const* ppObjects) = 0;
    virtual HRESULT GetDeviceRemovedReason() = 0;
    virtual HRESULT GetParentDevice(const IID& riid, void** ppv) = 0;
};

struct IDMLDevice1 : IDMLDevice {
    static constexpr IID iid = guid("a0884f9a-d2be-4355-aa5d-5901281ad1d2");
    virtual HRESULT CompileGraph(const DML_GRAPH_DESC* desc, DML_EXECUTION_FLAGS flags, const IID& riid,
                                 void** ppv) = 0;
};

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

// The library's function, which is looked up by name.
using DMLCreateDevice1Function = HRESULT(ID3D12Device* d3d12Device, DML_CREATE_DEVICE_FLAGS flags,
                                         DML_FEATURE_LEVEL minimumFeatureLevel, const IID& riid, void** ppv);

}  // namespace dmlgraph::abi
