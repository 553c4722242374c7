// The part of Direct3D 12 that is used: structs, enums and interfaces with their original names and values.
//
// Every vtable is complete and in order. For methods that are not called here, pointers to structs are void
// pointers and enums are uint32_t: the binary interface is the same. Methods that the software adapter does not
// implement end in DMLGRAPH_OPTIONAL.
#pragma once

#include "abi/base.h"

#ifdef DMLGRAPH_SOFTWARE_ADAPTER
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"  // by the bodies of optional methods
#endif

namespace dmlgraph::abi {

// Allows flags to be combined without a cast.
#define DMLGRAPH_FLAGS(Enum)                                                           \
    constexpr Enum operator|(Enum a, Enum b) {                                         \
        return static_cast<Enum>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b)); \
    }

using D3D12_GPU_VIRTUAL_ADDRESS = uint64_t;

// Limits of Direct3D 12, in bytes unless stated otherwise. The official header has macros, so the names differ.
inline constexpr uint64_t resource_placement_alignment = 65536;
inline constexpr uint32_t constant_buffer_alignment = 256;
inline constexpr uint32_t raw_view_alignment = 16;
inline constexpr uint32_t max_thread_groups_per_dimension = 65535;
inline constexpr uint32_t descriptor_range_offset_append = 0xffffffff;  // right after the preceding range
inline constexpr uint32_t all_subresources = 0xffffffff;
inline constexpr uint32_t default_shader_4_component_mapping = 0x1688;  // x, y, z, w unchanged

struct ID3D12Resource;
struct ID3D12RootSignature;

enum D3D_FEATURE_LEVEL : uint32_t {
    D3D_FEATURE_LEVEL_1_0_GENERIC = 0x100,
    D3D_FEATURE_LEVEL_1_0_CORE = 0x1000,
    D3D_FEATURE_LEVEL_11_0 = 0xb000,
    D3D_FEATURE_LEVEL_12_0 = 0xc000,
    D3D_FEATURE_LEVEL_12_1 = 0xc100,
    D3D_FEATURE_LEVEL_12_2 = 0xc200,
};

// The formats that a buffer view may have.
enum DXGI_FORMAT : uint32_t {
    DXGI_FORMAT_UNKNOWN = 0,
    DXGI_FORMAT_R32G32B32A32_FLOAT = 2,
    DXGI_FORMAT_R32G32B32A32_UINT = 3,
    DXGI_FORMAT_R32G32B32A32_SINT = 4,
    DXGI_FORMAT_R32G32B32_FLOAT = 6,
    DXGI_FORMAT_R32G32B32_UINT = 7,
    DXGI_FORMAT_R32G32B32_SINT = 8,
    DXGI_FORMAT_R16G16B16A16_FLOAT = 10,
    DXGI_FORMAT_R16G16B16A16_UNORM = 11,
    DXGI_FORMAT_R16G16B16A16_UINT = 12,
    DXGI_FORMAT_R16G16B16A16_SNORM = 13,
    DXGI_FORMAT_R16G16B16A16_SINT = 14,
    DXGI_FORMAT_R32G32_FLOAT = 16,
    DXGI_FORMAT_R32G32_UINT = 17,
    DXGI_FORMAT_R32G32_SINT = 18,
    DXGI_FORMAT_R8G8B8A8_UNORM = 28,
    DXGI_FORMAT_R8G8B8A8_UINT = 30,
    DXGI_FORMAT_R8G8B8A8_SNORM = 31,
    DXGI_FORMAT_R8G8B8A8_SINT = 32,
    DXGI_FORMAT_R16G16_FLOAT = 34,
    DXGI_FORMAT_R16G16_UNORM = 35,
    DXGI_FORMAT_R16G16_UINT = 36,
    DXGI_FORMAT_R16G16_SNORM = 37,
    DXGI_FORMAT_R16G16_SINT = 38,
    DXGI_FORMAT_R32_TYPELESS = 39,
    DXGI_FORMAT_R32_FLOAT = 41,
    DXGI_FORMAT_R32_UINT = 42,
    DXGI_FORMAT_R32_SINT = 43,
    DXGI_FORMAT_R8G8_UNORM = 49,
    DXGI_FORMAT_R8G8_UINT = 50,
    DXGI_FORMAT_R8G8_SNORM = 51,
    DXGI_FORMAT_R8G8_SINT = 52,
    DXGI_FORMAT_R16_FLOAT = 54,
    DXGI_FORMAT_R16_UNORM = 56,
    DXGI_FORMAT_R16_UINT = 57,
    DXGI_FORMAT_R16_SNORM = 58,
    DXGI_FORMAT_R16_SINT = 59,
    DXGI_FORMAT_R8_UNORM = 61,
    DXGI_FORMAT_R8_UINT = 62,
    DXGI_FORMAT_R8_SNORM = 63,
    DXGI_FORMAT_R8_SINT = 64,
};

// Heaps and resources

enum D3D12_HEAP_TYPE : uint32_t {
    D3D12_HEAP_TYPE_DEFAULT = 1,
    D3D12_HEAP_TYPE_UPLOAD = 2,
    D3D12_HEAP_TYPE_READBACK = 3,
    D3D12_HEAP_TYPE_CUSTOM = 4,
};

enum D3D12_CPU_PAGE_PROPERTY : uint32_t {
    D3D12_CPU_PAGE_PROPERTY_UNKNOWN = 0,
    D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE = 1,
    D3D12_CPU_PAGE_PROPERTY_WRITE_BACK = 3,
};

enum D3D12_MEMORY_POOL : uint32_t {
    D3D12_MEMORY_POOL_UNKNOWN = 0,
    D3D12_MEMORY_POOL_L0 = 1,
};

enum D3D12_HEAP_FLAGS : uint32_t {
    D3D12_HEAP_FLAG_NONE = 0,
    D3D12_HEAP_FLAG_DENY_BUFFERS = 0x4,
    D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS = 0xc0,
};
DMLGRAPH_FLAGS(D3D12_HEAP_FLAGS)

struct D3D12_HEAP_PROPERTIES {
    D3D12_HEAP_TYPE Type;
    D3D12_CPU_PAGE_PROPERTY CPUPageProperty;
    D3D12_MEMORY_POOL MemoryPoolPreference;
    uint32_t CreationNodeMask;
    uint32_t VisibleNodeMask;
};

struct D3D12_HEAP_DESC {
    uint64_t SizeInBytes;
    D3D12_HEAP_PROPERTIES Properties;
    uint64_t Alignment;
    D3D12_HEAP_FLAGS Flags;
};

enum D3D12_RESOURCE_DIMENSION : uint32_t {
    D3D12_RESOURCE_DIMENSION_BUFFER = 1,
    D3D12_RESOURCE_DIMENSION_TEXTURE2D = 3,
};

enum D3D12_TEXTURE_LAYOUT : uint32_t {
    D3D12_TEXTURE_LAYOUT_ROW_MAJOR = 1,
};

enum D3D12_RESOURCE_FLAGS : uint32_t {
    D3D12_RESOURCE_FLAG_NONE = 0,
    D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS = 0x4,
};
DMLGRAPH_FLAGS(D3D12_RESOURCE_FLAGS)

enum D3D12_RESOURCE_STATES : uint32_t {
    D3D12_RESOURCE_STATE_COMMON = 0,
    D3D12_RESOURCE_STATE_VERTEX_AND_CONSTANT_BUFFER = 0x1,
    D3D12_RESOURCE_STATE_UNORDERED_ACCESS = 0x8,
    D3D12_RESOURCE_STATE_NON_PIXEL_SHADER_RESOURCE = 0x40,
    D3D12_RESOURCE_STATE_INDIRECT_ARGUMENT = 0x200,
    D3D12_RESOURCE_STATE_COPY_DEST = 0x400,
    D3D12_RESOURCE_STATE_COPY_SOURCE = 0x800,
    D3D12_RESOURCE_STATE_GENERIC_READ = 0xac3,
};
DMLGRAPH_FLAGS(D3D12_RESOURCE_STATES)

struct DXGI_SAMPLE_DESC {
    uint32_t Count;
    uint32_t Quality;
};

struct D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DIMENSION Dimension;
    uint64_t Alignment;
    uint64_t Width;
    uint32_t Height;
    uint16_t DepthOrArraySize;
    uint16_t MipLevels;
    DXGI_FORMAT Format;
    DXGI_SAMPLE_DESC SampleDesc;
    D3D12_TEXTURE_LAYOUT Layout;
    D3D12_RESOURCE_FLAGS Flags;
};

struct D3D12_RANGE {
    size_t Begin;
    size_t End;
};

struct D3D12_RESOURCE_ALLOCATION_INFO {
    uint64_t SizeInBytes;
    uint64_t Alignment;
};

struct D3D12_RESOURCE_ALLOCATION_INFO1 {
    uint64_t Offset;
    uint64_t Alignment;
    uint64_t SizeInBytes;
};

struct D3D12_RECT {
    int32_t left;
    int32_t top;
    int32_t right;
    int32_t bottom;
};

// Barriers

