// The DirectML graph @{title}, as a class that records it on your command list.
//
// Exported by dmlgraph; export it again rather than change it. README.md shows every step, runner.h is an example.
//
// The class records: it never executes, waits, or throws, and allocates only in Create. Descriptors, memory and queue are
// yours. One thread at a time may use an object; different objects are independent, and nothing is static.
//
// States of resources: every buffer is in D3D12_RESOURCE_STATE_UNORDERED_ACCESS when a list reaches RecordInitialize or
// Record, and when it leaves them. Only `staging` is a buffer in an upload heap. Each of the two ends with a UAV barrier,
// so that what follows on the list may read the results, and may use the same temporary memory.
#pragma once

#ifdef _WIN32
#include <windows.h>
#else
#include <wsl/winadapter.h>
#endif
#ifndef DML_TARGET_VERSION_USE_LATEST
#define DML_TARGET_VERSION_USE_LATEST  // all operators of DirectML.h, whatever the version of Windows
#endif
#include <DirectML.h>

namespace @{namespace} {

// ---- What the graph is

inline constexpr char Name[] = @{name};

// What the device must support. A DirectML.dll 1.15 beside the program has level 6.4, and with it every one.
inline constexpr DML_FEATURE_LEVEL RequiredLevel = DML_FEATURE_LEVEL_@{level};

// The value of each is its place in the arrays of Initialization and Run.
enum class Input : UINT {@{input_names}};
enum class Output : UINT {@{output_names}};
enum class State : UINT {@{state_names}};

inline constexpr UINT InputCount = @{input_count};
inline constexpr UINT OutputCount = @{output_count};
inline constexpr UINT StateCount = @{state_count};

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

// An array in C++ has at least one element; only the first InputCount and OutputCount count.
inline constexpr TensorInfo Inputs[] = {
@{inputs}
};
inline constexpr TensorInfo Outputs[] = {
@{outputs}
};

// A tensor that lives from run to run.
struct StateInfo {
    TensorInfo tensor;
    bool grows;             // each run appends rows; else each run replaces all of it, or nothing
    UINT buffers;           // how many a set has: 2 take turns
    UINT capacity;          // rows, if it grows
    UINT rows;              // that each run appends
    UINT64 initialOffset;   // in weights.bin, of what it holds at first; NoOffset: zeros
};
inline constexpr UINT64 NoOffset = ~static_cast<UINT64>(0);
inline constexpr StateInfo States[] = {
@{states}
};

// ---- The memory that it needs, besides that of inputs, outputs and states. Of what is 0 bytes, bind nothing.

inline constexpr UINT64 TensorAlignment = 16;   // of the offset of each tensor, DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT
inline constexpr UINT64 BufferAlignment = 256;  // of the offsets of weights, persistent and temporary memory, and scratch

// The parts of weights.bin, each for a buffer of its own: Direct3D 12 cannot bind more than 4 GiB - 64 KiB.
struct WeightInfo {
    UINT64 fileOffset;
    UINT64 bytes;
    bool stays;  // each run reads it; else only the initialisation does
};
inline constexpr UINT WeightCount = @{weight_count};
inline constexpr WeightInfo Weights[] = {
@{weights}
};
inline constexpr UINT64 WeightsFileBytes = @{file_bytes};

inline constexpr UINT64 ScratchBytes = @{scratch_bytes};  // of a run with growing states: lengths, and new rows
inline constexpr UINT64 StagingBytes = @{staging_bytes};  // in an upload heap, of each run in flight: lengths

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

struct Initialization {
    Descriptors descriptors;
    Buffer inputs[@{input_places}];    // of those that are owned
    Buffer weights[@{weight_places}];  // what is in weights.bin
    Buffer persistent;         // PersistentBytes(), kept as long as the graph runs
    Buffer temporary;          // InitializationBytes()
};

// Several graphs, and runs that do not overlap, may share temporary memory and scratch.
struct Run {
    Descriptors descriptors;
    Buffer inputs[@{input_places}];    // of those that are not owned
    Buffer outputs[@{output_places}];
    Buffer weights[@{weight_places}];  // those that stay
    Buffer persistent;
    Buffer temporary;          // TemporaryBytes()
    Buffer scratch;            // in another resource than growing states
    Buffer staging;
    void* stagingMemory;       // where `staging`, with its offset, is mapped
};

// A set of states: one conversation, one stream. Plain data that is yours: a copy before Record restores it if the list is
// not executed after all. A set serves every graph that has states of the same types and sizes.
struct StateSet {
    Buffer buffers[@{state_places}][2];
    UINT current[@{state_places}];  // which of two buffers holds the value
    UINT lengths[@{state_places}];  // rows of growing states; setting less rewinds, and costs nothing
};

// What failed: a call of Direct3D 12 or DirectML, and the node, tensor or state that it was about, or null.
struct Error {
    HRESULT code;
    const char* call;
    const char* node;
};

class Graph {
public:
    Graph() noexcept = default;
    ~Graph() { Release(); }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    // Checks the feature level and data types of the device, and compiles. This is slow, and the only function that
    // allocates. `flags` allow half precision, disable metacommands, or make descriptors volatile, as CompileGraph's.
    HRESULT Create(IDMLDevice* device, DML_EXECUTION_FLAGS flags = DML_EXECUTION_FLAG_NONE) noexcept;

