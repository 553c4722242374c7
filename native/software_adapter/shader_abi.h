// The interface between this adapter and its shader compiler, which is registered from outside.
#pragma once

#include <stdint.h>

extern "C" {

enum SwAccess { SW_READS = 1, SW_WRITES = 2 };

// One range of registers that a shader declares.
struct SwResourceRange {
    uint32_t resource_class;  // 0 SRV, 1 UAV, 2 CBV, 3 sampler: DXIL's numbering
    uint32_t access;          // what the shader does with it: SwAccess
    uint32_t space;           // register space
    uint32_t lower;           // first register
    uint32_t count;           // number of registers, UINT32_MAX: unbounded
    uint32_t shape;           // DXIL resource kind: 10 typed buffer, 11 raw, 12 structured, 13 constant buffer
    uint32_t stride;          // structured: bytes per element, else 0
};

// The memory that a descriptor or a root argument refers to.
struct SwView {
    char* data;         // null: unbound
    uint64_t size;      // bytes
    uint32_t stride;    // bytes per element; 1 for raw views and constant buffers
    uint32_t format;    // DXGI_FORMAT of a typed view, else 0
    uint64_t resource;  // the number of the buffer, from 1; 0: unbound
};

struct SwShaderInfo {
    uint32_t threads[3];  // of a group
    uint32_t range_count;
    const SwResourceRange* ranges;  // valid as long as the process
};

// Runs the thread groups first <= i < last of a grid; i counts x fastest, then y, then z. views[i] is the
// view of range i of the shader's info, or an array of views if the range has several registers. `shared`
// points to shared_bytes bytes of uninitialised scratch memory, 64-byte aligned, which no other thread uses.
typedef void (*SwKernelFunction)(SwView** views, const uint32_t grid[3], uint64_t first, uint64_t last, void* shared);

struct SwKernel {
    SwKernelFunction function;
    uint64_t shared_bytes;
};

// Both take a DXBC container and return 1, or 0 after writing a reason with its NUL to `error`. SwCompile may
// also return -1: it was interrupted, and the next dispatch may try again. SwDescribe runs when a pipeline is
// created. SwCompile runs on the thread that executes the first dispatch that needs this combination of view
// formats: one DXGI_FORMAT for each range, 0 if the range is not typed.
typedef int (*SwDescribe)(const void* dxbc, uint64_t size, SwShaderInfo* info, char* error, uint64_t error_size);
typedef int (*SwCompile)(const void* dxbc, uint64_t size, const uint32_t* formats, SwKernel* kernel, char* error,
                         uint64_t error_size);

#define SW_EXPORT __attribute__((visibility("default")))

// Must be called before the first pipeline; null, null clears it. Existing kernels stay in use.
SW_EXPORT void sw_set_compiler(SwDescribe describe, SwCompile compile);
// A counter's value (names: counters.cpp), UINT64_MAX for an unknown name.
SW_EXPORT uint64_t sw_counter(const char* name);
// Writes a line for each existing object, "type<tab>name", in UTF-8 and with a NUL, as far as it fits into `size`
// bytes. Returns the bytes that all of it needs.
SW_EXPORT uint64_t sw_live_objects(char* text, uint64_t size);
// Sets all counters to 0, except those of existing objects.
SW_EXPORT void sw_reset_counters(void);
// The number of threads that execute dispatches and copies; 0: one for each core.
SW_EXPORT void sw_set_threads(uint32_t count);
// Makes these helpers of the process work for the adapter, too, before its first work: cpu::helpers in
// cpu/runtime/thread_pool.h, from the same build.
SW_EXPORT void sw_use_helpers(void* helpers);
// While it is on, dispatches are counted but do nothing.
SW_EXPORT void sw_suppress_dispatches(int on);
// Makes one of the next calls that may fail (objects made, memory mapped, lists closed and reset, work submitted,
// fences signalled and waited for) return E_OUTOFMEMORY, or lose its device: the first one if `number` is 1; 0: none
// of them. Submitting work cannot run out of memory. The counter "fallible_calls" counts such calls.
SW_EXPORT void sw_fail_call(uint64_t number, int removes_device);
// The work that this thread submits until sw_end is abandoned once cancelled(context) is not 0, or when the compiler
// is interrupted: the rest of it is not run. Several threads call `cancelled`; null: never cancelled.
typedef int (*SwCancelled)(const void* context);
SW_EXPORT void sw_begin(SwCancelled cancelled, const void* context);
// Returns whether any work was abandoned.
SW_EXPORT int sw_end(void);
// What is wrong with the environment variable that makes the adapter strict (strictness.h), null if nothing is.
SW_EXPORT const char* sw_strictness_error(void);
// Plants a fault, in place of the one before, or of that of the environment variable (planted_fault.h); empty: none.
// Returns what is wrong with the text, null if nothing is.
SW_EXPORT const char* sw_plant_fault(const char* text);
// What is wrong with the environment variable that plants a fault, null if nothing is.
SW_EXPORT const char* sw_fault_error(void);
// Writes "kernel=HEX shader=HEX" for each dispatch of the last list that had any while a fault was planted or logged,
// in lines, with a NUL, as far as it fits into `size` bytes. Returns the bytes that all of it needs.
SW_EXPORT uint64_t sw_dispatched(char* text, uint64_t size);
// Loses all existing devices: from now on they report DXGI_ERROR_DEVICE_REMOVED.
SW_EXPORT void sw_remove_device(void);

}  // extern "C"
