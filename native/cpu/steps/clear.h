// Sets memory to zero.
#pragma once

#include <cstddef>
#include <cstring>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Clears the buffer of a value with gaps that a consumer reads.
class ClearStep final : public Step {
public:
    ClearStep(View view, std::size_t bytes) : view_(view), bytes_(bytes) {}

    void run(RunContext& context) const override { std::memset(context.data(view_), 0, bytes_); }
    void visit(const Visitor& visitor) override { visitor(view_, true); }

private:
    View view_;
    std::size_t bytes_;
};

}  // namespace dmlgraph::cpu
