#include "directml/buffer_pool.h"

#include <algorithm>
#include <array>
#include <utility>

namespace dmlgraph {
namespace {

using namespace abi;

bool fits(const Buffer& buffer, const BufferNeed& need) {
    return buffer.kind() == need.kind && buffer.bytes() >= need.bytes;
}

}  // namespace

std::vector<std::uint64_t> BufferPool::Lease::ids() const {
    std::vector<std::uint64_t> ids(buffers_.size());
    std::ranges::transform(buffers_, ids.begin(), [](const auto& buffer) { return buffer->id(); });
    return ids;
}

BufferPool::Member::Member(BufferPool& pool, std::vector<BufferNeed> needs) : pool_(pool), needs_(std::move(needs)) {
    const std::lock_guard lock(pool_.mutex_);
    pool_.members_.push_back(this);
}

BufferPool::Member::~Member() {
    const std::lock_guard lock(pool_.mutex_);
    std::erase(pool_.members_, this);
    pool_.trim();
}

BufferPool::Lease BufferPool::Member::lease(const std::vector<std::uint64_t>& preferred, Place place) {
    Lease lease(pool_);
    const std::lock_guard lock(pool_.mutex_);
    auto& buffers = lease.buffers_;
    buffers.resize(needs_.size());
    try {
        for (std::size_t i = 0; i < preferred.size(); ++i) {
            buffers[i] = pool_.take_preferred(needs_[i], preferred[i]);
        }
        for (std::size_t i = 0; i < needs_.size(); ++i) {
            if (!buffers[i]) {
                buffers[i] = pool_.take_fitting(needs_[i]);
            }
            if (!buffers[i]) {
                buffers[i] = pool_.make(needs_[i], place);
            }
        }
    } catch (...) {
        pool_.give_back(buffers);
        throw;
    }
    return lease;
}

BufferPool::Lease::~Lease() {
    const std::lock_guard lock(pool_.mutex_);
    pool_.give_back(buffers_);
}

std::shared_ptr<Buffer> BufferPool::create(BufferKind kind, std::uint64_t bytes, std::string_view what, Place place) {
    try {
        return heaps_.create(kind, bytes, what, place);
    } catch (const Error& error) {
        if (error.code != E_OUTOFMEMORY) {
            throw;
        }
    }
    clear();
    return heaps_.create(kind, bytes, what, place);
}

void BufferPool::clear() {
    const std::lock_guard lock(mutex_);
    free_.clear();
}

std::shared_ptr<Buffer> BufferPool::take(Free::iterator found) {
    auto buffer = std::move(*found);
    free_.erase(found);
    return buffer;
}

std::shared_ptr<Buffer> BufferPool::take_preferred(const BufferNeed& need, std::uint64_t id) {
    const auto found = std::ranges::find(free_, id, &Buffer::id);
    return found != free_.end() && fits(**found, need) ? take(found) : nullptr;
}

std::shared_ptr<Buffer> BufferPool::take_fitting(const BufferNeed& need) {
    auto best = free_.end();
    for (auto each = free_.begin(); each != free_.end(); ++each) {
        if (fits(**each, need) && (best == free_.end() || (*each)->bytes() < (*best)->bytes())) {
            best = each;
        }
    }
    return best == free_.end() ? nullptr : take(best);
}

std::shared_ptr<Buffer> BufferPool::make(const BufferNeed& need, Place place) {
    // The new buffer can also do the work of a free one that is too small.
    auto replaced = free_.end();
    for (auto each = free_.begin(); each != free_.end(); ++each) {
        if ((*each)->kind() == need.kind && (replaced == free_.end() || (*each)->bytes() > (*replaced)->bytes())) {
            replaced = each;
        }
    }
    if (replaced != free_.end()) {
        free_.erase(replaced);
    }
    try {
        return heaps_.create(need.kind, need.bytes, need.what, place);
    } catch (const Error& error) {
        if (error.code != E_OUTOFMEMORY) {
            throw;
        }
    }
    free_.clear();
    return heaps_.create(need.kind, need.bytes, need.what, place);
}

void BufferPool::give_back(Free& buffers) {
    for (auto& buffer : buffers) {
        if (buffer) {
            free_.push_back(std::move(buffer));
        }
    }
    buffers.clear();
}

void BufferPool::trim() {
    std::array<std::size_t, buffer_kinds> counts{};
    std::array<std::uint64_t, buffer_kinds> largest{};
    for (const Member* member : members_) {
        for (const BufferNeed& need : member->needs()) {
            const auto kind = static_cast<std::size_t>(need.kind);
            ++counts[kind];
            largest[kind] = std::max(largest[kind], need.bytes);
        }
    }
    std::erase_if(free_, [&](const auto& buffer) {
        const auto kind = static_cast<std::size_t>(buffer->kind());
        const bool needed = counts[kind] > 0 && buffer->bytes() <= largest[kind];
        counts[kind] -= needed ? 1 : 0;
        return !needed;
    });
}

}  // namespace dmlgraph
