// Compiles the graph, and records it on command lists. All that is particular to the graph is in its description.
#include "description.h"

#include <cstring>
#include <cwchar>
#include <memory>
#include <new>

namespace @{namespace} {
namespace {

// Written out, because not every compiler has __uuidof.
constexpr GUID deviceId = {0xa0884f9a, 0xd2be, 0x4355, {0xaa, 0x5d, 0x59, 0x01, 0x28, 0x1a, 0xd1, 0xd2}};
constexpr GUID operatorId = {0x26caae7a, 0x3081, 0x4633, {0x95, 0x81, 0x22, 0x6f, 0xbe, 0x57, 0x69, 0x5d}};
constexpr GUID compiledId = {0x6b15e56a, 0xbf5c, 0x4902, {0x92, 0xd8, 0xda, 0x3a, 0x65, 0x0a, 0xfe, 0xa4}};
constexpr GUID initializerId = {0x427c1113, 0x435c, 0x469c, {0x86, 0x76, 0x4d, 0x5d, 0xd0, 0x72, 0xf8, 0x13}};
constexpr GUID tableId = {0x29c687dc, 0xde74, 0x4e3b, {0xab, 0x00, 0x11, 0x68, 0xf2, 0xfc, 0x3c, 0xfc}};
constexpr GUID recorderId = {0xe6857a76, 0x2e3e, 0x4fdd, {0xbf, 0xf4, 0x5d, 0x2b, 0xa1, 0x0f, 0xb4, 0x53}};

constexpr HRESULT outOfRoom = static_cast<HRESULT>(0x8000000B);  // E_BOUNDS, which not every header has
constexpr UINT64 lengthStride = 16;  // bytes between lengths in scratch and staging
constexpr DML_BINDING_DESC nothing = {DML_BINDING_TYPE_NONE, nullptr};

template <class T>
void LetGo(T*& object) noexcept {
    if (object) {
        object->Release();
        object = nullptr;
    }
}

// An array of `count` zeros, at least one; null if memory is short.
template <class T>
std::unique_ptr<T[]> Zeros(UINT count) noexcept {
    return std::unique_ptr<T[]>(new (std::nothrow) T[count ? count : 1]());
}

// The operators of the graph while it is compiled.
struct Operators {
    explicit Operators(UINT number) noexcept : count(number), all(Zeros<IDMLOperator*>(number)) {}
    ~Operators() {
        for (UINT i = 0; all && i < count; ++i) {
            LetGo(all[i]);
        }
    }
    Operators(const Operators&) = delete;
    Operators& operator=(const Operators&) = delete;

