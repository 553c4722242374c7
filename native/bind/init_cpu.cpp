// The CPU executor: graphs planned and run on NumPy arrays.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "bind/cpu_arrays.h"
#include "bind/cpu_graph.h"
#include "bind/init.h"
#include "cpu/buffer_pool.h"
#include "cpu/executable.h"
#include "cpu/kernels/kernel.h"

namespace dmlgraph {
namespace {

using cpu::Array;
using cpu::Binding;
using cpu::Executable;
using cpu::Step;
namespace py = pybind11;

// Runs that touch fewer bytes keep the interpreter lock: they are over before it would have been given away.
constexpr double worth_releasing = 64 << 10;

[[noreturn]] void raise_device_error(const std::string& message, const char* name = "DeviceError") {
    const py::object error = py::module_::import("dmlgraph.errors").attr(name);
    PyErr_SetObject(error.ptr(), error(message).ptr());
    throw py::error_already_set();
}

using Targets = std::vector<py::object>;  // outputs by slot; null: a new array

class Runner {
public:
    Runner(std::string name, const py::sequence& inputs, const py::sequence& nodes, const py::sequence& outputs,
           std::vector<py::str> input_names, std::vector<py::str> output_names, const py::sequence& constants,
           int threads)
        : name_(std::move(name)),
          executable_(cpu::plan(cpu::read_graph(inputs, nodes, outputs)), std::max(1, threads)),
          input_names_(std::move(input_names)),
          output_names_(std::move(output_names)),
          base_(program().inputs.size(), program().outputs.size()),
          inputs_(program().inputs.size()) {
        if (input_names_.size() != inputs_.size() || output_names_.size() != program().outputs.size() ||
            constants.size() != inputs_.size()) {
            throw py::value_error("a name for each input and output and a constant or None for each input are needed");
        }
        for (std::size_t slot = 0; slot < inputs_.size(); ++slot) {
            PyUnicode_InternInPlace(&input_names_[slot].ptr());
            const py::object constant = constants[slot];
            if (!constant.is_none()) {
                set_input(slot, constant, base_.inputs[slot]);
                inputs_[slot] = constant;
            }
        }
        for (py::str& output : output_names_) {
            PyUnicode_InternInPlace(&output.ptr());
        }
        given_ = static_cast<std::size_t>(std::ranges::count_if(inputs_, [](const py::object& each) { return !each; }));
        double cost = 0;
        for (const auto& step : program().steps) {
            cost += step->cost();
        }
        releases_ = cost >= worth_releasing;
    }

    const cpu::Program& program() const { return executable_.program(); }

    // The results of a call whose arguments are plain dictionaries of fitting arrays; None where they need a closer look.
    py::object run(const py::object& inputs, const py::object& out) {
        Use use(*this);
        Binding& binding = use.binding();
        if (inputs.is_none() ? given_ != 0 : !PyDict_CheckExact(inputs.ptr()) || py::len(inputs) != given_) {
            return py::none();
        }
        for (std::size_t slot = 0; slot < inputs_.size(); ++slot) {
            if (inputs_[slot]) {
                continue;
            }
            PyObject* const array = PyDict_GetItemWithError(inputs.ptr(), input_names_[slot].ptr());
            const auto found = array == nullptr ? std::nullopt : cpu::read_array(array, program().inputs[slot], false);
            if (!found) {
                PyErr_Clear();
                return py::none();
            }
            binding.inputs[slot] = *found;
            use.hold(array);
        }
        Targets& targets = use.targets();
        std::size_t named = 0;
        if (!out.is_none()) {
            if (!PyDict_CheckExact(out.ptr())) {
                return py::none();
            }
            for (std::size_t slot = 0; slot < targets.size(); ++slot) {
                PyObject* const array = PyDict_GetItemWithError(out.ptr(), output_names_[slot].ptr());
                if (array == nullptr) {
                    PyErr_Clear();
                    continue;
                }
                const auto found = cpu::read_array(array, program().outputs[slot], true);
                if (!found || (named > 0 && !found->packed)) {
                    return py::none();
                }
                binding.outputs[slot] = *found;
                targets[slot] = py::reinterpret_borrow<py::object>(array);
                ++named;
            }
            if (named != static_cast<std::size_t>(py::len(out)) || (named > 1 && share_memory(binding, targets))) {
                return py::none();
            }
        }
        return finish(use);
    }

    // The results for arrays in slot order (constants too) and outputs by slot (None: a new array), all of them checked.
    py::object execute(const py::sequence& arrays, const py::sequence& outputs) {
        Use use(*this);
        read(arrays, outputs, use.binding(), use.targets());
        for (const py::handle array : arrays) {
            use.hold(array.ptr());
        }
        return finish(use);
    }

