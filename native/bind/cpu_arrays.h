// NumPy arrays as the CPU executor's arrays and tensors.
#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <optional>
#include <string>

#include "cpu/runtime/executable.h"

namespace dmlgraph::cpu {

namespace py = pybind11;

// The number NumPy has for a data type.
int numpy_number(DataType type);
py::dtype numpy_dtype(DataType type);

// The array's memory, if it is exactly a NumPy array of the description's data type and sizes, aligned and, for an
// output, one that can be written into.
std::optional<Array> read_array(PyObject* object, const TensorDesc& desc, bool writable);

// Whether no two elements of an array share memory. False, too, for some whose elements lie apart all the same.
bool surely_lie_apart(const Array& array, const TensorDesc& desc);

// A new packed array for an output.
py::array new_array(const TensorDesc& desc);

// The memory of a tensor as an array that does not own it.
py::array borrow(const Tensor& tensor, bool writable);

}  // namespace dmlgraph::cpu
