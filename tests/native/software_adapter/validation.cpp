// What the debug layer of Direct3D 12 refuses: each check provokes a refusal, and shows what is right beside it.
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>

#include "harness.h"

namespace {

constexpr auto COMMON = D3D12_RESOURCE_STATE_COMMON;
constexpr auto UNORDERED_ACCESS = D3D12_RESOURCE_STATE_UNORDERED_ACCESS;
constexpr auto SHADER_RESOURCE = D3D12_RESOURCE_STATE_NON_PIXEL_SHADER_RESOURCE;
constexpr auto COPY_DEST = D3D12_RESOURCE_STATE_COPY_DEST;
constexpr auto COPY_SOURCE = D3D12_RESOURCE_STATE_COPY_SOURCE;

// The descriptors do not change after they are recorded.
constexpr D3D12_DESCRIPTOR_RANGE1 static_uav{D3D12_DESCRIPTOR_RANGE_TYPE_UAV, 1, 0, 0, {}, 0};

D3D12_RESOURCE_BARRIER transition(const ComPtr<ID3D12Resource>& buffer, uint32_t before, uint32_t after,
                                  D3D12_RESOURCE_BARRIER_FLAGS flags = D3D12_RESOURCE_BARRIER_FLAG_NONE) {
    D3D12_RESOURCE_BARRIER barrier{D3D12_RESOURCE_BARRIER_TYPE_TRANSITION, flags, {}};
    barrier.Transition = {buffer.get(), all_subresources, static_cast<D3D12_RESOURCE_STATES>(before),
                          static_cast<D3D12_RESOURCE_STATES>(after)};
    return barrier;
}

D3D12_RESOURCE_BARRIER uav_barrier(ID3D12Resource* buffer) {
    D3D12_RESOURCE_BARRIER barrier{D3D12_RESOURCE_BARRIER_TYPE_UAV, {}, {}};
    barrier.UAV = {buffer};
    return barrier;
}

D3D12_RESOURCE_BARRIER aliasing(ID3D12Resource* before, ID3D12Resource* after) {
    D3D12_RESOURCE_BARRIER barrier{D3D12_RESOURCE_BARRIER_TYPE_ALIASING, {}, {}};
    barrier.Aliasing = {before, after};
    return barrier;
}

// A bench with two buffers and a kernel that doubles the words of `data`.
struct Work : Bench {
    explicit Work(const D3D12_DESCRIPTOR_RANGE1& range = static_uav)
        : signature(table_signature({&range, 1})),
          doubles(pipeline("double_words", signature.get())),
          heap(descriptors(1)),
          data(upload(std::vector<uint32_t>{1, 2, 3, 4})),
          other(buffer(16)) {
        write_uav(heap.get(), 0, data.get(), DXGI_FORMAT_R32_TYPELESS, 0, 4);
        data->SetName(L"data");
        other->SetName(L"other");
    }

    void barrier(const D3D12_RESOURCE_BARRIER& barrier) { list->ResourceBarrier(1, &barrier); }
    void copy(const ComPtr<ID3D12Resource>& to, const ComPtr<ID3D12Resource>& from) {
        list->CopyResource(to.get(), from.get());
    }
    void run_doubles() { dispatch(doubles.get(), signature.get(), heap.get(), 1); }

    std::string messages() {
        const auto queue = device.as<ID3D12InfoQueue>();
        std::string all;
        for (uint64_t i = 0; i < queue->GetNumStoredMessages(); ++i) {
            size_t size = 0;
            CHECK_OK(queue->GetMessage(i, nullptr, &size) == S_FALSE ? S_OK : E_FAIL);
            std::vector<std::max_align_t> storage(size / sizeof(std::max_align_t) + 1);
            auto* const message = reinterpret_cast<D3D12_MESSAGE*>(storage.data());
            CHECK_OK(queue->GetMessage(i, message, &size));
            all.append(message->pDescription).append("\n");
        }
        queue->ClearStoredMessages();
        return all;
    }
    void check_message(const std::string& part) {
        const std::string all = messages();
        if (all.find(part) == std::string::npos) {
            std::fprintf(stderr, "expected '%s' in: %s\n", part.c_str(), all.c_str());
            std::exit(1);
        }
    }