enum D3D12_RESOURCE_BARRIER_TYPE : uint32_t {
    D3D12_RESOURCE_BARRIER_TYPE_TRANSITION = 0,
    D3D12_RESOURCE_BARRIER_TYPE_ALIASING = 1,
    D3D12_RESOURCE_BARRIER_TYPE_UAV = 2,
};

enum D3D12_RESOURCE_BARRIER_FLAGS : uint32_t {
    D3D12_RESOURCE_BARRIER_FLAG_NONE = 0,
    D3D12_RESOURCE_BARRIER_FLAG_BEGIN_ONLY = 0x1,
    D3D12_RESOURCE_BARRIER_FLAG_END_ONLY = 0x2,
};
DMLGRAPH_FLAGS(D3D12_RESOURCE_BARRIER_FLAGS)

struct D3D12_RESOURCE_TRANSITION_BARRIER {
    ID3D12Resource* pResource;
    uint32_t Subresource;
    D3D12_RESOURCE_STATES StateBefore;
    D3D12_RESOURCE_STATES StateAfter;
};

struct D3D12_RESOURCE_ALIASING_BARRIER {
    ID3D12Resource* pResourceBefore;
    ID3D12Resource* pResourceAfter;
};

struct D3D12_RESOURCE_UAV_BARRIER {
    ID3D12Resource* pResource;
};

struct D3D12_RESOURCE_BARRIER {
    D3D12_RESOURCE_BARRIER_TYPE Type;
    D3D12_RESOURCE_BARRIER_FLAGS Flags;
    union {
        D3D12_RESOURCE_TRANSITION_BARRIER Transition;
        D3D12_RESOURCE_ALIASING_BARRIER Aliasing;
        D3D12_RESOURCE_UAV_BARRIER UAV;
    };
};

// Enhanced barriers: those of buffers and of all memory. Textures' have no members here.

enum D3D12_BARRIER_SYNC : uint32_t {
    D3D12_BARRIER_SYNC_NONE = 0,
    D3D12_BARRIER_SYNC_ALL = 0x1,
    D3D12_BARRIER_SYNC_COMPUTE_SHADING = 0x80,
    D3D12_BARRIER_SYNC_COPY = 0x200,
};

enum D3D12_BARRIER_ACCESS : uint32_t {
    D3D12_BARRIER_ACCESS_COMMON = 0,
    D3D12_BARRIER_ACCESS_UNORDERED_ACCESS = 0x10,
    D3D12_BARRIER_ACCESS_SHADER_RESOURCE = 0x80,
    D3D12_BARRIER_ACCESS_COPY_DEST = 0x400,
    D3D12_BARRIER_ACCESS_COPY_SOURCE = 0x800,
};

enum D3D12_BARRIER_TYPE : uint32_t {
    D3D12_BARRIER_TYPE_GLOBAL = 0,
    D3D12_BARRIER_TYPE_TEXTURE = 1,
    D3D12_BARRIER_TYPE_BUFFER = 2,
};

struct D3D12_GLOBAL_BARRIER {
    D3D12_BARRIER_SYNC SyncBefore;
    D3D12_BARRIER_SYNC SyncAfter;
    D3D12_BARRIER_ACCESS AccessBefore;
    D3D12_BARRIER_ACCESS AccessAfter;
};

struct D3D12_BUFFER_BARRIER {
    D3D12_BARRIER_SYNC SyncBefore;
    D3D12_BARRIER_SYNC SyncAfter;
    D3D12_BARRIER_ACCESS AccessBefore;
    D3D12_BARRIER_ACCESS AccessAfter;
    ID3D12Resource* pResource;
    uint64_t Offset;
    uint64_t Size;
};

struct D3D12_BARRIER_GROUP {
    D3D12_BARRIER_TYPE Type;
    uint32_t NumBarriers;
    union {
        const D3D12_GLOBAL_BARRIER* pGlobalBarriers;
        const void* pTextureBarriers;
        const D3D12_BUFFER_BARRIER* pBufferBarriers;
    };
};

// Descriptors and views

enum D3D12_DESCRIPTOR_HEAP_TYPE : uint32_t {
    D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV = 0,
    D3D12_DESCRIPTOR_HEAP_TYPE_SAMPLER = 1,
};

enum D3D12_DESCRIPTOR_HEAP_FLAGS : uint32_t {
    D3D12_DESCRIPTOR_HEAP_FLAG_NONE = 0,
    D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE = 0x1,
};

struct D3D12_DESCRIPTOR_HEAP_DESC {
    D3D12_DESCRIPTOR_HEAP_TYPE Type;
    uint32_t NumDescriptors;
    D3D12_DESCRIPTOR_HEAP_FLAGS Flags;
    uint32_t NodeMask;
};

struct D3D12_CPU_DESCRIPTOR_HANDLE {
    size_t ptr;
};

struct D3D12_GPU_DESCRIPTOR_HANDLE {
    uint64_t ptr;
};

struct D3D12_CONSTANT_BUFFER_VIEW_DESC {
    D3D12_GPU_VIRTUAL_ADDRESS BufferLocation;
    uint32_t SizeInBytes;
};

enum D3D12_SRV_DIMENSION : uint32_t {
    D3D12_SRV_DIMENSION_BUFFER = 1,
};

enum D3D12_BUFFER_SRV_FLAGS : uint32_t {
    D3D12_BUFFER_SRV_FLAG_NONE = 0,
    D3D12_BUFFER_SRV_FLAG_RAW = 0x1,
};

struct D3D12_BUFFER_SRV {
    uint64_t FirstElement;
    uint32_t NumElements;
    uint32_t StructureByteStride;
    D3D12_BUFFER_SRV_FLAGS Flags;
};

// Texture views are omitted from the two unions; the buffer view is the largest member.
struct D3D12_SHADER_RESOURCE_VIEW_DESC {
    DXGI_FORMAT Format;
    D3D12_SRV_DIMENSION ViewDimension;
    uint32_t Shader4ComponentMapping;
    union {
        D3D12_BUFFER_SRV Buffer;
    };
};

enum D3D12_UAV_DIMENSION : uint32_t {
    D3D12_UAV_DIMENSION_BUFFER = 1,
};

enum D3D12_BUFFER_UAV_FLAGS : uint32_t {
    D3D12_BUFFER_UAV_FLAG_NONE = 0,
    D3D12_BUFFER_UAV_FLAG_RAW = 0x1,
};

struct D3D12_BUFFER_UAV {
    uint64_t FirstElement;
    uint32_t NumElements;
    uint32_t StructureByteStride;
    uint64_t CounterOffsetInBytes;
    D3D12_BUFFER_UAV_FLAGS Flags;
};

struct D3D12_UNORDERED_ACCESS_VIEW_DESC {
    DXGI_FORMAT Format;
    D3D12_UAV_DIMENSION ViewDimension;
    union {
        D3D12_BUFFER_UAV Buffer;
    };
};

// Root signatures

enum D3D_ROOT_SIGNATURE_VERSION : uint32_t {
    D3D_ROOT_SIGNATURE_VERSION_1_0 = 0x1,
    D3D_ROOT_SIGNATURE_VERSION_1_1 = 0x2,
};

enum D3D12_ROOT_SIGNATURE_FLAGS : uint32_t {
    D3D12_ROOT_SIGNATURE_FLAG_NONE = 0,
    D3D12_ROOT_SIGNATURE_FLAG_CBV_SRV_UAV_HEAP_DIRECTLY_INDEXED = 0x400,
};
DMLGRAPH_FLAGS(D3D12_ROOT_SIGNATURE_FLAGS)

enum D3D12_SHADER_VISIBILITY : uint32_t {
    D3D12_SHADER_VISIBILITY_ALL = 0,
};

enum D3D12_DESCRIPTOR_RANGE_TYPE : uint32_t {
    D3D12_DESCRIPTOR_RANGE_TYPE_SRV = 0,
    D3D12_DESCRIPTOR_RANGE_TYPE_UAV = 1,
    D3D12_DESCRIPTOR_RANGE_TYPE_CBV = 2,
    D3D12_DESCRIPTOR_RANGE_TYPE_SAMPLER = 3,
};

enum D3D12_DESCRIPTOR_RANGE_FLAGS : uint32_t {
    D3D12_DESCRIPTOR_RANGE_FLAG_DESCRIPTORS_VOLATILE = 0x1,
    D3D12_DESCRIPTOR_RANGE_FLAG_DATA_VOLATILE = 0x2,
    D3D12_DESCRIPTOR_RANGE_FLAG_DATA_STATIC = 0x8,
};
DMLGRAPH_FLAGS(D3D12_DESCRIPTOR_RANGE_FLAGS)

enum D3D12_ROOT_DESCRIPTOR_FLAGS : uint32_t {
    D3D12_ROOT_DESCRIPTOR_FLAG_DATA_VOLATILE = 0x2,
    D3D12_ROOT_DESCRIPTOR_FLAG_DATA_STATIC = 0x8,
};
DMLGRAPH_FLAGS(D3D12_ROOT_DESCRIPTOR_FLAGS)

