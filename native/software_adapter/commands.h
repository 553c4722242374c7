// The commands that a command list records, ready to run: addresses instead of objects and root arguments.
//
// As in Direct3D 12, a list keeps nothing alive: its caller must keep the objects it refers to.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "software_adapter/formats.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {

class PipelineState;

struct DispatchCommand {
    PipelineState* pipeline;
    uint32_t grid[3];            // thread groups
    std::vector<SwView*> views;  // one for each range of the shader, into a descriptor heap or root_views
    std::vector<SwView> root_views;
    std::vector<uint32_t> constants;  // the data of the views of root constants

    void run() const;
};

struct CopyCommand {
    char* target;
    const char* source;
    uint64_t size;  // bytes

    void run() const;
};

struct FillCommand {
    char* target;
    uint64_t count;  // elements
    uint32_t element_bytes;
    Element element;

    void run() const;
};

// Writes the time in nanoseconds.
struct TimestampCommand {
    uint64_t* target;

    void run() const;
};

// Does nothing: profilers and the notes about a removed device show it.
struct EventCommand {
    bool begins;  // else it ends

    void run() const {}
};

using Command = std::variant<DispatchCommand, CopyCommand, FillCommand, TimestampCommand, EventCommand>;
using Commands = std::vector<Command>;

// Runs commands one after another: each sees what the previous ones wrote. So barriers do nothing.
// `done`, if it is not null, counts the commands that have run.
void run(const Commands& commands, uint32_t* done = nullptr);

// The addresses where the memory begins that the commands read and write.
std::vector<const char*> addresses_of(const Commands& commands);

// The clock of timestamps, in nanoseconds.
uint64_t timestamp_now();

}  // namespace dmlgraph::software
