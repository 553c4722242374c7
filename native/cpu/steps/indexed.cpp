#include "cpu/steps/indexed.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t outside = -1;

// A position among `size` elements, counted from the start; `outside` if there is no such element.
template <class Index>
std::int64_t position_of(Index index, std::int64_t size) {
    if constexpr (std::is_signed_v<Index>) {
        const std::int64_t from_start = index < 0 ? index + size : index;
        return from_start >= 0 && from_start < size ? from_start : outside;
    } else {
        return static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(size) ? static_cast<std::int64_t>(index)
                                                                                    : outside;
    }
}

template <class Index>
std::int64_t nearest_position(Index index, std::int64_t size) {
    const std::int64_t position = position_of(index, size);
    if (position != outside) {
        return position;
    }
    return std::is_signed_v<Index> && index < Index{0} ? 0 : size - 1;
}

// Calls function with a pointer to the indices in their own type.
template <class Function>
void with_indices(const std::byte* indices, DataType type, const Function& function) {
    switch (type) {
        case DataType::uint32: return function(reinterpret_cast<const std::uint32_t*>(indices));
        case DataType::int32: return function(reinterpret_cast<const std::int32_t*>(indices));
        case DataType::uint64: return function(reinterpret_cast<const std::uint64_t*>(indices));
        case DataType::int64: return function(reinterpret_cast<const std::int64_t*>(indices));
        default: break;
    }
}

void require_index_type(DataType type) {
    constexpr DataType types[] = {DataType::uint32, DataType::int32, DataType::uint64, DataType::int64};
    if (std::ranges::find(types, type) == std::end(types)) {
        throw std::invalid_argument("indices are 32-bit or 64-bit integers");
    }
}

// Copies an element; the compiler knows the usual sizes.
void copy_element(std::byte* to, const std::byte* from, std::int64_t item) {
    switch (item) {
        case 1: *to = *from; break;
        case 2: std::memcpy(to, from, 2); break;
        case 4: std::memcpy(to, from, 4); break;
        case 8: std::memcpy(to, from, 8); break;
        default: std::memcpy(to, from, static_cast<std::size_t>(item)); break;
    }
}

class IndexedStep : public Step {
public:
    explicit IndexedStep(const StepTensors& tensors)
        : input_(tensors.inputs.at(0)),
          indices_(tensors.inputs.at(1)),
          output_(tensors.outputs.at(0)),
          item_(static_cast<std::int64_t>(item_size(input_.type))) {
        require_index_type(indices_.type);
    }

    void run(RunContext& context) const final {
        if (output_.buffer != no_buffer) {
            compute(context, context.data(input_), context.data(output_));
        }
    }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(indices_, false);
        visitor(output_, true);
    }

protected:
    virtual void compute(RunContext& context, const std::byte* in, std::byte* out) const = 0;

    View input_;
    View indices_;
    View output_;
    std::int64_t item_;  // bytes of an element
};

class GatherStep final : public IndexedStep {
public:
    GatherStep(const StepTensors& tensors, GatherParameters parameters)
        : IndexedStep(tensors), parameters_(std::move(parameters)), slice_(parameters_.slice * item_) {}

    double cost() const override { return static_cast<double>(tuples() * (slice_ + members() * 4)) * 2; }

private:
    void compute(RunContext& context, const std::byte* in, std::byte* out) const override {
        with_indices(context.data(indices_), indices_.type, [&](const auto* indices) {
            context.each(tuples(), cost(), [&](std::int64_t each) {
                const auto* tuple = indices + (parameters_.is_shared ? each % parameters_.tuples : each) * members();
                std::int64_t position = each / parameters_.tuples;
                for (std::int64_t m = 0; m < members(); ++m) {
                    const std::int64_t size = parameters_.sizes[static_cast<std::size_t>(m)];
                    position = position * size + nearest_position(tuple[m], size);
                }
                copy_element(out + each * slice_, in + position * slice_, slice_);
            });
        });
    }

    std::int64_t tuples() const { return parameters_.batches * parameters_.tuples; }
    std::int64_t members() const { return static_cast<std::int64_t>(parameters_.sizes.size()); }

    GatherParameters parameters_;
    std::int64_t slice_;  // bytes
};

class GatherElementsStep final : public IndexedStep {
public:
    GatherElementsStep(const StepTensors& tensors, const GatherElementsParameters& parameters)
        : IndexedStep(tensors), parameters_(parameters) {}

    double cost() const override {
        return static_cast<double>(parameters_.outer * parameters_.taken * parameters_.inner * (item_ + 4)) * 2;
    }

private:
    void compute(RunContext& context, const std::byte* in, std::byte* out) const override {
        with_indices(context.data(indices_), indices_.type, [&](const auto* indices) {
            switch (item_) {
                case 1: return gather<std::uint8_t>(context, in, indices, out);
                case 2: return gather<std::uint16_t>(context, in, indices, out);
                case 4: return gather<std::uint32_t>(context, in, indices, out);
                default: return gather<std::uint64_t>(context, in, indices, out);
            }
        });
    }