enum D3D12_ROOT_PARAMETER_TYPE : uint32_t {
    D3D12_ROOT_PARAMETER_TYPE_DESCRIPTOR_TABLE = 0,
    D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS = 1,
    D3D12_ROOT_PARAMETER_TYPE_CBV = 2,
    D3D12_ROOT_PARAMETER_TYPE_SRV = 3,
    D3D12_ROOT_PARAMETER_TYPE_UAV = 4,
};

struct D3D12_DESCRIPTOR_RANGE {
    D3D12_DESCRIPTOR_RANGE_TYPE RangeType;
    uint32_t NumDescriptors;
    uint32_t BaseShaderRegister;
    uint32_t RegisterSpace;
    uint32_t OffsetInDescriptorsFromTableStart;
};

struct D3D12_DESCRIPTOR_RANGE1 {
    D3D12_DESCRIPTOR_RANGE_TYPE RangeType;
    uint32_t NumDescriptors;
    uint32_t BaseShaderRegister;
    uint32_t RegisterSpace;
    D3D12_DESCRIPTOR_RANGE_FLAGS Flags;
    uint32_t OffsetInDescriptorsFromTableStart;
};

struct D3D12_ROOT_DESCRIPTOR_TABLE {
    uint32_t NumDescriptorRanges;
    const D3D12_DESCRIPTOR_RANGE* pDescriptorRanges;
};

struct D3D12_ROOT_DESCRIPTOR_TABLE1 {
    uint32_t NumDescriptorRanges;
    const D3D12_DESCRIPTOR_RANGE1* pDescriptorRanges;
};

struct D3D12_ROOT_CONSTANTS {
    uint32_t ShaderRegister;
    uint32_t RegisterSpace;
    uint32_t Num32BitValues;
};

struct D3D12_ROOT_DESCRIPTOR {
    uint32_t ShaderRegister;
    uint32_t RegisterSpace;
};

struct D3D12_ROOT_DESCRIPTOR1 {
    uint32_t ShaderRegister;
    uint32_t RegisterSpace;
    D3D12_ROOT_DESCRIPTOR_FLAGS Flags;
};

struct D3D12_ROOT_PARAMETER {
    D3D12_ROOT_PARAMETER_TYPE ParameterType;
    union {
        D3D12_ROOT_DESCRIPTOR_TABLE DescriptorTable;
        D3D12_ROOT_CONSTANTS Constants;
        D3D12_ROOT_DESCRIPTOR Descriptor;
    };
    D3D12_SHADER_VISIBILITY ShaderVisibility;
};

struct D3D12_ROOT_PARAMETER1 {
    D3D12_ROOT_PARAMETER_TYPE ParameterType;
    union {
        D3D12_ROOT_DESCRIPTOR_TABLE1 DescriptorTable;
        D3D12_ROOT_CONSTANTS Constants;
        D3D12_ROOT_DESCRIPTOR1 Descriptor;
    };
    D3D12_SHADER_VISIBILITY ShaderVisibility;
};

struct D3D12_STATIC_SAMPLER_DESC {
    uint32_t Filter;
    uint32_t AddressU;
    uint32_t AddressV;
    uint32_t AddressW;
    float MipLODBias;
    uint32_t MaxAnisotropy;
    uint32_t ComparisonFunc;
    uint32_t BorderColor;
    float MinLOD;
    float MaxLOD;
    uint32_t ShaderRegister;
    uint32_t RegisterSpace;
    D3D12_SHADER_VISIBILITY ShaderVisibility;
};

struct D3D12_ROOT_SIGNATURE_DESC {
    uint32_t NumParameters;
    const D3D12_ROOT_PARAMETER* pParameters;
    uint32_t NumStaticSamplers;
    const D3D12_STATIC_SAMPLER_DESC* pStaticSamplers;
    D3D12_ROOT_SIGNATURE_FLAGS Flags;
};

struct D3D12_ROOT_SIGNATURE_DESC1 {
    uint32_t NumParameters;
    const D3D12_ROOT_PARAMETER1* pParameters;
    uint32_t NumStaticSamplers;
    const D3D12_STATIC_SAMPLER_DESC* pStaticSamplers;
    D3D12_ROOT_SIGNATURE_FLAGS Flags;
};

struct D3D12_VERSIONED_ROOT_SIGNATURE_DESC {
    D3D_ROOT_SIGNATURE_VERSION Version;
    union {
        D3D12_ROOT_SIGNATURE_DESC Desc_1_0;
        D3D12_ROOT_SIGNATURE_DESC1 Desc_1_1;
    };
};

// Pipelines

struct D3D12_SHADER_BYTECODE {
    const void* pShaderBytecode;
    size_t BytecodeLength;
};

struct D3D12_CACHED_PIPELINE_STATE {
    const void* pCachedBlob;
    size_t CachedBlobSizeInBytes;
};

enum D3D12_PIPELINE_STATE_FLAGS : uint32_t {
    D3D12_PIPELINE_STATE_FLAG_NONE = 0,
};

struct D3D12_COMPUTE_PIPELINE_STATE_DESC {
    ID3D12RootSignature* pRootSignature;
    D3D12_SHADER_BYTECODE CS;
    uint32_t NodeMask;
    D3D12_CACHED_PIPELINE_STATE CachedPSO;
    D3D12_PIPELINE_STATE_FLAGS Flags;
};

struct D3D12_META_COMMAND_DESC {
    GUID Id;
    const wchar_t* Name;
    uint32_t InitializationDirtyState;
    uint32_t ExecutionDirtyState;
};

// Queues, lists, fences and queries

enum D3D12_COMMAND_LIST_TYPE : uint32_t {
    D3D12_COMMAND_LIST_TYPE_DIRECT = 0,
    D3D12_COMMAND_LIST_TYPE_COMPUTE = 2,
    D3D12_COMMAND_LIST_TYPE_COPY = 3,
};

enum D3D12_COMMAND_LIST_FLAGS : uint32_t {
    D3D12_COMMAND_LIST_FLAG_NONE = 0,
};

enum D3D12_COMMAND_QUEUE_FLAGS : uint32_t {
    D3D12_COMMAND_QUEUE_FLAG_NONE = 0,
    D3D12_COMMAND_QUEUE_FLAG_DISABLE_GPU_TIMEOUT = 0x1,
};

struct D3D12_COMMAND_QUEUE_DESC {
    D3D12_COMMAND_LIST_TYPE Type;
    int32_t Priority;
    D3D12_COMMAND_QUEUE_FLAGS Flags;
    uint32_t NodeMask;
};

enum D3D12_FENCE_FLAGS : uint32_t {
    D3D12_FENCE_FLAG_NONE = 0,
};
DMLGRAPH_FLAGS(D3D12_FENCE_FLAGS)

enum D3D12_QUERY_HEAP_TYPE : uint32_t {
    D3D12_QUERY_HEAP_TYPE_TIMESTAMP = 1,
    D3D12_QUERY_HEAP_TYPE_COPY_QUEUE_TIMESTAMP = 5,
};

struct D3D12_QUERY_HEAP_DESC {
    D3D12_QUERY_HEAP_TYPE Type;
    uint32_t Count;
    uint32_t NodeMask;
};

enum D3D12_QUERY_TYPE : uint32_t {
    D3D12_QUERY_TYPE_TIMESTAMP = 2,
};

// Features

enum D3D12_FEATURE : uint32_t {
    D3D12_FEATURE_D3D12_OPTIONS = 0,
    D3D12_FEATURE_ARCHITECTURE = 1,
    D3D12_FEATURE_FEATURE_LEVELS = 2,
    D3D12_FEATURE_SHADER_MODEL = 7,
    D3D12_FEATURE_D3D12_OPTIONS1 = 8,
    D3D12_FEATURE_ROOT_SIGNATURE = 12,
    D3D12_FEATURE_ARCHITECTURE1 = 16,
    D3D12_FEATURE_D3D12_OPTIONS4 = 23,
};

enum D3D_SHADER_MODEL : uint32_t {
    D3D_SHADER_MODEL_5_1 = 0x51,
    D3D_SHADER_MODEL_6_2 = 0x62,
    D3D_SHADER_MODEL_6_6 = 0x66,
};

enum D3D12_RESOURCE_BINDING_TIER : uint32_t {
    D3D12_RESOURCE_BINDING_TIER_3 = 3,
};

enum D3D12_RESOURCE_HEAP_TIER : uint32_t {
    D3D12_RESOURCE_HEAP_TIER_2 = 2,
};

struct D3D12_FEATURE_DATA_D3D12_OPTIONS {
    BOOL DoublePrecisionFloatShaderOps;
    BOOL OutputMergerLogicOp;
    uint32_t MinPrecisionSupport;
    uint32_t TiledResourcesTier;
    D3D12_RESOURCE_BINDING_TIER ResourceBindingTier;
    BOOL PSSpecifiedStencilRefSupported;
    BOOL TypedUAVLoadAdditionalFormats;
    BOOL ROVsSupported;
    uint32_t ConservativeRasterizationTier;
    uint32_t MaxGPUVirtualAddressBitsPerResource;
    BOOL StandardSwizzle64KBSupported;
    uint32_t CrossNodeSharingTier;
    BOOL CrossAdapterRowMajorTextureSupported;
    BOOL VPAndRTArrayIndexFromAnyShaderFeedingRasterizerSupportedWithoutGSEmulation;
    D3D12_RESOURCE_HEAP_TIER ResourceHeapTier;
};

