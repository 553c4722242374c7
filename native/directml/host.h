// What the operating system has.
#pragma once

#include <chrono>

namespace dmlgraph {

// Whether the processor is an ARM; then the process may be emulated.
bool on_arm();

// What Direct3D 12 sets when a fence has a value: an event of Windows, or an eventfd.
class Event {
public:
    Event();
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    void* handle() const { return handle_; }  // null if the system has no more
    // Returns when it is set, or after this time.
    void wait(std::chrono::milliseconds most) const;

private:
    void* const handle_;
};

}  // namespace dmlgraph
