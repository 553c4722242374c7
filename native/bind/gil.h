// Releasing and taking the interpreter lock in a process that may exit in the meantime.
//
// When Python exits, it ends the remaining threads (daemon threads, and those of other runtimes) as soon as they want
// the lock: until Python 3.13 with pthread_exit, which unwinds their stack and so runs destructors that need the lock.
// Here such a thread sleeps forever instead, as it does since Python 3.14, until the process ends.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <type_traits>

namespace dmlgraph {

namespace py = pybind11;

// Counts the threads that are in native code without the lock.
class AtWork {
public:
    AtWork();
    ~AtWork();
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;
};

// Whether Python is exiting while other threads are in native code: objects they may use must not be destroyed then.
bool ends_under_threads();

// Sleeps until the process ends.
[[noreturn]] void rest();

// Calls a function that takes the lock or runs Python; a thread that Python ends inside it sleeps forever. The function
// must not throw, nor own Python objects: their destructors would run first.
//
// It sleeps in a destructor. To catch the end of a thread would end the process where another exception is being
// handled (std::terminate in __cxa_begin_catch), as where a cancelled run takes the lock again.
template <class Function>
auto outlive(Function function) {
    struct Sleeper {
        bool returned = false;
        ~Sleeper() {
            if (!returned) {
                rest();
            }
        }
    } sleeper;
    if constexpr (std::is_void_v<decltype(function())>) {
        function();
        sleeper.returned = true;
    } else {
        auto result = function();
        sleeper.returned = true;
        return result;
    }
}

// Calls a Python function. If Python ends the thread inside it, the caller's objects are not destroyed.
template <class... Arguments>
py::object call_python(const py::handle& function, const Arguments&... arguments) {
    PyObject* const result =
        outlive([&] { return PyObject_CallFunctionObjArgs(function.ptr(), arguments.ptr()..., nullptr); });
    if (result == nullptr) {
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(result);
}

// A module's member. It may be the first to need the module, and so run all of it. If Python ends the thread inside it,
// the caller's objects are not destroyed.
inline py::object imported(const char* module, const char* member) {
    PyObject* const result = outlive([=]() -> PyObject* {
        PyObject* const found = PyImport_ImportModule(module);
        PyObject* const value = found == nullptr ? nullptr : PyObject_GetAttrString(found, member);
        Py_XDECREF(found);
        return value;
    });
    if (result == nullptr) {
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(result);
}

// Calls a function without the lock.
template <class Function>
auto released(Function function) {
    const AtWork at_work;
    PyThreadState* const state = PyEval_SaveThread();
    const auto retake = [state] { outlive([state] { PyEval_RestoreThread(state); }); };
    try {
        if constexpr (std::is_void_v<decltype(function())>) {
            function();
            retake();
        } else {
            auto result = function();
            retake();
            return result;
        }
    } catch (const std::exception&) {
        retake();
        throw;
    }
}

// Calls a function with the lock, from a thread that may not have it.
template <class Function>
void acquired(Function function) {
    const PyGILState_STATE state = outlive([] { return PyGILState_Ensure(); });
    try {
        function();
    } catch (const std::exception&) {
        PyGILState_Release(state);
        throw;
    }
    PyGILState_Release(state);
}

}  // namespace dmlgraph