struct D3D12_FEATURE_DATA_D3D12_OPTIONS1 {
    BOOL WaveOps;
    uint32_t WaveLaneCountMin;
    uint32_t WaveLaneCountMax;
    uint32_t TotalLaneCount;
    BOOL ExpandedComputeResourceStates;
    BOOL Int64ShaderOps;
};

struct D3D12_FEATURE_DATA_D3D12_OPTIONS4 {
    BOOL MSAA64KBAlignedTextureSupported;
    uint32_t SharedResourceCompatibilityTier;
    BOOL Native16BitShaderOpsSupported;
};

struct D3D12_FEATURE_DATA_FEATURE_LEVELS {
    uint32_t NumFeatureLevels;
    const D3D_FEATURE_LEVEL* pFeatureLevelsRequested;
    D3D_FEATURE_LEVEL MaxSupportedFeatureLevel;
};

struct D3D12_FEATURE_DATA_SHADER_MODEL {
    D3D_SHADER_MODEL HighestShaderModel;
};

struct D3D12_FEATURE_DATA_ARCHITECTURE {
    uint32_t NodeIndex;
    BOOL TileBasedRenderer;
    BOOL UMA;
    BOOL CacheCoherentUMA;
};

struct D3D12_FEATURE_DATA_ARCHITECTURE1 {
    uint32_t NodeIndex;
    BOOL TileBasedRenderer;
    BOOL UMA;
    BOOL CacheCoherentUMA;
    BOOL IsolatedMMU;
};

struct D3D12_FEATURE_DATA_ROOT_SIGNATURE {
    D3D_ROOT_SIGNATURE_VERSION HighestVersion;
};

// Interfaces

struct ID3DBlob : IUnknown {
    static constexpr IID iid = guid("8ba5fb08-5195-40e2-ac58-0d989c3a0102");
    virtual void* GetBufferPointer() = 0;
    virtual size_t GetBufferSize() = 0;
};

struct ID3D12Object : IUnknown {
    static constexpr IID iid = guid("c4fec28f-7966-4e95-9f94-f431cb56c3b8");
    virtual HRESULT GetPrivateData(const GUID& guid, uint32_t* data_size, void* data) = 0;
    virtual HRESULT SetPrivateData(const GUID& guid, uint32_t data_size, const void* data) = 0;
    virtual HRESULT SetPrivateDataInterface(const GUID& guid, const void* data) = 0;
    virtual HRESULT SetName(const wchar_t* name) = 0;
};

struct ID3D12DeviceChild : ID3D12Object {
    static constexpr IID iid = guid("905db94b-a00c-4140-9df5-2b64ca9ea357");
    virtual HRESULT GetDevice(const IID& riid, void** device) = 0;
};

struct ID3D12Pageable : ID3D12DeviceChild {
    static constexpr IID iid = guid("63ee58fb-1268-4835-86da-f008ce62f0d6");
};

struct ID3D12Resource : ID3D12Pageable {
    static constexpr IID iid = guid("696442be-a72e-4059-bc79-5b5c98040fad");
    virtual HRESULT Map(uint32_t subresource, const D3D12_RANGE* read_range, void** data) = 0;
    virtual void Unmap(uint32_t subresource, const D3D12_RANGE* written_range) = 0;
    DMLGRAPH_STRUCT_GETTER(D3D12_RESOURCE_DESC, GetDesc)
    virtual D3D12_GPU_VIRTUAL_ADDRESS GetGPUVirtualAddress() = 0;
    virtual HRESULT WriteToSubresource(uint32_t dst_subresource, const void* dst_box, const void* src_data,
                                       uint32_t src_row_pitch, uint32_t src_depth_pitch) DMLGRAPH_OPTIONAL;
    virtual HRESULT ReadFromSubresource(void* dst_data, uint32_t dst_row_pitch, uint32_t dst_depth_pitch,
                                        uint32_t src_subresource, const void* src_box) DMLGRAPH_OPTIONAL;
    virtual HRESULT GetHeapProperties(D3D12_HEAP_PROPERTIES* heap_properties, D3D12_HEAP_FLAGS* heap_flags) = 0;
};

struct ID3D12Heap : ID3D12Pageable {
    static constexpr IID iid = guid("6b3b2502-6e51-45b3-90ee-9884265e8df3");
    DMLGRAPH_STRUCT_GETTER(D3D12_HEAP_DESC, GetDesc)
};

struct ID3D12DescriptorHeap : ID3D12Pageable {
    static constexpr IID iid = guid("8efb471d-616c-4f49-90f7-127bb763fa51");
    DMLGRAPH_STRUCT_GETTER(D3D12_DESCRIPTOR_HEAP_DESC, GetDesc)
    DMLGRAPH_STRUCT_GETTER(D3D12_CPU_DESCRIPTOR_HANDLE, GetCPUDescriptorHandleForHeapStart)
    DMLGRAPH_STRUCT_GETTER(D3D12_GPU_DESCRIPTOR_HANDLE, GetGPUDescriptorHandleForHeapStart)
};

struct ID3D12Fence : ID3D12Pageable {
    static constexpr IID iid = guid("0a753dcf-c4d8-4b91-adf6-be5a60d95a76");
    virtual uint64_t GetCompletedValue() = 0;
    virtual HRESULT SetEventOnCompletion(uint64_t value, HANDLE event) = 0;
    virtual HRESULT Signal(uint64_t value) = 0;
};

struct ID3D12RootSignature : ID3D12DeviceChild {
    static constexpr IID iid = guid("c54a6b66-72df-4ee8-8be5-a946a1429214");
};

struct ID3D12PipelineState : ID3D12Pageable {
    static constexpr IID iid = guid("765a30f3-f624-4c6f-a828-ace948622445");
    virtual HRESULT GetCachedBlob(ID3DBlob** blob) DMLGRAPH_OPTIONAL;
};

struct ID3D12QueryHeap : ID3D12Pageable {
    static constexpr IID iid = guid("0d9658ae-ed45-469e-a61d-970ec583cab4");
};

struct ID3D12CommandSignature : ID3D12Pageable {
    static constexpr IID iid = guid("c36a797c-ec80-4f0a-8985-a7b2475082d1");
};

struct ID3D12CommandAllocator : ID3D12Pageable {
    static constexpr IID iid = guid("6102dee4-af59-4b09-b999-b44d73f09b24");
    virtual HRESULT Reset() = 0;
};

struct ID3D12CommandList : ID3D12DeviceChild {
    static constexpr IID iid = guid("7116d91c-e7e4-47ce-b8c6-ec8168f437e5");
    virtual D3D12_COMMAND_LIST_TYPE GetType() = 0;
};