    // Lets go of everything, also of a lost device: then release what else holds it, make a new one, and create again.
    void Release() noexcept;

    // After Create.
    UINT DescriptorCount() const noexcept { return descriptorCount_; }
    UINT64 PersistentBytes() const noexcept { return persistentBytes_; }
    UINT64 InitializationBytes() const noexcept { return initializationBytes_; }
    UINT64 TemporaryBytes() const noexcept { return temporaryBytes_; }

    // Records the initialisation: once, before the first run. Your fence has `fenceValue` when the list has ended.
    HRESULT RecordInitialize(ID3D12GraphicsCommandList* list, const Initialization& given, UINT64 fenceValue) noexcept;

    // True once the fence's completed value says that the initialisation has ended. From then on you may free its temporary
    // memory, its descriptors, the weights that do not stay, and owned inputs.
    bool ReleaseStaging(UINT64 completedValue) noexcept;

    // Records a run. `states`: all of them change when the list is executed; the set then says what they hold after it.
    HRESULT Record(ID3D12GraphicsCommandList* list, const Run& given, StateSet* states = nullptr) noexcept;

    // Of the last function that did not return S_OK.
    const Error& LastError() const noexcept { return error_; }

    // Writes what a state holds at first to memory that you upload: States[state].tensor.bytes bytes.
    static void WriteInitial(State state, const void* weightsFile, void* memory) noexcept;

private:
    HRESULT Fail(HRESULT code, const char* call, const char* node = nullptr) noexcept;
    HRESULT CheckSupport() noexcept;
    HRESULT Compile(DML_EXECUTION_FLAGS flags) noexcept;
    HRESULT Prepare() noexcept;
    HRESULT ResetTable(IDMLBindingTable* table, IDMLDispatchable* dispatchable, const Descriptors& descriptors) noexcept;
    HRESULT BindInputs(const Run& given, const StateSet* states) noexcept;
    HRESULT BindOutputs(const Run& given, const StateSet* states) noexcept;
    HRESULT CheckStates(const Run& given, const StateSet* states) noexcept;
    void RecordDispatch(ID3D12GraphicsCommandList* list, IDMLDispatchable* dispatchable, IDMLBindingTable* table,
                        const Descriptors& descriptors) noexcept;

    IDMLDevice1* device_ = nullptr;
    IDMLCommandRecorder* recorder_ = nullptr;
    IDMLCompiledOperator* compiled_ = nullptr;
    IDMLOperatorInitializer* initializer_ = nullptr;
    IDMLBindingTable* initializationTable_ = nullptr;
    IDMLBindingTable* table_ = nullptr;
    DML_BUFFER_BINDING* bindings_ = nullptr;  // of the call in progress
    DML_BINDING_DESC* descs_ = nullptr;
    UINT descriptorCount_ = 0;
    UINT64 persistentBytes_ = 0;
    UINT64 initializationBytes_ = 0;
    UINT64 temporaryBytes_ = 0;
    UINT64 initializedAt_ = 0;
    bool initialized_ = false;
    Error error_ = {};
};

}  // namespace @{namespace}