    // The list is refused when it is closed, with this message; the device is not lost.
    void refuses(const std::string& message) {
        CHECK_EQUAL(list->Close(), E_INVALIDARG);
        check_message(message);
        CHECK_OK(device->GetDeviceRemovedReason());
        reset();
    }
    // The list closes. Its execution removes the device, with this message.
    void removes(const std::string& message) {
        CHECK_OK(list->Close());
        submit();
        lost(message);
    }
    void lost(const std::string& message) {
        CHECK_EQUAL(device->GetDeviceRemovedReason(), DXGI_ERROR_INVALID_CALL);
        check_message(message);
    }
    void runs() {
        execute();
        CHECK_OK(device->GetDeviceRemovedReason());
        CHECK(messages().empty());
    }

    ComPtr<ID3D12RootSignature> signature;
    ComPtr<ID3D12PipelineState> doubles;
    ComPtr<ID3D12DescriptorHeap> heap;
    ComPtr<ID3D12Resource> data;
    ComPtr<ID3D12Resource> other;
};

}  // namespace

STRICT_CHECK(state_of_a_buffer, "validation") {
    Work work;
    work.copy(work.data, work.other);
    work.run_doubles();
    work.refuses("command 2, Dispatch: ID3D12Resource 'data' is in the state COPY_DEST, but must be in "
                 "UNORDERED_ACCESS; a transition barrier is missing");
    work.copy(work.data, work.other);
    work.barrier(transition(work.data, COPY_DEST, UNORDERED_ACCESS));
    work.run_doubles();
    work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE));
    work.barrier(transition(work.other, COPY_SOURCE, COPY_DEST));
    work.copy(work.other, work.data);
    work.runs();
    work.run_doubles();
    work.copy(work.other, work.data);
    work.refuses("command 2, CopyBufferRegion: ID3D12Resource 'data' is in the state UNORDERED_ACCESS, but must be in "
                 "COPY_SOURCE");
    work.list->CopyBufferRegion(work.data.get(), 0, work.data.get(), 8, 8);
    work.refuses("'data' is in the state COPY_DEST, but must be in COPY_SOURCE");
}

STRICT_CHECK(enhanced_barriers, "validation") {
    Work work;
    const auto list = work.list.as<ID3D12GraphicsCommandList7>();
    const auto barrier = [&](D3D12_BARRIER_SYNC sync_before, D3D12_BARRIER_ACCESS before, D3D12_BARRIER_SYNC sync_after,
                             D3D12_BARRIER_ACCESS after, uint64_t size = UINT64_MAX) {
        const D3D12_BUFFER_BARRIER one{sync_before, sync_after, before, after, work.data.get(), 0, size};
        D3D12_BARRIER_GROUP group{D3D12_BARRIER_TYPE_BUFFER, 1, {}};
        group.pBufferBarriers = &one;
        list->Barrier(1, &group);
    };
    const auto all = [&](D3D12_BARRIER_ACCESS before, D3D12_BARRIER_ACCESS after) {
        const D3D12_GLOBAL_BARRIER one{D3D12_BARRIER_SYNC_ALL, D3D12_BARRIER_SYNC_ALL, before, after};
        D3D12_BARRIER_GROUP group{D3D12_BARRIER_TYPE_GLOBAL, 1, {}};
        group.pGlobalBarriers = &one;
        list->Barrier(1, &group);
    };
    constexpr auto by_copy = D3D12_BARRIER_SYNC_COPY, by_shader = D3D12_BARRIER_SYNC_COMPUTE_SHADING;
    constexpr auto copied = D3D12_BARRIER_ACCESS_COPY_DEST, unordered = D3D12_BARRIER_ACCESS_UNORDERED_ACCESS;
    work.copy(work.data, work.other);
    barrier(by_copy, copied, by_shader, unordered);
    work.run_doubles();
    all(unordered, unordered);
    work.run_doubles();
    work.runs();
    work.run_doubles();
    barrier(by_shader, unordered, by_shader, unordered);
    work.run_doubles();
    work.runs();

    barrier(by_shader, copied, by_shader, unordered);
    work.refuses("Barrier: a barrier's work 128 does not access buffers by 1024");
    barrier(by_copy, copied, D3D12_BARRIER_SYNC_NONE, unordered);
    work.refuses("Barrier: a barrier's work 0 does not access buffers by 16");
    barrier(by_copy, copied, by_shader, unordered, 8);
    work.refuses("Barrier: a buffer's barrier is not for all of a buffer");
    all(copied, unordered);
    work.refuses("Barrier: a global barrier changes the access of all buffers");
    work.run_doubles();
    barrier(by_copy, copied, by_shader, unordered);
    work.refuses("Barrier: the transition of ID3D12Resource 'data' from COPY_DEST to UNORDERED_ACCESS: the buffer is in the "
                 "state UNORDERED_ACCESS");
}