    // Sets the arrays of a binding.
    void read(const py::sequence& arrays, const py::sequence& outputs, Binding& binding, Targets& targets) const {
        if (arrays.size() != inputs_.size() || outputs.size() != targets.size()) {
            throw py::value_error("an array for each input and an array or None for each output are needed");
        }
        for (std::size_t slot = 0; slot < inputs_.size(); ++slot) {
            set_input(slot, arrays[slot], binding.inputs[slot]);
        }
        for (std::size_t slot = 0; slot < targets.size(); ++slot) {
            const py::object target = outputs[slot];
            if (target.is_none()) {
                continue;
            }
            const auto found = cpu::read_array(target.ptr(), program().outputs[slot], true);
            if (!found) {
                throw py::value_error("an output is no fitting array");
            }
            binding.outputs[slot] = *found;
            targets[slot] = target;
        }
    }

    py::object run_bound(const Binding& binding, const Targets& targets) {
        Use use(*this);
        use.binding() = binding;
        use.targets() = targets;
        return finish(use);
    }

    Binding base() const { return base_; }

    void close() {
        closed_ = true;
        for (const auto& spare : spares_) {
            executable_.release(*spare->context);
        }
        spares_.clear();
        executable_.trim();
        inputs_.assign(inputs_.size(), py::object());
        base_ = Binding(inputs_.size(), program().outputs.size());
    }

    // Whether runs measure the time of each step.
    void set_timed(bool timed) { executable_.timed = timed; }

    // (names, how it runs, seconds, bytes) of each step of the last run that was timed.
    py::list timed_steps() const {
        constexpr std::array how{"region", "native", "python"};
        py::list result;
        for (std::size_t s = 0; s < step_seconds_.size(); ++s) {
            const Step& step = *program().steps[s];
            result.append(py::make_tuple(py::tuple(py::cast(step.nodes)), how[static_cast<std::size_t>(step.kind())],
                                         step_seconds_[s], step.bytes));
        }
        return result;
    }

    py::dict stats() const {
        py::list regions, native, python;
        for (const auto& step : program().steps) {
            const py::list names = py::cast(step->nodes);
            switch (step->kind()) {
                case Step::Kind::region: regions.append(names); break;
                case Step::Kind::native: native += names; break;
                case Step::Kind::python: python += names; break;
            }
        }
        py::dict result;
        result["regions"] = regions;
        result["native"] = native;
        result["python"] = python;
        result["arena_bytes"] = program().arena_bytes;
        result["scratch_bytes"] = program().scratch_bytes * static_cast<std::size_t>(executable_.threads());
        result["threads"] = executable_.threads();
        result["run_seconds"] = seconds_;
        return result;
    }

private:
    // What one run needs, kept for the next: allocated for the first ones only.
    struct Spare {
        Executable::Context* context;
        Binding binding;
        Targets targets;
        std::vector<py::object> held;
    };

    class Use {
    public:
        explicit Use(Runner& runner) : runner_(runner) {
            if (runner.closed_) {
                raise_device_error("the executable is closed and cannot run any more");
            }
            if (runner.spares_.empty()) {
                spare_ = std::make_unique<Spare>(Spare{nullptr, runner.base_, {}, {}});
                try {
                    spare_->context = &runner.executable_.acquire();
                } catch (const std::bad_alloc&) {
                    runner.out_of_memory();
                }
                runner.spares_.reserve(++runner.spare_count_);
            } else {
                spare_ = std::move(runner.spares_.back());
                runner.spares_.pop_back();
                spare_->binding = runner.base_;
            }
            spare_->targets.resize(runner.output_names_.size());
        }
        ~Use() {
            spare_->targets.clear();
            spare_->held.clear();
            if (runner_.closed_) {
                runner_.executable_.release(*spare_->context);
                runner_.executable_.trim();
            } else {
                runner_.spares_.push_back(std::move(spare_));
            }
        }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

        Executable::Context& context() { return *spare_->context; }
        Binding& binding() { return spare_->binding; }
        Targets& targets() { return spare_->targets; }
        void hold(PyObject* object) { spare_->held.push_back(py::reinterpret_borrow<py::object>(object)); }

    private:
        Runner& runner_;
        std::unique_ptr<Spare> spare_;
    };

    void set_input(std::size_t slot, const py::object& array, Array& to) const {
        const auto found = cpu::read_array(array.ptr(), program().inputs[slot], false);
        if (!found) {
            throw py::value_error("input " + std::to_string(slot) + " is no fitting array");
        }
        to = *found;
    }

    bool share_memory(const Binding& binding, const Targets& targets) const {
        for (std::size_t one = 0; one < targets.size(); ++one) {
            for (std::size_t other = 0; other < one; ++other) {
                if (!targets[one] || !targets[other]) {
                    continue;
                }
                const std::byte *first = binding.outputs[one].data, *second = binding.outputs[other].data;
                if (!binding.outputs[one].packed || !binding.outputs[other].packed ||
                    (first < second + program().outputs[other].total_bytes() &&
                     second < first + program().outputs[one].total_bytes())) {
                    return true;
                }
            }
        }
        return false;
    }