struct ID3D12GraphicsCommandList : ID3D12CommandList {
    static constexpr IID iid = guid("5b160d0f-ac1b-4185-8ba8-b3ae42a5a455");
    virtual HRESULT Close() = 0;
    virtual HRESULT Reset(ID3D12CommandAllocator* allocator, ID3D12PipelineState* initial_state) = 0;
    virtual void ClearState(ID3D12PipelineState* pipeline_state) = 0;
    virtual void DrawInstanced(uint32_t vertex_count_per_instance, uint32_t instance_count,
                               uint32_t start_vertex_location, uint32_t start_instance_location) DMLGRAPH_OPTIONAL_VOID;
    virtual void DrawIndexedInstanced(uint32_t index_count_per_instance, uint32_t instance_count,
                                      uint32_t start_index_location, int32_t base_vertex_location,
                                      uint32_t start_instance_location) DMLGRAPH_OPTIONAL_VOID;
    virtual void Dispatch(uint32_t thread_group_count_x, uint32_t thread_group_count_y,
                          uint32_t thread_group_count_z) = 0;
    virtual void CopyBufferRegion(ID3D12Resource* dst_buffer, uint64_t dst_offset, ID3D12Resource* src_buffer,
                                  uint64_t src_offset, uint64_t num_bytes) = 0;
    virtual void CopyTextureRegion(const void* dst, uint32_t dst_x, uint32_t dst_y, uint32_t dst_z, const void* src,
                                   const void* src_box) DMLGRAPH_OPTIONAL_VOID;
    virtual void CopyResource(ID3D12Resource* dst_resource, ID3D12Resource* src_resource) = 0;
    virtual void CopyTiles(ID3D12Resource* tiled_resource, const void* tile_region_start_coordinate,
                           const void* tile_region_size, ID3D12Resource* buffer, uint64_t buffer_start_offset_in_bytes,
                           uint32_t flags) DMLGRAPH_OPTIONAL_VOID;
    virtual void ResolveSubresource(ID3D12Resource* dst_resource, uint32_t dst_subresource,
                                    ID3D12Resource* src_resource, uint32_t src_subresource,
                                    DXGI_FORMAT format) DMLGRAPH_OPTIONAL_VOID;
    virtual void IASetPrimitiveTopology(uint32_t primitive_topology) DMLGRAPH_OPTIONAL_VOID;
    virtual void RSSetViewports(uint32_t num_viewports, const void* viewports) DMLGRAPH_OPTIONAL_VOID;
    virtual void RSSetScissorRects(uint32_t num_rects, const D3D12_RECT* rects) DMLGRAPH_OPTIONAL_VOID;
    virtual void OMSetBlendFactor(const float* blend_factor) DMLGRAPH_OPTIONAL_VOID;
    virtual void OMSetStencilRef(uint32_t stencil_ref) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetPipelineState(ID3D12PipelineState* pipeline_state) = 0;
    virtual void ResourceBarrier(uint32_t num_barriers, const D3D12_RESOURCE_BARRIER* barriers) = 0;
    virtual void ExecuteBundle(ID3D12GraphicsCommandList* command_list) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetDescriptorHeaps(uint32_t num_descriptor_heaps, ID3D12DescriptorHeap* const* descriptor_heaps) = 0;
    virtual void SetComputeRootSignature(ID3D12RootSignature* root_signature) = 0;
    virtual void SetGraphicsRootSignature(ID3D12RootSignature* root_signature) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetComputeRootDescriptorTable(uint32_t root_parameter_index,
                                               D3D12_GPU_DESCRIPTOR_HANDLE base_descriptor) = 0;
    virtual void SetGraphicsRootDescriptorTable(uint32_t root_parameter_index,
                                                D3D12_GPU_DESCRIPTOR_HANDLE base_descriptor) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetComputeRoot32BitConstant(uint32_t root_parameter_index, uint32_t src_data,
                                             uint32_t dest_offset_in_32bit_values) = 0;
    virtual void SetGraphicsRoot32BitConstant(uint32_t root_parameter_index, uint32_t src_data,
                                              uint32_t dest_offset_in_32bit_values) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetComputeRoot32BitConstants(uint32_t root_parameter_index, uint32_t num_32bit_values_to_set,
                                              const void* src_data, uint32_t dest_offset_in_32bit_values) = 0;
    virtual void SetGraphicsRoot32BitConstants(uint32_t root_parameter_index, uint32_t num_32bit_values_to_set,
                                               const void* src_data,
                                               uint32_t dest_offset_in_32bit_values) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetComputeRootConstantBufferView(uint32_t root_parameter_index,
                                                  D3D12_GPU_VIRTUAL_ADDRESS buffer_location) = 0;
    virtual void SetGraphicsRootConstantBufferView(uint32_t root_parameter_index,
                                                   D3D12_GPU_VIRTUAL_ADDRESS buffer_location) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetComputeRootShaderResourceView(uint32_t root_parameter_index,
                                                  D3D12_GPU_VIRTUAL_ADDRESS buffer_location) = 0;
    virtual void SetGraphicsRootShaderResourceView(uint32_t root_parameter_index,
                                                   D3D12_GPU_VIRTUAL_ADDRESS buffer_location) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetComputeRootUnorderedAccessView(uint32_t root_parameter_index,
                                                   D3D12_GPU_VIRTUAL_ADDRESS buffer_location) = 0;
    virtual void SetGraphicsRootUnorderedAccessView(uint32_t root_parameter_index,
                                                    D3D12_GPU_VIRTUAL_ADDRESS buffer_location) DMLGRAPH_OPTIONAL_VOID;
    virtual void IASetIndexBuffer(const void* view) DMLGRAPH_OPTIONAL_VOID;
    virtual void IASetVertexBuffers(uint32_t start_slot, uint32_t num_views, const void* views) DMLGRAPH_OPTIONAL_VOID;
    virtual void SOSetTargets(uint32_t start_slot, uint32_t num_views, const void* views) DMLGRAPH_OPTIONAL_VOID;
    virtual void OMSetRenderTargets(uint32_t num_render_target_descriptors,
                                    const D3D12_CPU_DESCRIPTOR_HANDLE* render_target_descriptors,
                                    BOOL rts_single_handle_to_descriptor_range,
                                    const D3D12_CPU_DESCRIPTOR_HANDLE* depth_stencil_descriptor) DMLGRAPH_OPTIONAL_VOID;
    virtual void ClearDepthStencilView(D3D12_CPU_DESCRIPTOR_HANDLE depth_stencil_view, uint32_t clear_flags,
                                       float depth, uint8_t stencil, uint32_t num_rects,
                                       const D3D12_RECT* rects) DMLGRAPH_OPTIONAL_VOID;
    virtual void ClearRenderTargetView(D3D12_CPU_DESCRIPTOR_HANDLE render_target_view, const float* color_rgba,
                                       uint32_t num_rects, const D3D12_RECT* rects) DMLGRAPH_OPTIONAL_VOID;
    virtual void ClearUnorderedAccessViewUint(D3D12_GPU_DESCRIPTOR_HANDLE view_gpu_handle_in_current_heap,
                                              D3D12_CPU_DESCRIPTOR_HANDLE view_cpu_handle, ID3D12Resource* resource,
                                              const uint32_t* values, uint32_t num_rects, const D3D12_RECT* rects) = 0;
    virtual void ClearUnorderedAccessViewFloat(D3D12_GPU_DESCRIPTOR_HANDLE view_gpu_handle_in_current_heap,
                                               D3D12_CPU_DESCRIPTOR_HANDLE view_cpu_handle, ID3D12Resource* resource,
                                               const float* values, uint32_t num_rects, const D3D12_RECT* rects) = 0;
    virtual void DiscardResource(ID3D12Resource* resource, const void* region) DMLGRAPH_OPTIONAL_VOID;
    virtual void BeginQuery(ID3D12QueryHeap* query_heap, D3D12_QUERY_TYPE type, uint32_t index) DMLGRAPH_OPTIONAL_VOID;
    virtual void EndQuery(ID3D12QueryHeap* query_heap, D3D12_QUERY_TYPE type, uint32_t index) = 0;
    virtual void ResolveQueryData(ID3D12QueryHeap* query_heap, D3D12_QUERY_TYPE type, uint32_t start_index,
                                  uint32_t num_queries, ID3D12Resource* destination_buffer,
                                  uint64_t aligned_destination_buffer_offset) = 0;
    virtual void SetPredication(ID3D12Resource* buffer, uint64_t aligned_buffer_offset,
                                uint32_t operation) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetMarker(uint32_t metadata, const void* data, uint32_t size) = 0;
    virtual void BeginEvent(uint32_t metadata, const void* data, uint32_t size) = 0;
    virtual void EndEvent() = 0;
    virtual void ExecuteIndirect(ID3D12CommandSignature* command_signature, uint32_t max_command_count,
                                 ID3D12Resource* argument_buffer, uint64_t argument_buffer_offset,
                                 ID3D12Resource* count_buffer, uint64_t count_buffer_offset) DMLGRAPH_OPTIONAL_VOID;
};

struct ID3D12GraphicsCommandList1 : ID3D12GraphicsCommandList {
    static constexpr IID iid = guid("553103fb-1fe7-4557-bb38-946d7d0e7ca7");
    virtual void AtomicCopyBufferUINT(ID3D12Resource* dst_buffer, uint64_t dst_offset, ID3D12Resource* src_buffer,
                                      uint64_t src_offset, uint32_t dependencies, const void* dependent_resources,
                                      const void* dependent_subresource_ranges) DMLGRAPH_OPTIONAL_VOID;
    virtual void AtomicCopyBufferUINT64(ID3D12Resource* dst_buffer, uint64_t dst_offset, ID3D12Resource* src_buffer,
                                        uint64_t src_offset, uint32_t dependencies, const void* dependent_resources,
                                        const void* dependent_subresource_ranges) DMLGRAPH_OPTIONAL_VOID;
    virtual void OMSetDepthBounds(float min, float max) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetSamplePositions(uint32_t num_samples_per_pixel, uint32_t num_pixels,
                                    void* sample_positions) DMLGRAPH_OPTIONAL_VOID;
    virtual void ResolveSubresourceRegion(ID3D12Resource* dst_resource, uint32_t dst_subresource, uint32_t dst_x,
                                          uint32_t dst_y, ID3D12Resource* src_resource, uint32_t src_subresource,
                                          D3D12_RECT* src_rect, DXGI_FORMAT format,
                                          uint32_t resolve_mode) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetViewInstanceMask(uint32_t mask) DMLGRAPH_OPTIONAL_VOID;
};

struct ID3D12GraphicsCommandList2 : ID3D12GraphicsCommandList1 {
    static constexpr IID iid = guid("38c3e585-ff17-412c-9150-4fc6f9d72a28");
    virtual void WriteBufferImmediate(uint32_t count, const void* params, const void* modes) DMLGRAPH_OPTIONAL_VOID;
};

struct ID3D12GraphicsCommandList3 : ID3D12GraphicsCommandList2 {
    static constexpr IID iid = guid("6fda83a7-b84c-4e38-9ac8-c7bd22016b3d");
    virtual void SetProtectedResourceSession(void* session) DMLGRAPH_OPTIONAL_VOID;
};

