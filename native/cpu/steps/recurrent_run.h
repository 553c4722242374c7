// A run of a recurrent network: W · X of many steps at a time, then step by step R · H and the gates.
//
// Directions and groups of rows, which are sequences of the batch, run on workers of their own; or workers share the
// hidden units of each step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/runtime/step.h"
#include "cpu/steps/recurrent_memory.h"
#include "cpu/steps/recurrent_network.h"

namespace dmlgraph::cpu {

class RecurrentRun {
public:
    // `packed`: W and R by their index, or null; those that are needed so are packed in the run.
    RecurrentRun(const RecurrentNetwork& network, std::vector<const Weights*> packed, RunContext& context);

    void compute();
    // Bytes that W · X needs for each worker behind the memory of a run.
    static std::size_t projection_scratch(const RecurrentNetwork& network);

private:
    // Some rows and some blocks of hidden units of a direction.
    struct Part {
        std::int64_t direction;
        std::int64_t first_row;
        std::int64_t last_row;
        std::int64_t first_block;
        std::int64_t last_block;
    };
    // A step: the time is the place in X, the place is that in the chunk.
    struct Moment {
        std::int64_t step;
        std::int64_t time;
        std::int64_t place;
    };
    // A plane before a step.
    using State = float* (RecurrentMemory::*)(std::int64_t, std::int64_t) const;

    std::optional<TensorLines> lines(std::size_t port) const;
    void read(float* to, const TensorLines& from, const std::byte* first, std::int64_t count) const;
    void read_tensors();
    void pack();
    void read_states(std::size_t port, State state) const;
    void read_biases() const;
    void read_peepholes();
    void write_state(std::size_t port, State state) const;

    // The first step's place in time of some steps.
    std::int64_t time_of(std::int64_t direction, std::int64_t first, std::int64_t count) const;
    // W · X and biases of the steps first … first + count − 1, in the order of time: row by row, or as a product in
    // blocks.
    void project(std::int64_t direction, std::int64_t first, std::int64_t count);
    void project_rows(std::int64_t direction, std::int64_t first, std::int64_t count);
    void project_blocks(std::int64_t direction, std::int64_t first, std::int64_t count);

    // W of a direction, or null; R.
    const Panels* weights(std::int64_t direction) const {
        return static_cast<const Panels*>(packed_[network_.packed_index(RecurrentNetwork::weights, direction)]);
    }
    const Recurrence* recurrence(std::int64_t direction) const {
        return static_cast<const Recurrence*>(packed_[network_.packed_index(RecurrentNetwork::recurrence, direction)]);
    }

    double step_cost() const;
    bool shares_units() const;
    std::int64_t row_groups() const;
    std::int64_t first_row(std::int64_t group) const { return sizes_.batch * group / groups_; }
    Part part_of(std::int64_t direction, std::int64_t group) const;
    Moment moment(std::int64_t direction, std::int64_t first, std::int64_t s, std::int64_t count) const;
    void run_apart(std::int64_t first, std::int64_t count);
    void run_together(std::int64_t first, std::int64_t count);

    // Rows of a part from the first that has not ended to the last.
    Part lasting(const Part& part, std::int64_t time) const;
    bool lasts(std::int64_t row, std::int64_t time) const;
    void run_first(const Part& part, const Moment& moment) const;
    void run_second(const Part& part, const Moment& moment) const;
    void multiply(const RecurrentProduct& product, const Part& part, Rows<const float> a, Rows<const float> added,
                  bool multiplies = true) const;
    Rows<const float> projected(const Part& part, const Moment& moment) const;
    GateLines gate_lines(const Part& part, std::int64_t step) const;
    std::int64_t first_unit(const Part& part) const { return network_.blocks.units.first(part.first_block); }
    std::int64_t units(const Part& part) const;
    void finish(const Part& part, const Moment& moment) const;

    const RecurrentNetwork& network_;
    const RecurrentSizes& sizes_;
    const std::int64_t block_count_;
    RunContext& context_;
    RunContext product_context_;
    Scratch scratch_;
    RecurrentMemory memory_;
    bool shares_units_;
    std::int64_t groups_;               // of rows
    std::vector<std::int64_t> places_;  // of rows in planes
    std::vector<const Weights*> packed_;
    AllWeights own_;  // of what changes from run to run
    std::optional<TensorLines> lengths_;
    std::optional<TensorLines> sequence_;
    bool has_peephole_ = false;
};

}  // namespace dmlgraph::cpu
