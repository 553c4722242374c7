#include "bind/gil.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#if defined(__GLIBC__)
#include <unistd.h>
#endif

#include "bind/init.h"

namespace dmlgraph {
namespace {

std::atomic<int> at_work{0};

bool python_ends() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

// The destructors of LLVM and DirectML would otherwise run while threads are inside these libraries. The function that
// is registered last runs first.
void skip_destructors() {
#if defined(__GLIBC__)
    on_exit(
        [](int status, void*) {
            if (at_work > 0) {
                std::fflush(nullptr);
                _exit(status);
            }
        },
        nullptr);
#endif
}

}  // namespace

AtWork::AtWork() { ++at_work; }

AtWork::~AtWork() { --at_work; }

bool ends_under_threads() { return at_work > 0 && python_ends(); }

void rest() {
    while (true) {
        std::this_thread::sleep_for(std::chrono::hours(1));
    }
}

void init_gil(py::module_&) { py::module_::import("atexit").attr("register")(py::cpp_function(&skip_destructors)); }

}  // namespace dmlgraph
