// Spreads a loop over the processors, on the threads of the CPU executor's pool (cpu/runtime/thread_pool.h).
#pragma once

#include <cstdint>
#include <type_traits>

namespace dmlgraph::software {

// A borrowed callable void(uint64_t first, uint64_t last).
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

// Calls `task` for pieces that cover 0 <= i < count, from this thread and, where the work lasts, from
// helpers; returns when all is done. Calls from several threads at a time are fine: one of them gets the
// helpers.
void parallel_for(uint64_t count, RangeTask task);

// 0: as many as the process has processors.
void set_thread_count(uint32_t count);

}  // namespace dmlgraph::software
