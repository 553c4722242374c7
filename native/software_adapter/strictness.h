// The restrictions of real systems that this adapter imposes on request, so that tests meet them.
//
// The environment variable DMLGRAPH_SOFTWARE_STRICT holds option names separated by commas, such as
// "one_device,late_debug,remove_at=3". The table in strictness.cpp lists them. A semicolon starts the options of the
// next adapter: "npu,core;gpu" makes two adapters. Without the variable there is one adapter without restrictions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dmlgraph::software {

// The restrictions of one adapter and its devices.
struct Strictness {
    // What the adapter is; else it is a software adapter.
    bool gpu = false;  // hardware that computes only, as some server GPUs do
    bool npu = false;  // hardware with the attribute GENERIC_ML and no other

    // What its devices can do.
    bool core = false;        // at most D3D_FEATURE_LEVEL_1_0_CORE
    bool generic = false;     // at most D3D_FEATURE_LEVEL_1_0_GENERIC
    bool no_int64 = false;    // shaders do not have 64-bit integers
    bool no_float64 = false;  // shaders do not have float64

    // Its memory.
    bool no_sharing = false;    // processor and adapter do not report coherent memory
    bool custom_heaps = false;  // a view of a buffer in a custom heap removes the device
    bool readback = false;      // memory that the processor reads is up to date only if it was mapped after the work
    std::uint64_t budget = 0;   // the most bytes of memory of the default type; 0: no limit

    // How its devices behave.
    bool validation = false;        // they check what the debug layer of Direct3D 12 checks
    bool one_device = false;        // one device at a time: a removed one must be released before the next is made
    bool late_debug = false;        // there is a debug layer; switching it on removes all existing devices
    bool gpu_timeout = false;       // queues without the timeout of GPU work are refused
    bool async = false;             // queues run their work on another thread, a moment later
    std::uint64_t remove_at = 0;    // the adapter's Nth call of ExecuteCommandLists removes its devices; 0: none
    std::uint64_t hang_at = 0;      // what the Nth call is given never ends
    std::uint64_t fail_signal = 0;  // the Nth call of ID3D12CommandQueue::Signal fails
    std::uint64_t fail_signals_from = 0;  // the Nth call and all later ones fail
    std::uint64_t fail_event = 0;         // the Nth call of SetEventOnCompletion fails
};

// The number of adapters: at least 1.
std::size_t adapter_count();

// The restrictions of an adapter; `adapter` is less than adapter_count().
const Strictness& strictness(std::size_t adapter);

// What is wrong with the environment variable, empty if nothing is. Then no adapter and no device can be made.
const std::string& strictness_error();

}  // namespace dmlgraph::software
