// Arrays in files of NumPy, and as they lie in the graph's buffers.
#pragma once

#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph.h"

namespace @{namespace} {

using Bytes = std::vector<unsigned char>;

// As functions, because compilers warn of comparisons with a constant 0.
inline UINT InputNumber() { return InputCount; }
inline UINT OutputNumber() { return OutputCount; }
inline UINT StateNumber() { return StateCount; }
inline UINT WeightNumber() { return WeightCount; }

// All of a file, which must have so many bytes.
inline Bytes ReadFile(const std::string& file, UINT64 bytes) {
    std::ifstream stream(file, std::ios::binary | std::ios::ate);
    const std::streamoff size = stream.tellg();
    if (!stream) {
        throw std::runtime_error("cannot read " + file);
    }
    if (static_cast<UINT64>(size) != bytes) {
        throw std::runtime_error(file + " has " + std::to_string(size) + " bytes, and the graph's has " +
                                 std::to_string(bytes));
    }
    Bytes found(static_cast<std::size_t>(size));
    stream.seekg(0);
    stream.read(reinterpret_cast<char*>(found.data()), size);
    if (!stream) {
        throw std::runtime_error("cannot read " + file);
    }
    return found;
}

struct TypeInfo {
    const char* name;
    const char* numpy;
    unsigned bits;
};

inline TypeInfo InfoOf(DML_TENSOR_DATA_TYPE type) {
    switch (type) {
        case DML_TENSOR_DATA_TYPE_FLOAT32: return {"float32", "<f4", 32};
        case DML_TENSOR_DATA_TYPE_FLOAT16: return {"float16", "<f2", 16};
        case DML_TENSOR_DATA_TYPE_UINT32: return {"uint32", "<u4", 32};
        case DML_TENSOR_DATA_TYPE_UINT16: return {"uint16", "<u2", 16};
        case DML_TENSOR_DATA_TYPE_UINT8: return {"uint8", "|u1", 8};
        case DML_TENSOR_DATA_TYPE_INT32: return {"int32", "<i4", 32};
        case DML_TENSOR_DATA_TYPE_INT16: return {"int16", "<i2", 16};
        case DML_TENSOR_DATA_TYPE_INT8: return {"int8", "|i1", 8};
        case DML_TENSOR_DATA_TYPE_FLOAT64: return {"float64", "<f8", 64};
        case DML_TENSOR_DATA_TYPE_UINT64: return {"uint64", "<u8", 64};
        case DML_TENSOR_DATA_TYPE_INT64: return {"int64", "<i8", 64};
        case DML_TENSOR_DATA_TYPE_UINT4: return {"uint4", "|u1", 4};  // files have a byte for each
        case DML_TENSOR_DATA_TYPE_INT4: return {"int4", "|i1", 4};
        default: return {"unknown", "|V1", 8};
    }
}

inline std::size_t ElementCount(const TensorInfo& tensor) {
    std::size_t count = 1;
    for (UINT axis = 0; axis < tensor.rank; ++axis) {
        count *= tensor.sizes[axis];
    }
    return count;
}

// The bytes of an element in a file.
inline std::size_t ElementBytes(const TensorInfo& tensor) {
    return (InfoOf(tensor.type).bits + 7) / 8;
}

// Calls visit(element, place) for each element, row-major: its place is in elements from the buffer's begin.
template <class Visit>
void EachElement(const TensorInfo& tensor, const Visit& visit) {
    const std::size_t count = ElementCount(tensor);
    for (std::size_t element = 0; element < count; ++element) {
        std::size_t rest = element, place = 0;
        for (UINT axis = tensor.rank; axis-- > 0;) {
            place += rest % tensor.sizes[axis] * tensor.strides[axis];
            rest /= tensor.sizes[axis];
        }
        visit(element, place);
    }
}

// The buffer of a tensor with these elements.
inline Bytes Packed(const TensorInfo& tensor, const Bytes& elements) {
    Bytes buffer(static_cast<std::size_t>(tensor.bytes));
    const std::size_t bytes = ElementBytes(tensor);
    EachElement(tensor, [&](std::size_t element, std::size_t place) {
        if (InfoOf(tensor.type).bits == 4) {
            const unsigned shift = place % 2 ? 4 : 0;
            const unsigned cleared = buffer[place / 2] & ~(15u << shift);  // strides of 0 write an element several times
            buffer[place / 2] = static_cast<unsigned char>(cleared | (elements[element] & 15u) << shift);
        } else {
            std::memcpy(&buffer[place * bytes], &elements[element * bytes], bytes);
        }
    });
    return buffer;
}

// The elements of a tensor in a buffer.
inline Bytes Unpacked(const TensorInfo& tensor, const Bytes& buffer) {
    const std::size_t bytes = ElementBytes(tensor);
    Bytes elements(ElementCount(tensor) * bytes);
    EachElement(tensor, [&](std::size_t element, std::size_t place) {
        if (InfoOf(tensor.type).bits == 4) {
            const unsigned number = buffer[place / 2] >> (place % 2 ? 4 : 0) & 15u;
            const bool isNegative = tensor.type == DML_TENSOR_DATA_TYPE_INT4 && number > 7;
            elements[element] = static_cast<unsigned char>(isNegative ? number | 0xf0u : number);
        } else {
            std::memcpy(&elements[element * bytes], &buffer[place * bytes], bytes);
        }
    });
    return elements;
}

inline std::string ShapeOf(const TensorInfo& tensor) {
    std::string text = "(";
    for (UINT axis = 0; axis < tensor.rank; ++axis) {
        text += std::to_string(tensor.sizes[axis]) + (axis + 1 < tensor.rank ? ", " : tensor.rank == 1 ? ",)" : ")");
    }
    return text;
}

// The elements in a .npy file, which must have the tensor's data type and sizes.
inline Bytes ReadArray(const std::string& file, const TensorInfo& tensor) {
    std::ifstream stream(file, std::ios::binary);
    char start[8] = {};
    unsigned char length[4] = {};
    stream.read(start, sizeof start);
    stream.read(reinterpret_cast<char*>(length), start[6] == 1 ? 2 : 4);
    if (!stream || std::memcmp(start, "\x93NUMPY", 6) != 0) {
        throw std::runtime_error(file + " is not a .npy file that can be read");
    }
    std::size_t bytes = 0;  // little-endian
    for (int place = 3; place >= 0; --place) {
        bytes = bytes << 8 | length[place];
    }
    std::string header(bytes < 65536 ? bytes : 0, '\0');
    stream.read(&header[0], static_cast<std::streamsize>(header.size()));
    const std::string numpy = InfoOf(tensor.type).numpy;
    const bool fits = header.find("'" + numpy + "'") != std::string::npos &&
                      header.find("'fortran_order': False") != std::string::npos &&
                      header.find("'shape': " + ShapeOf(tensor)) != std::string::npos;
    if (!fits) {
        throw std::runtime_error(file + " has " + header.substr(0, header.find_last_not_of(" \n") + 1) + ", and '" +
                                 tensor.name + "' is " + InfoOf(tensor.type).name + " " + ShapeOf(tensor) +
                                 " in C order");
    }
    Bytes elements(ElementCount(tensor) * ElementBytes(tensor));
    stream.read(reinterpret_cast<char*>(elements.data()), static_cast<std::streamsize>(elements.size()));
    if (!stream) {
        throw std::runtime_error(file + " ends too early");
    }
    return elements;
}

// Writes a .npy file. `steps`: how many tensors follow one another; more than one have a first axis for that.
inline void WriteArray(const std::string& file, const TensorInfo& tensor, const Bytes& elements, std::size_t steps) {
    std::string shape = ShapeOf(tensor);
    if (steps > 1) {
        shape = "(" + std::to_string(steps) + ", " + shape.substr(1);
    }
    std::string header = std::string("{'descr': '") + InfoOf(tensor.type).numpy +
                         "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += '\n';
    std::ofstream stream(file, std::ios::binary);
    stream.write("\x93NUMPY\x01\0", 8);
    stream.put(static_cast<char>(header.size() & 0xff));
    stream.put(static_cast<char>(header.size() >> 8));
    stream << header;
    stream.write(reinterpret_cast<const char*>(elements.data()), static_cast<std::streamsize>(elements.size()));
    if (!stream.flush()) {
        throw std::runtime_error("cannot write " + file);
    }
}

}  // namespace @{namespace}
