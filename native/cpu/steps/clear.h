// Sets memory to zero.
#pragma once

#include <cstddef>
#include <cstring>

#include "cpu/runtime/step.h"

namespace dmlgraph::cpu {

// Sets a buffer to zero whose value leaves gaps that somebody reads.
class ClearStep final : public Step {
public:
    ClearStep(View view, std::size_t bytes) : view_(view), bytes_(bytes) {}

    void run(RunContext& context) const override { std::memset(context.data(view_), 0, bytes_); }
    Kind kind() const override { return Kind::native; }
    void visit(const Visitor& visitor) override { visitor(view_, true); }

private:
    View view_;
    std::size_t bytes_;
};

}  // namespace dmlgraph::cpu