    // A line is the elements behind the axis, or along it if it is the last dimension.
    template <class T, class Index>
    void gather(RunContext& context, const std::byte* in, const Index* indices, std::byte* out) const {
        const GatherElementsParameters p = parameters_;
        const T* const from = reinterpret_cast<const T*>(in);
        T* const to = reinterpret_cast<T*>(out);
        if (p.inner == 1) {
            context.each(p.outer, cost(), [&](std::int64_t line) {
                const T* const row = from + line * p.size;
                for (std::int64_t at = line * p.taken, end = at + p.taken; at < end; ++at) {
                    to[at] = row[nearest_position(indices[at], p.size)];
                }
            });
            return;
        }
        context.each(p.outer * p.taken, cost(), [&](std::int64_t line) {
            const T* const rows = from + line / p.taken * p.size * p.inner;
            const Index* const index = indices + line * p.inner;
            T* const result = to + line * p.inner;
            for (std::int64_t n = 0; n < p.inner; ++n) {
                result[n] = rows[nearest_position(index[n], p.size) * p.inner + n];
            }
        });
    }

    GatherElementsParameters parameters_;
};

// Both scatters: one thread copies the input and then writes into the copy, because the order of updates matters.
class ScatterBase : public IndexedStep {
public:
    explicit ScatterBase(const StepTensors& tensors) : IndexedStep(tensors), updates_(tensors.inputs.at(2)) {
        for (int d = 0; d < input_.rank; ++d) {
            bytes_ *= input_.sizes[d];
        }
        bytes_ *= item_;
    }

    double cost() const final { return static_cast<double>(bytes_) * 2; }
    void visit(const Visitor& visitor) final {
        IndexedStep::visit(visitor);
        visitor(updates_, false);
    }

protected:
    void compute(RunContext& context, const std::byte* in, std::byte* out) const final {
        constexpr std::int64_t piece = 64 << 10;
        context.each((bytes_ + piece - 1) / piece, cost(), [&](std::int64_t i) {
            const std::int64_t count = std::min(piece, bytes_ - i * piece);
            std::memcpy(out + i * piece, in + i * piece, static_cast<std::size_t>(count));
        });
        update(out, context.data(indices_), context.data(updates_));
    }

    virtual void update(std::byte* out, const std::byte* indices, const std::byte* updates) const = 0;

private:
    View updates_;
    std::int64_t bytes_ = 1;
};

class ScatterStep final : public ScatterBase {
public:
    ScatterStep(const StepTensors& tensors, ScatterParameters parameters)
        : ScatterBase(tensors), parameters_(std::move(parameters)), slice_(parameters_.slice * item_) {}

private:
    void update(std::byte* out, const std::byte* all_indices, const std::byte* updates) const override {
        const auto members = static_cast<std::int64_t>(parameters_.sizes.size());
        with_indices(all_indices, indices_.type, [&](const auto* indices) {
            for (std::int64_t k = 0; k < parameters_.tuples; ++k) {
                std::int64_t position = 0;
                for (std::int64_t m = 0; m < members && position != outside; ++m) {
                    const std::int64_t size = parameters_.sizes[static_cast<std::size_t>(m)];
                    const std::int64_t member = position_of(indices[k * members + m], size);
                    position = member == outside ? outside : position * size + member;
                }
                if (position != outside) {
                    copy_element(out + position * slice_, updates + k * slice_, slice_);
                }
            }
        });
    }

    ScatterParameters parameters_;
    std::int64_t slice_;  // bytes
};

class ScatterElementsStep final : public ScatterBase {
public:
    ScatterElementsStep(const StepTensors& tensors, const ScatterElementsParameters& parameters)
        : ScatterBase(tensors), parameters_(parameters) {}

private:
    void update(std::byte* out, const std::byte* all_indices, const std::byte* updates) const override {
        const ScatterElementsParameters p = parameters_;
        with_indices(all_indices, indices_.type, [&](const auto* indices) {
            for (std::int64_t line = 0; line < p.outer * p.given; ++line) {
                const std::int64_t base = line / p.given * p.size;
                for (std::int64_t n = 0; n < p.inner; ++n) {
                    const std::int64_t at = line * p.inner + n;
                    const std::int64_t position = position_of(indices[at], p.size);
                    if (position != outside) {
                        copy_element(out + ((base + position) * p.inner + n) * item_, updates + at * item_, item_);
                    }
                }
            }
        });
    }

    ScatterElementsParameters parameters_;
};

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const GatherParameters& parameters) {
    return std::make_unique<GatherStep>(tensors, parameters);
}

std::unique_ptr<Step> make_step(const StepTensors& tensors, const GatherElementsParameters& parameters) {
    return std::make_unique<GatherElementsStep>(tensors, parameters);
}

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ScatterParameters& parameters) {
    return std::make_unique<ScatterStep>(tensors, parameters);
}

std::unique_ptr<Step> make_step(const StepTensors& tensors, const ScatterElementsParameters& parameters) {
    return std::make_unique<ScatterElementsStep>(tensors, parameters);
}

}  // namespace dmlgraph::cpu
