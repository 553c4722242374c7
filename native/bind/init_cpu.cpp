// The CPU executor: graphs planned and run on NumPy arrays.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/cpu_arrays.h"
#include "bind/cpu_graph.h"
#include "bind/gil.h"
#include "bind/growing_states.h"
#include "bind/init.h"
#include "cpu/kernels/kernel.h"
#include "cpu/region/region_step.h"
#include "cpu/runtime/buffer_pool.h"
#include "cpu/runtime/executable.h"
#include "cpu/runtime/roof.h"

namespace dmlgraph {
namespace {

using cpu::Array;
using cpu::Binding;
using cpu::Executable;
using cpu::GrowingStates;
using cpu::Kept;
using cpu::Step;
using cpu::StepClock;
namespace py = pybind11;

// Runs that touch fewer bytes keep the interpreter lock: they end sooner than releasing it takes.
constexpr double worth_releasing = 64 << 10;

// A run that may take longer than this, in seconds, can be interrupted by signals: between two steps, or, where a step
// may take longer, since another thread does it.
constexpr double worth_watching = 0.02;

// Bytes of constants that steps have packed: after so many, the memory of the constants is given back to the system.
constexpr std::size_t worth_trimming = 16 << 20;

[[noreturn]] void raise_device_error(const std::string& message, const char* code, const char* name = "DeviceError") {
    const py::object error = imported("dmlgraph.base.errors", name);
    const py::str text(message), problem(code);
    const py::tuple keywords = py::make_tuple("code");
    const auto exception = py::reinterpret_steal<py::object>(outlive([&] {
        const std::array<PyObject*, 2> arguments{text.ptr(), problem.ptr()};
        return PyObject_Vectorcall(error.ptr(), arguments.data(), 1, keywords.ptr());
    }));
    if (exception) {
        PyErr_SetObject(error.ptr(), exception.ptr());
    }
    throw py::error_already_set();
}

// Packing weights takes long: on the main thread Ctrl-C ends it between two steps.
void throw_what_signals_raise() {
    if (outlive([] { return PyErr_CheckSignals(); }) != 0) {
        throw py::error_already_set();
    }
}

// The graph with the axes along which its inputs grow.
cpu::GraphSpec growing(cpu::GraphSpec graph, const GrowingStates& states) {
    graph.grows = states.axes(graph.inputs.size());
    return graph;
}

bool in_main_thread() {
    const py::object main = call_python(imported("threading", "main_thread"));
    return py::cast<unsigned long>(main.attr("ident")) == PyThread_get_thread_ident();
}

using Targets = std::vector<py::object>;  // outputs by slot; null: a new array

class Runner : public std::enable_shared_from_this<Runner> {
public:
    Runner(std::string name, cpu::GraphBuilder& graph, std::vector<std::int32_t> outputs,
           std::vector<py::str> input_names, std::vector<py::str> output_names, const py::list& constants,
           std::vector<bool> is_owned, const std::vector<std::tuple<std::size_t, int, int, int, bool>>& states,
           const py::function& let_go, int threads)
        : name_(std::move(name)),
          states_(states),
          executable_(cpu::plan(growing(graph.take(std::move(outputs)), states_)), std::max(1, threads)),
          input_names_(std::move(input_names)),
          output_names_(std::move(output_names)),
          is_owned_(std::move(is_owned)),
          base_(program().inputs.size(), program().outputs.size()),
          inputs_(program().inputs.size()) {
        if (input_names_.size() != inputs_.size() || output_names_.size() != program().outputs.size() ||
            constants.size() != inputs_.size() || is_owned_.size() != inputs_.size()) {
            throw py::value_error(
                "expected a name for each input and output and a constant or None for each input, and "
                "whether it is owned");
        }
        for (std::size_t slot = 0; slot < inputs_.size(); ++slot) {
            PyUnicode_InternInPlace(&input_names_[slot].ptr());
            const py::object constant = constants[slot];
            if (!constant.is_none()) {
                set_input(slot, constant, base_.inputs[slot]);
                inputs_[slot] = constant;
                constants[slot] = py::none();
            }
        }
        for (py::str& output : output_names_) {
            PyUnicode_InternInPlace(&output.ptr());
        }
        std::size_t freed = 0;
        executable_.prepare(base_, &throw_what_signals_raise, [&](std::size_t slot) {
            base_.inputs[slot] = {};
            inputs_[slot] = py::none();
            let_go(slot, py::cpp_function([program = executable_.shared_program(), slot] {
                       py::array array = cpu::new_array(program->inputs[slot]);
                       cpu::unpack(*program, slot, static_cast<std::byte*>(array.mutable_data()));
                       return array;
                   }));
            freed += program().inputs[slot].total_bytes();
            if (freed >= worth_trimming) {
                cpu::trim_freed();
                freed = 0;
            }
        });
        if (freed > 0) {
            cpu::trim_freed();
        }
        for (const py::object& each : inputs_) {
            is_constant_.push_back(static_cast<bool>(each));
        }
        given_ = static_cast<std::size_t>(std::ranges::count(is_constant_, false));
        double cost = 0;
        for (const auto& step : program().steps) {
            cost += step->cost();
            can_last_ = can_last_ || step->kind() == Step::Kind::python;
        }
        releases_ = cost >= worth_releasing;
        can_last_ = can_last_ || releases_;
        may_last_ = can_last_;
    }

