// An exported graph for benchmarks/cpp.py, which compiles this file with it: GRAPH is its namespace.
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "device.h"
#include "runner.h"

using namespace GRAPH;

namespace {

struct Opened {
    Opened(const char* weights, const unsigned char* const* arrays) : inputs(Copied(arrays)), runner(device, weights, inputs) {}

    static std::vector<Bytes> Copied(const unsigned char* const* arrays) {
        std::vector<Bytes> copied;
        for (UINT i = 0; i < InputNumber(); ++i) {
            copied.emplace_back(arrays[i], arrays[i] + Inputs[i].bytes);
        }
        return copied;
    }

    Device device;
    std::vector<Bytes> inputs;
    Runner runner;
    std::vector<Bytes> outputs;
};

std::unique_ptr<Opened> opened;

template <class Work>
int Tried(const Work& work) {
    try {
        work();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

}  // namespace

// The inputs are packed row-major.
extern "C" int graph_open(const char* weights, const unsigned char* const* inputs) {
    return Tried([&] { opened = std::make_unique<Opened>(weights, inputs); });
}

// What Executable.run does: takes the inputs, records, executes, waits, and copies the outputs out.
extern "C" int graph_run() {
    return Tried([] { opened->outputs = opened->runner.Run(opened->inputs); });
}

extern "C" void graph_output(unsigned index, unsigned char* to) {
    std::memcpy(to, opened->outputs[index].data(), opened->outputs[index].size());
}

extern "C" void graph_close() { opened.reset(); }
