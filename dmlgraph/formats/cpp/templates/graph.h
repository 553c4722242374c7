// The DirectML graph @{title}, as a class that records it on your command list.
//
// Exported by dmlgraph; export it again rather than change it. README.md shows every step, runner.h is an example.
//
// The class records: it never executes, waits, or throws, and allocates only in Create. Descriptors, memory and queue are
// yours. One thread at a time may use an object; different objects are independent, and nothing is static.
//
// States of resources: every buffer is in D3D12_RESOURCE_STATE_UNORDERED_ACCESS when a list reaches RecordInitialize or
// Record, and when it leaves them. Only `staging` is a buffer in an upload heap. Each of the two ends with a UAV barrier,
// so that what follows on the list may read the results, and may use the same temporary memory. With enhanced barriers
// the same holds of D3D12_BARRIER_ACCESS_UNORDERED_ACCESS, and what comes before and behind is D3D12_BARRIER_SYNC_ALL.
#pragma once

#include "types.h"

namespace @{namespace} {

using dmlgraph::Barriers;
using dmlgraph::Buffer;
using dmlgraph::BufferAlignment;
using dmlgraph::Descriptors;
using dmlgraph::Error;
using dmlgraph::NoOffset;
using dmlgraph::StateInfo;
using dmlgraph::StateValue;
using dmlgraph::TensorAlignment;
using dmlgraph::TensorInfo;
using dmlgraph::WeightInfo;

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

// An array in C++ has at least one element; only the first InputCount and OutputCount count.
inline constexpr TensorInfo Inputs[] = {
@{inputs}
};
inline constexpr TensorInfo Outputs[] = {
@{outputs}
};

inline constexpr StateInfo States[] = {
@{states}
};

// ---- The memory that it needs, besides that of inputs, outputs and states. Of what is 0 bytes, bind nothing.

// The parts of weights.bin@{shared}.
inline constexpr UINT WeightCount = @{weight_count};
inline constexpr WeightInfo Weights[] = {
@{weights}
};
inline constexpr UINT64 WeightsFileBytes = @{file_bytes};

inline constexpr UINT64 ScratchBytes = @{scratch_bytes};  // of a run with growing states: lengths, and new rows
inline constexpr UINT64 StagingBytes = @{staging_bytes};  // in an upload heap, of each run in flight: lengths

// ---- What you give

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

class Graph {
public:
    Graph() noexcept = default;
    ~Graph() { Release(); }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    // Checks the feature level and data types of the device, and compiles. This is slow, and the only function that
    // allocates. `flags` allow half precision, disable metacommands, or make descriptors volatile, as CompileGraph's.
    // `barriers` are those that are recorded; with enhanced ones each list must be an ID3D12GraphicsCommandList7.
    HRESULT Create(IDMLDevice* device, DML_EXECUTION_FLAGS flags = DML_EXECUTION_FLAG_NONE,
                   Barriers barriers = Barriers::Legacy) noexcept;

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

    // Records a run. `states` are StateCount values, a set. All of them change when the list is executed; the set then says
    // what they hold after it. A set serves every graph that has the same states in the same order.
    HRESULT Record(ID3D12GraphicsCommandList* list, const Run& given, StateValue* states = nullptr) noexcept;

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
    HRESULT CheckReady(ID3D12GraphicsCommandList* list, bool ready, const char* call) noexcept;
    HRESULT CheckStates(const Run& given, const StateValue* states) noexcept;
    HRESULT BindInputs(const Run& given, const StateValue* states) noexcept;
    HRESULT BindOutputs(const Run& given, const StateValue* states) noexcept;
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
    Barriers barriers_ = Barriers::Legacy;
    UINT64 initializedAt_ = 0;
    bool initialized_ = false;
    Error error_ = {};
};

}  // namespace @{namespace}
