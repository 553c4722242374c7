// Runs the graph @{title} on .npy files.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "device.h"
#include "runner.h"
#include "tensors.h"

using namespace @{namespace};

namespace {

// The outputs' files, in the folder that is given.
constexpr const char* Files[] = {@{output_files}};

constexpr int MostLosses = 2;  // of the device, before the program gives up

// Wrong usage, which exits with 2.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Arguments {
    std::map<std::string, std::string> inputs;  // name → file
    std::string weights = "weights.bin";
    std::string folder;
    std::size_t steps = 1;
};

std::string Usage() {
    std::string text = "usage: PROGRAM [--weights weights.bin] [--steps 1] [-o FOLDER]";
    for (std::size_t i = 0; i < InputNumber(); ++i) {
        text += std::string(" ") + Inputs[i].name + "=FILE.npy";
    }
    return text;
}

Arguments Parsed(int count, char** values) {
    Arguments found;
    for (int i = 1; i < count; ++i) {
        const std::string value = values[i];
        if (value == "--weights" || value == "--steps" || value == "-o") {
            if (++i == count) {
                throw UsageError("nothing follows " + value + "\n" + Usage());
            }
            const std::string next = values[i];
            if (value == "--weights") {
                found.weights = next;
            } else if (value == "-o") {
                found.folder = next;
            } else {
                found.steps = std::strtoul(next.c_str(), nullptr, 10);
                if (found.steps == 0) {
                    throw UsageError("--steps is a number above 0; got " + next);
                }
            }
            continue;
        }
        const std::size_t sign = value.rfind('=');
        if (sign == std::string::npos) {
            throw UsageError("'" + value + "' is not NAME=FILE.npy\n" + Usage());
        }
        found.inputs[value.substr(0, sign)] = value.substr(sign + 1);
    }
    return found;
}

// The buffers of the inputs.
std::vector<Bytes> InputsOf(Arguments arguments) {
    std::vector<Bytes> found;
    for (std::size_t i = 0; i < InputNumber(); ++i) {
        const auto file = arguments.inputs.find(Inputs[i].name);
        if (file == arguments.inputs.end()) {
            throw UsageError(std::string("there is no file for the input '") + Inputs[i].name + "'\n" + Usage());
        }
        found.push_back(Packed(Inputs[i], ReadArray(file->second, Inputs[i])));
        arguments.inputs.erase(file);
    }
    if (!arguments.inputs.empty()) {
        throw UsageError("the graph has no input '" + arguments.inputs.begin()->first + "'\n" + Usage());
    }
    return found;
}

// The elements of the outputs of all steps.
std::vector<Bytes> Collected(const Arguments& arguments, const std::vector<Bytes>& inputs) {
    Device device;
    Runner runner(device, arguments.weights, inputs);
    std::vector<Bytes> collected(OutputCount);
    for (std::size_t step = 0; step < arguments.steps; ++step) {
        const std::vector<Bytes> outputs = runner.Run(inputs);
        for (UINT i = 0; i < OutputCount; ++i) {
            const Bytes elements = Unpacked(Outputs[i], outputs[i]);
            collected[i].insert(collected[i].end(), elements.begin(), elements.end());
        }
    }
    return collected;
}

// As Collected. When the device is lost, what states held is lost too: all steps are run again, on a new device.
std::vector<Bytes> Recovered(const Arguments& arguments, const std::vector<Bytes>& inputs) {
    for (int losses = 0;; ++losses) {
        try {
            return Collected(arguments, inputs);
        } catch (const DeviceLost& error) {  // the old device, and all that is of it, is released by now
            if (losses == MostLosses) {
                throw;
            }
            std::fprintf(stderr, "the device was lost: %s; starting again\n", error.what());
        }
    }
}

void Execute(const Arguments& arguments) {
    const std::vector<Bytes> collected = Recovered(arguments, InputsOf(arguments));
    for (UINT i = 0; i < OutputCount; ++i) {
        std::printf("%s: %s %s", Outputs[i].name, InfoOf(Outputs[i].type).name, ShapeOf(Outputs[i]).c_str());
        if (!arguments.folder.empty()) {
            const std::string file = arguments.folder + "/" + Files[i];
            WriteArray(file, Outputs[i], collected[i], arguments.steps);
            std::printf(" in %s", file.c_str());
        }
        std::printf("\n");
    }
    std::fflush(stdout);
}

}  // namespace

int main(int count, char** values) {
    try {
        Execute(Parsed(count, values));
        return 0;
    } catch (const UsageError& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
