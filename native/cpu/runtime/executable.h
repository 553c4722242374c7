// A program ready to run, with the memory that its runs need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cpu/plan/plan.h"
#include "cpu/runtime/memory.h"
#include "cpu/runtime/red_zones.h"
#include "cpu/runtime/step_clock.h"

namespace dmlgraph::cpu {

// The caller's memory of an input or output; aligned to its elements.
struct Array {
    std::byte* data = nullptr;
    bool packed = true;
    Sizes strides{};      // in bytes, where it is not packed
    bool is_new = false;  // of an output: nothing else is there
};

Tensor tensor_of(const Array& array, const TensorDesc& desc);

// The arrays of a run, set before `Executable::run`.
class Binding {
public:
    explicit Binding(std::size_t inputs, std::size_t outputs) : inputs(inputs), outputs(outputs) {}

    std::vector<Array> inputs;
    std::vector<Array> outputs;
    std::vector<std::int64_t> rows;  // by input that grows: so many may have been written; empty: all
    bool may_overlap = false;        // whether outputs may share memory with inputs
};

// What the steps have packed of inputs that are kept from run to run.
using Kept = std::vector<AllWeights>;  // by step

// Several threads may run it at the same time; every run has its own arena.
class Executable {
public:
    Executable(Program program, int threads);
    ~Executable();

    // Lets the steps prepare for the inputs that have an array in the binding, which must be the same in all runs. It
    // is called before the first one. Calls between() before each step, which may throw, and let_go(input) as soon as
    // no run reads the array of an input any more, since steps keep its elements: runs have no array for it, and
    // `unpack` writes them.
    void prepare(const Binding& constants, const std::function<void()>& between,
                 const std::function<void(std::size_t)>& let_go);

    // Lets the steps prepare for these inputs, which stay the same until others are given: `is_kept` tells which they
    // are. Calls between() before each step. Throws what that throws, and std::bad_alloc.
    Kept keep(const Binding& binding, const std::vector<bool>& is_kept, const std::function<void()>& between) const;

    // Memory for a run. Two threads must not call it, or the functions below, at the same time.
    class Context;
    Context& acquire();
    void release(Context& context);
    // Frees the memory of contexts that are not in use.
    void trim();

    // Throws what steps and the clock throw, std::bad_alloc, and Cancelled. `clock`: measures the steps, or null.
    // `kept`: of this binding's inputs, or null.
    void run(Context& context, const Binding& binding, StepClock* clock = nullptr, const Kept* kept = nullptr) const;

    const Program& program() const { return *program_; }
    std::shared_ptr<const Program> shared_program() const { return program_; }
    int threads() const { return threads_; }
    // Of what steps have made of constants before runs; other executables may share it.
    std::size_t packed_bytes() const;

private:
    // Calls function(context) with the memory of the constants and of some inputs.
    template <class Function>
    void with_fixed(const Binding& binding, const std::vector<bool>* only, Packings& packings,
                    const Function& function) const;
    void bind_arrays(Context& context, const Binding& binding) const;
    void check_staged(const Context& context) const;
    bool may_share(const Binding& binding, std::size_t o) const;

    std::shared_ptr<const Program> program_;
    int threads_;
    std::vector<Packings::Use> packed_;
    std::vector<std::unique_ptr<Context>> all_;
    std::vector<Context*> free_;
};

// Writes the elements of an input that steps keep, packed, with all their bits.
void unpack(const Program& program, std::size_t input, std::byte* to);

class Executable::Context : public RunContext {
public:
    Context(const Program& program, int threads);

private:
    friend class Executable;

    std::vector<std::byte*> base_;
    std::vector<const Sizes*> custom_;
    Memory arena_;
    Memory scratch_;
    std::vector<Memory> staged_;  // by input, then output: packed copies, kept for the next run
    std::unique_ptr<RedZones> zones_;
};

}  // namespace dmlgraph::cpu
