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

// A place among `size` elements: counted from the start, `outside` where there is none.
template <class Index>
std::int64_t place_of(Index index, std::int64_t size) {
    if constexpr (std::is_signed_v<Index>) {
        const std::int64_t from_start = index < 0 ? index + size : index;
        return from_start >= 0 && from_start < size ? from_start : outside;
    } else {
        return static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(size) ? static_cast<std::int64_t>(index)
                                                                                     : outside;
    }
}

template <class Index>
std::int64_t nearest_place(Index index, std::int64_t size) {
    const std::int64_t place = place_of(index, size);
    if (place != outside) {
        return place;
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

// Copies an element whose size is known to the compiler where it is a usual one.
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
    explicit IndexedStep(StepDesc desc)
        : input_(desc.inputs.at(0)),
          indices_(desc.inputs.at(1)),
          output_(desc.outputs.at(0)),
          item_(static_cast<std::int64_t>(item_size(desc.inputs.at(0).type))) {
        require_index_type(indices_.type);
    }

    void run(RunContext& context) const final {
        if (output_.buffer != no_buffer) {
            compute(context, context.data(input_), context.data(output_));
        }
    }
    Kind kind() const override { return Kind::native; }
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
    explicit GatherStep(StepDesc desc)
        : IndexedStep(desc),
          batches_(desc.integers.at(0)),
          tuples_(desc.integers.at(1)),
          slice_(desc.integers.at(2) * item_),
          is_shared_(desc.integers.at(3) != 0),
          sizes_(desc.integers.begin() + 4, desc.integers.end()) {}

    double cost() const override { return static_cast<double>(batches_ * tuples_ * (slice_ + members() * 4)) * 2; }

private:
    void compute(RunContext& context, const std::byte* in, std::byte* out) const override {
        with_indices(context.data(indices_), indices_.type, [&](const auto* indices) {
            context.each(batches_ * tuples_, cost(), [&](std::int64_t each) {
                const auto* tuple = indices + (is_shared_ ? each % tuples_ : each) * members();
                std::int64_t place = each / tuples_;
                for (std::int64_t m = 0; m < members(); ++m) {
                    const std::int64_t size = sizes_[static_cast<std::size_t>(m)];
                    place = place * size + nearest_place(tuple[m], size);
                }
                copy_element(out + each * slice_, in + place * slice_, slice_);
            });
        });
    }

    std::int64_t members() const { return static_cast<std::int64_t>(sizes_.size()); }

    std::int64_t batches_;
    std::int64_t tuples_;
    std::int64_t slice_;  // bytes
    bool is_shared_;
    std::vector<std::int64_t> sizes_;
};

class GatherElementsStep final : public IndexedStep {
public:
    explicit GatherElementsStep(StepDesc desc)
        : IndexedStep(desc),
          outer_(desc.integers.at(0)),
          inner_(desc.integers.at(1)),
          size_(desc.integers.at(2)),
          taken_(desc.integers.at(3)) {}

    double cost() const override { return static_cast<double>(outer_ * taken_ * inner_ * (item_ + 4)) * 2; }

private:
    void compute(RunContext& context, const std::byte* in, std::byte* out) const override {
        with_indices(context.data(indices_), indices_.type, [&](const auto* indices) {
            context.each(outer_ * taken_, cost(), [&](std::int64_t line) {
                const std::int64_t base = line / taken_ * size_;
                for (std::int64_t n = 0; n < inner_; ++n) {
                    const std::int64_t at = line * inner_ + n;
                    const std::int64_t place = base + nearest_place(indices[at], size_);
                    copy_element(out + at * item_, in + (place * inner_ + n) * item_, item_);
                }
            });
        });
    }

    std::int64_t outer_;
    std::int64_t inner_;
    std::int64_t size_;
    std::int64_t taken_;
};

// What both scatters do: the input is copied, then written into, by one thread: the order of updates counts.
class ScatterBase : public IndexedStep {
public:
    explicit ScatterBase(const StepDesc& desc) : IndexedStep(desc), updates_(desc.inputs.at(2)) {
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
    explicit ScatterStep(const StepDesc& desc)
        : ScatterBase(desc),
          tuples_(desc.integers.at(0)),
          slice_(desc.integers.at(1) * item_),
          sizes_(desc.integers.begin() + 2, desc.integers.end()) {}

private:
    void update(std::byte* out, const std::byte* all_indices, const std::byte* updates) const override {
        const auto members = static_cast<std::int64_t>(sizes_.size());
        with_indices(all_indices, indices_.type, [&](const auto* indices) {
            for (std::int64_t k = 0; k < tuples_; ++k) {
                std::int64_t place = 0;
                for (std::int64_t m = 0; m < members && place != outside; ++m) {
                    const std::int64_t size = sizes_[static_cast<std::size_t>(m)];
                    const std::int64_t member = place_of(indices[k * members + m], size);
                    place = member == outside ? outside : place * size + member;
                }
                if (place != outside) {
                    copy_element(out + place * slice_, updates + k * slice_, slice_);
                }
            }
        });
    }

    std::int64_t tuples_;
    std::int64_t slice_;  // bytes
    std::vector<std::int64_t> sizes_;
};

class ScatterElementsStep final : public ScatterBase {
public:
    explicit ScatterElementsStep(const StepDesc& desc)
        : ScatterBase(desc),
          outer_(desc.integers.at(0)),
          inner_(desc.integers.at(1)),
          size_(desc.integers.at(2)),
          given_(desc.integers.at(3)) {}

private:
    void update(std::byte* out, const std::byte* all_indices, const std::byte* updates) const override {
        with_indices(all_indices, indices_.type, [&](const auto* indices) {
            for (std::int64_t line = 0; line < outer_ * given_; ++line) {
                const std::int64_t base = line / given_ * size_;
                for (std::int64_t n = 0; n < inner_; ++n) {
                    const std::int64_t at = line * inner_ + n;
                    const std::int64_t place = place_of(indices[at], size_);
                    if (place != outside) {
                        copy_element(out + ((base + place) * inner_ + n) * item_, updates + at * item_, item_);
                    }
                }
            }
        });
    }

    std::int64_t outer_;
    std::int64_t inner_;
    std::int64_t size_;
    std::int64_t given_;
};

}  // namespace

std::unique_ptr<Step> make_gather(StepDesc desc) { return std::make_unique<GatherStep>(std::move(desc)); }

std::unique_ptr<Step> make_gather_elements(StepDesc desc) { return std::make_unique<GatherElementsStep>(std::move(desc)); }

std::unique_ptr<Step> make_scatter(StepDesc desc) { return std::make_unique<ScatterStep>(desc); }

std::unique_ptr<Step> make_scatter_elements(StepDesc desc) { return std::make_unique<ScatterElementsStep>(desc); }

}  // namespace dmlgraph::cpu