    // Makes the outputs that are not given, runs, and returns all by name.
    py::object finish(Use& use) {
        Binding& binding = use.binding();
        Targets& targets = use.targets();
        try {
            binding.may_overlap = false;
            for (std::size_t slot = 0; slot < targets.size(); ++slot) {
                if (targets[slot]) {
                    binding.may_overlap = true;
                    continue;
                }
                py::array made = cpu::new_array(program().outputs[slot]);
                binding.outputs[slot] = {};
                binding.outputs[slot].data = static_cast<std::byte*>(made.mutable_data());
                targets[slot] = std::move(made);
            }
            run_steps(use.context(), binding);
        } catch (const std::bad_alloc&) {
            out_of_memory();
        } catch (const py::error_already_set& error) {
            if (error.matches(PyExc_MemoryError)) {
                out_of_memory();
            }
            throw;
        }
        PyObject* const results = PyDict_New();
        if (results == nullptr) {
            throw py::error_already_set();
        }
        auto result = py::reinterpret_steal<py::object>(results);
        for (std::size_t slot = 0; slot < targets.size(); ++slot) {
            if (PyDict_SetItem(results, output_names_[slot].ptr(), targets[slot].ptr()) != 0) {
                throw py::error_already_set();
            }
        }
        return result;
    }

    void run_steps(Executable::Context& context, const Binding& binding) {
        using Clock = std::chrono::steady_clock;
        const auto start = Clock::now();
        if (releases_) {
            PyThreadState* const state = PyEval_SaveThread();
            try {
                executable_.run(context, binding);
            } catch (const std::exception&) {
                PyEval_RestoreThread(state);
                throw;
            }
            PyEval_RestoreThread(state);
        } else {
            executable_.run(context, binding);
        }
        seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
        if (executable_.timed) {
            step_seconds_ = context.step_seconds;
        }
    }

    [[noreturn]] void out_of_memory() const {
        raise_device_error("not enough memory to run " + name_, "NotEnoughMemoryError");
    }

    std::string name_;  // what is run, as a phrase
    Executable executable_;
    std::vector<py::str> input_names_;
    std::vector<py::str> output_names_;
    Binding base_;                    // the constants
    std::vector<py::object> inputs_;  // by slot: the constants
    std::size_t given_ = 0;           // inputs that are no constants
    std::vector<std::unique_ptr<Spare>> spares_;
    std::size_t spare_count_ = 0;
    bool releases_ = false;
    bool closed_ = false;
    double seconds_ = 0;
    std::vector<double> step_seconds_;
};

// A run of fixed arrays.
class BoundRun {
public:
    BoundRun(std::shared_ptr<Runner> runner, const py::sequence& arrays, const py::sequence& outputs)
        : runner_(std::move(runner)), binding_(runner_->base()), targets_(binding_.outputs.size()), arrays_(arrays) {
        runner_->read(arrays, outputs, binding_, targets_);
    }

    py::object operator()() const { return runner_->run_bound(binding_, targets_); }

private:
    std::shared_ptr<Runner> runner_;
    Binding binding_;
    Targets targets_;
    py::list arrays_;
};

}  // namespace

void init_cpu(py::module_& module) {
    py::class_<Runner, std::shared_ptr<Runner>>(module, "CpuExecutable", "A graph planned for the CPU executor.")
        .def(py::init<std::string, const py::sequence&, const py::sequence&, const py::sequence&, std::vector<py::str>,
                      std::vector<py::str>, const py::sequence&, int>(),
             py::arg("name"), py::arg("inputs"), py::arg("nodes"), py::arg("outputs"), py::arg("input_names"),
             py::arg("output_names"), py::arg("constants"), py::arg("threads"))
        .def("run", &Runner::run, py::arg("inputs"), py::arg("out"))
        .def("execute", &Runner::execute, py::arg("arrays"), py::arg("outputs"))
        .def(
            "bind",
            [](std::shared_ptr<Runner> self, const py::sequence& arrays, const py::sequence& outputs) {
                return BoundRun(std::move(self), arrays, outputs);
            },
            py::arg("arrays"), py::arg("outputs"))
        .def("close", &Runner::close)
        .def("set_timed", &Runner::set_timed, py::arg("timed"))
        .def("timed_steps", &Runner::timed_steps)
        .def_property_readonly("stats", &Runner::stats);
    py::class_<BoundRun>(module, "BoundRun", "Runs an executable on arrays that are fixed.")
        .def("__call__", &BoundRun::operator());
    module.def("cpu_default_threads", &cpu::default_threads);
    module.def("cpu_pooled_bytes", &cpu::pooled_bytes);
}

}  // namespace dmlgraph