struct ID3D12GraphicsCommandList4 : ID3D12GraphicsCommandList3 {
    static constexpr IID iid = guid("8754318e-d3a9-4541-98cf-645b50dc4874");
    virtual void BeginRenderPass(uint32_t num_render_targets, const void* render_targets, const void* depth_stencil,
                                 uint32_t flags) DMLGRAPH_OPTIONAL_VOID;
    virtual void EndRenderPass() DMLGRAPH_OPTIONAL_VOID;
    virtual void InitializeMetaCommand(void* meta_command, const void* parameters,
                                       size_t parameters_size) DMLGRAPH_OPTIONAL_VOID;
    virtual void ExecuteMetaCommand(void* meta_command, const void* parameters,
                                    size_t parameters_size) DMLGRAPH_OPTIONAL_VOID;
    virtual void BuildRaytracingAccelerationStructure(const void* desc, uint32_t num_descs,
                                                      const void* postbuild_info_descs) DMLGRAPH_OPTIONAL_VOID;
    virtual void EmitRaytracingAccelerationStructurePostbuildInfo(
        const void* desc, uint32_t num_structures, const D3D12_GPU_VIRTUAL_ADDRESS* structures) DMLGRAPH_OPTIONAL_VOID;
    virtual void CopyRaytracingAccelerationStructure(D3D12_GPU_VIRTUAL_ADDRESS dst, D3D12_GPU_VIRTUAL_ADDRESS src,
                                                     uint32_t mode) DMLGRAPH_OPTIONAL_VOID;
    virtual void SetPipelineState1(void* state_object) DMLGRAPH_OPTIONAL_VOID;
    virtual void DispatchRays(const void* desc) DMLGRAPH_OPTIONAL_VOID;
};

struct ID3D12GraphicsCommandList5 : ID3D12GraphicsCommandList4 {
    static constexpr IID iid = guid("55050859-4024-474c-87f5-6472eaee44ea");
    virtual void RSSetShadingRate(uint32_t base_shading_rate, const void* combiners) DMLGRAPH_OPTIONAL_VOID;
    virtual void RSSetShadingRateImage(ID3D12Resource* shading_rate_image) DMLGRAPH_OPTIONAL_VOID;
};

struct ID3D12GraphicsCommandList6 : ID3D12GraphicsCommandList5 {
    static constexpr IID iid = guid("c3827890-e548-4cfa-96cf-5689a9370f80");
    virtual void DispatchMesh(uint32_t thread_group_count_x, uint32_t thread_group_count_y,
                              uint32_t thread_group_count_z) DMLGRAPH_OPTIONAL_VOID;
};

struct ID3D12GraphicsCommandList7 : ID3D12GraphicsCommandList6 {
    static constexpr IID iid = guid("dd171223-8b61-4769-90e3-160ccde4e2c1");
    virtual void Barrier(uint32_t num_barrier_groups, const D3D12_BARRIER_GROUP* barrier_groups) = 0;
};

struct ID3D12CommandQueue : ID3D12Pageable {
    static constexpr IID iid = guid("0ec870a6-5d7e-4c22-8cfc-5baae07616ed");
    virtual void UpdateTileMappings(ID3D12Resource* resource, uint32_t num_resource_regions,
                                    const void* resource_region_start_coordinates, const void* resource_region_sizes,
                                    ID3D12Heap* heap, uint32_t num_ranges, const void* range_flags,
                                    const uint32_t* heap_range_start_offsets, const uint32_t* range_tile_counts,
                                    uint32_t flags) DMLGRAPH_OPTIONAL_VOID;
    virtual void CopyTileMappings(ID3D12Resource* dst_resource, const void* dst_region_start_coordinate,
                                  ID3D12Resource* src_resource, const void* src_region_start_coordinate,
                                  const void* region_size, uint32_t flags) DMLGRAPH_OPTIONAL_VOID;
    virtual void ExecuteCommandLists(uint32_t num_command_lists, ID3D12CommandList* const* command_lists) = 0;
    virtual void SetMarker(uint32_t metadata, const void* data, uint32_t size) = 0;
    virtual void BeginEvent(uint32_t metadata, const void* data, uint32_t size) = 0;
    virtual void EndEvent() = 0;
    virtual HRESULT Signal(ID3D12Fence* fence, uint64_t value) = 0;
    virtual HRESULT Wait(ID3D12Fence* fence, uint64_t value) = 0;
    virtual HRESULT GetTimestampFrequency(uint64_t* frequency) = 0;
    virtual HRESULT GetClockCalibration(uint64_t* gpu_timestamp, uint64_t* cpu_timestamp) = 0;
    DMLGRAPH_STRUCT_GETTER(D3D12_COMMAND_QUEUE_DESC, GetDesc)
};

struct ID3D12Device : ID3D12Object {
    static constexpr IID iid = guid("189819f1-1db6-4b57-be54-1821339b85f7");
    virtual uint32_t GetNodeCount() = 0;
    virtual HRESULT CreateCommandQueue(const D3D12_COMMAND_QUEUE_DESC* desc, const IID& riid, void** command_queue) = 0;
    virtual HRESULT CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE type, const IID& riid, void** command_allocator) = 0;
    virtual HRESULT CreateGraphicsPipelineState(const void* desc, const IID& riid,
                                                void** pipeline_state) DMLGRAPH_OPTIONAL;
    virtual HRESULT CreateComputePipelineState(const D3D12_COMPUTE_PIPELINE_STATE_DESC* desc, const IID& riid,
                                               void** pipeline_state) = 0;
    virtual HRESULT CreateCommandList(uint32_t node_mask, D3D12_COMMAND_LIST_TYPE type,
                                      ID3D12CommandAllocator* command_allocator, ID3D12PipelineState* initial_state,
                                      const IID& riid, void** command_list) = 0;
    virtual HRESULT CheckFeatureSupport(D3D12_FEATURE feature, void* feature_support_data,
                                        uint32_t feature_support_data_size) = 0;
    virtual HRESULT CreateDescriptorHeap(const D3D12_DESCRIPTOR_HEAP_DESC* descriptor_heap_desc, const IID& riid,
                                         void** heap) = 0;
    virtual uint32_t GetDescriptorHandleIncrementSize(D3D12_DESCRIPTOR_HEAP_TYPE descriptor_heap_type) = 0;
    virtual HRESULT CreateRootSignature(uint32_t node_mask, const void* blob_with_root_signature,
                                        size_t blob_length_in_bytes, const IID& riid, void** root_signature) = 0;
    virtual void CreateConstantBufferView(const D3D12_CONSTANT_BUFFER_VIEW_DESC* desc,
                                          D3D12_CPU_DESCRIPTOR_HANDLE dest_descriptor) = 0;
    virtual void CreateShaderResourceView(ID3D12Resource* resource, const D3D12_SHADER_RESOURCE_VIEW_DESC* desc,
                                          D3D12_CPU_DESCRIPTOR_HANDLE dest_descriptor) = 0;
    virtual void CreateUnorderedAccessView(ID3D12Resource* resource, ID3D12Resource* counter_resource,
                                           const D3D12_UNORDERED_ACCESS_VIEW_DESC* desc,
                                           D3D12_CPU_DESCRIPTOR_HANDLE dest_descriptor) = 0;
    virtual void CreateRenderTargetView(ID3D12Resource* resource, const void* desc,
                                        D3D12_CPU_DESCRIPTOR_HANDLE dest_descriptor) DMLGRAPH_OPTIONAL_VOID;
    virtual void CreateDepthStencilView(ID3D12Resource* resource, const void* desc,
                                        D3D12_CPU_DESCRIPTOR_HANDLE dest_descriptor) DMLGRAPH_OPTIONAL_VOID;
    virtual void CreateSampler(const void* desc, D3D12_CPU_DESCRIPTOR_HANDLE dest_descriptor) DMLGRAPH_OPTIONAL_VOID;
    virtual void CopyDescriptors(uint32_t num_dest_descriptor_ranges,
                                 const D3D12_CPU_DESCRIPTOR_HANDLE* dest_descriptor_range_starts,
                                 const uint32_t* dest_descriptor_range_sizes, uint32_t num_src_descriptor_ranges,
                                 const D3D12_CPU_DESCRIPTOR_HANDLE* src_descriptor_range_starts,
                                 const uint32_t* src_descriptor_range_sizes,
                                 D3D12_DESCRIPTOR_HEAP_TYPE descriptor_heaps_type) = 0;
    virtual void CopyDescriptorsSimple(uint32_t num_descriptors,
                                       D3D12_CPU_DESCRIPTOR_HANDLE dest_descriptor_range_start,
                                       D3D12_CPU_DESCRIPTOR_HANDLE src_descriptor_range_start,
                                       D3D12_DESCRIPTOR_HEAP_TYPE descriptor_heaps_type) = 0;
    DMLGRAPH_STRUCT_METHOD(D3D12_RESOURCE_ALLOCATION_INFO, GetResourceAllocationInfo, uint32_t visible_mask,
                           uint32_t num_resource_descs, const D3D12_RESOURCE_DESC* resource_descs);
    DMLGRAPH_STRUCT_METHOD(D3D12_HEAP_PROPERTIES, GetCustomHeapProperties, uint32_t node_mask,
                           D3D12_HEAP_TYPE heap_type);
    virtual HRESULT CreateCommittedResource(const D3D12_HEAP_PROPERTIES* heap_properties, D3D12_HEAP_FLAGS heap_flags,
                                            const D3D12_RESOURCE_DESC* desc,
                                            D3D12_RESOURCE_STATES initial_resource_state,
                                            const void* optimized_clear_value, const IID& riid_resource,
                                            void** resource) = 0;
    virtual HRESULT CreateHeap(const D3D12_HEAP_DESC* desc, const IID& riid, void** heap) = 0;
    virtual HRESULT CreatePlacedResource(ID3D12Heap* heap, uint64_t heap_offset, const D3D12_RESOURCE_DESC* desc,
                                         D3D12_RESOURCE_STATES initial_state, const void* optimized_clear_value,
                                         const IID& riid, void** resource) = 0;
    virtual HRESULT CreateReservedResource(const D3D12_RESOURCE_DESC* desc, D3D12_RESOURCE_STATES initial_state,
                                           const void* optimized_clear_value, const IID& riid,
                                           void** resource) DMLGRAPH_OPTIONAL;
    virtual HRESULT CreateSharedHandle(ID3D12DeviceChild* object, const void* attributes, uint32_t access,
                                       const wchar_t* name, HANDLE* handle) DMLGRAPH_OPTIONAL;
    virtual HRESULT OpenSharedHandle(HANDLE nt_handle, const IID& riid, void** obj) DMLGRAPH_OPTIONAL;
    virtual HRESULT OpenSharedHandleByName(const wchar_t* name, uint32_t access, HANDLE* nt_handle) DMLGRAPH_OPTIONAL;
    virtual HRESULT MakeResident(uint32_t num_objects, ID3D12Pageable* const* objects) = 0;
    virtual HRESULT Evict(uint32_t num_objects, ID3D12Pageable* const* objects) = 0;
    virtual HRESULT CreateFence(uint64_t initial_value, D3D12_FENCE_FLAGS flags, const IID& riid, void** fence) = 0;
    virtual HRESULT GetDeviceRemovedReason() = 0;
    virtual void GetCopyableFootprints(const D3D12_RESOURCE_DESC* resource_desc, uint32_t first_subresource,
                                       uint32_t num_subresources, uint64_t base_offset, void* layouts,
                                       uint32_t* num_rows, uint64_t* row_size_in_bytes,
                                       uint64_t* total_bytes) DMLGRAPH_OPTIONAL_VOID;
    virtual HRESULT CreateQueryHeap(const D3D12_QUERY_HEAP_DESC* desc, const IID& riid, void** heap) = 0;
    virtual HRESULT SetStablePowerState(BOOL enable) DMLGRAPH_OPTIONAL;
    virtual HRESULT CreateCommandSignature(const void* desc, ID3D12RootSignature* root_signature, const IID& riid,
                                           void** command_signature) DMLGRAPH_OPTIONAL;
    virtual void GetResourceTiling(ID3D12Resource* tiled_resource, uint32_t* num_tiles_for_entire_resource,
                                   void* packed_mip_desc, void* standard_tile_shape_for_non_packed_mips,
                                   uint32_t* num_subresource_tilings, uint32_t first_subresource_tiling_to_get,
                                   void* subresource_tilings_for_non_packed_mips) DMLGRAPH_OPTIONAL_VOID;
    DMLGRAPH_STRUCT_GETTER(LUID, GetAdapterLuid)
};