    UINT count;
    std::unique_ptr<IDMLOperator*[]> all;
};

// Edges of one kind as pointers with their kind; null if memory is short.
template <class Edge>
std::unique_ptr<DML_GRAPH_EDGE_DESC[]> Edges(DML_GRAPH_EDGE_TYPE type, const Edge* edges, UINT count) noexcept {
    auto found = Zeros<DML_GRAPH_EDGE_DESC>(count);
    for (UINT i = 0; found && i < count; ++i) {
        found[i] = {type, &edges[i]};
    }
    return found;
}

D3D12_RESOURCE_BARRIER AfterDispatches() noexcept {
    D3D12_RESOURCE_BARRIER barrier = {};
    barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_UAV;
    return barrier;
}

// Barriers of one point of a list; each resource has one at most.
class Barriers {
public:
    void Add(ID3D12Resource* resource, D3D12_RESOURCE_STATES before, D3D12_RESOURCE_STATES after) noexcept {
        for (UINT i = 0; i < count_; ++i) {
            if (all_[i].Transition.pResource == resource) {
                return;
            }
        }
        all_[count_].Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
        all_[count_++].Transition = {resource, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, before, after};
    }
    void Record(ID3D12GraphicsCommandList* list) noexcept {
        if (count_) {
            list->ResourceBarrier(count_, all_);
        }
    }

private:
    D3D12_RESOURCE_BARRIER all_[StateCount + 1] = {};
    UINT count_ = 0;
};

constexpr D3D12_RESOURCE_STATES dispatched = D3D12_RESOURCE_STATE_UNORDERED_ACCESS;
constexpr D3D12_RESOURCE_STATES copySource = D3D12_RESOURCE_STATE_COPY_SOURCE;
constexpr D3D12_RESOURCE_STATES copyTarget = D3D12_RESOURCE_STATE_COPY_DEST;

// Which of a state's buffers a run writes all of: the one that it does not read.
UINT Next(const StateSet& states, UINT state) noexcept {
    return 1 - states.current[state];
}

// Copies the lengths of growing states, which the graph reads, to scratch.
void RecordLengths(ID3D12GraphicsCommandList* list, const Run& given, const StateSet& states) noexcept {
    auto* const memory = static_cast<unsigned char*>(given.stagingMemory);
    for (UINT i = 0; i < Describe().stateCount; ++i) {
        std::memcpy(memory + i * lengthStride, &states.lengths[i], sizeof states.lengths[i]);
    }
    Barriers before, after;
    before.Add(given.scratch.resource, dispatched, copyTarget);
    before.Record(list);
    list->CopyBufferRegion(given.scratch.resource, given.scratch.offset, given.staging.resource, given.staging.offset,
                           StagingBytes);
    after.Add(given.scratch.resource, copyTarget, dispatched);
    after.Record(list);
}

// Copies new rows behind those that growing states have.
void RecordRows(ID3D12GraphicsCommandList* list, const Run& given, const StateSet& states) noexcept {
    const Growth* const growth = Describe().growth;
    const auto grows = [&](UINT state) { return States[state].grows && growth[state].changes; };
    const auto move = [&](D3D12_RESOURCE_STATES scratchBefore, D3D12_RESOURCE_STATES scratchAfter,
                          D3D12_RESOURCE_STATES before, D3D12_RESOURCE_STATES after) {
        Barriers barriers;
        barriers.Add(given.scratch.resource, scratchBefore, scratchAfter);
        for (UINT i = 0; i < Describe().stateCount; ++i) {
            if (grows(i)) {
                barriers.Add(states.buffers[i][0].resource, before, after);
            }
        }
        barriers.Record(list);
    };
    move(dispatched, copySource, dispatched, copyTarget);
    for (UINT i = 0; i < Describe().stateCount; ++i) {
        if (!grows(i)) {
            continue;
        }
        const Growth& each = growth[i];
        const Buffer& state = states.buffers[i][0];
        const UINT64 bytes = States[i].rows * each.rowBytes;
        for (UINT64 block = 0; block < each.blocks; ++block) {
            const UINT64 target = (block * States[i].capacity + states.lengths[i]) * each.rowBytes;
            list->CopyBufferRegion(state.resource, state.offset + target, given.scratch.resource,
                                   given.scratch.offset + each.rowsOffset + block * bytes, bytes);
        }
    }
    move(copySource, dispatched, copyTarget, dispatched);
}

// An event for PIX: its text is UTF-16, with its end.
void BeginEvent(ID3D12GraphicsCommandList* list) noexcept {
    constexpr UINT unicode = 0;
    const wchar_t* const name = Describe().wideName;
    list->BeginEvent(unicode, name, static_cast<UINT>((std::wcslen(name) + 1) * sizeof *name));
}

// A buffer at a place that DirectML takes.
bool IsUsable(const Buffer& buffer, UINT64 alignment) noexcept {
    return buffer.resource && buffer.offset % alignment == 0;
}

}  // namespace

HRESULT Graph::Fail(HRESULT code, const char* call, const char* node) noexcept {
    error_ = {code, call, node};
    return code;
}

// ---- Creation

HRESULT Graph::Create(IDMLDevice* device, DML_EXECUTION_FLAGS flags) noexcept {
    Release();
    error_ = {};
    if (!device) {
        return Fail(E_POINTER, "Graph::Create");
    }
    void* found = nullptr;
    HRESULT code = device->QueryInterface(deviceId, &found);
    if (FAILED(code)) {  // DirectML before 1.2
        return Fail(DXGI_ERROR_UNSUPPORTED, "IDMLDevice::QueryInterface of IDMLDevice1", Describe().levelNode);
    }
    device_ = static_cast<IDMLDevice1*>(found);
    code = CheckSupport();
    if (SUCCEEDED(code)) {
        code = Compile(flags);
    }
    if (SUCCEEDED(code)) {
        code = Prepare();
    }
    if (FAILED(code)) {
        Release();
    }
    return code;
}

HRESULT Graph::CheckSupport() noexcept {
    const Description& description = Describe();
    const DML_FEATURE_LEVEL wanted[] = {RequiredLevel};
    const DML_FEATURE_QUERY_FEATURE_LEVELS query = {1, wanted};
    DML_FEATURE_DATA_FEATURE_LEVELS answer = {};
    HRESULT code =
        device_->CheckFeatureSupport(DML_FEATURE_FEATURE_LEVELS, sizeof query, &query, sizeof answer, &answer);
    if (FAILED(code) || answer.MaxSupportedFeatureLevel < RequiredLevel) {
        return Fail(DXGI_ERROR_UNSUPPORTED, "IDMLDevice::CheckFeatureSupport of the feature level", description.levelNode);
    }
    for (UINT i = 0; i < description.typeCount; ++i) {
        const DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT type = {description.types[i].type};
        DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT support = {};
        code = device_->CheckFeatureSupport(DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT, sizeof type, &type, sizeof support,
                                            &support);
        if (FAILED(code) || !support.IsSupported) {
            return Fail(DXGI_ERROR_UNSUPPORTED, "IDMLDevice::CheckFeatureSupport of a data type",
                        description.types[i].node);
        }
    }
    return S_OK;
}

HRESULT Graph::Compile(DML_EXECUTION_FLAGS flags) noexcept {
    const Description& description = Describe();
    const UINT count = description.nodeCount;
    const Operators operators(count);
    const auto operatorNodes = Zeros<DML_OPERATOR_GRAPH_NODE_DESC>(count);
    const auto constantNodes = Zeros<DML_CONSTANT_DATA_GRAPH_NODE_DESC>(count);
    const auto nodes = Zeros<DML_GRAPH_NODE_DESC>(count);
    const auto inputEdges = Edges(DML_GRAPH_EDGE_TYPE_INPUT, description.inputEdges, description.inputEdgeCount);
    const auto outputEdges = Edges(DML_GRAPH_EDGE_TYPE_OUTPUT, description.outputEdges, description.outputEdgeCount);
    const auto edges = Edges(DML_GRAPH_EDGE_TYPE_INTERMEDIATE, description.edges, description.edgeCount);
    if (!operators.all || !operatorNodes || !constantNodes || !nodes || !inputEdges || !outputEdges || !edges) {
        return Fail(E_OUTOFMEMORY, "Graph::Create");
    }
    for (UINT i = 0; i < count; ++i) {
        const Node& node = description.nodes[i];
        if (node.type == DML_OPERATOR_INVALID) {
            constantNodes[i] = {node.desc, static_cast<SIZE_T>(node.bytes), node.name};
            nodes[i] = {DML_GRAPH_NODE_TYPE_CONSTANT, &constantNodes[i]};
            continue;
        }
        const DML_OPERATOR_DESC desc = {node.type, node.desc};
        void* made = nullptr;
        const HRESULT code = device_->CreateOperator(&desc, operatorId, &made);
        if (FAILED(code)) {
            return Fail(code, "IDMLDevice::CreateOperator", node.name);
        }
        operators.all[i] = static_cast<IDMLOperator*>(made);
        operatorNodes[i] = {operators.all[i], node.name};
        nodes[i] = {DML_GRAPH_NODE_TYPE_OPERATOR, &operatorNodes[i]};
    }
    DML_GRAPH_DESC graph = {};
    graph.InputCount = description.inputCount;
    graph.OutputCount = description.outputCount;
    graph.NodeCount = count;
    graph.Nodes = nodes.get();
    graph.InputEdgeCount = description.inputEdgeCount;
    graph.InputEdges = inputEdges.get();
    graph.OutputEdgeCount = description.outputEdgeCount;
    graph.OutputEdges = outputEdges.get();
    graph.IntermediateEdgeCount = description.edgeCount;
    graph.IntermediateEdges = edges.get();
    void* compiled = nullptr;
    const HRESULT code = device_->CompileGraph(&graph, flags, compiledId, &compiled);
    if (FAILED(code) || !compiled) {  // DirectML may report success where memory was short
        return Fail(FAILED(code) ? code : E_OUTOFMEMORY, "IDMLDevice1::CompileGraph");
    }
    compiled_ = static_cast<IDMLCompiledOperator*>(compiled);
    compiled_->SetName(description.wideName);
    return S_OK;
}

HRESULT Graph::Prepare() noexcept {
    const Description& description = Describe();
    void* made = nullptr;
    HRESULT code = device_->CreateCommandRecorder(recorderId, &made);
    if (FAILED(code)) {
        return Fail(code, "IDMLDevice::CreateCommandRecorder");
    }
    recorder_ = static_cast<IDMLCommandRecorder*>(made);
    code = device_->CreateOperatorInitializer(1, &compiled_, initializerId, &made);
    if (FAILED(code)) {
        return Fail(code, "IDMLDevice::CreateOperatorInitializer");
    }
    initializer_ = static_cast<IDMLOperatorInitializer*>(made);
    IDMLBindingTable** const tables[] = {&initializationTable_, &table_};
    for (IDMLBindingTable** table : tables) {
        code = device_->CreateBindingTable(nullptr, tableId, &made);  // empty: each record gives it its descriptors
        if (FAILED(code)) {
            return Fail(code, "IDMLDevice::CreateBindingTable");
        }
        *table = static_cast<IDMLBindingTable*>(made);
        (*table)->SetName(description.wideName);
    }
    initializer_->SetName(description.wideName);
    const UINT slots = description.inputCount > description.outputCount ? description.inputCount : description.outputCount;
    bindings_ = Zeros<DML_BUFFER_BINDING>(slots).release();
    descs_ = Zeros<DML_BINDING_DESC>(slots).release();
    if (!bindings_ || !descs_) {
        return Fail(E_OUTOFMEMORY, "Graph::Create");
    }
    const DML_BINDING_PROPERTIES first = initializer_->GetBindingProperties();
    const DML_BINDING_PROPERTIES run = compiled_->GetBindingProperties();
    descriptorCount_ = first.RequiredDescriptorCount > run.RequiredDescriptorCount ? first.RequiredDescriptorCount
                                                                                   : run.RequiredDescriptorCount;
    descriptorCount_ = descriptorCount_ ? descriptorCount_ : 1;
    persistentBytes_ = run.PersistentResourceSize;
    temporaryBytes_ = run.TemporaryResourceSize;
    initializationBytes_ = first.TemporaryResourceSize;
    return S_OK;
}

void Graph::Release() noexcept {
    LetGo(table_);
    LetGo(initializationTable_);
    LetGo(initializer_);
    LetGo(compiled_);
    LetGo(recorder_);
    LetGo(device_);
    delete[] bindings_;
    delete[] descs_;
    bindings_ = nullptr;
    descs_ = nullptr;
    descriptorCount_ = 0;
    persistentBytes_ = initializationBytes_ = temporaryBytes_ = initializedAt_ = 0;
    initialized_ = false;
}

// ---- Recording

HRESULT Graph::ResetTable(IDMLBindingTable* table, IDMLDispatchable* dispatchable,
                          const Descriptors& descriptors) noexcept {
    const DML_BINDING_TABLE_DESC desc = {dispatchable, descriptors.cpu, descriptors.gpu, descriptorCount_};
    const HRESULT code = table->Reset(&desc);
    return FAILED(code) ? Fail(code, "IDMLBindingTable::Reset") : S_OK;
}

void Graph::RecordDispatch(ID3D12GraphicsCommandList* list, IDMLDispatchable* dispatchable, IDMLBindingTable* table,
                           const Descriptors& descriptors) noexcept {
    if (descriptors.heap) {
        list->SetDescriptorHeaps(1, &descriptors.heap);
    }
    recorder_->RecordDispatch(list, dispatchable, table);
    const D3D12_RESOURCE_BARRIER barrier = AfterDispatches();
    list->ResourceBarrier(1, &barrier);
}

HRESULT Graph::RecordInitialize(ID3D12GraphicsCommandList* list, const Initialization& given,
                                UINT64 fenceValue) noexcept {
    const Description& description = Describe();
    if (!list || !initializer_) {
        return Fail(list ? E_UNEXPECTED : E_POINTER, "Graph::RecordInitialize");
    }
    if (persistentBytes_ && !IsUsable(given.persistent, BufferAlignment)) {
        return Fail(E_INVALIDARG, "Graph::RecordInitialize", "Initialization::persistent");
    }
    if (initializationBytes_ && !IsUsable(given.temporary, BufferAlignment)) {
        return Fail(E_INVALIDARG, "Graph::RecordInitialize", "Initialization::temporary");
    }
    bool any = false;
    for (UINT i = 0; i < description.inputCount; ++i) {
        const InputSlot& slot = description.inputs[i];
        bindings_[i] = {};
        if (slot.owned && slot.read) {
            const Buffer& from = slot.source == Source::Weights ? given.weights[slot.index] : given.inputs[slot.index];
            if (!IsUsable(from, TensorAlignment)) {
                return Fail(E_INVALIDARG, "Graph::RecordInitialize", slot.name);
            }
            bindings_[i] = {from.resource, from.offset + slot.offset, slot.bytes};
            any = true;
        }
    }
    const HRESULT code = ResetTable(initializationTable_, initializer_, given.descriptors);
    if (FAILED(code)) {
        return code;
    }
    if (any) {
        const DML_BUFFER_ARRAY_BINDING all = {description.inputCount, bindings_};
        const DML_BINDING_DESC desc = {DML_BINDING_TYPE_BUFFER_ARRAY, &all};
        initializationTable_->BindInputs(1, &desc);
    }
    const DML_BUFFER_BINDING persistent = {given.persistent.resource, given.persistent.offset, persistentBytes_};
    if (persistentBytes_) {
        const DML_BINDING_DESC desc = {DML_BINDING_TYPE_BUFFER, &persistent};
        initializationTable_->BindOutputs(1, &desc);
    }
    const DML_BUFFER_BINDING temporary = {given.temporary.resource, given.temporary.offset, initializationBytes_};
    if (initializationBytes_) {
        const DML_BINDING_DESC desc = {DML_BINDING_TYPE_BUFFER, &temporary};
        initializationTable_->BindTemporaryResource(&desc);
    }
    BeginEvent(list);
    RecordDispatch(list, initializer_, initializationTable_, given.descriptors);
    list->EndEvent();
    initializedAt_ = fenceValue;
    initialized_ = true;
    const HRESULT removed = device_->GetDeviceRemovedReason();
    return FAILED(removed) ? Fail(removed, "IDMLCommandRecorder::RecordDispatch of the initialisation") : S_OK;
}

bool Graph::ReleaseStaging(UINT64 completedValue) noexcept {
    if (!initialized_ || completedValue < initializedAt_) {
        return false;
    }
    LetGo(initializationTable_);
    LetGo(initializer_);
    return true;
}

HRESULT Graph::CheckStates(const Run& given, const StateSet* states) noexcept {
    if (StateCount == 0) {
        return S_OK;
    }
    if (!states) {
        return Fail(E_POINTER, "Graph::Record", "states");
    }
    if (StagingBytes && !(given.staging.resource && given.stagingMemory)) {
        return Fail(E_INVALIDARG, "Graph::Record", "Run::staging");
    }
    if (ScratchBytes && !IsUsable(given.scratch, BufferAlignment)) {
        return Fail(E_INVALIDARG, "Graph::Record", "Run::scratch");
    }
    for (UINT i = 0; i < Describe().stateCount; ++i) {
        const StateInfo& state = States[i];
        for (UINT place = 0; place < state.buffers; ++place) {
            if (!IsUsable(states->buffers[i][place], TensorAlignment)) {
                return Fail(E_INVALIDARG, "Graph::Record", state.tensor.name);
            }
        }
        if (states->current[i] >= state.buffers ||
            (state.grows && states->buffers[i][0].resource == given.scratch.resource)) {
            return Fail(E_INVALIDARG, "Graph::Record", state.tensor.name);
        }
        if (state.grows && (states->lengths[i] > state.capacity || state.rows > state.capacity - states->lengths[i])) {
            return Fail(outOfRoom, "Graph::Record", state.tensor.name);  // the rows do not fit
        }
    }
    return S_OK;
}

HRESULT Graph::BindInputs(const Run& given, const StateSet* states) noexcept {
    const Description& description = Describe();
    for (UINT i = 0; i < description.inputCount; ++i) {
        const InputSlot& slot = description.inputs[i];
        descs_[i] = nothing;
        if (slot.owned || !slot.read) {
            continue;
        }
        Buffer from = given.scratch;
        if (slot.source == Source::Input) {
            from = given.inputs[slot.index];
        } else if (slot.source == Source::Weights) {
            from = given.weights[slot.index];
        } else if (slot.source == Source::State) {
            from = states->buffers[slot.index][states->current[slot.index]];
        }
        if (!IsUsable(from, TensorAlignment)) {
            return Fail(E_INVALIDARG, "Graph::Record", slot.name);
        }
        bindings_[i] = {from.resource, from.offset + slot.offset, slot.bytes};
        descs_[i] = {DML_BINDING_TYPE_BUFFER, &bindings_[i]};
    }
    table_->BindInputs(description.inputCount, descs_);
    return S_OK;
}

HRESULT Graph::BindOutputs(const Run& given, const StateSet* states) noexcept {
    const Description& description = Describe();
    for (UINT i = 0; i < description.outputCount; ++i) {
        const OutputSlot& slot = description.outputs[i];
        Buffer to = given.scratch;
        if (slot.target == Target::Output) {
            to = given.outputs[slot.index];
        } else if (slot.target == Target::NextValue) {
            to = states->buffers[slot.index][Next(*states, slot.index)];
        }
        if (!IsUsable(to, TensorAlignment)) {
            return Fail(E_INVALIDARG, "Graph::Record", slot.name);
        }
        bindings_[i] = {to.resource, to.offset + slot.offset, slot.bytes};
        descs_[i] = {DML_BINDING_TYPE_BUFFER, &bindings_[i]};
    }
    table_->BindOutputs(description.outputCount, descs_);
    return S_OK;
}

HRESULT Graph::Record(ID3D12GraphicsCommandList* list, const Run& given, StateSet* states) noexcept {
    if (!list || !compiled_ || !initialized_) {
        return Fail(list ? E_UNEXPECTED : E_POINTER, "Graph::Record");
    }
    if (persistentBytes_ && !IsUsable(given.persistent, BufferAlignment)) {
        return Fail(E_INVALIDARG, "Graph::Record", "Run::persistent");
    }
    if (temporaryBytes_ && !IsUsable(given.temporary, BufferAlignment)) {
        return Fail(E_INVALIDARG, "Graph::Record", "Run::temporary");
    }
    HRESULT code = CheckStates(given, states);
    if (SUCCEEDED(code)) {
        code = ResetTable(table_, compiled_, given.descriptors);
    }
    if (SUCCEEDED(code)) {
        code = BindInputs(given, states);
    }
    if (SUCCEEDED(code)) {
        code = BindOutputs(given, states);
    }
    if (FAILED(code)) {
        return code;
    }
    const DML_BUFFER_BINDING persistent = {given.persistent.resource, given.persistent.offset, persistentBytes_};
    const DML_BINDING_DESC persistentDesc = {DML_BINDING_TYPE_BUFFER, &persistent};
    if (persistentBytes_) {
        table_->BindPersistentResource(&persistentDesc);
    }
    const DML_BUFFER_BINDING temporary = {given.temporary.resource, given.temporary.offset, temporaryBytes_};
    const DML_BINDING_DESC temporaryDesc = {DML_BINDING_TYPE_BUFFER, &temporary};
    if (temporaryBytes_) {
        table_->BindTemporaryResource(&temporaryDesc);
    }
    BeginEvent(list);
    if (StagingBytes) {
        RecordLengths(list, given, *states);
    }
    RecordDispatch(list, compiled_, table_, given.descriptors);
    if (ScratchBytes > StagingBytes) {  // there are rows
        RecordRows(list, given, *states);
    }
    list->EndEvent();
    const HRESULT removed = device_->GetDeviceRemovedReason();
    if (FAILED(removed)) {
        return Fail(removed, "IDMLCommandRecorder::RecordDispatch");
    }
    for (UINT i = 0; i < Describe().stateCount; ++i) {
        if (Describe().growth[i].changes) {
            states->current[i] = States[i].grows ? 0 : Next(*states, i);
            states->lengths[i] += States[i].rows;
        }
    }
    return S_OK;
}

void Graph::WriteInitial(State state, const void* weightsFile, void* memory) noexcept {
    const StateInfo& info = States[static_cast<UINT>(state)];
    if (info.initialOffset == NoOffset) {
        std::memset(memory, 0, static_cast<std::size_t>(info.tensor.bytes));
    } else {
        std::memcpy(memory, static_cast<const unsigned char*>(weightsFile) + info.initialOffset,
                    static_cast<std::size_t>(info.tensor.bytes));
    }
}

}  // namespace @{namespace}