    const cpu::Program& program() const { return executable_.program(); }

    // The results of a call whose arguments are plain dictionaries of fitting arrays; None if they need further checks.
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
                if (!found || (named > 0 && !found->packed) ||
                    !cpu::surely_lie_apart(*found, program().outputs[slot])) {
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
        return finish(std::move(use));
    }

    // The results for checked arrays in slot order (anything for constants) and outputs by slot (None: a new array).
    // `written`, `lengths`: see GrowingStates::bind.
    py::object execute(const py::list& arrays, const py::list& outputs, const std::vector<std::int64_t>& written,
                       const std::vector<std::int64_t>& lengths) {
        return finish(checked(arrays, outputs, written, lengths));
    }

    // Runs as `execute` does, and returns (names, how it runs, seconds, bytes) of each step.
    py::list profile(const py::list& arrays, const py::list& outputs, const std::vector<std::int64_t>& written) {
        std::vector<double> seconds;
        finish(checked(arrays, outputs, written, {}), &seconds);
        py::list result;
        for (std::size_t s = 0; s < seconds.size(); ++s) {
            const Step& step = *program().steps[s];
            result.append(py::make_tuple(py::tuple(py::cast(step.nodes)), how(step), seconds[s], step.bytes));
        }
        return result;
    }

    // Of each step how it runs, its nodes, and the names of the buffers that it reads and writes. A reduction by itself
    // is a region, too.
    py::list steps() const {
        py::list result;
        for (const auto& step : program().steps) {
            std::vector<std::string> read, written;
            step->visit([&](cpu::View& view, bool writes) {
                std::vector<std::string>& names = writes ? written : read;
                const std::string name = buffer_name(view.buffer);
                if (!name.empty() && std::ranges::find(names, name) == names.end()) {
                    names.push_back(name);
                }
            });
            const bool is_region = dynamic_cast<const cpu::RegionStep*>(step.get()) != nullptr;
            result.append(
                py::make_tuple(is_region ? "region" : how(*step), py::tuple(py::cast(step->nodes)), read, written));
        }
        return result;
    }

    // The owned arrays of a binding, and what the steps have made of them.
    struct Owned {
        std::vector<py::object> arrays;  // by slot; null: not owned
        Kept kept;
    };

    // What the last runs had for these owned arrays, or what the steps make of them now. An array that another one
    // replaces is a new object. Null: no input is owned.
    std::shared_ptr<const Owned> owned(const py::list& arrays, const Binding& binding) {
        if (std::ranges::find(is_owned_, true) == is_owned_.end()) {
            return nullptr;
        }
        std::vector<py::object> given(is_owned_.size());
        for (std::size_t slot = 0; slot < given.size(); ++slot) {
            if (is_owned_[slot]) {
                given[slot] = arrays[slot];
            }
        }
        const auto is_same = [](const py::object& one, const py::object& other) { return one.is(other); };
        if (!owned_ || !std::ranges::equal(owned_->arrays, given, is_same)) {
            auto made = std::make_shared<Owned>();
            made->kept = executable_.keep(binding, is_owned_, &throw_what_signals_raise);
            made->arrays = std::move(given);
            owned_ = std::move(made);
        }
        return owned_;
    }

