#include "directml/resident.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "directml/recording.h"

namespace dmlgraph {
namespace {

using namespace abi;

// Zeros are copied in pieces of this size.
constexpr std::uint64_t piece_bytes = 1 << 20;

// Records copies, runs them and waits.
template <class Record>
void transfer(Device& device, const Record& record) {
    CommandLists lists(device, "transfer", {});
    record(lists.open());
    lists.close();
    ID3D12CommandList* const list[] = {&lists[0]};
    device.execute(list, {});
}

void require_fit(std::size_t given, std::uint64_t bytes) {
    if (given > bytes || given + 4 <= bytes) {
        throw Error(ErrorKind::use, "the tensor has " + std::to_string(bytes) + " bytes, got " + std::to_string(given));
    }
}

}  // namespace

std::shared_ptr<Buffer> Recycler::take() {
    const std::lock_guard lock(mutex_);
    return std::move(buffer_);
}

void Recycler::give(std::shared_ptr<Buffer> buffer) {
    const std::lock_guard lock(mutex_);
    if (!buffer_) {
        buffer_ = std::move(buffer);
    }
}

Resident::Resident(std::shared_ptr<Device> device, std::uint64_t bytes, const std::string& what)
    : device_(std::move(device)), bytes_(bytes) {
    buffer_ = device_->memory().create(BufferKind::device, bytes, what, {});
    const std::uint64_t piece = std::min(bytes, piece_bytes);
    BufferPool::Member member(device_->memory(), {{BufferKind::upload, piece, "zeros"}});
    const BufferPool::Lease lease = member.lease({}, {});
    const std::vector<std::byte> zeros(piece);
    lease[0].write(*device_, 0, zeros.data(), zeros.size(), {});
    transfer(*device_, [&](ID3D12GraphicsCommandList& list) {
        activate(list, *buffer_);
        for (std::uint64_t begin = 0; begin < bytes; begin += piece) {
            list.CopyBufferRegion(&buffer_->resource(), begin, &lease[0].resource(), 0, std::min(piece, bytes - begin));
        }
    });
    device_->keep(*this);
}

Resident::Resident(std::shared_ptr<Device> device, std::uint64_t bytes, const std::string& what,
                   const std::shared_ptr<Recycler>& recycler)
    : device_(std::move(device)), bytes_(bytes), recycler_(recycler), buffer_(recycler->take()) {
    if (!buffer_) {
        buffer_ = device_->memory().create(BufferKind::device, bytes, what, {});
    }
    device_->keep(*this);
}

Resident::~Resident() {
    device_->forget(*this);
    if (const auto recycler = recycler_.lock()) {
        recycler->give(std::move(buffer_));
    }
}

std::shared_ptr<Buffer> Resident::buffer() const {
    device_->require_alive({});
    const std::lock_guard lock(mutex_);
    return buffer_;
}

void Resident::write(std::span<const std::byte> data) {
    require_fit(data.size(), bytes_);
    const auto buffer = this->buffer();
    BufferPool::Member member(device_->memory(), {{BufferKind::upload, bytes_, "staging of a tensor"}});
    const BufferPool::Lease lease = member.lease({}, {});
    lease[0].write(*device_, 0, data.data(), data.size(), {});
    transfer(*device_, [&](ID3D12GraphicsCommandList& list) {
        list.CopyBufferRegion(&buffer->resource(), 0, &lease[0].resource(), 0, data.size());
    });
}

void Resident::read(std::span<std::byte> data) const {
    require_fit(data.size(), bytes_);
    const auto buffer = this->buffer();
    BufferPool::Member member(device_->memory(), {{BufferKind::readback, bytes_, "staging of a tensor"}});
    const BufferPool::Lease lease = member.lease({}, {});
    transfer(*device_, [&](ID3D12GraphicsCommandList& list) {
        list.CopyBufferRegion(&lease[0].resource(), 0, &buffer->resource(), 0, data.size());
    });
    lease[0].read(*device_, 0, data.data(), data.size(), {});
}

void Resident::copy_from(const Resident& other) {
    if (other.bytes_ != bytes_) {
        throw Error(ErrorKind::use, "a tensor is copied to one of the same size");
    }
    const Piece whole[] = {{0, 0, bytes_}};
    copy_from(other, whole);
}

void Resident::copy_from(const Resident& other, std::span<const Piece> pieces) {
    const auto fits = [&](const Piece& each) {
        return each.bytes <= std::min(bytes_, other.bytes_) && each.from <= other.bytes_ - each.bytes &&
               each.to <= bytes_ - each.bytes;
    };
    if (other.device_ != device_ || &other == this || !std::ranges::all_of(pieces, fits)) {
        throw Error(ErrorKind::use, "pieces of a tensor are copied to another one on the same device");
    }
    const auto source = other.buffer();
    const auto target = buffer();
    transfer(*device_, [&](ID3D12GraphicsCommandList& list) {
        for (const Piece& each : pieces) {
            list.CopyBufferRegion(&target->resource(), each.to, &source->resource(), each.from, each.bytes);
        }
    });
}

void Resident::drop() {
    const std::lock_guard lock(mutex_);
    buffer_ = nullptr;
}

}  // namespace dmlgraph
