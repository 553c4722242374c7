// Runs the graph @{title} once, and prints the first node whose values are not those that are expected.
//
//   @{namespace}_self_check [--weights weights.bin] [--expected expected.bin] [--relative 0.001]
//
// Floats may differ from what is expected by this fraction of the tensor's largest magnitude, float16 by ten times as much:
// devices add in another order. Integers must be equal. Exits with 0 if all nodes agree, 1 if one differs.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "device.h"
#include "runner.h"
#include "tensors.h"

using namespace @{namespace};

namespace {

// The expected elements of an output, in expected.bin.
struct Expected {
    const char* node;
    std::size_t offset;
};

constexpr std::size_t ExpectedBytes = @{expected_bytes};
constexpr std::size_t InputOffsets[] = {
@{expected_inputs}
};
constexpr Expected Outcomes[] = {
@{expected_outputs}
};

template <class T>
double As(const unsigned char* bytes) {
    T number;
    std::memcpy(&number, bytes, sizeof number);
    return static_cast<double>(number);
}

double Half(const unsigned char* bytes) {
    const int bits = bytes[0] | bytes[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31) {
        return fraction ? std::nan("") : sign * HUGE_VAL;
    }
    return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

// An element as a number: integers of 64 bits lose digits, and are compared as bytes.
double Number(DML_TENSOR_DATA_TYPE type, const unsigned char* bytes) {
    switch (type) {
        case DML_TENSOR_DATA_TYPE_FLOAT32: return As<float>(bytes);
        case DML_TENSOR_DATA_TYPE_FLOAT16: return Half(bytes);
        case DML_TENSOR_DATA_TYPE_FLOAT64: return As<double>(bytes);
        case DML_TENSOR_DATA_TYPE_UINT32: return As<UINT32>(bytes);
        case DML_TENSOR_DATA_TYPE_INT32: return As<INT32>(bytes);
        case DML_TENSOR_DATA_TYPE_UINT16: return As<UINT16>(bytes);
        case DML_TENSOR_DATA_TYPE_INT16: return As<INT16>(bytes);
        case DML_TENSOR_DATA_TYPE_INT8:
        case DML_TENSOR_DATA_TYPE_INT4: return As<signed char>(bytes);
        case DML_TENSOR_DATA_TYPE_UINT64: return As<UINT64>(bytes);
        case DML_TENSOR_DATA_TYPE_INT64: return As<INT64>(bytes);
        default: return bytes[0];
    }
}

bool IsFloat(DML_TENSOR_DATA_TYPE type) {
    return type == DML_TENSOR_DATA_TYPE_FLOAT32 || type == DML_TENSOR_DATA_TYPE_FLOAT16 ||
           type == DML_TENSOR_DATA_TYPE_FLOAT64;
}

// Compares the elements of a tensor, and returns the first that differs, or their number.
std::size_t FirstDifference(const TensorInfo& tensor, const unsigned char* got, const unsigned char* expected,
                            double relative) {
    const std::size_t count = ElementCount(tensor), bytes = ElementBytes(tensor);
    double largest = 0;
    for (std::size_t i = 0; IsFloat(tensor.type) && i < count; ++i) {
        const double number = std::fabs(Number(tensor.type, expected + i * bytes));
        largest = std::isfinite(number) && number > largest ? number : largest;
    }
    const double allowed = largest * relative * (tensor.type == DML_TENSOR_DATA_TYPE_FLOAT16 ? 10 : 1);
    for (std::size_t i = 0; i < count; ++i) {
        if (std::memcmp(got + i * bytes, expected + i * bytes, bytes) == 0) {
            continue;
        }
        const double a = Number(tensor.type, got + i * bytes), b = Number(tensor.type, expected + i * bytes);
        const bool areNaN = std::isnan(a) && std::isnan(b);
        if (!IsFloat(tensor.type) || !(areNaN || std::fabs(a - b) <= allowed)) {  // not so for one NaN or infinity
            return i;
        }
    }
    return count;
}

std::string CoordinatesOf(const TensorInfo& tensor, std::size_t element) {
    std::string text;
    for (UINT axis = tensor.rank; axis-- > 0;) {
        text = std::to_string(element % tensor.sizes[axis]) + (text.empty() ? "" : ", ") + text;
        element /= tensor.sizes[axis];
    }
    return "[" + text + "]";
}

struct Arguments {
    std::string weights = "weights.bin";
    std::string expected = "expected.bin";
    double relative = 0.001;
};

int Checked(const Arguments& arguments) {
    const Bytes expected = ReadFile(arguments.expected, ExpectedBytes);
    std::vector<Bytes> inputs;
    for (UINT i = 0; i < InputNumber(); ++i) {
        const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(InputOffsets[i]);
        inputs.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(Inputs[i].bytes));
    }
    Device device;
    Runner runner(device, arguments.weights, inputs);
    const std::vector<Bytes> outputs = runner.Run(inputs);
    for (UINT i = 0; i < OutputNumber(); ++i) {
        const TensorInfo& tensor = Outputs[i];
        const Bytes got = Unpacked(tensor, outputs[i]);
        const unsigned char* const wanted = expected.data() + Outcomes[i].offset;
        const std::size_t element = FirstDifference(tensor, got.data(), wanted, arguments.relative);
        if (element < ElementCount(tensor)) {
            const std::size_t place = element * ElementBytes(tensor);
            std::printf("the first node that differs is '%s': element %s of '%s' (%s %s): got %.9g, expected %.9g\n",
                        Outcomes[i].node, CoordinatesOf(tensor, element).c_str(), tensor.name, InfoOf(tensor.type).name,
                        ShapeOf(tensor).c_str(), Number(tensor.type, &got[place]), Number(tensor.type, wanted + place));
            return 1;
        }
    }
    std::printf("all of %u outputs are as expected\n", static_cast<unsigned>(OutputCount));
    return 0;
}

}  // namespace

int main(int count, char** values) {
    Arguments arguments;
    for (int i = 1; i < count; i += 2) {
        const std::string option = values[i];
        if (i + 1 == count || (option != "--weights" && option != "--expected" && option != "--relative")) {
            std::fprintf(stderr, "usage: PROGRAM [--weights weights.bin] [--expected expected.bin] [--relative 0.001]\n");
            return 2;
        }
        if (option == "--weights") {
            arguments.weights = values[i + 1];
        } else if (option == "--expected") {
            arguments.expected = values[i + 1];
        } else {
            arguments.relative = std::strtod(values[i + 1], nullptr);
        }
    }
    try {
        const int status = Checked(arguments);
        std::fflush(stdout);
        return status;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
