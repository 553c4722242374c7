// The adapter's counters, for tests and statistics.
#pragma once

#include <atomic>
#include <cstdint>

namespace dmlgraph::software {

using Counter = std::atomic<uint64_t>;

struct Counters {
    Counter dispatches;          // executed, including suppressed ones
    Counter thread_groups;       // run by kernels
    Counter submissions;         // calls of ExecuteCommandLists
    Counter waits;               // calls of SetEventOnCompletion
    Counter command_lists;       // executed
    Counter bytes_copied;        // by commands
    Counter bytes_cleared;       // by commands
    Counter pipelines_compiled;  // pipeline states created
    Counter kernels_compiled;    // combinations of a pipeline and view formats compiled
    Counter fallible_calls;      // calls that sw_fail_call can make fail
    Counter not_implemented;     // calls of methods that are not implemented
    Counter gpu_validation;      // how often the debug layer was asked to check what shaders do
    Counter live_objects;        // existing Direct3D objects
    Counter live_bytes;          // memory of existing heaps and committed resources
    Counter device_bytes;        // the part of it that is of the default type
};

extern Counters counters;

}  // namespace dmlgraph::software
