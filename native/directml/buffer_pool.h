// Buffers that the executables of a device use in turns: temporary buffers, inputs, outputs and their staging.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "directml/heaps.h"

namespace dmlgraph {

// What is needed of a buffer during a run.
struct BufferNeed {
    BufferKind kind;
    std::uint64_t bytes;
    std::string what;  // what it is for
};

// Safe to use from several threads.
//
// Whoever runs a graph leases its buffers, and no other run gets them until the lease ends. There are as many buffers
// as runs need at a time: a graph that runs after another uses the same ones, which grow to what the largest needs.
class BufferPool {
public:
    explicit BufferPool(Heaps& heaps) : heaps_(heaps) {}
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    class Member;

    // The buffers of one run, in the order of the member's needs. They are free when it is destroyed.
    class Lease {
    public:
        Lease(Lease&& other) noexcept : pool_(other.pool_), buffers_(std::move(other.buffers_)) {}
        Lease& operator=(Lease&&) = delete;
        ~Lease();

        const Buffer& operator[](std::size_t need) const { return *buffers_[need]; }
        const std::vector<std::shared_ptr<Buffer>>& buffers() const { return buffers_; }
        // Their identities: a command list that was recorded with these buffers needs the same ones.
        std::vector<std::uint64_t> ids() const;

    private:
        friend class BufferPool;
        explicit Lease(BufferPool& pool) : pool_(pool) {}

        BufferPool& pool_;
        std::vector<std::shared_ptr<Buffer>> buffers_;
    };

    // Someone who runs with buffers of the pool. A buffer that no member needs any more is freed.
    class Member {
    public:
        Member(BufferPool& pool, std::vector<BufferNeed> needs);
        ~Member();
        Member(const Member&) = delete;
        Member& operator=(const Member&) = delete;

        // Prefers the buffers with these identities, in the order of the needs. Throws Error as Heaps::create.
        Lease lease(const std::vector<std::uint64_t>& preferred, Place place);
        const std::vector<BufferNeed>& needs() const { return needs_; }

    private:
        friend class BufferPool;
        BufferPool& pool_;
        std::vector<BufferNeed> needs_;
    };

    // A buffer for one owner. If there is not enough memory, free buffers of the pool give way.
    std::shared_ptr<Buffer> create(BufferKind kind, std::uint64_t bytes, std::string_view what, Place place);

    // Frees the buffers that are not leased.
    void clear();

private:
    using Free = std::vector<std::shared_ptr<Buffer>>;

    // All are called with the lock.
    std::shared_ptr<Buffer> take(Free::iterator found);
    // Null if there is none.
    std::shared_ptr<Buffer> take_preferred(const BufferNeed& need, std::uint64_t id);
    std::shared_ptr<Buffer> take_fitting(const BufferNeed& need);
    std::shared_ptr<Buffer> make(const BufferNeed& need, Place place);
    void give_back(Free& buffers);
    // Frees the free buffers that are more, or larger, than the members need.
    void trim();

    Heaps& heaps_;
    std::mutex mutex_;
    std::vector<const Member*> members_;
    Free free_;
};

}  // namespace dmlgraph
