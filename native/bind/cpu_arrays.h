// NumPy arrays as the CPU executor's arrays and tensors.
#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <optional>
#include <string>

#include "cpu/runtime/executable.h"

namespace dmlgraph::cpu {

namespace py = pybind11;

// NumPy's number of a data type.
int numpy_number(DataType type);
py::dtype numpy_dtype(DataType type);

// The array's memory, if the object is exactly a NumPy array with the data type and sizes of the desc, aligned and,
// if required, writable.
std::optional<Array> read_array(PyObject* object, const TensorDesc& desc, bool writable);

// Whether no two elements of an array share memory. Also false for some arrays whose elements do not.
bool surely_lie_apart(const Array& array, const TensorDesc& desc);

// A new packed array for an output.
py::array new_array(const TensorDesc& desc);

// A tensor's memory as an array that does not own it.
py::array borrow(const Tensor& tensor, bool writable);

}  // namespace dmlgraph::cpu
