// The DirectML runtime: libraries, adapters, devices and executables.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "bind/gil.h"
#include "bind/init.h"
#include "bind/read_value.h"
#include "directml/adapter.h"
#include "directml/compile.h"
#include "directml/device.h"
#include "directml/error.h"
#include "directml/executable.h"
#include "directml/library.h"
#include "directml/probe.h"
#include "directml/resident.h"

namespace dmlgraph {
namespace {

// A shared pointer to what `make` returns, which runs without the lock. The pointer lets other threads run while the
// object is destroyed: destruction may wait for work on the adapter, and a software adapter's work may wait for Python.
// An object that is left when Python exits while threads are at work is not destroyed: they may be inside it.
template <class T, class Function>
std::shared_ptr<T> make_released(Function make) {
    const auto destroy = [](T* object) {
        if (!Py_IsInitialized() || !PyGILState_Check()) {
            delete object;
        } else if (!ends_under_threads()) {
            released([object] { delete object; });
        }
    };
    return released([&] { return std::shared_ptr<T>(make(), destroy); });
}

// A method that is called without the lock.
template <class Class, class Result, class... Parameters>
auto releasing(Result (Class::*method)(Parameters...)) {
    return [method](Class& self, Parameters... parameters) {
        return released([&] { return (self.*method)(parameters...); });
    };
}

// Raises the Python exception that dmlgraph.devices.directml.errors makes from the error.
void raise(const Error& error) {
    const auto text = [](std::string_view bytes) {
        return py::reinterpret_steal<py::object>(
            PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
    };
    py::list messages;
    for (const std::string& message : error.debug_messages) {
        messages.append(text(message));
    }
    const py::object exception =
        call_python(imported("dmlgraph.devices.directml.errors", "from_native"), text(name(error.kind)),
                    text(error.message), text(error.call), py::int_(static_cast<std::uint32_t>(error.code)),
                    text(describe(error.code)), text(error.graph), text(error.node), messages);
    PyErr_SetObject(py::type::of(exception).ptr(), exception.ptr());
}

GraphNode read_node(const py::handle& node) {
    const auto [name, content] = node.cast<std::pair<std::string, py::object>>();
    if (py::isinstance<py::bytes>(content)) {
        return ConstantNode{name, content.cast<std::string>()};
    }
    return OperatorNode{name, content.cast<std::shared_ptr<OperatorDesc>>()};
}

using InputTuple = std::tuple<std::string, std::uint64_t, bool, bool>;
using OutputTuple = std::tuple<std::string, std::uint64_t, std::string>;
using EdgeTuple = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
using IntermediateTuple = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

template <class To, class From>
std::vector<To> convert(const std::vector<From>& tuples) {
    std::vector<To> result;
    result.reserve(tuples.size());
    for (const From& tuple : tuples) {
        result.push_back(std::make_from_tuple<To>(tuple));
    }
    return result;
}

// Indexed by Target.
constexpr std::array<std::string_view, 3> target_names{"back", "resident", "rows"};

std::vector<GraphOutput> read_outputs(const std::vector<OutputTuple>& tuples) {
    std::vector<GraphOutput> outputs;
    for (const auto& [name, bytes, target] : tuples) {
        const auto found = std::ranges::find(target_names, target);
        if (found == target_names.end()) {
            throw py::value_error("an output goes back, resident or rows, not " + target);
        }
        outputs.push_back({name, bytes, static_cast<Target>(found - target_names.begin())});
    }
    return outputs;
}

GraphDesc make_graph(std::string name, const std::vector<InputTuple>& inputs, const std::vector<OutputTuple>& outputs,
                     const py::sequence& nodes, const std::vector<EdgeTuple>& input_edges,
                     const std::vector<EdgeTuple>& output_edges,
                     const std::vector<IntermediateTuple>& intermediate_edges) {
    GraphDesc graph;
    graph.name = std::move(name);
    graph.inputs = convert<GraphInput>(inputs);
    graph.outputs = read_outputs(outputs);
    graph.nodes.reserve(nodes.size());
    for (const py::handle node : nodes) {
        graph.nodes.push_back(read_node(node));
    }
    graph.input_edges = convert<InputEdge>(input_edges);
    graph.output_edges = convert<OutputEdge>(output_edges);
    graph.intermediate_edges = convert<IntermediateEdge>(intermediate_edges);
    return graph;
}

using Tensor = std::shared_ptr<Resident>;

// The bytes of Python objects, which are kept alive while they are used; empty for None and for a tensor on the device.
// Span is one of const bytes, or of bytes that are written.
template <class Span>
class HeldBuffers {
public:
    explicit HeldBuffers(const py::sequence& objects) : views_(objects.size()) {
        constexpr bool writes = !std::is_const_v<typename Span::element_type>;
        for (std::size_t i = 0; i < views_.size(); ++i) {
            const py::object object = objects[i];
            const bool has_bytes = !object.is_none() && !py::isinstance<Resident>(object);
            if (has_bytes &&
                PyObject_GetBuffer(object.ptr(), &views_[i], PyBUF_C_CONTIGUOUS | (writes ? PyBUF_WRITABLE : 0)) != 0) {
                release();
                throw py::error_already_set();
            }
            spans_.emplace_back(static_cast<std::byte*>(views_[i].buf), static_cast<std::size_t>(views_[i].len));
        }
    }
    ~HeldBuffers() { release(); }
    HeldBuffers(const HeldBuffers&) = delete;
    HeldBuffers& operator=(const HeldBuffers&) = delete;

    const std::vector<Span>& spans() const { return spans_; }

private:
    void release() {
        for (Py_buffer& view : views_) {
            PyBuffer_Release(&view);  // does nothing for a view that was not acquired
        }
    }

    std::vector<Py_buffer> views_;  // zeroed
    std::vector<Span> spans_;
};
using ReadBuffers = HeldBuffers<std::span<const std::byte>>;
using WrittenBuffers = HeldBuffers<std::span<std::byte>>;

std::uint64_t initialize(Executable& executable, const py::sequence& data, const Cancellation* cancellation) {
    const ReadBuffers buffers(data);
    return released([&] {
        const Device::Use use(*executable.device(), executable.place());
        return executable.initialize(buffers.spans(), cancellation);
    });
}

// The tensors among Python objects, null for others.
std::vector<Tensor> tensors_of(const py::sequence& objects) {
    std::vector<Tensor> tensors;
    for (const py::handle object : objects) {
        tensors.push_back(py::isinstance<Resident>(object) ? object.cast<Tensor>() : nullptr);
    }
    return tensors;
}

using ChainTuple = std::tuple<std::uint32_t, std::uint32_t, std::vector<Tensor>>;
using AppendTuple =
    std::tuple<std::uint32_t, Tensor, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;

bool run(Executable& executable, std::uint64_t initialization, const py::sequence& inputs, const py::sequence& outputs,
         const Cancellation* cancellation, const std::vector<ChainTuple>& chains,
         const std::vector<AppendTuple>& appends, std::size_t steps) {
    const ReadBuffers read(inputs);
    const WrittenBuffers written(outputs);
    const std::vector<Tensor> given = tensors_of(inputs);
    const std::vector<Tensor> kept = tensors_of(outputs);
    Run run;
    for (std::size_t i = 0; i < given.size(); ++i) {
        run.inputs.push_back({read.spans()[i], given[i].get()});
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
        run.outputs.push_back({written.spans()[i], kept[i].get()});
    }
    for (const auto& [input, output, tensors] : chains) {
        Chain& chain = run.chains.emplace_back(Chain{input, output, {}});
        for (const Tensor& tensor : tensors) {
            chain.tensors.push_back(tensor.get());
        }
    }
    for (const auto& [output, state, begin, rows, blocks, row_bytes, capacity] : appends) {
        run.appends.push_back({output, state.get(), begin, rows, blocks, row_bytes, capacity});
    }
    run.steps = steps;
    return released([&] {
        const Device::Use use(*executable.device(), executable.place());
        return executable.run(initialization, run, cancellation);
    });
}

Tensor make_resident(std::shared_ptr<Device> device, std::uint64_t bytes, const std::string& what) {
    return make_released<Resident>([&] {
        const Device::Use use(*device);
        return new Resident(device, bytes, what);
    });
}

void init_resident(py::module_& module) {
    py::class_<Resident, Tensor>(module, "Resident", "A tensor that stays in the adapter's memory.")
        .def(py::init(&make_resident), py::arg("device"), py::arg("bytes"), py::arg("what"), "Zeros.")
        .def_property_readonly("device", &Resident::device)
        .def_property_readonly("bytes", &Resident::bytes)
        .def_property_readonly(
            "resource",
            [](const Resident& self) {
                return released([&] {
                    const Device::Use use(*self.device());
                    return reinterpret_cast<std::uintptr_t>(&self.buffer()->resource());
                });
            },
            "The address of the ID3D12Resource.")
        .def(
            "write",
            [](Resident& self, const py::object& data) {
                const ReadBuffers buffers(py::make_tuple(data));
                released([&] {
                    const Device::Use use(*self.device());
                    self.write(buffers.spans()[0]);
                });
            },
            py::arg("data"), "Copies the bytes of an array into it.")
        .def(
            "read",
            [](const Resident& self, const py::object& data) {
                const WrittenBuffers buffers(py::make_tuple(data));
                released([&] {
                    const Device::Use use(*self.device());
                    self.read(buffers.spans()[0]);
                });
            },
            py::arg("into"), "Copies it into the memory of an array.")
        .def(
            "copy",
            [](const Resident& self, const std::string& what) {
                return make_released<Resident>([&] {
                    const Device::Use use(*self.device());
                    auto other = std::make_unique<Resident>(self.device(), self.bytes(), what);
                    other->copy_from(self);
                    return other.release();
                });
            },
            py::arg("what"), "Another one that holds the same.")
        .def(
            "copy_from",
            [](Resident& self, const Resident& other,
               const std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>& given) {
                std::vector<Resident::Piece> pieces;
                pieces.reserve(given.size());
                for (const auto& [from, to, bytes] : given) {
                    pieces.push_back({from, to, bytes});
                }
                released([&] {
                    const Device::Use use(*self.device());
                    self.copy_from(other, pieces);
                });
            },
            py::arg("other"), py::arg("pieces"),
            "Copies pieces of another one: from which byte, to which byte, and how many.");
}

std::string_view kind_name(const Adapter& adapter) {
    constexpr std::array<std::string_view, 3> names{"gpu", "npu", "software"};
    return names[static_cast<std::size_t>(adapter.kind)];
}

py::dict as_dict(const ExecutableStats& stats) {
    py::dict result;
    result["descriptor_count"] = stats.descriptor_count;
    result["temporary_bytes"] = stats.temporary_bytes;
    result["persistent_bytes"] = stats.persistent_bytes;
    result["compile_seconds"] = stats.compile_seconds;
    result["initialize_seconds"] = stats.initialize_seconds;
    result["upload_seconds"] = stats.upload_seconds;
    result["run_seconds"] = stats.run_seconds;
    result["readback_seconds"] = stats.readback_seconds;
    if (stats.device_seconds) {
        result["device_seconds"] = *stats.device_seconds;
    }
    if (stats.budget) {
        result["memory_budget_bytes"] = stats.budget->bytes;
        result["memory_used_bytes"] = stats.budget->used_bytes;
    }
    result["runs"] = stats.runs;
    result["initialize_dispatches"] = stats.initialize_dispatches;
    result["dispatches"] = stats.dispatches;
    result["submissions"] = stats.submissions;
    result["waits"] = stats.waits;
    result["uploaded_bytes"] = stats.uploaded_bytes;
    result["read_bytes"] = stats.read_bytes;
    return result;
}

std::vector<std::pair<std::filesystem::path, std::string>> files_of(const Library& library) {
    std::vector<std::pair<std::filesystem::path, std::string>> files;
    for (const SharedLibrary* file : library.files()) {
        files.emplace_back(file->path(), file->version());
    }
    return files;
}

void init_library(py::module_& module) {
    py::class_<Adapter>(module, "Adapter", "An adapter from DXCore's list; memory in bytes.")
        .def_readonly("name", &Adapter::name)
        .def_property_readonly("kind", &kind_name, "'gpu', 'npu' or 'software'.")
        .def_readonly("luid", &Adapter::luid)
        .def_readonly("integrated", &Adapter::integrated)
        .def_readonly("dedicated_bytes", &Adapter::dedicated_bytes)
        .def_readonly("shared_bytes", &Adapter::shared_bytes)
        .def_readonly("driver_version", &Adapter::driver_version);

    py::class_<Library, std::shared_ptr<Library>>(module, "Library",
                                                  "Direct3D 12, DXCore and DirectML; they are never unloaded.")
        .def_static(
            "load",
            [](std::filesystem::path directml, std::filesystem::path d3d12, std::filesystem::path dxcore,
               std::optional<std::filesystem::path> dxgi) {
                const LibraryPaths paths{std::move(directml), std::move(d3d12), std::move(dxcore),
                                         std::move(dxgi).value_or("")};
                return released([&] { return Library::load(paths); });
            },
            py::arg("directml"), py::arg("d3d12"), py::arg("dxcore"), py::arg("dxgi") = std::nullopt)
        .def_property_readonly("files", &files_of,
                               "The files of DirectML, Direct3D 12 and what lists the adapters, and their versions.")
        .def_property_readonly("lists_by",
                               [](const Library& self) { return self.create_adapter_factory ? "DXCore" : "DXGI"; })
        .def_static(
            "probe",
            [](std::filesystem::path d3d12, std::filesystem::path dxcore) {
                const LibraryPaths paths{{}, std::move(d3d12), std::move(dxcore), {}};
                const Probe probe = released([&] { return probe_direct3d(paths); });
                return std::pair(probe.problem, probe.stays);
            },
            py::arg("d3d12"), py::arg("dxcore"), "Why no adapter works ('': one does), and whether libraries stay.")
        .def("adapters", [](const Library& self) { return released([&] { return list_adapters(self); }); })
        .def(
            "counter",
            [](const Library& self, const char* name) -> std::optional<std::uint64_t> {
                const std::uint64_t value = self.counter(name);
                return value == UINT64_MAX ? std::nullopt : std::optional(value);
            },
            py::arg("name"), "The value of a software adapter's counter; None if the counter does not exist.");
}

bool uses_shared(Device& device) {
    const Device::Use use(device);
    return device.shares_memory();
}

void init_device(py::module_& module) {
    py::class_<GraphDesc>(module, "GraphDesc", "DML_GRAPH_DESC as plain data.")
        .def(py::init(&make_graph), py::arg("name"), py::arg("inputs"), py::arg("outputs"), py::arg("nodes"),
             py::arg("input_edges"), py::arg("output_edges"), py::arg("intermediate_edges"));

    py::class_<Device, std::shared_ptr<Device>>(module, "Device", "An adapter opened for DirectML.")
        .def(py::init([](std::shared_ptr<Library> library, const Adapter& adapter, bool debug, bool gpu_validation,
                         bool share_memory, double timeout) {
                 const DeviceOptions options{debug, gpu_validation, share_memory, timeout};
                 return make_released<Device>([&] { return new Device(std::move(library), adapter, options); });
             }),
             py::arg("library"), py::arg("adapter"), py::kw_only(), py::arg("debug") = false,
             py::arg("gpu_validation") = false, py::arg("share_memory") = false, py::arg("timeout") = 0.0)
        .def_property_readonly("adapter", &Device::adapter)
        .def_property_readonly("feature_level", [](const Device& self) { return std::uint32_t{self.feature_level()}; })
        .def_property_readonly("d3d12_level", [](const Device& self) { return std::uint32_t{self.d3d12_level()}; })
        .def_property_readonly("debug", &Device::debug)
        .def_property_readonly("runs_without_timeout", &Device::runs_without_timeout)
        .def_property_readonly("lost", [](const Device& self) { return released([&] { return self.lost(); }); })
        .def_property_readonly("shares_memory",
                               [](Device& self) { return released([&] { return uses_shared(self); }); })
        .def(
            "supports",
            [](Device& self, std::uint32_t type) {
                return released([&] {
                    const Device::Use use(self);
                    return self.supports(static_cast<abi::DML_TENSOR_DATA_TYPE>(type));
                });
            },
            py::arg("data_type"))
        .def(
            "try_compile",
            [](Device& self, const GraphDesc& graph, std::uint32_t flags) {
                released([&] {
                    const Device::Use use(self);
                    compile(self, graph, static_cast<abi::DML_EXECUTION_FLAGS>(flags));
                });
            },
            py::arg("graph"), py::arg("flags") = 0, "Compiles a graph and discards the result.")
        .def(
            "remove",
            [](Device& self) {
                released([&] {
                    const Device::Use use(self);
                    self.remove();
                });
            },
            "Removes the device on purpose, as a driver crash would.")
        .def(
            "require_alive",
            [](Device& self, const std::string& graph) { released([&] { Device::Use(self, {graph, {}}); }); },
            py::arg("graph"), "Raises DeviceRemovedError if the device is lost.")
        .def("drop", releasing(&Device::drop), "Releases what a lost device holds.");
}

void init_executable(py::module_& module) {
    py::class_<Cancellation>(module, "Cancellation", "Asks a run to end soon, from any thread.")
        .def(py::init<>())
        .def("cancel", &Cancellation::cancel)
        .def_property_readonly("cancelled", &Cancellation::cancelled);

    py::class_<Executable, std::shared_ptr<Executable>>(module, "Executable",
                                                        "A compiled graph with everything needed to run it.")
        .def(py::init([](std::shared_ptr<Device> device, const GraphDesc& graph, std::uint32_t flags, bool timed) {
                 return make_released<Executable>([&] {
                     const Device::Use use(*device, {graph.name, {}});
                     const ExecutableOptions options{static_cast<abi::DML_EXECUTION_FLAGS>(flags), timed};
                     return new Executable(device, graph, options);
                 });
             }),
             py::arg("device"), py::arg("graph"), py::arg("flags") = 0, py::kw_only(), py::arg("timed") = false)
        .def("initialize", &initialize, py::arg("data"), py::arg("cancellation") = nullptr,
             "Copies the bytes of the owned inputs (None for the others) into the persistent resource; returns its "
             "number.")
        .def_property_readonly("device", &Executable::device)
        .def("run", &run, py::arg("initialization"), py::arg("inputs"), py::arg("outputs"),
             py::arg("cancellation") = nullptr, py::kw_only(), py::arg("chains") = std::vector<ChainTuple>(),
             py::arg("appends") = std::vector<AppendTuple>(), py::arg("steps") = 1,
             "Runs the graph from buffers and tensors into those; False: there was another initialisation.")
        .def(
            "keep",
            [](Executable& self, std::size_t output) {
                return make_released<Resident>([&] {
                    const Device::Use use(*self.device(), self.place());
                    return self.keep(output).release();
                });
            },
            py::arg("output"), "A tensor for an output that stays on the device, which a run writes.")
        .def("close", releasing(&Executable::close))
        .def_property_readonly("stats",
                               [](const Executable& self) { return as_dict(released([&] { return self.stats(); })); });
}

}  // namespace

void init_directml(py::module_& module) {
    py::register_local_exception_translator(
        [](std::exception_ptr pointer) {  // NOLINT(performance-unnecessary-value-param): pybind11 says so
            try {
                if (pointer) {
                    std::rethrow_exception(pointer);
                }
            } catch (const Error& error) {
                raise(error);
            }
        });
    init_library(module);
    init_device(module);
    init_resident(module);
    init_executable(module);
}

}  // namespace dmlgraph
