// Checks of threads other than the test's own.
#pragma once

#include <mutex>
#include <string_view>

#include <doctest/doctest.h>

namespace dmlgraph::cpu::tests {

// CHECK_MESSAGE for code that may run on any thread. doctest itself may only be used by one thread at a time: for MinGW
// it is built without its thread-local memory.
inline void check_on_any_thread(bool holds, std::string_view message) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    CHECK_MESSAGE(holds, message);
}

}  // namespace dmlgraph::cpu::tests
