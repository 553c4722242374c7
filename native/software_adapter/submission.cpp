#include "software_adapter/submission.h"

namespace dmlgraph::software {

Submission& Submission::current() {
    static thread_local Submission submission;
    return submission;
}

void Submission::begin(SwCancelled cancelled, const void* context) {
    cancelled_ = cancelled;
    context_ = context;
    given_up_ = false;
}

bool Submission::end() {
    const bool given_up = given_up_;
    begin(nullptr, nullptr);
    return given_up;
}

}  // namespace dmlgraph::software

void sw_begin(SwCancelled cancelled, const void* context) {
    dmlgraph::software::Submission::current().begin(cancelled, context);
}

int sw_end() { return dmlgraph::software::Submission::current().end() ? 1 : 0; }
