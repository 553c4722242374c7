// What an engine relies on: compiled with the exported graph that test_templates.py makes. Prints what does not hold.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "device.h"
#include "tensors.h"

using namespace dml_contract;

// ---- Allocations of this program, of which the class is a part

static long allocations = 0;

static void* Counted(std::size_t bytes) {
    ++allocations;
    return std::malloc(bytes);
}
void* operator new(std::size_t bytes) {
    void* const made = Counted(bytes);
    if (!made) {
        throw std::bad_alloc();
    }
    return made;
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return Counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return Counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

int failures = 0;

void Expect(bool holds, const char* what, int line) {
    if (!holds) {
        ++failures;
        std::printf("line %d: not so: %s\n", line, what);
    }
}
#define EXPECT(condition) Expect(condition, #condition, __LINE__)

// Whether a call failed with a code, and the last error is about a node, or none.
bool Failed(const Graph& graph, HRESULT got, HRESULT code, const char* node) {
    const char* const named = graph.LastError().node;
    const bool alike = named && node ? std::strcmp(named, node) == 0 : named == node;
    return got == code && graph.LastError().code == code && alike;
}

constexpr UINT64 Gap = 512;  // before each tensor in the one large buffer
constexpr UINT Frames = 2;

// All memory of the graph: one large buffer with everything at offsets, one for scratch, one for uploads.
struct Memory {
    explicit Memory(Device& device, const Graph& graph) : device_(device) {
        large = device.Memory(1 << 20, D3D12_HEAP_TYPE_DEFAULT);
        scratch = device.Memory(ScratchBytes + 256, D3D12_HEAP_TYPE_DEFAULT);
        upload = device.Memory(1 << 20, D3D12_HEAP_TYPE_UPLOAD);
        results = device.Memory(1 << 20, D3D12_HEAP_TYPE_READBACK);
        heap = device.Heap(Frames * graph.DescriptorCount());
        const D3D12_RANGE none = {0, 0};
        Check(upload->Map(0, &none, &mapped), "Map");
        for (UINT i = 0; i < InputCount; ++i) {
            run.inputs[i] = Place(Inputs[i].bytes);
        }
        for (UINT i = 0; i < OutputCount; ++i) {
            run.outputs[i] = Place(Outputs[i].bytes);
        }
        for (UINT i = 0; i < WeightCount; ++i) {
            initialization.weights[i] = run.weights[i] = Place(Weights[i].bytes);
        }
        for (UINT i = 0; i < StateCount; ++i) {
            for (UINT place = 0; place < States[i].buffers; ++place) {
                states[i].buffers[place] = Place(States[i].tensor.bytes);
            }
        }
        initialization.persistent = run.persistent = Place(graph.PersistentBytes());
        initialization.temporary = Place(graph.InitializationBytes());
        run.temporary = Place(graph.TemporaryBytes());
        run.scratch = {scratch.get(), 256};
        initialization.descriptors = run.descriptors = Range(0, graph);
        Stage(0);
    }

    Buffer Place(UINT64 bytes) {
        end_ += Gap;
        const Buffer placed = {large.get(), end_};
        end_ += (bytes + 255) / 256 * 256;
        return placed;
    }

    // The descriptors of a frame in flight, in a heap that the caller sets.
    Descriptors Range(UINT frame, const Graph& graph) const {
        const UINT size =
            device_.direct3d->GetDescriptorHandleIncrementSize(D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV);
        Descriptors range = RangeOf(*heap);
        range.cpu.ptr += frame * graph.DescriptorCount() * size;
        range.gpu.ptr += frame * graph.DescriptorCount() * size;
        range.heap = nullptr;
        return range;
    }

    void Stage(UINT frame) {
        const UINT64 offset = (1 << 19) + frame * StagingBytes;
        run.staging = {upload.get(), offset};
        run.stagingMemory = static_cast<unsigned char*>(mapped) + offset;
    }

    // Copies bytes to a place, from the begin of the uploads.
    void Write(ID3D12GraphicsCommandList* list, const Buffer& to, const void* data, std::size_t bytes) {
        std::memcpy(static_cast<unsigned char*>(mapped) + written_, data, bytes);
        list->CopyBufferRegion(to.resource, to.offset, upload.get(), written_, bytes);
        written_ += bytes;
    }

    void Move(ID3D12GraphicsCommandList* list, D3D12_RESOURCE_STATES before, D3D12_RESOURCE_STATES after) const {
        D3D12_RESOURCE_BARRIER barriers[2] = {};
        barriers[0].Transition = {large.get(), D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, before, after};
        barriers[1].Transition = {scratch.get(), D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, D3D12_RESOURCE_STATE_COMMON,
                                  D3D12_RESOURCE_STATE_UNORDERED_ACCESS};
        list->ResourceBarrier(after == D3D12_RESOURCE_STATE_UNORDERED_ACCESS ? 2 : 1, barriers);
    }

    // Begins a list as the graph wants it, after copies if there were any.
    void Enter(ID3D12GraphicsCommandList* list) {
        Move(list, written_ ? D3D12_RESOURCE_STATE_COPY_DEST : D3D12_RESOURCE_STATE_COMMON,
             D3D12_RESOURCE_STATE_UNORDERED_ACCESS);
        ID3D12DescriptorHeap* heaps[] = {heap.get()};
        list->SetDescriptorHeaps(1, heaps);
        written_ = 0;
    }

    // Executes the list, and returns an output, which is one float.
    float Finish(ID3D12GraphicsCommandList* list, Output output) {
        Move(list, D3D12_RESOURCE_STATE_UNORDERED_ACCESS, D3D12_RESOURCE_STATE_COPY_SOURCE);
        const Buffer& from = run.outputs[static_cast<UINT>(output)];
        list->CopyBufferRegion(results.get(), 0, from.resource, from.offset, sizeof(float));
        device_.Execute();
        void* found = nullptr;
        Check(results->Map(0, nullptr, &found), "Map");
        float number = 0;
        std::memcpy(&number, found, sizeof number);
        const D3D12_RANGE none = {0, 0};
        results->Unmap(0, &none);
        return number;
    }

    Com<ID3D12Resource> large, scratch, upload, results;
    Com<ID3D12DescriptorHeap> heap;
    void* mapped = nullptr;
    Initialization initialization = {};
    dml_contract::Run run = {};
    StateValue states[StateCount] = {};

private:
    Device& device_;
    UINT64 end_ = 0;
    std::size_t written_ = 0;
};

void Initialize(Device& device, Graph& graph, Memory& memory, const Bytes& weights) {
    ID3D12GraphicsCommandList* const list = device.List();
    for (UINT i = 0; i < WeightCount; ++i) {
        memory.Write(list, memory.initialization.weights[i], weights.data() + Weights[i].fileOffset,
                     static_cast<std::size_t>(Weights[i].bytes));
    }
    const float x[] = {1, 2};
    memory.Write(list, memory.run.inputs[0], x, sizeof x);
    for (UINT i = 0; i < StateCount; ++i) {
        Bytes first(static_cast<std::size_t>(States[i].tensor.bytes));
        Graph::WriteInitial(static_cast<State>(i), weights.data(), first.data());
        memory.Write(list, memory.states[i].buffers[0], first.data(), first.size());
        memory.states[i].current = memory.states[i].length = 0;
    }
    memory.Enter(list);
    const UINT64 value = device.NextValue();
    EXPECT(graph.RecordInitialize(list, memory.initialization, value) == S_OK);
    EXPECT(!graph.ReleaseStaging(value - 1));
    device.Execute();
    EXPECT(graph.ReleaseStaging(device.CompletedValue()));
}

// Wrong use: an error that names what is wrong, and nothing is recorded.
void RefuseWrongUse(Graph& graph, Memory& memory, ID3D12GraphicsCommandList* list) {
    const dml_contract::Run given = memory.run;
    EXPECT(Failed(graph, graph.Record(nullptr, given, memory.states), E_POINTER, nullptr));
    EXPECT(Failed(graph, graph.Record(list, given, nullptr), E_POINTER, "states"));
    dml_contract::Run wrong = given;
    wrong.inputs[0].resource = nullptr;
    EXPECT(Failed(graph, graph.Record(list, wrong, memory.states), E_INVALIDARG, "x"));
    wrong = given;
    wrong.outputs[0].offset += 4;
    EXPECT(Failed(graph, graph.Record(list, wrong, memory.states), E_INVALIDARG, Outputs[0].name));
    wrong = given;
    wrong.staging.resource = nullptr;
    EXPECT(Failed(graph, graph.Record(list, wrong, memory.states), E_INVALIDARG, "Run::staging"));
    wrong = given;
    wrong.scratch = {memory.large.get(), 0};  // the resource of the growing state
    EXPECT(Failed(graph, graph.Record(list, wrong, memory.states), E_INVALIDARG, "rows"));
    StateValue full[StateCount] = {memory.states[0], memory.states[1]};
    full[static_cast<UINT>(State::rows)].length = 3;  // of a capacity of 4, and each run appends 2
    EXPECT(Failed(graph, graph.Record(list, given, full), static_cast<HRESULT>(0x8000000B), "rows"));
    EXPECT(full[static_cast<UINT>(State::rows)].length == 3);
}

// Scratch is in another state than the class wants: the adapter says which barrier meets it. The list is lost.
void MeetAnotherState(Device& device, Graph& graph, Memory& memory) {
    ID3D12GraphicsCommandList* const list = device.List();
    memory.Enter(list);
    D3D12_RESOURCE_BARRIER barrier = {};
    barrier.Transition = {memory.scratch.get(), D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES,
                          D3D12_RESOURCE_STATE_UNORDERED_ACCESS, D3D12_RESOURCE_STATE_COPY_SOURCE};
    list->ResourceBarrier(1, &barrier);
    memory.states[static_cast<UINT>(State::rows)].length = 0;
    EXPECT(graph.Record(list, memory.run, memory.states) == S_OK);
    EXPECT(list->Close() == E_INVALIDARG);
}

// The graph: total += sum of x and of the weights, rows grows by x, and the output is total + sum of rows + its length.
void RunAll(const Bytes& weights, DML_EXECUTION_FLAGS flags, Barriers barriers, float w) {
    Device device;
    Graph graph;
    EXPECT(Failed(graph, graph.Record(device.List(), {}, nullptr), E_UNEXPECTED, nullptr));
    EXPECT(graph.Create(nullptr) == E_POINTER);
    for (int round = 0; round < 2; ++round) {  // created again, after a release
        EXPECT(graph.Create(device.directml.get(), flags, barriers) == S_OK);
        EXPECT(graph.DescriptorCount() > 0);
        Memory memory(device, graph);
        Initialize(device, graph, memory, weights);
        ID3D12GraphicsCommandList* list = device.List();
        memory.Enter(list);
        RefuseWrongUse(graph, memory, list);

        const UINT rows = static_cast<UINT>(State::rows), total = static_cast<UINT>(State::total);
        const long before = allocations;
        EXPECT(graph.Record(list, memory.run, memory.states) == S_OK);
        EXPECT(memory.states[rows].length == 2);
        EXPECT(memory.states[total].current == 1);
        const StateValue afterOne[StateCount] = {memory.states[0], memory.states[1]};
        memory.run.descriptors = memory.Range(1, graph);  // the second run in flight, in the same list
        memory.Stage(1);
        EXPECT(graph.Record(list, memory.run, memory.states) == S_OK);
        EXPECT(allocations == before);
        // The second run reads total = 10 + 3 + w and two rows, 1 and 2, of which the sum is 3.
        EXPECT(memory.Finish(list, Output::y) == (10 + 3 + w) + (3 + w) + 3 + 2);
        EXPECT(memory.states[rows].length == 4);

        memory.states[rows].length = 0;  // rewound; what is replaced goes on
        list = device.List();
        memory.Enter(list);
        EXPECT(graph.Record(list, memory.run, memory.states) == S_OK);
        EXPECT(memory.Finish(list, Output::y) == (10 + 3 * (3 + w)) + 6 + 0);  // old rows are still in the buffer

        std::copy(afterOne, afterOne + StateCount, memory.states);  // as it was before the second run
        list = device.List();
        memory.Enter(list);
        EXPECT(graph.Record(list, memory.run, memory.states) == S_OK);
        EXPECT(memory.states[total].current == 0);
        device.Execute();
        if (round == 1) {
            MeetAnotherState(device, graph, memory);
        }
        graph.Release();
        EXPECT(graph.DescriptorCount() == 0);
    }
}

}  // namespace

int main(int count, char** values) {
    if (count != 3) {
        return 2;
    }
    const Bytes weights = ReadFile(values[1], WeightsFileBytes);
    const float w = std::strtof(values[2], nullptr);
    RunAll(weights, DML_EXECUTION_FLAG_NONE, Barriers::Legacy, w);
    RunAll(weights, DML_EXECUTION_FLAG_DISABLE_META_COMMANDS | DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE, Barriers::Enhanced,
           w);
    std::fflush(stdout);
    return failures != 0;
}
