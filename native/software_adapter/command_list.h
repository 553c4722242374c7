// Command allocators, command lists and query heaps.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "software_adapter/commands.h"
#include "software_adapter/descriptors.h"
#include "software_adapter/object.h"
#include "software_adapter/resource.h"
#include "software_adapter/resource_states.h"
#include "software_adapter/root_signature.h"

namespace dmlgraph::software {

// Who uses an allocator; its lists keep this.
struct AllocatorUse {
    const LiveRef object;
    bool recording = false;  // a list that is open uses it
    unsigned resets = 0;
};

// Commands are stored in their list: an allocator has only a type, and what is needed to check its use.
class CommandAllocator final : public DeviceChild<ID3D12CommandAllocator, ID3D12Pageable> {
public:
    CommandAllocator(const DeviceOwner& owner, D3D12_COMMAND_LIST_TYPE type) : DeviceChild(owner), type_(type) {}

    HRESULT Reset() override;

    D3D12_COMMAND_LIST_TYPE type() const { return type_; }
    const std::shared_ptr<AllocatorUse>& use() const { return use_; }

private:
    D3D12_COMMAND_LIST_TYPE type_;
    const std::shared_ptr<AllocatorUse> use_ = std::make_shared<AllocatorUse>(live());
};

// Timestamps in nanoseconds.
class QueryHeap final : public DeviceChild<ID3D12QueryHeap, ID3D12Pageable> {
public:
    QueryHeap(const DeviceOwner& owner, uint32_t count) : DeviceChild(owner), values_(count) {}

    uint32_t count() const { return static_cast<uint32_t>(values_.size()); }
    uint64_t* value(uint32_t index) { return &values_[index]; }

private:
    std::vector<uint64_t> values_;
};

// If a command cannot be recorded, this is logged and Close returns E_INVALIDARG.
// Of later interfaces it has enhanced barriers alone; a query for those between is refused.
class CommandList final : public DeviceChild<ID3D12GraphicsCommandList7, ID3D12GraphicsCommandList, ID3D12CommandList> {
public:
    // CreateCommandList makes an open list, with an allocator; CreateCommandList1 makes a closed one, without.
    CommandList(const DeviceOwner& owner, D3D12_COMMAND_LIST_TYPE type, CommandAllocator* allocator,
                PipelineState* pipeline);
    ~CommandList() override;

    D3D12_COMMAND_LIST_TYPE GetType() override { return type_; }
    HRESULT Close() override;
    HRESULT Reset(ID3D12CommandAllocator* allocator, ID3D12PipelineState* pipeline) override;
    void ClearState(ID3D12PipelineState* pipeline) override;

    void SetPipelineState(ID3D12PipelineState* pipeline) override;
    void SetComputeRootSignature(ID3D12RootSignature* root_signature) override;
    // A descriptor's handle is its address: the heaps are needed only to check handles.
    void SetDescriptorHeaps(uint32_t count, ID3D12DescriptorHeap* const* heaps) override;
    void SetComputeRootDescriptorTable(uint32_t parameter, D3D12_GPU_DESCRIPTOR_HANDLE base) override;
    void SetComputeRoot32BitConstant(uint32_t parameter, uint32_t value, uint32_t offset) override;
    void SetComputeRoot32BitConstants(uint32_t parameter, uint32_t count, const void* values, uint32_t offset) override;
    void SetComputeRootConstantBufferView(uint32_t parameter, D3D12_GPU_VIRTUAL_ADDRESS address) override;
    void SetComputeRootShaderResourceView(uint32_t parameter, D3D12_GPU_VIRTUAL_ADDRESS address) override;
    void SetComputeRootUnorderedAccessView(uint32_t parameter, D3D12_GPU_VIRTUAL_ADDRESS address) override;