STRICT_CHECK(promotion_and_decay, "validation") {
    Work work;
    // From one state that only reads to several, without a barrier; then the barrier names them all.
    D3D12_ROOT_PARAMETER1 parameters[4]{};
    for (uint32_t i = 0; i < 4; ++i) {
        constexpr D3D12_ROOT_PARAMETER_TYPE types[] = {D3D12_ROOT_PARAMETER_TYPE_CBV, D3D12_ROOT_PARAMETER_TYPE_UAV,
                                                       D3D12_ROOT_PARAMETER_TYPE_SRV, D3D12_ROOT_PARAMETER_TYPE_UAV};
        parameters[i].ParameterType = types[i];
        parameters[i].Descriptor = {i / 3, 0, {}};
    }
    const auto signature = work.root_signature(parameters);
    const auto pipeline = work.pipeline("describe_views", signature.get());
    const auto out = work.buffer(48);
    const auto second = work.buffer(48);
    const auto constants = work.buffer(256);
    const auto read_data = [&] {
        work.list->SetPipelineState(pipeline.get());
        work.list->SetComputeRootSignature(signature.get());
        work.list->SetComputeRootConstantBufferView(0, constants->GetGPUVirtualAddress());
        work.list->SetComputeRootUnorderedAccessView(1, out->GetGPUVirtualAddress());
        work.list->SetComputeRootShaderResourceView(2, work.data->GetGPUVirtualAddress());
        work.list->SetComputeRootUnorderedAccessView(3, second->GetGPUVirtualAddress());
        work.list->Dispatch(1, 1, 1);
    };
    work.copy(work.other, work.data);
    read_data();
    work.barrier(transition(work.data, COPY_SOURCE | SHADER_RESOURCE, UNORDERED_ACCESS));
    work.run_doubles();
    work.runs();  // and all buffers decay
    work.copy(work.data, work.other);
    work.runs();
    // A state that a barrier made is not promoted.
    work.barrier(transition(work.data, COMMON, COPY_SOURCE));
    read_data();
    work.refuses("'data' is in the state COPY_SOURCE, but must be in NON_PIXEL_SHADER_RESOURCE");
    work.barrier(transition(work.data, COMMON, COPY_SOURCE | SHADER_RESOURCE));
    read_data();
    work.copy(work.other, work.data);
    work.runs();
}

STRICT_CHECK(states_pass_between_the_lists_of_one_execution, "validation") {
    Work work;
    work.copy(work.data, work.other);
    CHECK_OK(work.list->Close());
    ComPtr<ID3D12CommandAllocator> allocator;
    ComPtr<ID3D12GraphicsCommandList> second;
    CHECK_OK(work.device->CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE_COMPUTE, ID3D12CommandAllocator::iid,
                                                 allocator.put()));
    CHECK_OK(work.device->CreateCommandList(0, D3D12_COMMAND_LIST_TYPE_COMPUTE, allocator.get(), nullptr,
                                            ID3D12GraphicsCommandList::iid, second.put()));
    second->SetName(L"second");
    second->CopyResource(work.other.get(), work.data.get());
    CHECK_OK(second->Close());
    ID3D12CommandList* lists[] = {work.list.get(), second.get()};
    work.queue->ExecuteCommandLists(1, lists);
    work.queue->ExecuteCommandLists(1, lists + 1);
    work.wait();
    CHECK_OK(work.device->GetDeviceRemovedReason());
    work.queue->ExecuteCommandLists(2, lists);
    work.lost("executing ID3D12GraphicsCommandList 'second': command 2, CopyBufferRegion: ID3D12Resource 'other' is in "
              "the state COPY_SOURCE, but must be in COPY_DEST");
}

