#include "software_adapter/failing_call.h"

#include <atomic>

#include "software_adapter/counters.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {
namespace {

std::atomic<std::uint64_t> calls_left{0};  // until it fails; 0: none does
std::atomic<bool> removes{false};

}  // namespace

Fault next_fault() {
    ++counters.fallible_calls;
    std::uint64_t left = calls_left;
    while (left > 0 && !calls_left.compare_exchange_weak(left, left - 1)) {
    }
    return left != 1 ? Fault::none : removes ? Fault::removal : Fault::out_of_memory;
}

}  // namespace dmlgraph::software

void sw_fail_call(uint64_t number, int removes_device) {
    dmlgraph::software::removes = removes_device != 0;
    dmlgraph::software::calls_left = number;
}
