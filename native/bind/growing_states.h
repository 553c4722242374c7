// States that grow: what a run reads of them, and where its new rows go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "cpu/runtime/executable.h"
#include "cpu/runtime/memory.h"

namespace dmlgraph::cpu {

// Rows along an axis of an input, which is as large as the capacity.
struct GrowingState {
    std::size_t input;
    int axis;
    int length;     // the input, uint32 [1], that says how many rows it has before a run; -1: none
    int rows;       // the output with the new rows; -1: none
    bool is_shown;  // whether that is also a result
};

class GrowingStates {
public:
    // What a run has for them beside the arrays.
    struct Use {
        std::vector<std::uint32_t> lengths;  // by state; empty: its new rows go nowhere
        std::vector<Memory> rows;            // by state, for rows that are no result; kept for the next run
    };

    explicit GrowingStates(const std::vector<std::tuple<std::size_t, int, int, int, bool>>& states);

    // By input: the axis along which it grows; -1: it does not.
    std::vector<int> axes(std::size_t inputs) const;

    // Sets what the binding has of them. `written`: by state, how many rows may be other than zero; others are not
    // read. `lengths`: by state, how many rows it has; empty: the binding has the lengths already. Throws
    // std::invalid_argument if they do not fit.
    void bind(const Program& program, const std::vector<std::int64_t>& written,
              const std::vector<std::int64_t>& lengths, Binding& binding, Use& use) const;

    // Copies new rows behind those that there are, after a run.
    void append(const Program& program, const Binding& binding, const Use& use) const;

private:
    std::vector<GrowingState> states_;
};

}  // namespace dmlgraph::cpu