    void Dispatch(uint32_t x, uint32_t y, uint32_t z) override;
    void CopyBufferRegion(ID3D12Resource* target, uint64_t target_offset, ID3D12Resource* source,
                          uint64_t source_offset, uint64_t size) override;
    void CopyResource(ID3D12Resource* target, ID3D12Resource* source) override;
    void ClearUnorderedAccessViewUint(D3D12_GPU_DESCRIPTOR_HANDLE handle, D3D12_CPU_DESCRIPTOR_HANDLE view,
                                      ID3D12Resource* resource, const uint32_t* values, uint32_t rect_count,
                                      const D3D12_RECT* rects) override;
    void ClearUnorderedAccessViewFloat(D3D12_GPU_DESCRIPTOR_HANDLE handle, D3D12_CPU_DESCRIPTOR_HANDLE view,
                                       ID3D12Resource* resource, const float* values, uint32_t rect_count,
                                       const D3D12_RECT* rects) override;
    void EndQuery(ID3D12QueryHeap* heap, D3D12_QUERY_TYPE type, uint32_t index) override;
    void ResolveQueryData(ID3D12QueryHeap* heap, D3D12_QUERY_TYPE type, uint32_t first, uint32_t count,
                          ID3D12Resource* target, uint64_t offset) override;

    // Commands run in order, so barriers are needed only to check them.
    void ResourceBarrier(uint32_t count, const D3D12_RESOURCE_BARRIER* barriers) override;
    void Barrier(uint32_t count, const D3D12_BARRIER_GROUP* groups) override;
    // For profilers.
    void SetMarker(uint32_t, const void*, uint32_t) override {}
    void BeginEvent(uint32_t metadata, const void* data, uint32_t size) override;
    void EndEvent() override;

    // Null while the list is open. Shared, because a queue may still run commands that Reset dropped here.
    std::shared_ptr<const Commands> commands() const { return open_ ? nullptr : commands_; }

    // What the commands do; empty without validation.
    const Steps& steps() const { return steps_; }
    // Throws Refusal if what was recorded is gone from the allocator.
    void check_allocator() const;
    void add_flight(const std::shared_ptr<Flight>& flight);

private:
    struct RootArgument {
        bool is_set = false;
        uint64_t value = 0;  // a descriptor's or buffer's address
        std::vector<uint32_t> constants;
    };

    struct SetHeap {
        LiveRef object;
        const SwView* begin;
        const SwView* end;
    };

    void start(CommandAllocator* allocator, PipelineState* pipeline);
    void leave_allocator();
    // If the list is closed, marks it as failed and returns false.
    bool can_record(const char* method);
    void fail(const std::string& reason);
    // The argument of a parameter of this type; if there is none, marks the list as failed and returns null.
    RootArgument* argument(uint32_t parameter, D3D12_ROOT_PARAMETER_TYPE type, const char* method);
    void set_view(uint32_t parameter, D3D12_ROOT_PARAMETER_TYPE type, uint64_t value, const char* method);
    bool bind(DispatchCommand& command);
    template <class Value>
    void clear(const char* method, const void* caller, D3D12_GPU_DESCRIPTOR_HANDLE handle, const SwView& view,
               ID3D12Resource* resource, const Value* values, uint32_t rect_count, const D3D12_RECT* rects);

    // All of these do nothing without validation. The step of the command that is recorded; else null. `caller` is the
    // address that the command returns to.
    Step* note(const char* method, const void* caller, std::vector<LiveRef> objects = {});
    void note_barriers(const char* method, const void* caller, std::span<const D3D12_RESOURCE_BARRIER> barriers);
    // Null, and the list has failed, if the descriptors are not all in a heap that is set.
    const SetHeap* find_heap(const SwView* first, uint64_t count, const char* method);
    bool note_dispatch(const void* caller);
    bool note_binding(Step& step, const SwResourceRange& range, const RootBinding& binding);

    D3D12_COMMAND_LIST_TYPE type_;
    bool open_;
    bool failed_ = false;
    std::shared_ptr<Commands> commands_;
    Steps steps_;
    std::vector<SetHeap> heaps_;
    std::shared_ptr<AllocatorUse> allocator_;  // null until the list was open
    unsigned allocator_resets_ = 0;            // when the list was opened
    PipelineState* pipeline_ = nullptr;
    RootSignature* root_signature_ = nullptr;
    std::vector<RootArgument> arguments_;
};

}  // namespace dmlgraph::software
