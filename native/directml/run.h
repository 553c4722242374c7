// What a run is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "directml/graph_desc.h"
#include "directml/resident.h"

namespace dmlgraph {

// The bytes of an input, or a tensor on the device. An input may have bytes for every step, one after another. Neither:
// it is owned, or a chain has it.
struct RunInput {
    std::span<const std::byte> bytes{};
    const Resident* resident = nullptr;
};

// Where the bytes of an output go, or a tensor on the device. There may be room for those of every step. Neither: it
// goes into a state.
struct RunOutput {
    std::span<std::byte> bytes{};
    const Resident* resident = nullptr;
};

// A state that is updated whole: which input reads it, which output is its next value. The first step reads the first
// tensor and writes the second; the later ones read and write the second and the third in turns, so that the first
// stays what it is. One step needs no third tensor.
struct Chain {
    std::uint32_t input;
    std::uint32_t output;
    std::vector<const Resident*> tensors;
};

// Rows that go behind those of a state. Along the axes before that of the rows are `blocks` blocks, each of `capacity`
// rows of `row_bytes`.
struct Append {
    std::uint32_t output;
    const Resident* state;
    std::uint64_t begin;  // where the first step's rows go
    std::uint64_t rows;   // of each step
    std::uint64_t blocks;
    std::uint64_t row_bytes;
    std::uint64_t capacity;
};

struct Run {
    std::vector<RunInput> inputs;
    std::vector<RunOutput> outputs;
    std::vector<Chain> chains{};
    std::vector<Append> appends{};
    std::size_t steps = 1;
};

// Throw Error (use). Buffers have whole 32-bit words; the bytes after the last element need not be there.
void require_count(std::size_t count, std::size_t expected, const char* what);
void require_bytes(std::size_t bytes, std::uint64_t expected, const std::string& what);

// Throws Error (use) if what a run is given does not fit the graph, or is on another device.
void require_valid(const GraphDesc& graph, const Run& run, const Device& device);

}  // namespace dmlgraph
