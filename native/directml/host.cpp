#ifdef _WIN32
#include <windows.h>
#elif defined(__linux__)
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#endif

#include "directml/host.h"

namespace dmlgraph {

bool on_arm() {
#if defined(__aarch64__) || defined(_M_ARM64)
    return true;
#elif defined(_WIN32)
    USHORT process = 0;
    USHORT machine = 0;
    return IsWow64Process2(GetCurrentProcess(), &process, &machine) && machine == IMAGE_FILE_MACHINE_ARM64;
#else
    return false;
#endif
}

#ifdef _WIN32

Event::Event() : handle_(CreateEventW(nullptr, FALSE, FALSE, nullptr)) {}

Event::~Event() { CloseHandle(handle_); }

void Event::wait(std::chrono::milliseconds most) const {
    WaitForSingleObject(handle_, static_cast<DWORD>(most.count()));
}

#elif defined(__linux__)

namespace {

void* make_event() {
    const int descriptor = eventfd(0, EFD_CLOEXEC);
    return descriptor > 0 ? reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)) : nullptr;
}

int descriptor_of(void* handle) { return static_cast<int>(reinterpret_cast<intptr_t>(handle)); }

}  // namespace

Event::Event() : handle_(make_event()) {}

Event::~Event() {
    if (handle_) {
        close(descriptor_of(handle_));
    }
}

void Event::wait(std::chrono::milliseconds most) const {
    pollfd waiting{descriptor_of(handle_), POLLIN, 0};
    poll(&waiting, 1, static_cast<int>(most.count()));
}

#else  // no other system has Direct3D 12

Event::Event() : handle_(nullptr) {}

Event::~Event() = default;

void Event::wait(std::chrono::milliseconds) const {}

#endif

}  // namespace dmlgraph
