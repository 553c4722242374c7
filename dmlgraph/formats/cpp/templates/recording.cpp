// Records the graph on command lists. All that is particular to it is in its description.
#include "barriers.h"
#include "description.h"

#include <cstring>
#include <cwchar>

namespace @{namespace} {
namespace {

constexpr HRESULT outOfRoom = static_cast<HRESULT>(0x8000000B);  // E_BOUNDS, which not every header has
constexpr UINT64 lengthStride = 16;  // bytes between lengths in scratch and staging
constexpr DML_BINDING_DESC nothing = {DML_BINDING_TYPE_NONE, nullptr};

// Which of a state's buffers a run writes all of: the one that it does not read.
UINT Next(const StateValue& state) noexcept {
    return 1 - state.current;
}

// Copies the lengths of growing states, which the graph reads, to scratch.
void RecordLengths(ID3D12GraphicsCommandList* list, Barriers kind, const Run& given, const StateValue* states) noexcept {
    auto* const memory = static_cast<unsigned char*>(given.stagingMemory);
    for (UINT i = 0; i < Describe().stateCount; ++i) {
        std::memcpy(memory + i * lengthStride, &states[i].length, sizeof states[i].length);
    }
    Transitions before, after;
    before.Add({given.scratch.resource, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, Dispatched, CopyTarget});
    before.Record(list, kind);
    list->CopyBufferRegion(given.scratch.resource, given.scratch.offset, given.staging.resource, given.staging.offset,
                           StagingBytes);
    after.Add({given.scratch.resource, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, CopyTarget, Dispatched});
    after.Record(list, kind);
}

// Copies new rows behind those that growing states have.
void RecordRows(ID3D12GraphicsCommandList* list, Barriers kind, const Run& given, const StateValue* states) noexcept {
    const Growth* const growth = Describe().growth;
    const auto grows = [&](UINT state) { return States[state].grows && growth[state].changes; };
    const auto move = [&](bool begins) {
        Transitions barriers;
        const auto add = [&](ID3D12Resource* resource, D3D12_RESOURCE_STATES copied) {
            barriers.Add({resource, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, begins ? Dispatched : copied,
                          begins ? copied : Dispatched});
        };
        add(given.scratch.resource, CopySource);
        for (UINT i = 0; i < Describe().stateCount; ++i) {
            if (grows(i)) {
                add(states[i].buffers[0].resource, CopyTarget);
            }
        }
        barriers.Record(list, kind);
    };
    move(true);
    for (UINT i = 0; i < Describe().stateCount; ++i) {
        if (!grows(i)) {
            continue;
        }
        const Growth& each = growth[i];
        const Buffer& state = states[i].buffers[0];
        const UINT64 bytes = States[i].rows * each.rowBytes;
        for (UINT64 block = 0; block < each.blocks; ++block) {
            const UINT64 target = (block * States[i].capacity + states[i].length) * each.rowBytes;
            list->CopyBufferRegion(state.resource, state.offset + target, given.scratch.resource,
                                   given.scratch.offset + each.rowsOffset + block * bytes, bytes);
        }
    }
    move(false);
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

HRESULT Graph::CheckReady(ID3D12GraphicsCommandList* list, bool ready, const char* call) noexcept {
    if (!list || !ready) {
        return Fail(list ? E_UNEXPECTED : E_POINTER, call);
    }
    return CanRecord(list, barriers_) ? S_OK : Fail(E_NOINTERFACE, "QueryInterface of ID3D12GraphicsCommandList7");
}

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
    RecordUnorderedAccess(list, barriers_);
}

HRESULT Graph::RecordInitialize(ID3D12GraphicsCommandList* list, const Initialization& given,
                                UINT64 fenceValue) noexcept {
    const Description& description = Describe();
    HRESULT code = CheckReady(list, initializer_ != nullptr, "Graph::RecordInitialize");
    if (FAILED(code)) {
        return code;
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
    code = ResetTable(initializationTable_, initializer_, given.descriptors);
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

HRESULT Graph::CheckStates(const Run& given, const StateValue* states) noexcept {
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
            if (!IsUsable(states[i].buffers[place], TensorAlignment)) {
                return Fail(E_INVALIDARG, "Graph::Record", state.tensor.name);
            }
        }
        if (states[i].current >= state.buffers ||
            (state.grows && states[i].buffers[0].resource == given.scratch.resource)) {
            return Fail(E_INVALIDARG, "Graph::Record", state.tensor.name);
        }
        if (state.grows && (states[i].length > state.capacity || state.rows > state.capacity - states[i].length)) {
            return Fail(outOfRoom, "Graph::Record", state.tensor.name);  // the rows do not fit
        }
    }
    return S_OK;
}

HRESULT Graph::BindInputs(const Run& given, const StateValue* states) noexcept {
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
            from = states[slot.index].buffers[states[slot.index].current];
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

HRESULT Graph::BindOutputs(const Run& given, const StateValue* states) noexcept {
    const Description& description = Describe();
    for (UINT i = 0; i < description.outputCount; ++i) {
        const OutputSlot& slot = description.outputs[i];
        Buffer to = given.scratch;
        if (slot.target == Target::Output) {
            to = given.outputs[slot.index];
        } else if (slot.target == Target::NextValue) {
            to = states[slot.index].buffers[Next(states[slot.index])];
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

HRESULT Graph::Record(ID3D12GraphicsCommandList* list, const Run& given, StateValue* states) noexcept {
    HRESULT code = CheckReady(list, compiled_ && initialized_, "Graph::Record");
    if (FAILED(code)) {
        return code;
    }
    if (persistentBytes_ && !IsUsable(given.persistent, BufferAlignment)) {
        return Fail(E_INVALIDARG, "Graph::Record", "Run::persistent");
    }
    if (temporaryBytes_ && !IsUsable(given.temporary, BufferAlignment)) {
        return Fail(E_INVALIDARG, "Graph::Record", "Run::temporary");
    }
    code = CheckStates(given, states);
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
        RecordLengths(list, barriers_, given, states);
    }
    RecordDispatch(list, compiled_, table_, given.descriptors);
    if (ScratchBytes > StagingBytes) {  // there are rows
        RecordRows(list, barriers_, given, states);
    }
    list->EndEvent();
    const HRESULT removed = device_->GetDeviceRemovedReason();
    if (FAILED(removed)) {
        return Fail(removed, "IDMLCommandRecorder::RecordDispatch");
    }
    for (UINT i = 0; i < Describe().stateCount; ++i) {
        if (Describe().growth[i].changes) {
            states[i].current = States[i].grows ? 0 : Next(states[i]);
            states[i].length += States[i].rows;
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
