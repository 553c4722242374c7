#include "directml/heaps.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "directml/device.h"
#include "directml/memory_budget.h"
#include "directml/names.h"
#include "directml/operator_desc.h"

namespace dmlgraph {
namespace {

using namespace abi;

// Small buffers share heaps of this size; a buffer that would fill half of it gets a heap of its own.
constexpr std::uint64_t shared_heap_bytes = 1 << 20;

struct KindTraits {
    const char* name;
    D3D12_HEAP_PROPERTIES heap;
    D3D12_RESOURCE_FLAGS flags;
    D3D12_RESOURCE_STATES state;
};

// Indexed by BufferKind. Buffers decay to the common state after every list and are promoted from it.
constexpr std::array<KindTraits, buffer_kinds> kind_traits{{
    {"device memory",
     {D3D12_HEAP_TYPE_DEFAULT, D3D12_CPU_PAGE_PROPERTY_UNKNOWN, D3D12_MEMORY_POOL_UNKNOWN, 1, 1},
     D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS,
     D3D12_RESOURCE_STATE_COMMON},
    {"upload memory",
     {D3D12_HEAP_TYPE_UPLOAD, D3D12_CPU_PAGE_PROPERTY_UNKNOWN, D3D12_MEMORY_POOL_UNKNOWN, 1, 1},
     D3D12_RESOURCE_FLAG_NONE,
     D3D12_RESOURCE_STATE_GENERIC_READ},
    {"readback memory",
     {D3D12_HEAP_TYPE_READBACK, D3D12_CPU_PAGE_PROPERTY_UNKNOWN, D3D12_MEMORY_POOL_UNKNOWN, 1, 1},
     D3D12_RESOURCE_FLAG_NONE,
     D3D12_RESOURCE_STATE_COPY_DEST},
    {"shared memory",
     {D3D12_HEAP_TYPE_CUSTOM, D3D12_CPU_PAGE_PROPERTY_WRITE_BACK, D3D12_MEMORY_POOL_L0, 1, 1},
     D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS,
     D3D12_RESOURCE_STATE_COMMON},
}};

const KindTraits& traits_of(BufferKind kind) { return kind_traits[static_cast<std::size_t>(kind)]; }

std::uint64_t next_id() {
    static std::atomic<std::uint64_t> last = 0;
    return ++last;
}

// Maps a buffer; unmaps it at the end.
class Mapping {
public:
    // `read` and `written`: the bytes that the processor will read, and will have written.
    Mapping(Device& device, ID3D12Resource& resource, D3D12_RANGE read, D3D12_RANGE written, Place place)
        : resource_(resource), written_(written) {
        void* data = nullptr;
        device.check(resource.Map(0, &read, &data), "ID3D12Resource::Map", place);
        data_ = static_cast<std::byte*>(data);
    }
    ~Mapping() { resource_.Unmap(0, &written_); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    std::byte* data() const { return data_; }

private:
    ID3D12Resource& resource_;
    D3D12_RANGE written_;
    std::byte* data_;
};

constexpr D3D12_RANGE nothing{0, 0};

std::string gibibytes(std::uint64_t bytes) {
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
    return text.data();
}

}  // namespace

void require_buffer_size(std::uint64_t bytes, std::string_view what, Place place) {
    if (bytes > max_buffer_bytes) {
        Error error(ErrorKind::too_large, std::string(what) + " needs " + std::to_string(bytes) +
                                              " bytes, more than the " + std::to_string(max_buffer_bytes) +
                                              " (4 GiB - 64 KiB) that Direct3D 12 can bind as one buffer; make it "
                                              "smaller or split the graph");
        error.graph = place.graph;
        error.node = place.node;
        throw error;
    }
}

Buffer::Buffer(BufferKind kind, std::uint64_t bytes, ComPtr<ID3D12Resource> resource, std::byte* mapped)
    : kind_(kind), bytes_(bytes), id_(next_id()), resource_(std::move(resource)), mapped_(mapped) {}

void Buffer::write(Device& device, std::uint64_t offset, const void* data, std::size_t bytes, Place place) const {
    if (mapped_) {
        std::memcpy(mapped_ + offset, data, bytes);
        return;
    }
    const Mapping mapping(device, *resource_, nothing, {offset, offset + bytes}, place);
    std::memcpy(mapping.data() + offset, data, bytes);
}

void Buffer::read(Device& device, std::uint64_t offset, void* data, std::size_t bytes, Place place) const {
    const Mapping mapping(device, *resource_, {offset, offset + bytes}, nothing, place);
    std::memcpy(data, mapping.data() + offset, bytes);
}

class Heaps::PlacedBuffer final : public Buffer {
public:
    PlacedBuffer(Heaps& heaps, Position heap, std::uint64_t offset, std::uint64_t place_bytes, std::uint64_t bytes,
                 ComPtr<ID3D12Resource> resource, std::byte* mapped)
        : Buffer(heap->kind, bytes, std::move(resource), mapped),
          heaps_(heaps),
          heap_(heap),
          offset_(offset),
          place_bytes_(place_bytes) {}
    ~PlacedBuffer() override { heaps_.give_back(heap_, offset_, place_bytes_); }

private:
    Heaps& heaps_;
    Position heap_;
    std::uint64_t offset_;
    std::uint64_t place_bytes_;
};

std::shared_ptr<Buffer> Heaps::create(BufferKind kind, std::uint64_t bytes, std::string_view what, Place place) {
    require_buffer_size(bytes, what, place);
    const std::uint64_t place_bytes = align_up(bytes, resource_placement_alignment);
    const auto [heap, offset] = take(kind, place_bytes, what, place);
    try {
        D3D12_RESOURCE_DESC desc{};
        desc.Dimension = D3D12_RESOURCE_DIMENSION_BUFFER;
        desc.Width = align_up(bytes, DML_TEMPORARY_BUFFER_ALIGNMENT);
        desc.Height = 1;
        desc.DepthOrArraySize = 1;
        desc.MipLevels = 1;
        desc.SampleDesc.Count = 1;
        desc.Layout = D3D12_TEXTURE_LAYOUT_ROW_MAJOR;
        desc.Flags = traits_of(kind).flags;
        ComPtr<ID3D12Resource> resource;
        device_.check(device_.d3d12().CreatePlacedResource(heap->heap.get(), offset, &desc, traits_of(kind).state,
                                                           nullptr, ID3D12Resource::iid, resource.put()),
                      "CreatePlacedResource of " + std::to_string(bytes) + " bytes for " + std::string(what), place);
        set_name(*resource, what);
        void* mapped = nullptr;
        if (kind == BufferKind::upload) {
            device_.check(resource->Map(0, &nothing, &mapped), "ID3D12Resource::Map", place);
        }
        return std::make_shared<PlacedBuffer>(*this, heap, offset, place_bytes, bytes, std::move(resource),
                                              static_cast<std::byte*>(mapped));
    } catch (...) {
        give_back(heap, offset, place_bytes);
        throw;
    }
}

std::uint64_t Heaps::bytes() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const Heap& heap : heaps_) {
        sum += heap.bytes;
    }
    return sum;
}