struct ID3D12Device1 : ID3D12Device {
    static constexpr IID iid = guid("77acce80-638e-4e65-8895-c1f23386863e");
    virtual HRESULT CreatePipelineLibrary(const void* library_blob, size_t blob_length, const IID& riid,
                                          void** pipeline_library) DMLGRAPH_OPTIONAL;
    virtual HRESULT SetEventOnMultipleFenceCompletion(ID3D12Fence* const* fences, const uint64_t* fence_values,
                                                      uint32_t num_fences, uint32_t flags,
                                                      HANDLE event) DMLGRAPH_OPTIONAL;
    virtual HRESULT SetResidencyPriority(uint32_t num_objects, ID3D12Pageable* const* objects,
                                         const void* priorities) = 0;
};

struct ID3D12Device2 : ID3D12Device1 {
    static constexpr IID iid = guid("30baa41e-b15b-475c-a0bb-1af5c5b64328");
    virtual HRESULT CreatePipelineState(const void* desc, const IID& riid, void** pipeline_state) DMLGRAPH_OPTIONAL;
};

struct ID3D12Device3 : ID3D12Device2 {
    static constexpr IID iid = guid("81dadc15-2bad-4392-93c5-101345c4aa98");
    virtual HRESULT OpenExistingHeapFromAddress(const void* address, const IID& riid, void** heap) DMLGRAPH_OPTIONAL;
    virtual HRESULT OpenExistingHeapFromFileMapping(HANDLE file_mapping, const IID& riid,
                                                    void** heap) DMLGRAPH_OPTIONAL;
    virtual HRESULT EnqueueMakeResident(uint32_t flags, uint32_t num_objects, ID3D12Pageable* const* objects,
                                        ID3D12Fence* fence_to_signal, uint64_t fence_value_to_signal) DMLGRAPH_OPTIONAL;
};

struct ID3D12Device4 : ID3D12Device3 {
    static constexpr IID iid = guid("e865df17-a9ee-46f9-a463-3098315aa2e5");
    virtual HRESULT CreateCommandList1(uint32_t node_mask, D3D12_COMMAND_LIST_TYPE type, D3D12_COMMAND_LIST_FLAGS flags,
                                       const IID& riid, void** command_list) = 0;
    virtual HRESULT CreateProtectedResourceSession(const void* desc, const IID& riid, void** session) DMLGRAPH_OPTIONAL;
    virtual HRESULT CreateCommittedResource1(const D3D12_HEAP_PROPERTIES* heap_properties, D3D12_HEAP_FLAGS heap_flags,
                                             const D3D12_RESOURCE_DESC* desc,
                                             D3D12_RESOURCE_STATES initial_resource_state,
                                             const void* optimized_clear_value, void* protected_session,
                                             const IID& riid_resource, void** resource) DMLGRAPH_OPTIONAL;
    virtual HRESULT CreateHeap1(const D3D12_HEAP_DESC* desc, void* protected_session, const IID& riid,
                                void** heap) DMLGRAPH_OPTIONAL;
    virtual HRESULT CreateReservedResource1(const D3D12_RESOURCE_DESC* desc, D3D12_RESOURCE_STATES initial_state,
                                            const void* optimized_clear_value, void* protected_session, const IID& riid,
                                            void** resource) DMLGRAPH_OPTIONAL;
    DMLGRAPH_STRUCT_METHOD(D3D12_RESOURCE_ALLOCATION_INFO, GetResourceAllocationInfo1, uint32_t visible_mask,
                           uint32_t num_resource_descs, const D3D12_RESOURCE_DESC* resource_descs,
                           D3D12_RESOURCE_ALLOCATION_INFO1* resource_allocation_info1);
};

struct ID3D12Device5 : ID3D12Device4 {
    static constexpr IID iid = guid("8b4f173b-2fea-4b80-8f58-4307191ab95d");
    virtual HRESULT CreateLifetimeTracker(void* owner, const IID& riid, void** tracker) DMLGRAPH_OPTIONAL;
    virtual void RemoveDevice() = 0;
    virtual HRESULT EnumerateMetaCommands(uint32_t* num_meta_commands, D3D12_META_COMMAND_DESC* descs) = 0;
    virtual HRESULT EnumerateMetaCommandParameters(const GUID& command_id, uint32_t stage,
                                                   uint32_t* total_structure_size_in_bytes, uint32_t* parameter_count,
                                                   void* parameter_descs) DMLGRAPH_OPTIONAL;
    virtual HRESULT CreateMetaCommand(const GUID& command_id, uint32_t node_mask, const void* creation_parameters_data,
                                      size_t creation_parameters_data_size_in_bytes, const IID& riid,
                                      void** meta_command) DMLGRAPH_OPTIONAL;
    virtual HRESULT CreateStateObject(const void* desc, const IID& riid, void** state_object) DMLGRAPH_OPTIONAL;
    virtual void GetRaytracingAccelerationStructurePrebuildInfo(const void* desc, void* info) DMLGRAPH_OPTIONAL_VOID;
    virtual uint32_t CheckDriverMatchingIdentifier(uint32_t serialized_data_type,
                                                   const void* identifier_to_check) DMLGRAPH_OPTIONAL;
};

// The debug layer

enum D3D12_MESSAGE_SEVERITY : uint32_t {
    D3D12_MESSAGE_SEVERITY_ERROR = 1,
    D3D12_MESSAGE_SEVERITY_WARNING = 2,
};

struct D3D12_MESSAGE {
    uint32_t Category;
    D3D12_MESSAGE_SEVERITY Severity;
    uint32_t ID;
    const char* pDescription;
    size_t DescriptionByteLength;
};