    // Sets the arrays of a binding of the constants; there are others in their slots.
    void read(const py::list& arrays, const py::list& outputs, Binding& binding, Targets& targets) const {
        if (arrays.size() != inputs_.size() || outputs.size() != targets.size()) {
            throw py::value_error("expected an array for each input and an array or None for each output");
        }
        for (std::size_t slot = 0; slot < inputs_.size(); ++slot) {
            if (!is_constant_[slot]) {
                set_input(slot, arrays[slot], binding.inputs[slot]);
            }
        }
        for (std::size_t slot = 0; slot < targets.size(); ++slot) {
            const py::object target = outputs[slot];
            if (target.is_none()) {
                continue;
            }
            const auto found = cpu::read_array(target.ptr(), program().outputs[slot], true);
            if (!found) {
                throw py::value_error("output " + std::to_string(slot) +
                                      " does not have the right type, sizes or layout");
            }
            binding.outputs[slot] = *found;
            targets[slot] = target;
        }
    }

    // `arrays`: the arrays that the binding points into.
    py::object run_bound(const Binding& binding, const Targets& targets, const py::object& arrays,
                         const std::shared_ptr<const Owned>& owned) {
        Use use(*this);
        use.owned() = owned;
        use.binding() = binding;
        use.targets() = targets;
        use.hold(arrays.ptr());
        return finish(std::move(use));
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
        owned_.reset();
        base_ = Binding(inputs_.size(), program().outputs.size());
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
        result["packed_bytes"] = executable_.packed_bytes();
        result["threads"] = executable_.threads();
        result["run_seconds"] = seconds_;
        result["all_run_seconds"] = all_seconds_;
        return result;
    }

private:
    // The resources of one run, kept for the next one, so that only the first runs allocate.
    struct Spare {
        Executable::Context* context;
        Binding binding;
        Targets targets;
        std::vector<py::object> held;
        std::shared_ptr<const Owned> owned;
        GrowingStates::Use states;
    };

    class Use {
    public:
        explicit Use(Runner& runner) : runner_(runner) {
            if (runner.closed_) {
                raise_device_error("the executable is closed and cannot run any more", "closed");
            }
            if (runner.spares_.empty()) {
                try {
                    Targets targets(runner.output_names_.size());
                    spare_ = std::make_unique<Spare>(Spare{nullptr, runner.base_, std::move(targets), {}, nullptr, {}});
                    spare_->held.reserve(runner.inputs_.size() + 1);
                    runner.spares_.reserve(runner.spare_count_ + 1);  // so that putting one back never fails
                    spare_->context = &runner.executable_.acquire();
                } catch (const std::bad_alloc&) {
                    runner.out_of_memory();
                }
                ++runner.spare_count_;
            } else {
                spare_ = std::move(runner.spares_.back());
                runner.spares_.pop_back();
                spare_->binding = runner.base_;
                spare_->targets.resize(runner.output_names_.size());
            }
            spare_->context->renew();
        }
        Use(Use&&) = default;
        ~Use() {
            if (!spare_) {
                return;
            }
            spare_->targets.clear();
            spare_->held.clear();
            spare_->owned.reset();
            spare_->states.lengths.clear();
            if (runner_.closed_) {
                runner_.executable_.release(*spare_->context);
                runner_.executable_.trim();
            } else {
                runner_.spares_.push_back(std::move(spare_));
            }
        }

        Executable::Context& context() { return *spare_->context; }
        Binding& binding() { return spare_->binding; }
        Targets& targets() { return spare_->targets; }
        std::shared_ptr<const Owned>& owned() { return spare_->owned; }
        GrowingStates::Use& states() { return spare_->states; }
        void hold(PyObject* object) { spare_->held.push_back(py::reinterpret_borrow<py::object>(object)); }

    private:
        Runner& runner_;
        std::unique_ptr<Spare> spare_;
    };

    // A run that another thread does, with everything it needs.
    struct Job {
        Job(std::shared_ptr<Runner> runner, Use use) : runner(std::move(runner)), use(std::move(use)) {}

        void cancel(unsigned long thread) {
            use.context().cancel();
            PyThreadState_SetAsyncExc(thread, PyExc_SystemExit);  // for the steps that run Python
        }

        std::shared_ptr<Runner> runner;
        Use use;
        std::vector<double> step_seconds;
    };

    static const char* how(const Step& step) {
        constexpr std::array names{"region", "native", "python"};
        return names[static_cast<std::size_t>(step.kind())];
    }

    // That of the input or output, "constants", or the number of a temporary one; empty: there is no buffer.
    std::string buffer_name(cpu::BufferId buffer) const {
        if (buffer == cpu::no_buffer) {
            return {};
        }
        const auto number = static_cast<std::size_t>(buffer);
        const std::size_t outputs = input_names_.size(), constants = outputs + output_names_.size();
        return number < outputs      ? static_cast<std::string>(input_names_[number])
               : number < constants  ? static_cast<std::string>(output_names_[number - outputs])
               : number == constants ? "constants"
                                     : "#" + std::to_string(number - constants);
    }

