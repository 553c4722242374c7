#include "bind/cpu_arrays.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "cpu/runtime/buffer_pool.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::size_t pooled_from = 64 << 10;  // bytes; NumPy allocates smaller arrays quickly

constexpr std::array<const char*, data_type_count> names{"",       "float32", "float16", "uint32", "uint16",
                                                         "uint8",  "int32",   "int16",   "int8",   "float64",
                                                         "uint64", "int64",   "",        ""};

// NumPy's own types, found once and never released.
struct Types {
    std::array<PyObject*, data_type_count> dtype{};
    std::array<int, data_type_count> number{};

    Types() {
        for (std::size_t type = 0; type < names.size(); ++type) {
            if (*names[type] != '\0') {
                py::dtype found(names[type]);
                number[type] = found.num();
                dtype[type] = found.release().ptr();
            }
        }
    }
};

const Types& types() {
    static const Types* const found = new Types;
    return *found;
}

struct PooledMemory {
    std::byte* memory;
    std::size_t bytes;
};

}  // namespace

int numpy_number(DataType type) { return types().number[static_cast<std::size_t>(type)]; }

py::dtype numpy_dtype(DataType type) {
    return py::reinterpret_borrow<py::dtype>(types().dtype[static_cast<std::size_t>(type)]);
}

std::optional<Array> read_array(PyObject* object, const TensorDesc& desc, bool writable) {
    namespace detail = py::detail;
    const auto& api = detail::npy_api::get();
    if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(api.PyArray_Type_)) {
        return std::nullopt;
    }
    const auto* const array = detail::array_proxy(object);
    if (array->descr != types().dtype[static_cast<std::size_t>(desc.type)]) {
        const auto* const descr = detail::array_descriptor_proxy(array->descr);
        if (descr->type_num != numpy_number(desc.type) || (descr->byteorder != '=' && descr->byteorder != '|')) {
            return std::nullopt;
        }
    }
    const int wanted = detail::npy_api::NPY_ARRAY_ALIGNED_ | (writable ? detail::npy_api::NPY_ARRAY_WRITEABLE_ : 0);
    if (array->nd != desc.rank || (array->flags & wanted) != wanted) {
        return std::nullopt;
    }
    Array result;
    result.data = reinterpret_cast<std::byte*>(array->data);
    result.packed = (array->flags & detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_) != 0;
    for (int d = 0; d < desc.rank; ++d) {
        if (array->dimensions[d] != desc.sizes[d]) {
            return std::nullopt;
        }
        result.strides[d] = array->strides[d];
    }
    return result;
}

bool surely_lie_apart(const Array& array, const TensorDesc& desc) {
    if (array.packed) {
        return true;
    }
    struct Axis {
        std::int64_t stride = 0;
        std::int64_t size = 1;
    };
    std::array<Axis, max_rank> axes{};
    for (int d = 0; d < desc.rank; ++d) {
        axes[d] = {std::abs(array.strides[d]), desc.sizes[d]};
    }
    std::ranges::sort(axes, {}, &Axis::stride);
    auto end = static_cast<std::int64_t>(item_size(desc.type));  // one past the last byte of the axes so far
    for (const auto& [stride, size] : axes) {
        if (size > 1 && stride < end) {
            return false;
        }
        end += stride * (size - 1);
    }
    return true;
}

py::array new_array(const TensorDesc& desc) {
    const std::vector<py::ssize_t> shape(desc.sizes.begin(), desc.sizes.begin() + desc.rank);
    const std::size_t bytes = static_cast<std::size_t>(desc.element_count()) * item_size(desc.type);
    if (bytes < pooled_from) {
        return py::array(numpy_dtype(desc.type), shape);
    }
    auto holder = std::make_unique<PooledMemory>(PooledMemory{take_memory(bytes), bytes});
    const py::capsule owner(holder.get(), [](void* pointer) {
        const std::unique_ptr<PooledMemory> held(static_cast<PooledMemory*>(pointer));
        give_memory(held->memory, held->bytes);
    });
    const std::byte* const memory = holder.release()->memory;
    return py::array(numpy_dtype(desc.type), shape, memory, owner);
}

py::array borrow(const Tensor& tensor, bool writable) {
    const std::vector<py::ssize_t> shape(tensor.sizes.begin(), tensor.sizes.begin() + tensor.rank);
    const std::vector<py::ssize_t> strides(tensor.strides.begin(), tensor.strides.begin() + tensor.rank);
    py::array array(numpy_dtype(tensor.type), shape, strides, tensor.data, py::none());
    if (!writable) {
        py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
    }
    return array;
}

}  // namespace dmlgraph::cpu