struct ID3D12Debug : IUnknown {
    static constexpr IID iid = guid("344488b7-6846-474b-b989-f027448245e0");
    virtual void EnableDebugLayer() = 0;
};

struct ID3D12Debug1 : IUnknown {
    static constexpr IID iid = guid("affaa4ca-63fe-4d8e-b8ad-159000af4304");
    virtual void EnableDebugLayer() = 0;
    virtual void SetEnableGPUBasedValidation(BOOL enable) = 0;
    virtual void SetEnableSynchronizedCommandQueueValidation(BOOL enable) = 0;
};

// What the system notes for the case that a device is removed (DRED)

enum D3D12_DRED_ENABLEMENT : uint32_t {
    D3D12_DRED_ENABLEMENT_FORCED_ON = 2,
};

// Those of compute lists.
enum D3D12_AUTO_BREADCRUMB_OP : uint32_t {
    D3D12_AUTO_BREADCRUMB_OP_SETMARKER = 0,
    D3D12_AUTO_BREADCRUMB_OP_BEGINEVENT = 1,
    D3D12_AUTO_BREADCRUMB_OP_ENDEVENT = 2,
    D3D12_AUTO_BREADCRUMB_OP_EXECUTEINDIRECT = 5,
    D3D12_AUTO_BREADCRUMB_OP_DISPATCH = 6,
    D3D12_AUTO_BREADCRUMB_OP_COPYBUFFERREGION = 7,
    D3D12_AUTO_BREADCRUMB_OP_COPYRESOURCE = 9,
    D3D12_AUTO_BREADCRUMB_OP_CLEARUNORDEREDACCESSVIEW = 13,
    D3D12_AUTO_BREADCRUMB_OP_RESOURCEBARRIER = 15,
    D3D12_AUTO_BREADCRUMB_OP_RESOLVEQUERYDATA = 18,
};

struct D3D12_AUTO_BREADCRUMB_NODE {
    const char* pCommandListDebugNameA;
    const wchar_t* pCommandListDebugNameW;
    const char* pCommandQueueDebugNameA;
    const wchar_t* pCommandQueueDebugNameW;
    ID3D12GraphicsCommandList* pCommandList;
    ID3D12CommandQueue* pCommandQueue;
    uint32_t BreadcrumbCount;
    const uint32_t* pLastBreadcrumbValue;
    const D3D12_AUTO_BREADCRUMB_OP* pCommandHistory;
    const D3D12_AUTO_BREADCRUMB_NODE* pNext;
};

struct D3D12_DRED_AUTO_BREADCRUMBS_OUTPUT {
    const D3D12_AUTO_BREADCRUMB_NODE* pHeadAutoBreadcrumbNode;
};

struct D3D12_DRED_ALLOCATION_NODE {
    const char* ObjectNameA;
    const wchar_t* ObjectNameW;
    uint32_t AllocationType;
    const D3D12_DRED_ALLOCATION_NODE* pNext;
};

struct D3D12_DRED_PAGE_FAULT_OUTPUT {
    D3D12_GPU_VIRTUAL_ADDRESS PageFaultVA;
    const D3D12_DRED_ALLOCATION_NODE* pHeadExistingAllocationNode;
    const D3D12_DRED_ALLOCATION_NODE* pHeadRecentFreedAllocationNode;
};

struct ID3D12DeviceRemovedExtendedDataSettings : IUnknown {
    static constexpr IID iid = guid("82bc481c-6b9b-4030-aedb-7ee3d1df1e63");
    virtual void SetAutoBreadcrumbsEnablement(D3D12_DRED_ENABLEMENT enablement) = 0;
    virtual void SetPageFaultEnablement(D3D12_DRED_ENABLEMENT enablement) = 0;
    virtual void SetWatsonDumpEnablement(D3D12_DRED_ENABLEMENT enablement) = 0;
};

struct ID3D12DeviceRemovedExtendedData : IUnknown {
    static constexpr IID iid = guid("98931d33-5ae8-4791-aa3c-1a73a2934e71");
    virtual HRESULT GetAutoBreadcrumbsOutput(D3D12_DRED_AUTO_BREADCRUMBS_OUTPUT* output) = 0;
    virtual HRESULT GetPageFaultAllocationOutput(D3D12_DRED_PAGE_FAULT_OUTPUT* output) = 0;
};

struct ID3D12InfoQueue : IUnknown {
    static constexpr IID iid = guid("0742a90b-c387-483f-b946-30a7e4e61458");
    virtual HRESULT SetMessageCountLimit(uint64_t message_count_limit) DMLGRAPH_OPTIONAL;
    virtual void ClearStoredMessages() = 0;
    virtual HRESULT GetMessage(uint64_t message_index, D3D12_MESSAGE* message, size_t* message_byte_length) = 0;
    virtual uint64_t GetNumMessagesAllowedByStorageFilter() DMLGRAPH_OPTIONAL;
    virtual uint64_t GetNumMessagesDeniedByStorageFilter() DMLGRAPH_OPTIONAL;
    virtual uint64_t GetNumStoredMessages() = 0;
    virtual uint64_t GetNumStoredMessagesAllowedByRetrievalFilter() DMLGRAPH_OPTIONAL;
    virtual uint64_t GetNumMessagesDiscardedByMessageCountLimit() DMLGRAPH_OPTIONAL;
    virtual uint64_t GetMessageCountLimit() DMLGRAPH_OPTIONAL;
    virtual HRESULT AddStorageFilterEntries(void* filter) DMLGRAPH_OPTIONAL;
    virtual HRESULT GetStorageFilter(void* filter, size_t* filter_byte_length) DMLGRAPH_OPTIONAL;
    virtual void ClearStorageFilter() DMLGRAPH_OPTIONAL_VOID;
    virtual HRESULT PushEmptyStorageFilter() DMLGRAPH_OPTIONAL;
    virtual HRESULT PushCopyOfStorageFilter() DMLGRAPH_OPTIONAL;
    virtual HRESULT PushStorageFilter(void* filter) DMLGRAPH_OPTIONAL;
    virtual void PopStorageFilter() DMLGRAPH_OPTIONAL_VOID;
    virtual uint32_t GetStorageFilterStackSize() DMLGRAPH_OPTIONAL;
    virtual HRESULT AddRetrievalFilterEntries(void* filter) DMLGRAPH_OPTIONAL;
    virtual HRESULT GetRetrievalFilter(void* filter, size_t* filter_byte_length) DMLGRAPH_OPTIONAL;
    virtual void ClearRetrievalFilter() DMLGRAPH_OPTIONAL_VOID;
    virtual HRESULT PushEmptyRetrievalFilter() DMLGRAPH_OPTIONAL;
    virtual HRESULT PushCopyOfRetrievalFilter() DMLGRAPH_OPTIONAL;
    virtual HRESULT PushRetrievalFilter(void* filter) DMLGRAPH_OPTIONAL;
    virtual void PopRetrievalFilter() DMLGRAPH_OPTIONAL_VOID;
    virtual uint32_t GetRetrievalFilterStackSize() DMLGRAPH_OPTIONAL;
    virtual HRESULT AddMessage(uint32_t category, D3D12_MESSAGE_SEVERITY severity, uint32_t id,
                               const char* description) DMLGRAPH_OPTIONAL;
    virtual HRESULT AddApplicationMessage(D3D12_MESSAGE_SEVERITY severity, const char* description) DMLGRAPH_OPTIONAL;
    virtual HRESULT SetBreakOnCategory(uint32_t category, BOOL enable) DMLGRAPH_OPTIONAL;
    virtual HRESULT SetBreakOnSeverity(D3D12_MESSAGE_SEVERITY severity, BOOL enable) DMLGRAPH_OPTIONAL;
    virtual HRESULT SetBreakOnID(uint32_t id, BOOL enable) DMLGRAPH_OPTIONAL;
    virtual BOOL GetBreakOnCategory(uint32_t category) DMLGRAPH_OPTIONAL;
    virtual BOOL GetBreakOnSeverity(D3D12_MESSAGE_SEVERITY severity) DMLGRAPH_OPTIONAL;
    virtual BOOL GetBreakOnID(uint32_t id) DMLGRAPH_OPTIONAL;
    virtual void SetMuteDebugOutput(BOOL mute) DMLGRAPH_OPTIONAL_VOID;
    virtual BOOL GetMuteDebugOutput() DMLGRAPH_OPTIONAL;
};

// Functions of the library, which are looked up by name.
using D3D12CreateDeviceFunction = HRESULT(IUnknown* adapter, D3D_FEATURE_LEVEL minimum, const IID& riid, void** device);
using D3D12GetDebugInterfaceFunction = HRESULT(const IID& riid, void** debug);
using D3D12SerializeVersionedRootSignatureFunction = HRESULT(const D3D12_VERSIONED_ROOT_SIGNATURE_DESC* desc,
                                                             ID3DBlob** blob, ID3DBlob** error_blob);

}  // namespace dmlgraph::abi

#ifdef DMLGRAPH_SOFTWARE_ADAPTER
#pragma GCC diagnostic pop
#endif
