// Distributes a loop over the processors, on the threads of the CPU executor's pool (cpu/runtime/thread_pool.h).
#pragma once

#include <cstdint>
#include <type_traits>

namespace dmlgraph::software {

// A non-owning reference to a callable void(uint64_t first, uint64_t last).
class RangeTask {
public:
    template <class Callable>
        requires std::is_invocable_v<const Callable&, uint64_t, uint64_t>
    RangeTask(const Callable& callable)
        : callable_(&callable), call_([](const void* object, uint64_t first, uint64_t last) {
              (*static_cast<const Callable*>(object))(first, last);
          }) {}

    void operator()(uint64_t first, uint64_t last) const { call_(callable_, first, last); }

private:
    const void* callable_;
    void (*call_)(const void*, uint64_t, uint64_t);
};

// Calls `task` for pieces that cover 0 <= i < count, from this thread and, if the work takes long, from
// helpers; returns when all pieces are done. Several threads may call it at the same time: one of them gets
// the helpers.
void parallel_for(uint64_t count, RangeTask task);

// 0: one for each processor of the process.
void set_thread_count(uint32_t count);

}  // namespace dmlgraph::software
