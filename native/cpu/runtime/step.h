// A step of a plan, and the context of its runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cpu/runtime/packings.h"
#include "cpu/runtime/scratch.h"
#include "cpu/runtime/thread_pool.h"
#include "cpu/tensor/layout.h"

namespace dmlgraph::cpu {

class PackingStep;
class RunContext;

// Thrown by a run that was cancelled; its outputs are undefined.
class Cancelled : public std::exception {
public:
    const char* what() const noexcept override { return "the run is cancelled"; }
};

// Rows along an axis, of which those that were never written are zero: of an input that grows from run to run, or made
// of the same rows of such inputs.
struct GrowingTensor {
    BufferId buffer = no_buffer;
    TensorDesc desc;
    int axis = 0;
    std::vector<BufferId> inputs;  // rows that one of these has count
};

// The dimension of a view of such a tensor that goes along its rows; none if there is not just one.
std::optional<int> dimension_of_rows(const View& view, const GrowingTensor& tensor);

// Reads and writes views of the plan's buffers. A step does not change in runs: several may execute it at the same
// time.
class Step {
public:
    enum class Kind : std::uint8_t { region, native, python };
    using Visitor = std::function<void(View& view, bool written)>;

    virtual ~Step() = default;

    virtual void run(RunContext& context) const = 0;
    virtual Kind kind() const { return Kind::native; }

    // This step, if it packs operands that stay the same; else null.
    virtual PackingStep* packing() { return nullptr; }
    // Called once before runs. A step may then leave out rows that were never written, see `RunContext::rows`.
    virtual void follow(const GrowingTensor& tensor) { static_cast<void>(tensor); }
    // Whether it surely reads no other rows of a tensor that it follows.
    virtual bool leaves_out(BufferId buffer) const {
        static_cast<void>(buffer);
        return false;
    }
    // What it makes of each row of tensors that it follows, zeros of zeros; none if it does anything else.
    virtual std::optional<GrowingTensor> made_by_row() const { return std::nullopt; }
    // From now on it makes only those that were written: nobody reads the others.
    virtual void make_written_rows() {}
    // About how many bytes it processes: small runs keep the interpreter lock.
    virtual double cost() const { return 1e9; }
    // Scratch memory that each worker needs for this step.
    virtual std::size_t scratch_bytes() const { return 0; }
    // Whether the result is right if the buffers `written` and `read` are the same memory with the same layout.
    virtual bool may_overwrite(BufferId read, BufferId written) const {
        static_cast<void>(read), static_cast<void>(written);
        return false;
    }
    // Visits every view that it reads or writes.
    virtual void visit(const Visitor& visitor) = 0;

    std::vector<std::string> nodes;  // the names of the nodes it computes
    std::size_t bytes = 0;           // of what it reads and writes
};

// The views of a node's tensors, in the order of its ports. A tensor that is absent, or that nothing reads, has no
// buffer.
struct StepTensors {
    std::vector<View> inputs;
    std::vector<View> outputs;
};

// The state of a run: where the buffers are, and which workers it has.
class RunContext {
public:
    virtual ~RunContext() = default;

    // Asks the run to end soon, from any thread; `renew` prepares the context for another run.
    void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
    void renew() { cancelled_.store(false, std::memory_order_relaxed); }
    void throw_if_cancelled() const {
        if (cancelled_.load(std::memory_order_relaxed)) {
            throw Cancelled();
        }
    }

    // How many rows of a tensor may have been written, at most `all`.
    std::int64_t written(const std::vector<BufferId>& inputs, std::int64_t all) const;

    // Whether the memory of a view's buffer is known.
    bool has(const View& view) const { return view.buffer != no_buffer && bases[view.buffer] != nullptr; }
    // The memory of a view; the caller's arrays may have other strides than the plan expects.
    Tensor tensor(const View& view) const;
    // The first element of a view.
    std::byte* data(const View& view) const { return bases[view.buffer] + view.offset; }
    // Scratch memory of a worker: the `scratch_bytes` of the step, aligned to 64 bytes.
    std::byte* scratch(int worker) { return scratch_base + scratch_stride * static_cast<std::size_t>(worker); }
    // The workers that share work of a cost, which is about how many bytes it touches: one if there is little of it.
    int workers_for(double cost) const;
    // Shares `count` items of work of a cost between them.
    void parallel(std::int64_t count, double cost, ParallelTask task);
    // The same for independent items: calls function(i) for 0 ≤ i < count.
    template <class Function>
    void each(std::int64_t count, double cost, const Function& function) {
        each_with(count, cost, [](Scratch) { return 0; }, [&](int, std::int64_t i) { function(i); });
    }
    // The same with what each worker makes of its scratch memory before: calls function(make(scratch), i).
    template <class Make, class Function>
    void each_with(std::int64_t count, double cost, const Make& make, const Function& function) {
        parallel(count, cost, [&](int worker, Chunks& chunks) {
            auto of_worker = make(Scratch(scratch(worker)));
            for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                for (std::int64_t i = first; i < last; ++i) {
                    function(of_worker, i);
                }
            }
        });
    }

    // What make() makes of constants; before runs, steps share what has the same key (see Packings).
    template <class Made, class Key, class Make>
    std::shared_ptr<const Made> made(const Key& key, const Make& make) const {
        return packings == nullptr ? std::make_shared<const Made>(make()) : packings->find_or_make<Made>(key, make);
    }

    const AllWeights* kept = nullptr;      // of the step that runs
    Packings* packings = nullptr;          // before runs
    std::byte** bases = nullptr;           // by buffer
    const Sizes* const* custom = nullptr;  // by buffer: the strides in bytes of a caller's array, null: standard
    bool any_custom = false;
    const std::int64_t* rows = nullptr;  // by input that grows: so many may have been written; null: all
    std::byte* scratch_base = nullptr;
    std::size_t scratch_stride = 0;
    std::size_t scratch_bytes = 0;  // that a step may use, of a worker
    int workers = 1;

private:
    std::atomic<bool> cancelled_{false};
};

}  // namespace dmlgraph::cpu
