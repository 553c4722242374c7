// What every graph that dmlgraph exports is described with, and what it is given. The same file lies in the folder of each:
// programs with several graphs see it once.
#ifndef DMLGRAPH_TYPES_H
#define DMLGRAPH_TYPES_H

#ifdef _WIN32
#include <windows.h>
#else
#include <wsl/winadapter.h>
#endif
#ifndef DML_TARGET_VERSION_USE_LATEST
#define DML_TARGET_VERSION_USE_LATEST  // all operators of DirectML.h, whatever the version of Windows
#endif
#include <DirectML.h>

namespace dmlgraph {

// ---- What a graph is

// A tensor in a buffer.
struct TensorInfo {
    const char* name;
    DML_TENSOR_DATA_TYPE type;
    UINT rank;
    UINT sizes[8];
    UINT strides[8];  // in elements
    UINT64 bytes;     // of the buffer
    bool owned;       // an input that DirectML takes at the initialisation, not at each run
};

// A tensor that lives from run to run.
struct StateInfo {
    TensorInfo tensor;
    bool grows;            // each run appends rows; else each run replaces all of it, or nothing
    UINT buffers;          // how many a set has: 2 take turns
    UINT capacity;         // rows, if it grows
    UINT rows;             // that each run appends
    UINT64 initialOffset;  // in weights.bin, of what it holds at first; NoOffset: zeros
};
inline constexpr UINT64 NoOffset = ~static_cast<UINT64>(0);

// A part of weights.bin, for a buffer of its own: Direct3D 12 cannot bind more than 4 GiB - 64 KiB.
struct WeightInfo {
    UINT64 fileOffset;
    UINT64 bytes;
    bool stays;  // each run reads it; else only the initialisation does
};

inline constexpr UINT64 TensorAlignment = 16;   // of the offset of each tensor, DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT
inline constexpr UINT64 BufferAlignment = 256;  // of the offsets of weights, persistent and temporary memory, and scratch

// ---- What you give

struct Buffer {
    ID3D12Resource* resource;
    UINT64 offset;
};

// A range of DescriptorCount() descriptors in your shader-visible heap. Each run in flight has its own range.
struct Descriptors {
    D3D12_CPU_DESCRIPTOR_HANDLE cpu;
    D3D12_GPU_DESCRIPTOR_HANDLE gpu;
    ID3D12DescriptorHeap* heap;  // to be set on the list; null: you have set it
};

// The barriers that are recorded: ID3D12GraphicsCommandList::ResourceBarrier, or ID3D12GraphicsCommandList7::Barrier, for
// devices with D3D12_FEATURE_DATA_D3D12_OPTIONS12::EnhancedBarriersSupported.
enum class Barriers { Legacy, Enhanced };

// What a state holds. One of each state of a graph is a set: one conversation, one stream. It is plain data and yours: a
// copy before Record restores it if the list is not executed after all.
struct StateValue {
    Buffer buffers[2];  // the second one if it has two
    UINT current;       // which of two buffers holds the value
    UINT length;        // rows of a growing state; setting less rewinds, and costs nothing
};

// ---- What failed: a call of Direct3D 12 or DirectML, and the node, tensor or state that it was about, or null.

struct Error {
    HRESULT code;
    const char* call;
    const char* node;
};

}  // namespace dmlgraph

#endif