STRICT_CHECK(a_barrier_that_expects_another_state, "validation") {
    Work work;
    work.copy(work.data, work.other);
    work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE));
    work.refuses("command 2, ResourceBarrier: the transition of ID3D12Resource 'data' from UNORDERED_ACCESS to COPY_SOURCE: "
                 "the buffer is in the state COPY_DEST");
    // A buffer in the state COMMON can be promoted to the state that the barrier expects.
    work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE));
    work.runs();
}

STRICT_CHECK(impossible_barriers, "validation") {
    Work work;
    const auto refuses = [&](const D3D12_RESOURCE_BARRIER& barrier, const std::string& message) {
        work.barrier(barrier);
        work.refuses(message);
    };
    refuses(transition(work.data, COPY_DEST, COPY_DEST), "changes nothing");
    refuses(transition(work.data, COMMON, COPY_DEST | COPY_SOURCE), "COPY_DEST | COPY_SOURCE combines a state that writes");
    refuses(transition(work.data, COMMON, 0x80), "has a state that lists of this type do not have");
    refuses(transition({}, COMMON, COPY_DEST), "a transition without a buffer");
    refuses({static_cast<D3D12_RESOURCE_BARRIER_TYPE>(7), {}, {}}, "a barrier of unknown type 7");
    refuses(transition(work.buffer(16, D3D12_HEAP_TYPE_UPLOAD), D3D12_RESOURCE_STATE_GENERIC_READ, COPY_SOURCE),
            "its heap does not allow any other state than GENERIC_READ");
    refuses(transition(work.buffer(16, D3D12_HEAP_TYPE_READBACK), COPY_DEST, COPY_SOURCE),
            "its heap does not allow any other state than COPY_DEST");
    const auto properties = heap_of(D3D12_HEAP_TYPE_DEFAULT);
    const auto desc = buffer_desc(16, D3D12_RESOURCE_FLAG_NONE);
    ComPtr<ID3D12Resource> plain;
    CHECK_OK(work.device->CreateCommittedResource(&properties, {}, &desc, COMMON, nullptr, ID3D12Resource::iid,
                                                  plain.put()));
    refuses(transition(plain, COMMON, UNORDERED_ACCESS), "the buffer does not allow unordered access");
    auto part = transition(work.data, COMMON, COPY_DEST);
    part.Transition.Subresource = 1;
    refuses(part, "a buffer has no part 1");
}

STRICT_CHECK(split_barriers, "validation") {
    Work work;
    constexpr auto begin = D3D12_RESOURCE_BARRIER_FLAG_BEGIN_ONLY;
    constexpr auto end = D3D12_RESOURCE_BARRIER_FLAG_END_ONLY;
    work.run_doubles();
    work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE, begin));
    work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE, end));
    work.copy(work.other, work.data);
    work.runs();
    work.run_doubles();
    work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE, begin));
    work.copy(work.other, work.data);
    work.refuses("'data' is used between the begin and the end of a split barrier to COPY_SOURCE");
    work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE, end));
    work.refuses("ends a split barrier that did not begin");
    work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE, begin));
    work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE));
    work.refuses("a split barrier has begun and must end first");
}

STRICT_CHECK(heaps_with_one_state, "validation") {
    Work work;
    const auto readback = work.buffer(16, D3D12_HEAP_TYPE_READBACK);
    const auto upload = work.buffer(16, D3D12_HEAP_TYPE_UPLOAD);
    work.copy(upload, work.data);
    work.refuses("is in the state GENERIC_READ, but must be in COPY_DEST, which its heap does not allow");
    work.copy(work.data, readback);
    work.refuses("is in the state COPY_DEST, but must be in COPY_SOURCE, which its heap does not allow");
}

