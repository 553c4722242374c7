// The work that a thread submits, and whether it is abandoned.
#pragma once

#include <atomic>

#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {

class Submission {
public:
    // The submission of the calling thread; work that other threads help with belongs to it.
    static Submission& current();

    void begin(SwCancelled cancelled, const void* context);
    bool end();

    bool can_be_cancelled() const { return cancelled_ != nullptr; }
    void give_up() { given_up_ = true; }
    // Called by every thread that works on it.
    bool given_up() {
        if (!given_up_ && cancelled_ != nullptr && cancelled_(context_) != 0) {
            given_up_ = true;
        }
        return given_up_;
    }

private:
    SwCancelled cancelled_ = nullptr;
    const void* context_ = nullptr;
    std::atomic<bool> given_up_{false};
};

}  // namespace dmlgraph::software