std::pair<Heaps::Position, std::uint64_t> Heaps::take(BufferKind kind, std::uint64_t bytes, std::string_view what,
                                                      Place place) {
    const std::lock_guard lock(mutex_);
    for (Position heap = heaps_.begin(); heap != heaps_.end(); ++heap) {
        if (heap->kind != kind) {
            continue;
        }
        const auto fits = std::ranges::find_if(heap->free, [&](const auto& range) { return range.second >= bytes; });
        if (fits != heap->free.end()) {
            const auto [offset, size] = *fits;
            heap->free.erase(fits);
            if (size > bytes) {
                heap->free[offset + bytes] = size - bytes;
            }
            return {heap, offset};
        }
    }
    const std::uint64_t size = bytes >= shared_heap_bytes / 2 ? bytes : shared_heap_bytes;
    const D3D12_HEAP_DESC desc{size, traits_of(kind).heap, 0, D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS};
    ComPtr<ID3D12Heap> made;
    const HRESULT code = device_.d3d12().CreateHeap(&desc, ID3D12Heap::iid, made.put());
    const std::string call = "CreateHeap of " + std::to_string(size) + " bytes for " + std::string(what);
    if (code == E_OUTOFMEMORY) {
        std::uint64_t held = 0;
        for (const Heap& heap : heaps_) {
            held += heap.bytes;
        }
        Error error(ErrorKind::call, call + " failed with " + describe(code) + ": not enough memory; " +
                                         "the graphs on this device hold " + gibibytes(held));
        if (const auto budget = query_memory_budget(device_.adapter())) {
            error.message += ", and of the adapter's budget for this process, " + gibibytes(budget->bytes) + ", " +
                             gibibytes(budget->used_bytes) + " are in use";
        }
        error.call = "CreateHeap";
        error.code = code;
        error.graph = place.graph;
        error.node = place.node;
        throw error;
    }
    device_.check(code, call, place);
    set_name(*made, std::string("heap of ") + traits_of(kind).name);
    heaps_.push_back({std::move(made), kind, size, {}});
    if (size > bytes) {
        heaps_.back().free[bytes] = size - bytes;
    }
    return {std::prev(heaps_.end()), 0};
}

void Heaps::give_back(Position heap, std::uint64_t offset, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto at = heap->free.emplace(offset, bytes).first;
    const auto after = std::next(at);
    if (after != heap->free.end() && at->first + at->second == after->first) {
        at->second += after->second;
        heap->free.erase(after);
    }
    if (at != heap->free.begin()) {
        const auto before = std::prev(at);
        if (before->first + before->second == at->first) {
            before->second += at->second;
            heap->free.erase(at);
            at = before;
        }
    }
    if (at->second == heap->bytes) {
        heaps_.erase(heap);
    }
}

}  // namespace dmlgraph