STRICT_CHECK(missing_uav_barrier, "validation") {
    Work work;
    work.run_doubles();
    work.run_doubles();
    work.refuses("command 2, Dispatch: reads and writes ID3D12Resource 'data', which command 1, Dispatch, reads and "
                 "writes before; a UAV barrier between them is missing");
    for (ID3D12Resource* const named : {static_cast<ID3D12Resource*>(nullptr), work.data.get()}) {
        work.run_doubles();
        work.barrier(uav_barrier(named));
        work.run_doubles();
        work.runs();
    }
    work.run_doubles();
    work.barrier(uav_barrier(work.other.get()));
    work.run_doubles();
    work.refuses("a UAV barrier between them is missing");
    CHECK((work.read<uint32_t>(work.data.get()) == std::vector<uint32_t>{16, 32, 48, 64}));
}

STRICT_CHECK(dispatches_that_do_not_depend_on_each_other, "validation") {
    Work work;
    const auto large = work.buffer(64);
    const auto halves = work.descriptors(2);
    for (uint32_t i = 0; i < 2; ++i) {
        work.write_uav(halves.get(), i, large.get(), DXGI_FORMAT_R32_TYPELESS, 8 * i, 8);
        work.list->SetDescriptorHeaps(1, std::array{halves.get()}.data());
        work.list->SetComputeRootSignature(work.signature.get());
        work.list->SetPipelineState(work.doubles.get());
        const auto step = work.device->GetDescriptorHandleIncrementSize(D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV);
        work.list->SetComputeRootDescriptorTable(0, {halves->GetGPUDescriptorHandleForHeapStart().ptr + i * step});
        work.list->Dispatch(1, 1, 1);
    }
    work.run_doubles();
    work.runs();
}

// Only the execution knows descriptors that may change.
STRICT_CHECK(missing_uav_barrier_with_volatile_descriptors, "validation") {
    Work work(one_uav);
    work.run_doubles();
    work.run_doubles();
    work.removes("a UAV barrier between them is missing");
}

STRICT_CHECK(missing_aliasing_barrier, "validation") {
    Work work;
    const D3D12_HEAP_DESC heap_desc{65536, heap_of(D3D12_HEAP_TYPE_DEFAULT), 0, D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS};
    ComPtr<ID3D12Heap> memory;
    CHECK_OK(work.device->CreateHeap(&heap_desc, ID3D12Heap::iid, memory.put()));
    ComPtr<ID3D12Resource> placed[2];
    const wchar_t* const names[] = {L"first", L"second"};
    const auto desc = buffer_desc(16, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS);
    for (int i = 0; i < 2; ++i) {
        CHECK_OK(work.device->CreatePlacedResource(memory.get(), 0, &desc, COMMON, nullptr, ID3D12Resource::iid,
                                                   placed[i].put()));
        placed[i]->SetName(names[i]);
    }
    const auto use_both = [&](std::optional<D3D12_RESOURCE_BARRIER> between) {
        work.copy(work.data, placed[0]);
        if (between) {
            work.barrier(*between);
        }
        work.copy(work.data, placed[1]);
    };
    use_both(std::nullopt);
    work.refuses("ID3D12Resource 'second' lies in the memory of ID3D12Resource 'first', which was used before; an aliasing "
                 "barrier is missing");
    for (ID3D12Resource* const before : {static_cast<ID3D12Resource*>(nullptr), placed[0].get()}) {
        use_both(aliasing(before, placed[1].get()));
        work.runs();
    }
    use_both(aliasing(work.data.get(), placed[1].get()));
    work.refuses("an aliasing barrier is missing");
}

