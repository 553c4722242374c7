// Runs the graph, one run after the other: an example of what an engine does with the class of graph.h.
#pragma once

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "device.h"
#include "graph.h"
#include "tensors.h"

namespace @{namespace} {

class Runner {
public:
    // Compiles the graph and initialises it with the weights in a file, and with inputs that are owned.
    Runner(Device& device, const std::string& weightsFile, const std::vector<Bytes>& inputs) : device_(device) {
        CheckGraph(graph_.Create(device.directml.get()));
        const Bytes weights = ReadFile(weightsFile, WeightsFileBytes);
        heap_ = device.Heap(graph_.DescriptorCount());
        run_.descriptors = RangeOf(*heap_);
        run_.persistent = Add(graph_.PersistentBytes());
        run_.temporary = Add(graph_.TemporaryBytes());
        run_.scratch = Add(ScratchBytes);
        for (UINT i = 0; i < InputNumber(); ++i) {
            run_.inputs[i] = Add(Inputs[i].bytes);
        }
        for (UINT i = 0; i < OutputNumber(); ++i) {
            run_.outputs[i] = Add(Outputs[i].bytes);
            results_.push_back(device.Memory(Outputs[i].bytes, D3D12_HEAP_TYPE_READBACK));
        }
        if (StagingBytes) {
            staging_ = device.Memory(StagingBytes, D3D12_HEAP_TYPE_UPLOAD);
            run_.staging = {staging_.get(), 0};
            Check(staging_->Map(0, &none_, &run_.stagingMemory), "ID3D12Resource::Map");
        }
        Initialize(weights, inputs);
    }

    // The outputs of a run, as they lie in buffers. States go on from the run before.
    std::vector<Bytes> Run(const std::vector<Bytes>& inputs) {
        std::vector<Upload> uploads;
        for (UINT i = 0; i < InputNumber(); ++i) {
            if (!Inputs[i].owned) {
                uploads.push_back({run_.inputs[i].resource, inputs[i].data(), inputs[i].size()});
            }
        }
        ID3D12GraphicsCommandList* const list = device_.List();
        const auto memory = Enter(list, uploads);
        CheckGraph(graph_.Record(list, run_, states_));
        std::vector<D3D12_RESOURCE_BARRIER> barriers;
        for (UINT i = 0; i < OutputNumber(); ++i) {
            barriers.push_back(Transition(run_.outputs[i].resource, D3D12_RESOURCE_STATE_UNORDERED_ACCESS,
                                          D3D12_RESOURCE_STATE_COPY_SOURCE));
        }
        list->ResourceBarrier(static_cast<UINT>(barriers.size()), barriers.data());
        for (UINT i = 0; i < OutputNumber(); ++i) {
            list->CopyBufferRegion(results_[i].get(), 0, run_.outputs[i].resource, 0, Outputs[i].bytes);
        }
        device_.Execute();

        std::vector<Bytes> found;
        for (UINT i = 0; i < OutputNumber(); ++i) {
            void* mapped = nullptr;
            Check(results_[i]->Map(0, nullptr, &mapped), "ID3D12Resource::Map");
            const auto* const begin = static_cast<const unsigned char*>(mapped);
            found.emplace_back(begin, begin + Outputs[i].bytes);
            results_[i]->Unmap(0, &none_);
        }
        return found;
    }

private:
    // Bytes that are copied to a resource before the graph is recorded.
    struct Upload {
        ID3D12Resource* resource;
        const unsigned char* data;
        std::size_t bytes;
    };

    void CheckGraph(HRESULT code) const {
        if (SUCCEEDED(code)) {
            return;
        }
        const Error& error = graph_.LastError();
        std::string text = std::string(error.call) + " failed with " + Hexadecimal(code);
        if (error.node) {
            text += ", at '" + std::string(error.node) + "'";
        }
        if (code == DXGI_ERROR_UNSUPPORTED) {
            text += "; " + FileOf(DirectMLName) + " on this adapter does not support what the graph needs: feature level " +
                    std::to_string(RequiredLevel >> 12) + "." + std::to_string((RequiredLevel >> 8) & 15) +
                    " and the node's data types; DirectML 1.15 has every level";
        }
        Throw(code, text);
    }

