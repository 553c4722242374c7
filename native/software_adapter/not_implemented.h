// Written by tools/generate.py from abi/d3d12.h: do not edit.
#pragma once

#include "abi/d3d12.h"
#include "software_adapter/not_implemented_call.h"

namespace dmlgraph::software {

using namespace abi;

// An interface whose methods all answer "not implemented" until a class derived from it overrides them.
// Interfaces that are not listed below are implemented in full.
template <class Interface>
class NotImplemented : public Interface {};

template <>
class NotImplemented<ID3D12Resource> : public ID3D12Resource {
public:
    HRESULT Map(uint32_t, const D3D12_RANGE*, void**) override { not_implemented<"ID3D12Resource::Map">();
        return E_NOTIMPL; }
    void Unmap(uint32_t, const D3D12_RANGE*) override { not_implemented<"ID3D12Resource::Unmap">(); }
    D3D12_RESOURCE_DESC GetDesc() override { not_implemented<"ID3D12Resource::GetDesc">(); return {}; }
    D3D12_GPU_VIRTUAL_ADDRESS GetGPUVirtualAddress() override {
        not_implemented<"ID3D12Resource::GetGPUVirtualAddress">(); return {}; }
    HRESULT WriteToSubresource(uint32_t, const void*, const void*, uint32_t, uint32_t) override {
        not_implemented<"ID3D12Resource::WriteToSubresource">(); return E_NOTIMPL; }
    HRESULT ReadFromSubresource(void*, uint32_t, uint32_t, uint32_t, const void*) override {
        not_implemented<"ID3D12Resource::ReadFromSubresource">(); return E_NOTIMPL; }
    HRESULT GetHeapProperties(D3D12_HEAP_PROPERTIES*, D3D12_HEAP_FLAGS*) override {
        not_implemented<"ID3D12Resource::GetHeapProperties">(); return E_NOTIMPL; }
};

template <>
class NotImplemented<ID3D12PipelineState> : public ID3D12PipelineState {
public:
    HRESULT GetCachedBlob(ID3DBlob**) override { not_implemented<"ID3D12PipelineState::GetCachedBlob">();
        return E_NOTIMPL; }
};

template <>
class NotImplemented<ID3D12GraphicsCommandList> : public ID3D12GraphicsCommandList {
public:
    D3D12_COMMAND_LIST_TYPE GetType() override { not_implemented<"ID3D12CommandList::GetType">(); return {}; }
    HRESULT Close() override { not_implemented<"ID3D12GraphicsCommandList::Close">(); return E_NOTIMPL; }
    HRESULT Reset(ID3D12CommandAllocator*, ID3D12PipelineState*) override {
        not_implemented<"ID3D12GraphicsCommandList::Reset">(); return E_NOTIMPL; }
    void ClearState(ID3D12PipelineState*) override {
        not_implemented<"ID3D12GraphicsCommandList::ClearState">(); }
    void DrawInstanced(uint32_t, uint32_t, uint32_t, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::DrawInstanced">(); }
    void DrawIndexedInstanced(uint32_t, uint32_t, uint32_t, int32_t, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::DrawIndexedInstanced">(); }
    void Dispatch(uint32_t, uint32_t, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::Dispatch">(); }
    void CopyBufferRegion(ID3D12Resource*, uint64_t, ID3D12Resource*, uint64_t, uint64_t) override {
        not_implemented<"ID3D12GraphicsCommandList::CopyBufferRegion">(); }
    void CopyTextureRegion(const void*, uint32_t, uint32_t, uint32_t, const void*, const void*) override {
        not_implemented<"ID3D12GraphicsCommandList::CopyTextureRegion">(); }
    void CopyResource(ID3D12Resource*, ID3D12Resource*) override {
        not_implemented<"ID3D12GraphicsCommandList::CopyResource">(); }
    void CopyTiles(ID3D12Resource*, const void*, const void*, ID3D12Resource*, uint64_t, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::CopyTiles">(); }
    void ResolveSubresource(ID3D12Resource*, uint32_t, ID3D12Resource*, uint32_t, DXGI_FORMAT) override {
        not_implemented<"ID3D12GraphicsCommandList::ResolveSubresource">(); }
    void IASetPrimitiveTopology(uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::IASetPrimitiveTopology">(); }
    void RSSetViewports(uint32_t, const void*) override {
        not_implemented<"ID3D12GraphicsCommandList::RSSetViewports">(); }
    void RSSetScissorRects(uint32_t, const D3D12_RECT*) override {
        not_implemented<"ID3D12GraphicsCommandList::RSSetScissorRects">(); }
    void OMSetBlendFactor(const float*) override {
        not_implemented<"ID3D12GraphicsCommandList::OMSetBlendFactor">(); }
    void OMSetStencilRef(uint32_t) override { not_implemented<"ID3D12GraphicsCommandList::OMSetStencilRef">();
        }
    void SetPipelineState(ID3D12PipelineState*) override {
        not_implemented<"ID3D12GraphicsCommandList::SetPipelineState">(); }
    void ResourceBarrier(uint32_t, const D3D12_RESOURCE_BARRIER*) override {
        not_implemented<"ID3D12GraphicsCommandList::ResourceBarrier">(); }
    void ExecuteBundle(ID3D12GraphicsCommandList*) override {
        not_implemented<"ID3D12GraphicsCommandList::ExecuteBundle">(); }
    void SetDescriptorHeaps(uint32_t, ID3D12DescriptorHeap* const*) override {
        not_implemented<"ID3D12GraphicsCommandList::SetDescriptorHeaps">(); }
    void SetComputeRootSignature(ID3D12RootSignature*) override {
        not_implemented<"ID3D12GraphicsCommandList::SetComputeRootSignature">(); }
    void SetGraphicsRootSignature(ID3D12RootSignature*) override {
        not_implemented<"ID3D12GraphicsCommandList::SetGraphicsRootSignature">(); }
    void SetComputeRootDescriptorTable(uint32_t, D3D12_GPU_DESCRIPTOR_HANDLE) override {
        not_implemented<"ID3D12GraphicsCommandList::SetComputeRootDescriptorTable">(); }
    void SetGraphicsRootDescriptorTable(uint32_t, D3D12_GPU_DESCRIPTOR_HANDLE) override {
        not_implemented<"ID3D12GraphicsCommandList::SetGraphicsRootDescriptorTable">(); }
    void SetComputeRoot32BitConstant(uint32_t, uint32_t, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::SetComputeRoot32BitConstant">(); }
    void SetGraphicsRoot32BitConstant(uint32_t, uint32_t, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::SetGraphicsRoot32BitConstant">(); }
    void SetComputeRoot32BitConstants(uint32_t, uint32_t, const void*, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::SetComputeRoot32BitConstants">(); }
    void SetGraphicsRoot32BitConstants(uint32_t, uint32_t, const void*, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::SetGraphicsRoot32BitConstants">(); }
    void SetComputeRootConstantBufferView(uint32_t, D3D12_GPU_VIRTUAL_ADDRESS) override {
        not_implemented<"ID3D12GraphicsCommandList::SetComputeRootConstantBufferView">(); }
    void SetGraphicsRootConstantBufferView(uint32_t, D3D12_GPU_VIRTUAL_ADDRESS) override {
        not_implemented<"ID3D12GraphicsCommandList::SetGraphicsRootConstantBufferView">(); }
    void SetComputeRootShaderResourceView(uint32_t, D3D12_GPU_VIRTUAL_ADDRESS) override {
        not_implemented<"ID3D12GraphicsCommandList::SetComputeRootShaderResourceView">(); }
    void SetGraphicsRootShaderResourceView(uint32_t, D3D12_GPU_VIRTUAL_ADDRESS) override {
        not_implemented<"ID3D12GraphicsCommandList::SetGraphicsRootShaderResourceView">(); }
    void SetComputeRootUnorderedAccessView(uint32_t, D3D12_GPU_VIRTUAL_ADDRESS) override {
        not_implemented<"ID3D12GraphicsCommandList::SetComputeRootUnorderedAccessView">(); }
    void SetGraphicsRootUnorderedAccessView(uint32_t, D3D12_GPU_VIRTUAL_ADDRESS) override {
        not_implemented<"ID3D12GraphicsCommandList::SetGraphicsRootUnorderedAccessView">(); }
    void IASetIndexBuffer(const void*) override {
        not_implemented<"ID3D12GraphicsCommandList::IASetIndexBuffer">(); }
    void IASetVertexBuffers(uint32_t, uint32_t, const void*) override {
        not_implemented<"ID3D12GraphicsCommandList::IASetVertexBuffers">(); }
    void SOSetTargets(uint32_t, uint32_t, const void*) override {
        not_implemented<"ID3D12GraphicsCommandList::SOSetTargets">(); }
    void OMSetRenderTargets(uint32_t, const D3D12_CPU_DESCRIPTOR_HANDLE*, BOOL, const
        D3D12_CPU_DESCRIPTOR_HANDLE*) override {
        not_implemented<"ID3D12GraphicsCommandList::OMSetRenderTargets">(); }
    void ClearDepthStencilView(D3D12_CPU_DESCRIPTOR_HANDLE, uint32_t, float, uint8_t, uint32_t, const
        D3D12_RECT*) override { not_implemented<"ID3D12GraphicsCommandList::ClearDepthStencilView">(); }
    void ClearRenderTargetView(D3D12_CPU_DESCRIPTOR_HANDLE, const float*, uint32_t, const D3D12_RECT*)
        override { not_implemented<"ID3D12GraphicsCommandList::ClearRenderTargetView">(); }
    void ClearUnorderedAccessViewUint(D3D12_GPU_DESCRIPTOR_HANDLE, D3D12_CPU_DESCRIPTOR_HANDLE,
        ID3D12Resource*, const uint32_t*, uint32_t, const D3D12_RECT*) override {
        not_implemented<"ID3D12GraphicsCommandList::ClearUnorderedAccessViewUint">(); }
    void ClearUnorderedAccessViewFloat(D3D12_GPU_DESCRIPTOR_HANDLE, D3D12_CPU_DESCRIPTOR_HANDLE,
        ID3D12Resource*, const float*, uint32_t, const D3D12_RECT*) override {
        not_implemented<"ID3D12GraphicsCommandList::ClearUnorderedAccessViewFloat">(); }
    void DiscardResource(ID3D12Resource*, const void*) override {
        not_implemented<"ID3D12GraphicsCommandList::DiscardResource">(); }
    void BeginQuery(ID3D12QueryHeap*, D3D12_QUERY_TYPE, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::BeginQuery">(); }
    void EndQuery(ID3D12QueryHeap*, D3D12_QUERY_TYPE, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::EndQuery">(); }
    void ResolveQueryData(ID3D12QueryHeap*, D3D12_QUERY_TYPE, uint32_t, uint32_t, ID3D12Resource*, uint64_t)
        override { not_implemented<"ID3D12GraphicsCommandList::ResolveQueryData">(); }
    void SetPredication(ID3D12Resource*, uint64_t, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::SetPredication">(); }
    void SetMarker(uint32_t, const void*, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::SetMarker">(); }
    void BeginEvent(uint32_t, const void*, uint32_t) override {
        not_implemented<"ID3D12GraphicsCommandList::BeginEvent">(); }
    void EndEvent() override { not_implemented<"ID3D12GraphicsCommandList::EndEvent">(); }
    void ExecuteIndirect(ID3D12CommandSignature*, uint32_t, ID3D12Resource*, uint64_t, ID3D12Resource*,
        uint64_t) override { not_implemented<"ID3D12GraphicsCommandList::ExecuteIndirect">(); }
};

template <>
class NotImplemented<ID3D12CommandQueue> : public ID3D12CommandQueue {
public:
    void UpdateTileMappings(ID3D12Resource*, uint32_t, const void*, const void*, ID3D12Heap*, uint32_t, const
        void*, const uint32_t*, const uint32_t*, uint32_t) override {
        not_implemented<"ID3D12CommandQueue::UpdateTileMappings">(); }
    void CopyTileMappings(ID3D12Resource*, const void*, ID3D12Resource*, const void*, const void*, uint32_t)
        override { not_implemented<"ID3D12CommandQueue::CopyTileMappings">(); }
    void ExecuteCommandLists(uint32_t, ID3D12CommandList* const*) override {
        not_implemented<"ID3D12CommandQueue::ExecuteCommandLists">(); }
    void SetMarker(uint32_t, const void*, uint32_t) override {
        not_implemented<"ID3D12CommandQueue::SetMarker">(); }
    void BeginEvent(uint32_t, const void*, uint32_t) override {
        not_implemented<"ID3D12CommandQueue::BeginEvent">(); }
    void EndEvent() override { not_implemented<"ID3D12CommandQueue::EndEvent">(); }
    HRESULT Signal(ID3D12Fence*, uint64_t) override { not_implemented<"ID3D12CommandQueue::Signal">(); return
        E_NOTIMPL; }
    HRESULT Wait(ID3D12Fence*, uint64_t) override { not_implemented<"ID3D12CommandQueue::Wait">(); return
        E_NOTIMPL; }
    HRESULT GetTimestampFrequency(uint64_t*) override {
        not_implemented<"ID3D12CommandQueue::GetTimestampFrequency">(); return E_NOTIMPL; }
    HRESULT GetClockCalibration(uint64_t*, uint64_t*) override {
        not_implemented<"ID3D12CommandQueue::GetClockCalibration">(); return E_NOTIMPL; }
    D3D12_COMMAND_QUEUE_DESC GetDesc() override { not_implemented<"ID3D12CommandQueue::GetDesc">(); return {};
        }
};

template <>
class NotImplemented<ID3D12Device5> : public ID3D12Device5 {
public:
    uint32_t GetNodeCount() override { not_implemented<"ID3D12Device::GetNodeCount">(); return {}; }
    HRESULT CreateCommandQueue(const D3D12_COMMAND_QUEUE_DESC*, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateCommandQueue">(); return E_NOTIMPL; }
    HRESULT CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateCommandAllocator">(); return E_NOTIMPL; }
    HRESULT CreateGraphicsPipelineState(const void*, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateGraphicsPipelineState">(); return E_NOTIMPL; }
    HRESULT CreateComputePipelineState(const D3D12_COMPUTE_PIPELINE_STATE_DESC*, const IID&, void**) override
        { not_implemented<"ID3D12Device::CreateComputePipelineState">(); return E_NOTIMPL; }
    HRESULT CreateCommandList(uint32_t, D3D12_COMMAND_LIST_TYPE, ID3D12CommandAllocator*,
        ID3D12PipelineState*, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateCommandList">(); return E_NOTIMPL; }
    HRESULT CheckFeatureSupport(D3D12_FEATURE, void*, uint32_t) override {
        not_implemented<"ID3D12Device::CheckFeatureSupport">(); return E_NOTIMPL; }
    HRESULT CreateDescriptorHeap(const D3D12_DESCRIPTOR_HEAP_DESC*, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateDescriptorHeap">(); return E_NOTIMPL; }
    uint32_t GetDescriptorHandleIncrementSize(D3D12_DESCRIPTOR_HEAP_TYPE) override {
        not_implemented<"ID3D12Device::GetDescriptorHandleIncrementSize">(); return {}; }
    HRESULT CreateRootSignature(uint32_t, const void*, size_t, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateRootSignature">(); return E_NOTIMPL; }
    void CreateConstantBufferView(const D3D12_CONSTANT_BUFFER_VIEW_DESC*, D3D12_CPU_DESCRIPTOR_HANDLE)
        override { not_implemented<"ID3D12Device::CreateConstantBufferView">(); }
    void CreateShaderResourceView(ID3D12Resource*, const D3D12_SHADER_RESOURCE_VIEW_DESC*,
        D3D12_CPU_DESCRIPTOR_HANDLE) override { not_implemented<"ID3D12Device::CreateShaderResourceView">(); }
    void CreateUnorderedAccessView(ID3D12Resource*, ID3D12Resource*, const D3D12_UNORDERED_ACCESS_VIEW_DESC*,
        D3D12_CPU_DESCRIPTOR_HANDLE) override { not_implemented<"ID3D12Device::CreateUnorderedAccessView">();
        }
    void CreateRenderTargetView(ID3D12Resource*, const void*, D3D12_CPU_DESCRIPTOR_HANDLE) override {
        not_implemented<"ID3D12Device::CreateRenderTargetView">(); }
    void CreateDepthStencilView(ID3D12Resource*, const void*, D3D12_CPU_DESCRIPTOR_HANDLE) override {
        not_implemented<"ID3D12Device::CreateDepthStencilView">(); }
    void CreateSampler(const void*, D3D12_CPU_DESCRIPTOR_HANDLE) override {
        not_implemented<"ID3D12Device::CreateSampler">(); }
    void CopyDescriptors(uint32_t, const D3D12_CPU_DESCRIPTOR_HANDLE*, const uint32_t*, uint32_t, const
        D3D12_CPU_DESCRIPTOR_HANDLE*, const uint32_t*, D3D12_DESCRIPTOR_HEAP_TYPE) override {
        not_implemented<"ID3D12Device::CopyDescriptors">(); }
    void CopyDescriptorsSimple(uint32_t, D3D12_CPU_DESCRIPTOR_HANDLE, D3D12_CPU_DESCRIPTOR_HANDLE,
        D3D12_DESCRIPTOR_HEAP_TYPE) override { not_implemented<"ID3D12Device::CopyDescriptorsSimple">(); }
    D3D12_RESOURCE_ALLOCATION_INFO GetResourceAllocationInfo(uint32_t, uint32_t, const D3D12_RESOURCE_DESC*)
        override { not_implemented<"ID3D12Device::GetResourceAllocationInfo">(); return {}; }
    D3D12_HEAP_PROPERTIES GetCustomHeapProperties(uint32_t, D3D12_HEAP_TYPE) override {
        not_implemented<"ID3D12Device::GetCustomHeapProperties">(); return {}; }
    HRESULT CreateCommittedResource(const D3D12_HEAP_PROPERTIES*, D3D12_HEAP_FLAGS, const
        D3D12_RESOURCE_DESC*, D3D12_RESOURCE_STATES, const void*, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateCommittedResource">(); return E_NOTIMPL; }
    HRESULT CreateHeap(const D3D12_HEAP_DESC*, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateHeap">(); return E_NOTIMPL; }
    HRESULT CreatePlacedResource(ID3D12Heap*, uint64_t, const D3D12_RESOURCE_DESC*, D3D12_RESOURCE_STATES,
        const void*, const IID&, void**) override { not_implemented<"ID3D12Device::CreatePlacedResource">();
        return E_NOTIMPL; }
    HRESULT CreateReservedResource(const D3D12_RESOURCE_DESC*, D3D12_RESOURCE_STATES, const void*, const IID&,
        void**) override { not_implemented<"ID3D12Device::CreateReservedResource">(); return E_NOTIMPL; }
    HRESULT CreateSharedHandle(ID3D12DeviceChild*, const void*, uint32_t, const wchar_t*, HANDLE*) override {
        not_implemented<"ID3D12Device::CreateSharedHandle">(); return E_NOTIMPL; }
    HRESULT OpenSharedHandle(HANDLE, const IID&, void**) override {
        not_implemented<"ID3D12Device::OpenSharedHandle">(); return E_NOTIMPL; }
    HRESULT OpenSharedHandleByName(const wchar_t*, uint32_t, HANDLE*) override {
        not_implemented<"ID3D12Device::OpenSharedHandleByName">(); return E_NOTIMPL; }
    HRESULT MakeResident(uint32_t, ID3D12Pageable* const*) override {
        not_implemented<"ID3D12Device::MakeResident">(); return E_NOTIMPL; }
    HRESULT Evict(uint32_t, ID3D12Pageable* const*) override { not_implemented<"ID3D12Device::Evict">();
        return E_NOTIMPL; }
    HRESULT CreateFence(uint64_t, D3D12_FENCE_FLAGS, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateFence">(); return E_NOTIMPL; }
    HRESULT GetDeviceRemovedReason() override { not_implemented<"ID3D12Device::GetDeviceRemovedReason">();
        return E_NOTIMPL; }
    void GetCopyableFootprints(const D3D12_RESOURCE_DESC*, uint32_t, uint32_t, uint64_t, void*, uint32_t*,
        uint64_t*, uint64_t*) override { not_implemented<"ID3D12Device::GetCopyableFootprints">(); }
    HRESULT CreateQueryHeap(const D3D12_QUERY_HEAP_DESC*, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateQueryHeap">(); return E_NOTIMPL; }
    HRESULT SetStablePowerState(BOOL) override { not_implemented<"ID3D12Device::SetStablePowerState">();
        return E_NOTIMPL; }
    HRESULT CreateCommandSignature(const void*, ID3D12RootSignature*, const IID&, void**) override {
        not_implemented<"ID3D12Device::CreateCommandSignature">(); return E_NOTIMPL; }
    void GetResourceTiling(ID3D12Resource*, uint32_t*, void*, void*, uint32_t*, uint32_t, void*) override {
        not_implemented<"ID3D12Device::GetResourceTiling">(); }
    LUID GetAdapterLuid() override { not_implemented<"ID3D12Device::GetAdapterLuid">(); return {}; }
    HRESULT CreatePipelineLibrary(const void*, size_t, const IID&, void**) override {
        not_implemented<"ID3D12Device1::CreatePipelineLibrary">(); return E_NOTIMPL; }
    HRESULT SetEventOnMultipleFenceCompletion(ID3D12Fence* const*, const uint64_t*, uint32_t, uint32_t,
        HANDLE) override { not_implemented<"ID3D12Device1::SetEventOnMultipleFenceCompletion">(); return
        E_NOTIMPL; }
    HRESULT SetResidencyPriority(uint32_t, ID3D12Pageable* const*, const void*) override {
        not_implemented<"ID3D12Device1::SetResidencyPriority">(); return E_NOTIMPL; }
    HRESULT CreatePipelineState(const void*, const IID&, void**) override {
        not_implemented<"ID3D12Device2::CreatePipelineState">(); return E_NOTIMPL; }
    HRESULT OpenExistingHeapFromAddress(const void*, const IID&, void**) override {
        not_implemented<"ID3D12Device3::OpenExistingHeapFromAddress">(); return E_NOTIMPL; }
    HRESULT OpenExistingHeapFromFileMapping(HANDLE, const IID&, void**) override {
        not_implemented<"ID3D12Device3::OpenExistingHeapFromFileMapping">(); return E_NOTIMPL; }
    HRESULT EnqueueMakeResident(uint32_t, uint32_t, ID3D12Pageable* const*, ID3D12Fence*, uint64_t) override {
        not_implemented<"ID3D12Device3::EnqueueMakeResident">(); return E_NOTIMPL; }
    HRESULT CreateCommandList1(uint32_t, D3D12_COMMAND_LIST_TYPE, D3D12_COMMAND_LIST_FLAGS, const IID&,
        void**) override { not_implemented<"ID3D12Device4::CreateCommandList1">(); return E_NOTIMPL; }
    HRESULT CreateProtectedResourceSession(const void*, const IID&, void**) override {
        not_implemented<"ID3D12Device4::CreateProtectedResourceSession">(); return E_NOTIMPL; }
    HRESULT CreateCommittedResource1(const D3D12_HEAP_PROPERTIES*, D3D12_HEAP_FLAGS, const
        D3D12_RESOURCE_DESC*, D3D12_RESOURCE_STATES, const void*, void*, const IID&, void**) override {
        not_implemented<"ID3D12Device4::CreateCommittedResource1">(); return E_NOTIMPL; }
    HRESULT CreateHeap1(const D3D12_HEAP_DESC*, void*, const IID&, void**) override {
        not_implemented<"ID3D12Device4::CreateHeap1">(); return E_NOTIMPL; }
    HRESULT CreateReservedResource1(const D3D12_RESOURCE_DESC*, D3D12_RESOURCE_STATES, const void*, void*,
        const IID&, void**) override { not_implemented<"ID3D12Device4::CreateReservedResource1">(); return
        E_NOTIMPL; }
    D3D12_RESOURCE_ALLOCATION_INFO GetResourceAllocationInfo1(uint32_t, uint32_t, const D3D12_RESOURCE_DESC*,
        D3D12_RESOURCE_ALLOCATION_INFO1*) override {
        not_implemented<"ID3D12Device4::GetResourceAllocationInfo1">(); return {}; }
    HRESULT CreateLifetimeTracker(void*, const IID&, void**) override {
        not_implemented<"ID3D12Device5::CreateLifetimeTracker">(); return E_NOTIMPL; }
    void RemoveDevice() override { not_implemented<"ID3D12Device5::RemoveDevice">(); }
    HRESULT EnumerateMetaCommands(uint32_t*, D3D12_META_COMMAND_DESC*) override {
        not_implemented<"ID3D12Device5::EnumerateMetaCommands">(); return E_NOTIMPL; }
    HRESULT EnumerateMetaCommandParameters(const GUID&, uint32_t, uint32_t*, uint32_t*, void*) override {
        not_implemented<"ID3D12Device5::EnumerateMetaCommandParameters">(); return E_NOTIMPL; }
    HRESULT CreateMetaCommand(const GUID&, uint32_t, const void*, size_t, const IID&, void**) override {
        not_implemented<"ID3D12Device5::CreateMetaCommand">(); return E_NOTIMPL; }
    HRESULT CreateStateObject(const void*, const IID&, void**) override {
        not_implemented<"ID3D12Device5::CreateStateObject">(); return E_NOTIMPL; }
    void GetRaytracingAccelerationStructurePrebuildInfo(const void*, void*) override {
        not_implemented<"ID3D12Device5::GetRaytracingAccelerationStructurePrebuildInfo">(); }
    uint32_t CheckDriverMatchingIdentifier(uint32_t, const void*) override {
        not_implemented<"ID3D12Device5::CheckDriverMatchingIdentifier">(); return {}; }
};

}  // namespace dmlgraph::software
