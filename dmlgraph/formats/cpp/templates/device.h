// A device of Direct3D 12 and of DirectML for the programs of this folder. An engine has its own.
//
// The libraries are loaded by name, so that a program can say which one is missing. This is the only file that differs
// between systems: Windows, and Linux, where libd3d12.so and libdirectml.so must be found by the loader.
#pragma once

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph.h"
#include "ids.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace @{namespace} {

struct Releaser {
    template <class T>
    void operator()(T* object) const {
        object->Release();
    }
};
template <class T>
using Com = std::unique_ptr<T, Releaser>;

inline std::string Hexadecimal(HRESULT code) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08X", static_cast<unsigned>(code));
    return text;
}

// The device is gone: its driver was updated, it hung, or it was unplugged. All that is of it must be released first; then
// a new one may be made.
struct DeviceLost : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] inline void Throw(HRESULT code, const std::string& text) {
    switch (code) {
        case DXGI_ERROR_DEVICE_REMOVED:
        case DXGI_ERROR_DEVICE_HUNG:
        case DXGI_ERROR_DEVICE_RESET:
        case DXGI_ERROR_DRIVER_INTERNAL_ERROR: throw DeviceLost(text);
        default: throw std::runtime_error(text);
    }
}

inline void Check(HRESULT code, const std::string& call) {
    if (FAILED(code)) {
        Throw(code, call + " failed with " + Hexadecimal(code));
    }
}

// Makes an object with a function that has an IID and a place as its last parameters.
template <class T, class Make>
Com<T> Made(const std::string& call, const Make& make) {
    void* object = nullptr;
    Check(make(&object), call);
    return Com<T>(static_cast<T*>(object));
}

// ---- Libraries, which stay loaded

// A function of a library.
struct Symbol {
    const char* library;
    const char* name;
};

#ifdef _WIN32
inline std::string FileOf(const char* library) {
    char path[MAX_PATH] = "";
    GetModuleFileNameA(GetModuleHandleA(library), path, MAX_PATH);
    return path;
}

inline void* Loaded(const Symbol& symbol) {
    HMODULE const module = LoadLibraryA(symbol.library);
    if (!module) {
        throw std::runtime_error(std::string(symbol.library) + " is missing, or one that it needs (Windows error " +
                                 std::to_string(GetLastError()) + ")");
    }
    return reinterpret_cast<void*>(GetProcAddress(module, symbol.name));
}

constexpr char DirectMLName[] = "DirectML.dll";
constexpr char Direct3DName[] = "d3d12.dll";
#else
inline std::string FileOf(const char* library) {
    return library;
}

inline void* Loaded(const Symbol& symbol) {
    void* const handle = dlopen(symbol.library, RTLD_NOW);
    if (!handle) {
        throw std::runtime_error(dlerror());
    }
    return dlsym(handle, symbol.name);
}

constexpr char DirectMLName[] = "libdirectml.so";
constexpr char Direct3DName[] = "libd3d12.so";
#endif

template <class Function>
Function* Find(const Symbol& symbol) {
    void* const found = Loaded(symbol);
    if (!found) {
        throw std::runtime_error(FileOf(symbol.library) + " does not have " + symbol.name + ": it is too old");
    }
    return reinterpret_cast<Function*>(found);
}

// ---- The device

// Says so if a program that ships DirectML.dll has an older one all the same: that of Windows, or one that another part of the
// process has loaded. The DirectML.dll to ship and DirectML.h are of one package, and have the same feature level.
inline void SayIfOlder(IDMLDevice& device) {
    constexpr auto shipped = static_cast<DML_FEATURE_LEVEL>(DML_TARGET_VERSION);
    const DML_FEATURE_QUERY_FEATURE_LEVELS query = {1, &shipped};
    DML_FEATURE_DATA_FEATURE_LEVELS found = {};
    const HRESULT code =
        device.CheckFeatureSupport(DML_FEATURE_FEATURE_LEVELS, sizeof query, &query, sizeof found, &found);
    if (FAILED(code) || found.MaxSupportedFeatureLevel < shipped) {
        std::fprintf(stderr, "%s is older than the DirectML that this program ships: it does not have feature level %d.%d\n",
                     FileOf(DirectMLName).c_str(), shipped >> 12, shipped >> 8 & 15);
    }
}

// The first adapter, a queue, and one command list after the other, each of which is waited for.
class Device {
public:
    Device() {
        using CreateDirect3D = HRESULT WINAPI(IUnknown*, D3D_FEATURE_LEVEL, REFIID, void**);
        using CreateDirectML = HRESULT WINAPI(ID3D12Device*, DML_CREATE_DEVICE_FLAGS, DML_FEATURE_LEVEL, REFIID, void**);
        // Before the device of Direct3D 12, so that a system without DirectML says just that.
        auto* const createDirectML = Find<CreateDirectML>({DirectMLName, "DMLCreateDevice1"});
        auto* const createDirect3D = Find<CreateDirect3D>({Direct3DName, "D3D12CreateDevice"});
        direct3d = Made<ID3D12Device>("D3D12CreateDevice", [&](void** made) {
            return createDirect3D(nullptr, D3D_FEATURE_LEVEL_11_0, Direct3DDeviceId, made);
        });
        directml = Made<IDMLDevice>("DMLCreateDevice1", [&](void** made) {
            return createDirectML(direct3d.get(), DML_CREATE_DEVICE_FLAG_NONE, DML_FEATURE_LEVEL_1_0, DirectMLDeviceId,
                                  made);
        });
#ifdef DML_IS_SHIPPED  // CMakeLists.txt has copied a DirectML.dll
        SayIfOlder(*directml);
#endif
        D3D12_COMMAND_QUEUE_DESC queueDesc = {};
        queueDesc.Type = type_;
        queue_ = Made<ID3D12CommandQueue>(
            "CreateCommandQueue", [&](void** made) { return direct3d->CreateCommandQueue(&queueDesc, QueueId, made); });
        allocator_ = Made<ID3D12CommandAllocator>("CreateCommandAllocator", [&](void** made) {
            return direct3d->CreateCommandAllocator(type_, AllocatorId, made);
        });
        fence_ = Made<ID3D12Fence>("CreateFence", [&](void** made) {
            return direct3d->CreateFence(0, D3D12_FENCE_FLAG_NONE, FenceId, made);
        });
    }