STRICT_CHECK(descriptors_of_a_heap_that_is_not_set, "validation") {
    Work work;
    const auto set_table = [&](ID3D12DescriptorHeap* heap, uint32_t index = 0) {
        const auto step = work.device->GetDescriptorHandleIncrementSize(D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV);
        work.list->SetComputeRootSignature(work.signature.get());
        work.list->SetPipelineState(work.doubles.get());
        work.list->SetComputeRootDescriptorTable(0, {heap->GetGPUDescriptorHandleForHeapStart().ptr + index * step});
    };
    const auto set_heaps = [&](std::vector<ID3D12DescriptorHeap*> heaps) {
        work.list->SetDescriptorHeaps(static_cast<uint32_t>(heaps.size()), heaps.data());
    };
    const auto second = work.descriptors(1);
    second->SetName(L"second");
    set_table(work.heap.get());
    work.refuses("SetComputeRootDescriptorTable: the descriptors are not all in the heap that is set, which is missing");
    set_heaps({second.get()});
    set_table(work.heap.get());
    work.refuses("not all in the heap that is set, which is ID3D12DescriptorHeap 'second'");
    set_heaps({work.heap.get()});
    set_table(work.heap.get());
    set_heaps({second.get()});
    work.list->Dispatch(1, 1, 1);
    work.refuses("Dispatch: the descriptors are not all in the heap that is set, which is ID3D12DescriptorHeap 'second'");
    set_heaps({work.descriptors(1, false).get()});
    work.refuses("SetDescriptorHeaps: ID3D12DescriptorHeap '' is null, not visible to shaders, or the second of its type");
    set_heaps({work.heap.get(), second.get()});
    work.refuses("or the second of its type");
    set_heaps({work.heap.get()});
    set_table(work.heap.get(), 1);
    work.refuses("SetComputeRootDescriptorTable: the descriptors are not all in the heap");
}

STRICT_CHECK(descriptors_that_mean_nothing, "validation") {
    Work work;
    work.heap = work.descriptors(1);
    work.run_doubles();
    work.refuses("a descriptor that the shader uses was never written");
    work.write_uav(work.heap.get(), 0, nullptr, DXGI_FORMAT_R32_TYPELESS, 0, 4);  // unbound: reads give 0
    work.run_doubles();
    work.runs();
    work.write_uav(work.heap.get(), 0, work.data.get(), DXGI_FORMAT_R32_TYPELESS, 0, 4);
    work.run_doubles();
    CHECK_OK(work.list->Close());
    work.data = nullptr;
    work.submit();
    work.lost("a descriptor refers to a buffer that no longer exists");
}

STRICT_CHECK(root_arguments_that_are_not_set, "validation") {
    Work work;
    D3D12_ROOT_PARAMETER1 parameters[4]{};
    parameters[0].ParameterType = D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS;
    parameters[0].Constants = {0, 0, 3};
    parameters[1].ParameterType = parameters[3].ParameterType = D3D12_ROOT_PARAMETER_TYPE_UAV;
    parameters[3].Descriptor = {1, 0, {}};
    parameters[2].ParameterType = D3D12_ROOT_PARAMETER_TYPE_SRV;
    const auto signature = work.root_signature(parameters);
    const auto pipeline = work.pipeline("describe_views", signature.get());
    const auto out = work.buffer(48);
    const auto dispatch_with = [&](bool constants, bool view, uint64_t address) {
        work.list->SetPipelineState(pipeline.get());
        work.list->SetComputeRootSignature(signature.get());
        if (constants) {
            work.list->SetComputeRoot32BitConstant(0, 1, 0);
        }
        work.list->SetComputeRootUnorderedAccessView(1, out->GetGPUVirtualAddress());
        if (view) {
            work.list->SetComputeRootShaderResourceView(2, address);
        }
        work.list->SetComputeRootUnorderedAccessView(3, work.other->GetGPUVirtualAddress());
        work.list->Dispatch(1, 1, 1);
    };
    dispatch_with(false, true, work.data->GetGPUVirtualAddress());
    work.refuses("Dispatch: root parameter 0 is not set");
    dispatch_with(true, false, 0);
    work.refuses("Dispatch: root parameter 2 is not set");
    dispatch_with(true, true, 4096);
    work.refuses("Dispatch: root parameter 2 is an address in no buffer");
    dispatch_with(true, true, work.data->GetGPUVirtualAddress());
    work.runs();
    work.list->SetDescriptorHeaps(1, std::array{work.heap.get()}.data());
    work.list->SetPipelineState(work.doubles.get());
    work.list->SetComputeRootSignature(work.signature.get());
    work.list->Dispatch(1, 1, 1);
    work.refuses("Dispatch: root parameter 0 is not set");
}

