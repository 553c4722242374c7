// Giving the interpreter lock away and taking it again, in a process that may end meanwhile.
//
// When Python ends, the threads that are still there (daemon threads, and those of other runtimes) are ended as soon as
// they want the lock: until Python 3.13 by pthread_exit, which unwinds their stack and so runs destructors that need
// the lock. Here such a thread rests for good instead, as it does from Python 3.14 on, and the process ends around it.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <type_traits>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

namespace dmlgraph {

namespace py = pybind11;

// Counts a thread that is in native code without the lock.
class AtWork {
public:
    AtWork();
    ~AtWork();
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;
};

// Whether Python ends while other threads are in native code: what they may use is not to be destroyed then.
bool ends_under_threads();

// Sleeps until the process ends.
[[noreturn]] void rest();

// Calls a function that takes the lock, or runs Python; a thread that Python ends in it rests for good. The function has
// no Python objects of its own: their destructors would run before.
template <class Function>
auto outlive(Function function) {
#if defined(__GLIBCXX__)
    try {
        return function();
    } catch (abi::__forced_unwind&) {
        rest();
    }
#else
    return function();
#endif
}

// Calls a Python function. The objects of the caller are of no concern to a thread that Python ends in it.
template <class... Arguments>
py::object call_python(const py::handle& function, const Arguments&... arguments) {
    PyObject* const result =
        outlive([&] { return PyObject_CallFunctionObjArgs(function.ptr(), arguments.ptr()..., nullptr); });
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

// Calls a function with the lock, from a thread that need not have it.
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
