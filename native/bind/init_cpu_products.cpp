// Matrix products of NumPy arrays, computed by the loops of NumPy's `matmul`.
#include <pybind11/numpy.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "bind/gil.h"
#include "bind/init.h"
#include "cpu/runtime/products.h"

namespace dmlgraph {
namespace {

namespace py = pybind11;
using cpu::Matrices;
using cpu::MatrixLoop;
using cpu::Products;

// The first members of NumPy's PyUFuncObject, as in numpy/ufuncobject.h of every NumPy 1 and 2.
struct UniversalFunction {
    PyObject head;
    int inputs;
    int outputs;
    int arguments;
    int identity;
    MatrixLoop::Function* functions;
    void* const* data;
    int type_count;
    int reserved;
    const char* name;
    const char* types;  // `arguments` numbers of data types for each function
};

// The loops of matmul for float32 and float64, found once; they are valid as long as NumPy is loaded.
struct Loops {
    MatrixLoop single;
    MatrixLoop dbl;

    Loops() {
        const py::object found = py::module_::import("numpy").attr("matmul");
        const auto& matmul = *reinterpret_cast<const UniversalFunction*>(found.ptr());
        const bool is_known = std::string(py::str(py::type::of(found).attr("__name__"))) == "ufunc" &&
                              matmul.inputs == 2 && matmul.outputs == 1 && matmul.arguments == 3 &&
                              std::strcmp(matmul.name, "matmul") == 0;
        if (!is_known) {
            throw std::runtime_error("matmul of this NumPy is not a universal function of the expected form");
        }
        single = loop(matmul, py::dtype::of<float>().num());
        dbl = loop(matmul, py::dtype::of<double>().num());
    }

    static MatrixLoop loop(const UniversalFunction& matmul, int type) {
        for (int i = 0; i < matmul.type_count; ++i) {
            const char* const types = matmul.types + i * matmul.arguments;
            if (std::all_of(types, types + matmul.arguments, [&](char each) { return each == type; })) {
                return {matmul.functions[i], matmul.data == nullptr ? nullptr : matmul.data[i]};
            }
        }
        throw std::runtime_error("matmul of this NumPy does not have a loop for a float type");
    }
};

const Loops& loops() {
    static const Loops found;
    return found;
}

// The matrices of an array, broadcast along batch dimensions that are missing or have size 1.
Matrices matrices(const py::array& array, const Products& products) {
    const auto rank = static_cast<int>(array.ndim());
    Matrices result;
    result.data = static_cast<std::byte*>(const_cast<void*>(array.data()));
    result.row = array.strides(rank - 2);
    result.column = array.strides(rank - 1);
    for (int d = 0; d < products.rank; ++d) {
        const int own = d - products.rank + rank - 2;
        if (own >= 0 && array.shape(own) != 1) {
            if (array.shape(own) != products.batch[static_cast<std::size_t>(d)]) {
                throw py::value_error("the batch dimensions of the products do not match");
            }
            result.batch[static_cast<std::size_t>(d)] = array.strides(own);
        }
    }
    return result;
}

void multiply(const py::array& a, const py::array& b, py::array& result, int threads) {
    const auto rank = static_cast<int>(result.ndim());
    if (a.ndim() < 2 || b.ndim() < 2 || rank < 2 || rank - 2 > cpu::max_rank || a.ndim() > rank || b.ndim() > rank) {
        throw py::value_error("matrices must have two dimensions, and no more batch dimensions than the result");
    }
    const int type = result.dtype().num();
    if (a.dtype().num() != type || b.dtype().num() != type) {
        throw py::value_error("the arrays of a product must have the same data type");
    }
    if (!result.writeable()) {
        throw py::value_error("the result of a product is read-only");
    }
    const bool is_single = type == py::dtype::of<float>().num();
    if (!is_single && type != py::dtype::of<double>().num()) {
        throw py::value_error("products must be float32 or float64");
    }
    Products products;
    products.rank = rank - 2;
    for (int d = 0; d < products.rank; ++d) {
        products.batch[static_cast<std::size_t>(d)] = result.shape(d);
    }
    products.m = a.shape(a.ndim() - 2);
    products.k = a.shape(a.ndim() - 1);
    products.n = b.shape(b.ndim() - 1);
    if (b.shape(b.ndim() - 2) != products.k || result.shape(rank - 2) != products.m ||
        result.shape(rank - 1) != products.n) {
        throw py::value_error("the sizes of the matrices do not match");
    }
    products.a = matrices(a, products);
    products.b = matrices(b, products);
    products.result = matrices(result, products);
    const MatrixLoop loop = is_single ? loops().single : loops().dbl;
    released([&] { cpu::multiply(products, loop, std::max(1, threads)); });
}

}  // namespace

void init_cpu_products(py::module_& module) {
    module.def("cpu_multiply", &multiply, py::arg("a"), py::arg("b"), py::arg("result"), py::arg("threads"));
}

}  // namespace dmlgraph