STRICT_CHECK(clears_through_views_that_do_not_fit, "validation") {
    Work work;
    const auto staging = work.descriptors(1, false);
    work.write_uav(staging.get(), 0, work.data.get(), DXGI_FORMAT_R32_TYPELESS, 0, 4);
    const uint32_t zeros[4] = {};
    const auto clear = [&](ID3D12DescriptorHeap* set, ID3D12Resource* buffer) {
        if (set) {
            work.list->SetDescriptorHeaps(1, &set);
        }
        work.list->ClearUnorderedAccessViewUint(work.heap->GetGPUDescriptorHandleForHeapStart(),
                                                work.at(staging.get(), 0), buffer, zeros, 0, nullptr);
    };
    clear(nullptr, work.data.get());
    work.refuses("ClearUnorderedAccessViewUint: the descriptors are not all in the heap that is set");
    clear(work.heap.get(), work.other.get());
    work.refuses("ClearUnorderedAccessViewUint: the resource is not that of the view");
    clear(work.heap.get(), work.data.get());
    work.run_doubles();
    work.refuses("which command 1, ClearUnorderedAccessViewUint, writes before; a UAV barrier between them is missing");
    clear(work.heap.get(), work.data.get());
    work.barrier(uav_barrier(nullptr));
    work.run_doubles();
    work.runs();
}

STRICT_CHECK(objects_that_no_longer_exist, "validation") {
    const auto lost_without = [](const std::function<void(Work&)>& release, const std::string& message) {
        Work work;
        work.run_doubles();
        work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE));
        work.copy(work.other, work.data);
        CHECK_OK(work.list->Close());
        release(work);
        work.submit();
        work.lost(message);
    };
    lost_without([](Work& work) { work.other = nullptr; }, "ID3D12Resource 'other' no longer exists");
    lost_without([](Work& work) { work.doubles = nullptr; }, "ID3D12PipelineState '' no longer exists");
    lost_without([](Work& work) { work.heap = nullptr; }, "ID3D12DescriptorHeap '' no longer exists");
}

STRICT_CHECK(allocators, "validation") {
    Work work;
    work.allocator->SetName(L"allocator");
    CHECK_EQUAL(work.allocator->Reset(), E_FAIL);
    work.check_message("ID3D12CommandAllocator 'allocator' is reset while a list that is open uses it");
    ComPtr<ID3D12GraphicsCommandList> second;
    const auto make_second = [&] {
        return work.device->CreateCommandList(0, D3D12_COMMAND_LIST_TYPE_COMPUTE, work.allocator.get(), nullptr,
                                              ID3D12GraphicsCommandList::iid, second.put());
    };
    CHECK_EQUAL(make_second(), E_INVALIDARG);
    work.check_message("CreateCommandList: ID3D12CommandAllocator 'allocator' is used by another list that is open");
    CHECK_OK(work.list->Close());
    CHECK_OK(make_second());
    CHECK_EQUAL(work.list->Reset(work.allocator.get(), nullptr), E_INVALIDARG);
    work.check_message("Reset: ID3D12CommandAllocator 'allocator' is used by another list that is open");
    second = nullptr;  // frees it
    CHECK_OK(work.list->Reset(work.allocator.get(), nullptr));

    work.copy(work.other, work.data);
    CHECK_OK(work.list->Close());
    work.submit();
    CHECK_OK(work.queue->Signal(work.fence.get(), ++work.fence_value));
    CHECK_EQUAL(work.allocator->Reset(), E_FAIL);
    work.check_message("'allocator' is reset while submitted work may still use it; no fence was waited for");
    CHECK_EQUAL(work.fence->GetCompletedValue(), work.fence_value);
    CHECK_OK(work.allocator->Reset());
    work.submit();  // the list that was recorded with it
    work.lost("what was recorded is gone: ID3D12CommandAllocator 'allocator' was reset");
}

// A list itself may be reset while it runs, with another allocator.
STRICT_CHECK(a_list_that_is_reset_in_flight, "validation") {
    Work work;
    ComPtr<ID3D12CommandAllocator> next;
    CHECK_OK(
        work.device->CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE_COMPUTE, ID3D12CommandAllocator::iid, next.put()));
    work.run_doubles();
    CHECK_OK(work.list->Close());
    work.submit();
    CHECK_OK(work.list->Reset(next.get(), nullptr));
    work.copy(work.other, work.data);
    CHECK_OK(work.list->Close());
    work.submit();
    work.wait();
    CHECK_OK(work.allocator->Reset());
    CHECK_OK(next->Reset());
    CHECK(work.messages().empty());
}

