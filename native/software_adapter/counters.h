// What the adapter counts, for tests and statistics.
#pragma once

#include <atomic>
#include <cstdint>

namespace dmlgraph::software {

using Counter = std::atomic<uint64_t>;

struct Counters {
    Counter dispatches;          // executed, suppressed ones included
    Counter thread_groups;       // run by kernels
    Counter command_lists;       // executed
    Counter bytes_copied;        // by commands
    Counter bytes_cleared;       // by commands
    Counter pipelines_compiled;  // pipeline states created
    Counter kernels_compiled;    // combinations of a pipeline and view formats compiled
    Counter not_implemented;     // calls answered by not_implemented.h
    Counter live_objects;        // Direct3D objects that exist now
    Counter live_bytes;          // memory of heaps and committed resources that exists now
};

extern Counters counters;

}  // namespace dmlgraph::software