    void set_input(std::size_t slot, const py::object& array, Array& to) const {
        const auto found = cpu::read_array(array.ptr(), program().inputs[slot], false);
        if (!found) {
            throw py::value_error("input " + std::to_string(slot) + " does not have the right type, sizes or layout");
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

    Use checked(const py::list& arrays, const py::list& outputs, const std::vector<std::int64_t>& written,
                const std::vector<std::int64_t>& lengths) {
        Use use(*this);
        read(arrays, outputs, use.binding(), use.targets());
        states_.bind(program(), written, lengths, use.binding(), use.states());
        use.owned() = owned(arrays, use.binding());
        for (std::size_t slot = 0; slot < inputs_.size(); ++slot) {
            if (!is_constant_[slot]) {
                use.hold(PyList_GET_ITEM(arrays.ptr(), static_cast<Py_ssize_t>(slot)));
            }
        }
        return use;
    }

    // Makes the missing outputs, runs, and returns all outputs by name; with `step_seconds`, measures each step.
    py::object finish(Use use, std::vector<double>* step_seconds = nullptr) {
        Binding& binding = use.binding();
        Targets& targets = use.targets();
        try {
            binding.may_overlap = false;
            for (std::size_t slot = 0; slot < targets.size(); ++slot) {
                if (targets[slot]) {
                    binding.may_overlap = true;
                    continue;
                }
                binding.outputs[slot].is_new = true;
                if (binding.outputs[slot].data == nullptr) {  // else they are rows of a state
                    py::array made = cpu::new_array(program().outputs[slot]);
                    binding.outputs[slot].data = static_cast<std::byte*>(made.mutable_data());
                    targets[slot] = std::move(made);
                }
            }
            // Work that was given up may still write into the caller's arrays: a watched run waits for it.
            if (may_last_ || PyList_GET_SIZE(abandoned_.ptr()) > 0) {
                return run_watched(std::move(use), step_seconds);
            }
            run_steps(use, step_seconds);
        } catch (const std::bad_alloc&) {
            out_of_memory();
        } catch (const py::error_already_set& error) {
            if (error.matches(PyExc_MemoryError)) {
                out_of_memory();
            }
            throw;
        }
        return by_name(targets);
    }

    py::object by_name(const Targets& targets) const {
        PyObject* const results = PyDict_New();
        if (results == nullptr) {
            throw py::error_already_set();
        }
        auto result = py::reinterpret_steal<py::object>(results);
        for (std::size_t slot = 0; slot < targets.size(); ++slot) {
            if (targets[slot] && PyDict_SetItem(results, output_names_[slot].ptr(), targets[slot].ptr()) != 0) {
                throw py::error_already_set();
            }
        }
        return result;
    }

    // A run that a signal may interrupt: then it is cancelled, and keeps the objects it uses until it has ended.
    py::object run_watched(Use use, std::vector<double>* step_seconds) {
        const auto job = std::make_shared<Job>(shared_from_this(), std::move(use));
        const bool timed = step_seconds != nullptr;
        const py::cpp_function work(
            [job, timed] { job->runner->run_steps(job->use, timed ? &job->step_seconds : nullptr); });
        const py::cpp_function cancel([job](unsigned long thread) { job->cancel(thread); });
        call_python(imported("dmlgraph.devices.host.interrupts", "interruptible"), work, cancel);
        if (timed) {
            *step_seconds = job->step_seconds;
        }
        return by_name(job->use.targets());
    }

    void run_steps(Use& use, std::vector<double>* step_seconds) {
        using Clock = std::chrono::steady_clock;
        const bool asks = seconds_ > worth_watching && in_main_thread();
        StepClock clock(step_seconds, asks ? [] { acquired(&throw_what_signals_raise); } : std::function<void()>(),
                        worth_watching);
        const Kept* const kept = use.owned() ? &use.owned()->kept : nullptr;
        const auto start = Clock::now();
        double seconds = 0;
        const auto run = [&] {
            executable_.run(use.context(), use.binding(), can_last_ || step_seconds != nullptr ? &clock : nullptr,
                            kept);
            seconds = std::chrono::duration<double>(Clock::now() - start).count();
            states_.append(program(), use.binding(), use.states());
        };
        releases_ ? released(run) : run();
        seconds_ = seconds;
        all_seconds_ += seconds;
        may_last_ = can_last_ && clock.longest() > worth_watching;
    }

    [[noreturn]] void out_of_memory() const {
        raise_device_error("not enough memory to run " + name_, "memory", "NotEnoughMemoryError");
    }

    std::string name_;  // what runs, as a phrase
    GrowingStates states_;
    Executable executable_;
    std::vector<py::str> input_names_;
    std::vector<py::str> output_names_;
    std::vector<bool> is_owned_;          // by slot: an input that is given once, then kept until another one is given
    std::shared_ptr<const Owned> owned_;  // of the last run that had owned arrays
    Binding base_;                        // the constants
    std::vector<py::object> inputs_;      // by slot: the constants; None: steps keep its elements
    std::vector<bool> is_constant_;       // by slot
    std::size_t given_ = 0;               // inputs that are not constants
    std::vector<std::unique_ptr<Spare>> spares_;
    std::size_t spare_count_ = 0;
    bool releases_ = false;
    bool can_last_ = false;  // whether the sizes or a Python function may make a run long
    bool may_last_ = false;  // … and a step of the last run was long, or there was no run yet
    bool closed_ = false;
    double seconds_ = 0;                                                                // of the last run
    double all_seconds_ = 0;                                                            // of all runs
    py::object abandoned_ = imported("dmlgraph.devices.host.interrupts", "abandoned");  // threads, in a list
};

// A run on fixed arrays.
class BoundRun {
public:
    BoundRun(std::shared_ptr<Runner> runner, const py::list& arrays, const py::list& outputs)
        : runner_(std::move(runner)), binding_(runner_->base()), targets_(binding_.outputs.size()), arrays_(arrays) {
        runner_->read(arrays, outputs, binding_, targets_);
        owned_ = runner_->owned(arrays, binding_);
    }

    py::object operator()() const { return runner_->run_bound(binding_, targets_, arrays_, owned_); }

private:
    std::shared_ptr<Runner> runner_;
    Binding binding_;
    Targets targets_;
    py::list arrays_;
    std::shared_ptr<const Runner::Owned> owned_;
};

}  // namespace

void init_cpu(py::module_& module) {
    py::class_<Runner, std::shared_ptr<Runner>>(module, "CpuExecutable", "A graph planned for the CPU executor.")
        .def(py::init<std::string, cpu::GraphBuilder&, std::vector<std::int32_t>, std::vector<py::str>,
                      std::vector<py::str>, const py::list&, std::vector<bool>,
                      std::vector<std::tuple<std::size_t, int, int, int, bool>>, const py::function&, int>(),
             py::arg("name"), py::arg("graph"), py::arg("outputs"), py::arg("input_names"), py::arg("output_names"),
             py::arg("constants"), py::arg("owned"), py::arg("growing"), py::arg("let_go"), py::arg("threads"))
        .def("run", &Runner::run, py::arg("inputs"), py::arg("out"))
        .def("execute", &Runner::execute, py::arg("arrays"), py::arg("outputs"), py::arg("written"), py::arg("lengths"))
        .def(
            "bind",
            [](std::shared_ptr<Runner> self, const py::list& arrays, const py::list& outputs) {
                return BoundRun(std::move(self), arrays, outputs);
            },
            py::arg("arrays"), py::arg("outputs"))
        .def("close", &Runner::close)
        .def("profile", &Runner::profile, py::arg("arrays"), py::arg("outputs"), py::arg("written"))
        .def_property_readonly("steps", &Runner::steps)
        .def_property_readonly("stats", &Runner::stats);
    py::class_<BoundRun>(module, "BoundRun", "Runs an executable on fixed arrays.")
        .def("__call__", &BoundRun::operator());
    module.def("cpu_default_threads", &cpu::default_threads);
    module.def("cpu_keep_helpers_off", &cpu::keep_helpers_off, py::arg("on"));
    module.def("cpu_helpers", [] { return reinterpret_cast<std::uintptr_t>(cpu::helpers()); });
    module.def("cpu_packed_bytes", &cpu::packed_bytes);
    module.def("cpu_pooled_bytes", &cpu::pooled_bytes);
    module.def(
        "cpu_roof",
        [](int threads) {
            const cpu::Roof roof = released([&] { return cpu::measure_roof(std::max(1, threads)); });
            return std::tuple(roof.operations, roof.integer_operations, roof.bytes);
        },
        py::arg("threads"));
}

}  // namespace dmlgraph