STRICT_CHECK(released_in_flight, "validation") {
    const auto lost_without = [](const std::function<void(Work&)>& release, const std::string& message) {
        Work work;
        work.run_doubles();
        work.barrier(transition(work.data, UNORDERED_ACCESS, COPY_SOURCE));
        work.copy(work.other, work.data);
        CHECK_OK(work.list->Close());
        work.submit();
        CHECK_OK(work.queue->Signal(work.fence.get(), ++work.fence_value));
        release(work);
        if (message.empty()) {
            CHECK_OK(work.device->GetDeviceRemovedReason());
            work.wait();
        } else {
            work.lost(message + " is released while submitted work may still use it; no fence was waited for");
        }
    };
    lost_without([](Work& work) { work.other = nullptr; }, "ID3D12Resource 'other'");
    lost_without([](Work& work) { work.data = nullptr; }, "ID3D12Resource 'data'");
    lost_without([](Work& work) { work.doubles = nullptr; }, "ID3D12PipelineState ''");
    lost_without([](Work& work) { work.heap = nullptr; }, "ID3D12DescriptorHeap ''");
    lost_without([](Work& work) { work.allocator = nullptr; }, "ID3D12CommandAllocator ''");
    lost_without(
        [](Work& work) {  // an earlier value does not tell
            CHECK_OK(work.fence->SetEventOnCompletion(work.fence_value - 1, nullptr));
            work.other = nullptr;
        },
        "ID3D12Resource 'other'");
    // Whoever waited for the fence may release: with the call, with an event, or by looking.
    lost_without(
        [](Work& work) {
            CHECK_OK(work.fence->SetEventOnCompletion(work.fence_value, nullptr));
            work.other = nullptr;
        },
        "");
    lost_without(
        [](Work& work) {
            const int event = eventfd(0, EFD_CLOEXEC);
            const auto handle = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
            CHECK_OK(work.fence->SetEventOnCompletion(work.fence_value, handle));
            close(event);
            work.other = nullptr;
        },
        "");
    lost_without(
        [](Work& work) {
            CHECK_EQUAL(work.fence->GetCompletedValue(), work.fence_value);
            work.other = nullptr;
        },
        "");
}

// A queue that waits for another one ends after it.
STRICT_CHECK(a_fence_of_another_queue, "validation") {
    Work work;
    ComPtr<ID3D12CommandQueue> other;
    const D3D12_COMMAND_QUEUE_DESC desc{D3D12_COMMAND_LIST_TYPE_COMPUTE, 0, {}, 0};
    CHECK_OK(work.device->CreateCommandQueue(&desc, ID3D12CommandQueue::iid, other.put()));
    ComPtr<ID3D12Fence> last;
    CHECK_OK(work.device->CreateFence(0, D3D12_FENCE_FLAG_NONE, ID3D12Fence::iid, last.put()));
    for (const bool waits : {true, false}) {
        CHECK_OK(work.list->Close());
        work.submit();
        CHECK_OK(other->Wait(work.fence.get(), ++work.fence_value));
        CHECK_OK(work.queue->Signal(work.fence.get(), work.fence_value));
        CHECK_OK((waits ? other : work.queue)->Signal(last.get(), work.fence_value));
        CHECK_OK(last->SetEventOnCompletion(work.fence_value, nullptr));
        work.reset();
    }
    CHECK(work.messages().empty());
}

// What a correct program does under all other checks of this folder: nothing is reported.
STRICT_CHECK(validation_of_a_correct_program, "strict") {
    Work work;
    work.run_doubles();
    work.runs();
    CHECK((work.read<uint32_t>(work.data.get()) == std::vector<uint32_t>{2, 4, 6, 8}));
    CHECK(work.messages().empty());
}

ADAPTER_CHECK(no_messages_without_validation) {
    Bench bench;
    CHECK(!bench.device.as<ID3D12InfoQueue>());
}
