#include "software_adapter/fence.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "software_adapter/calls.h"
#include "software_adapter/log.h"

namespace dmlgraph::software {
namespace {

void set_event(HANDLE event) {
    const uint64_t one = 1;
    if (write(static_cast<int>(reinterpret_cast<intptr_t>(event)), &one, sizeof one) != sizeof one) {
        log(std::string("setting an event of a fence: ") + std::strerror(errno));
    }
}

}  // namespace

HRESULT Fence::SetEventOnCompletion(uint64_t value, HANDLE event) {
    static Calls calls;
    if (calls.next(device_state().adapter) == device_state().strict.fail_event) {
        return E_OUTOFMEMORY;
    }
    if (!event) {
        timeline().wait(value_, value);
    } else if (!timeline().when_reached(value_, value, [event] { set_event(event); })) {
        set_event(event);
    }
    return S_OK;
}

HRESULT Fence::Signal(uint64_t value) {
    if (device_state().removed()) {
        return DXGI_ERROR_DEVICE_REMOVED;
    }
    timeline().signal(value_, value);
    return S_OK;
}

}  // namespace dmlgraph::software
