// Two graphs over one buffer of weights and one set of states: compiled with those that test_templates.py exports.
#include <cstdio>
#include <cstring>

#include "four/device.h"
#include "four/graph.h"
#include "four/tensors.h"
#include "one/graph.h"

namespace {

using dmlgraph::Buffer;
using dmlgraph::StateValue;

int failures = 0;

void Expect(bool holds, const char* what, int line) {
    if (!holds) {
        ++failures;
        std::printf("line %d: not so: %s\n", line, what);
    }
}
#define EXPECT(condition) Expect(condition, #condition, __LINE__)

// The tables of weights and states are the same in both.
static_assert(dml_four::WeightCount == 1 && dml_one::WeightCount == 1);
static_assert(dml_four::Weights[0].bytes == dml_one::Weights[0].bytes && dml_one::Weights[0].stays);
static_assert(dml_four::StateCount == 1 && dml_one::StateCount == 1);
static_assert(dml_four::States[0].rows == 4 && dml_one::States[0].rows == 1);

constexpr UINT Columns = 8;

// Everything lies in one buffer; only scratch must be in another than a growing state.
struct Memory {
    explicit Memory(dml_four::Device& made) : device(made) {}

    Buffer Place(UINT64 bytes) {
        const Buffer placed = {large.get(), end};
        end += (bytes + 255) / 256 * 256;
        return placed;
    }

    dml_four::Device& device;
    dml_four::Com<ID3D12Resource> large = device.Memory(1 << 20, D3D12_HEAP_TYPE_DEFAULT);
    dml_four::Com<ID3D12Resource> scratch = device.Memory(1 << 16, D3D12_HEAP_TYPE_DEFAULT);
    dml_four::Com<ID3D12Resource> upload = device.Memory(1 << 20, D3D12_HEAP_TYPE_UPLOAD);
    dml_four::Com<ID3D12Resource> results = device.Memory(1 << 20, D3D12_HEAP_TYPE_READBACK);
    UINT64 end = 0;
};

void Move(ID3D12GraphicsCommandList* list, ID3D12Resource* resource, D3D12_RESOURCE_STATES before,
          D3D12_RESOURCE_STATES after) {
    D3D12_RESOURCE_BARRIER barrier = {};
    barrier.Transition = {resource, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, before, after};
    list->ResourceBarrier(1, &barrier);
}

// Makes a graph, initialises it, and runs it once on what lies in the buffers.
template <class Graph, class Initialization, class Run>
void RunOnce(Memory& memory, const Buffer& weights, const Buffer& x, const Buffer& y, StateValue* states) {
    Graph graph;
    EXPECT(graph.Create(memory.device.directml.get()) == S_OK);
    EXPECT(graph.PersistentBytes() < dml_four::Weights[0].bytes);  // the weights are not in it
    const auto heap = memory.device.Heap(graph.DescriptorCount());
    const auto staging = memory.device.Memory(256, D3D12_HEAP_TYPE_UPLOAD);
    Initialization initialization = {};
    Run run = {};
    initialization.descriptors = run.descriptors = dml_four::RangeOf(*heap);
    initialization.persistent = run.persistent = memory.Place(graph.PersistentBytes());
    initialization.temporary = memory.Place(graph.InitializationBytes());
    run.temporary = memory.Place(graph.TemporaryBytes());
    run.weights[0] = weights;
    run.inputs[0] = x;
    run.outputs[0] = y;
    run.scratch = {memory.scratch.get(), 0};
    run.staging = {staging.get(), 0};
    dml_four::Check(staging->Map(0, nullptr, &run.stagingMemory), "Map");
    ID3D12GraphicsCommandList* const list = memory.device.List();
    for (ID3D12Resource* each : {memory.large.get(), memory.scratch.get()}) {
        Move(list, each, D3D12_RESOURCE_STATE_COMMON, D3D12_RESOURCE_STATE_UNORDERED_ACCESS);
    }
    EXPECT(graph.RecordInitialize(list, initialization, memory.device.NextValue()) == S_OK);
    EXPECT(graph.Record(list, run, states) == S_OK);
    memory.device.Execute();
}

}  // namespace

int main(int count, char** values) {
    if (count != 2) {
        return 2;
    }
    const dml_four::Bytes file = dml_four::ReadFile(values[1], dml_four::WeightsFileBytes);
    dml_four::Device device;
    Memory memory(device);
    const Buffer weights = memory.Place(dml_four::Weights[0].bytes), x = memory.Place(4 * Columns * sizeof(float)),
                 y = memory.Place(dml_one::Outputs[0].bytes);
    StateValue states[1] = {{{memory.Place(dml_one::States[0].tensor.bytes), {}}, 0, 0}};
    void* mapped = nullptr;
    const D3D12_RANGE none = {0, 0};
    dml_four::Check(memory.upload->Map(0, &none, &mapped), "Map");
    std::memcpy(mapped, file.data(), file.size());
    auto* const ones = reinterpret_cast<float*>(static_cast<unsigned char*>(mapped) + file.size());
    for (UINT i = 0; i < 4 * Columns; ++i) {
        ones[i] = 1;
    }
    device.List()->CopyBufferRegion(weights.resource, weights.offset, memory.upload.get(), 0, file.size());
    device.List()->CopyBufferRegion(x.resource, x.offset, memory.upload.get(), file.size(), 4 * Columns * sizeof(float));
    device.Execute();

    RunOnce<dml_four::Graph, dml_four::Initialization, dml_four::Run>(memory, weights, x, y, states);
    EXPECT(states[0].length == 4);
    RunOnce<dml_one::Graph, dml_one::Initialization, dml_one::Run>(memory, weights, x, y, states);
    EXPECT(states[0].length == 5);

    // What the second graph read of the state: the rows of the first one, each the sums of the weights' columns.
    device.List()->CopyBufferRegion(memory.results.get(), 0, y.resource, y.offset, dml_one::Outputs[0].bytes);
    device.Execute();
    void* found = nullptr;
    dml_four::Check(memory.results->Map(0, nullptr, &found), "Map");
    const auto* const rows = static_cast<const float*>(found);
    const auto* const w = reinterpret_cast<const float*>(file.data());
    for (UINT i = 0; i < 4 * Columns; ++i) {
        float sum = 0;
        for (UINT row = 0; row < Columns; ++row) {
            sum += w[row * Columns + i % Columns];
        }
        EXPECT(rows[i] == sum);
    }
    EXPECT(rows[4 * Columns] == 0);  // of the second run, whose row is appended behind what it read
    memory.results->Unmap(0, &none);
    std::fflush(stdout);
    return failures != 0;
}
