// Allocations of the whole test program, of which one can be made to fail.
#pragma once

#include <cstdint>

namespace dmlgraph::cpu::tests {

// While it lives, the allocation after `before` others fails, on whichever thread it is; the later ones succeed.
class FailingAllocation {
public:
    explicit FailingAllocation(std::int64_t before);
    FailingAllocation(const FailingAllocation&) = delete;
    ~FailingAllocation();

    bool has_failed() const;
};

}  // namespace dmlgraph::cpu::tests