    Buffer Add(UINT64 bytes) {
        if (!bytes) {
            return {nullptr, 0};
        }
        buffers_.push_back(device_.Memory(bytes, D3D12_HEAP_TYPE_DEFAULT));
        return {buffers_.back().get(), 0};
    }

    static D3D12_RESOURCE_BARRIER Transition(ID3D12Resource* resource, D3D12_RESOURCE_STATES before,
                                             D3D12_RESOURCE_STATES after) {
        D3D12_RESOURCE_BARRIER barrier = {};
        barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
        barrier.Transition = {resource, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, before, after};
        return barrier;
    }

    // Copies the uploads, and brings all buffers to the state that the graph wants: buffers begin each list in the state
    // COMMON. Returns memory that must stay until the list has ended.
    std::vector<Com<ID3D12Resource>> Enter(ID3D12GraphicsCommandList* list, const std::vector<Upload>& uploads) const {
        std::vector<Com<ID3D12Resource>> kept;
        for (const Upload& upload : uploads) {
            kept.push_back(device_.Memory(upload.bytes, D3D12_HEAP_TYPE_UPLOAD));
            void* mapped = nullptr;
            Check(kept.back()->Map(0, &none_, &mapped), "ID3D12Resource::Map");
            std::memcpy(mapped, upload.data, upload.bytes);
            kept.back()->Unmap(0, nullptr);
            list->CopyBufferRegion(upload.resource, 0, kept.back().get(), 0, upload.bytes);
        }
        std::vector<D3D12_RESOURCE_BARRIER> barriers;
        for (const auto& buffer : buffers_) {
            bool copied = false;
            for (const Upload& upload : uploads) {
                copied = copied || upload.resource == buffer.get();
            }
            barriers.push_back(Transition(buffer.get(),
                                          copied ? D3D12_RESOURCE_STATE_COPY_DEST : D3D12_RESOURCE_STATE_COMMON,
                                          D3D12_RESOURCE_STATE_UNORDERED_ACCESS));
        }
        if (!barriers.empty()) {
            list->ResourceBarrier(static_cast<UINT>(barriers.size()), barriers.data());
        }
        return kept;
    }

    void Initialize(const Bytes& weights, const std::vector<Bytes>& inputs) {
        Initialization given = {};
        std::vector<Upload> uploads;
        std::vector<Bytes> initial;
        for (UINT i = 0; i < WeightNumber(); ++i) {
            given.weights[i] = run_.weights[i] = Add(Weights[i].bytes);
            uploads.push_back({given.weights[i].resource, weights.data() + Weights[i].fileOffset,
                               static_cast<std::size_t>(Weights[i].bytes)});
        }
        for (UINT i = 0; i < InputNumber(); ++i) {
            given.inputs[i] = run_.inputs[i];
            if (Inputs[i].owned) {
                uploads.push_back({given.inputs[i].resource, inputs[i].data(), inputs[i].size()});
            }
        }
        for (UINT i = 0; i < StateNumber(); ++i) {
            for (UINT place = 0; place < States[i].buffers; ++place) {
                states_[i].buffers[place] = Add(States[i].tensor.bytes);
            }
            initial.emplace_back(static_cast<std::size_t>(States[i].tensor.bytes));
            Graph::WriteInitial(static_cast<State>(i), weights.data(), initial.back().data());
            uploads.push_back({states_[i].buffers[0].resource, initial.back().data(), initial.back().size()});
        }
        given.descriptors = run_.descriptors;
        given.persistent = run_.persistent;
        given.temporary = Add(graph_.InitializationBytes());
        ID3D12GraphicsCommandList* const list = device_.List();
        const auto memory = Enter(list, uploads);
        CheckGraph(graph_.RecordInitialize(list, given, device_.NextValue()));
        device_.Execute();
        graph_.ReleaseStaging(device_.CompletedValue());
    }

    static constexpr D3D12_RANGE none_ = {0, 0};

    Device& device_;
    Graph graph_;
    Com<ID3D12DescriptorHeap> heap_;
    Com<ID3D12Resource> staging_;
    std::vector<Com<ID3D12Resource>> buffers_;  // in device memory
    std::vector<Com<ID3D12Resource>> results_;  // for reading outputs
    @{namespace}::Run run_ = {};
    StateValue states_[@{state_places}] = {};
};

}  // namespace @{namespace}