    // A list that is open. It stays the same object, and is recorded again after Execute.
    ID3D12GraphicsCommandList* List() {
        if (!list_) {
            list_ = Made<ID3D12GraphicsCommandList>("CreateCommandList", [&](void** made) {
                return direct3d->CreateCommandList(0, type_, allocator_.get(), nullptr, ListId, made);
            });
        } else if (!isOpen_) {
            Check(allocator_->Reset(), "ID3D12CommandAllocator::Reset");
            Check(list_->Reset(allocator_.get(), nullptr), "ID3D12GraphicsCommandList::Reset");
        }
        isOpen_ = true;
        return list_.get();
    }

    // The value that the fence has when the list has ended.
    UINT64 NextValue() const { return value_ + 1; }
    UINT64 CompletedValue() const { return fence_->GetCompletedValue(); }

    // Executes the list, and waits.
    void Execute() {
        isOpen_ = false;
        Check(list_->Close(), "ID3D12GraphicsCommandList::Close");
        ID3D12CommandList* const lists[] = {list_.get()};
        queue_->ExecuteCommandLists(1, lists);
        Check(queue_->Signal(fence_.get(), ++value_), "ID3D12CommandQueue::Signal");
        Check(fence_->SetEventOnCompletion(value_, nullptr), "ID3D12Fence::SetEventOnCompletion");  // null: it waits
        fence_->GetCompletedValue();
        Check(direct3d->GetDeviceRemovedReason(), "ExecuteCommandLists");
        Check(directml->GetDeviceRemovedReason(), "RecordDispatch");
    }

    Com<ID3D12Resource> Memory(UINT64 bytes, D3D12_HEAP_TYPE kind) const {
        D3D12_HEAP_PROPERTIES heap = {};
        heap.Type = kind;
        D3D12_RESOURCE_DESC desc = {};
        desc.Dimension = D3D12_RESOURCE_DIMENSION_BUFFER;
        desc.Width = (bytes + BufferAlignment - 1) / BufferAlignment * BufferAlignment;
        desc.Height = desc.DepthOrArraySize = desc.MipLevels = 1;
        desc.SampleDesc.Count = 1;
        desc.Layout = D3D12_TEXTURE_LAYOUT_ROW_MAJOR;
        D3D12_RESOURCE_STATES state = D3D12_RESOURCE_STATE_COMMON;
        if (kind == D3D12_HEAP_TYPE_DEFAULT) {
            desc.Flags = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS;
        } else {
            state = kind == D3D12_HEAP_TYPE_UPLOAD ? D3D12_RESOURCE_STATE_GENERIC_READ : D3D12_RESOURCE_STATE_COPY_DEST;
        }
        return Made<ID3D12Resource>("CreateCommittedResource of " + std::to_string(bytes) + " bytes", [&](void** made) {
            return direct3d->CreateCommittedResource(&heap, D3D12_HEAP_FLAG_NONE, &desc, state, nullptr, ResourceId, made);
        });
    }

    // A heap with one range of descriptors.
    Com<ID3D12DescriptorHeap> Heap(UINT count) const {
        D3D12_DESCRIPTOR_HEAP_DESC desc = {};
        desc.Type = D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV;
        desc.NumDescriptors = count;
        desc.Flags = D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE;
        return Made<ID3D12DescriptorHeap>(
            "CreateDescriptorHeap", [&](void** made) { return direct3d->CreateDescriptorHeap(&desc, HeapId, made); });
    }

    Com<ID3D12Device> direct3d;
    Com<IDMLDevice> directml;

private:
    static constexpr D3D12_COMMAND_LIST_TYPE type_ = D3D12_COMMAND_LIST_TYPE_COMPUTE;

    Com<ID3D12CommandQueue> queue_;
    Com<ID3D12CommandAllocator> allocator_;
    Com<ID3D12Fence> fence_;
    Com<ID3D12GraphicsCommandList> list_;
    UINT64 value_ = 0;
    bool isOpen_ = false;
};

// All of a heap. The headers declare its methods otherwise for compilers on Windows that are not Microsoft's.
inline Descriptors RangeOf(ID3D12DescriptorHeap& heap) {
    Descriptors range = {};
#if defined(_MSC_VER) || !defined(_WIN32)
    range.cpu = heap.GetCPUDescriptorHandleForHeapStart();
    range.gpu = heap.GetGPUDescriptorHandleForHeapStart();
#else
    heap.GetCPUDescriptorHandleForHeapStart(&range.cpu);
    heap.GetGPUDescriptorHandleForHeapStart(&range.gpu);
#endif
    range.heap = &heap;
    return range;
}

}  // namespace @{namespace}
