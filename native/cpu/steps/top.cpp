#include "cpu/steps/top.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "cpu/products/panels.h"
#include "cpu/runtime/cache_line.h"

namespace dmlgraph::cpu {
namespace {

// A float16 as in memory.
struct Half {
    std::uint16_t bits;
};

template <class Bits>
constexpr Bits sign_of = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));

// The bits of a float as an unsigned number in the order of floats: both zeros are equal, and every NaN is the greatest.
template <class Bits>
Bits rank_of_float(Bits bits, Bits infinity) {
    const auto magnitude = static_cast<Bits>(bits & ~sign_of<Bits>);
    if (magnitude > infinity) {
        return static_cast<Bits>(~Bits{0});
    }
    return static_cast<Bits>(magnitude != bits ? sign_of<Bits> - magnitude : sign_of<Bits> + magnitude);
}

std::uint64_t rank_of(float x) { return rank_of_float(std::bit_cast<std::uint32_t>(x), 0x7f800000u); }
std::uint64_t rank_of(Half x) { return rank_of_float<std::uint16_t>(x.bits, 0x7c00u); }
template <class T>
    requires std::is_integral_v<T>
std::uint64_t rank_of(T x) {
    return static_cast<std::uint64_t>(x) ^ (std::is_signed_v<T> ? sign_of<std::uint64_t> : 0);
}

// An element: its rank in the wanted order, and its index.
struct Entry {
    std::uint64_t rank;
    std::int64_t index;

    bool operator<(const Entry& other) const { return rank != other.rank ? rank < other.rank : index < other.index; }
};

template <class T>
class TopStep final : public Step {
public:
    TopStep(const StepTensors& tensors, const TopParameters& parameters)
        : input_(tensors.inputs.at(0)), values_(tensors.outputs.at(0)), indices_(tensors.outputs.at(1)), parameters_(parameters) {
        if (parameters.axis < 0 || parameters.axis >= input_.rank) {
            throw std::invalid_argument("the axis is not a dimension");
        }
        axis_ = static_cast<std::size_t>(parameters.axis);
        lines_ = input_.sizes;
        size_ = std::exchange(lines_[axis_], 1);
        if (parameters.count < 1 || parameters.count > size_) {
            throw std::invalid_argument("there are not so many elements along the axis");
        }
        if (indices_.buffer != no_buffer && indices_.type != DataType::uint32 && indices_.type != DataType::uint64) {
            throw std::invalid_argument("indices are uint32 or uint64");
        }
    }

    void run(RunContext& context) const override {
        const Line in = line_of(context, input_), values = line_of(context, values_), indices = line_of(context, indices_);
        context.parallel(count(), cost(), [&](int worker, Chunks& chunks) {
            auto* const entries = reinterpret_cast<Entry*>(context.scratch(worker));
            for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                for (std::int64_t i = first; i < last; ++i) {
                    const Sizes place = place_in(lines_, input_.rank, i);
                    select(in.at(place), in.step, entries);
                    write(values.at(place), values.step, entries, [&](const Entry& each) {
                        T value;
                        std::memcpy(&value, in.at(place) + each.index * in.step, sizeof(T));
                        return value;
                    });
                    if (indices_.type == DataType::uint32) {
                        write(indices.at(place), indices.step, entries, [](const Entry& each) { return static_cast<std::uint32_t>(each.index); });
                    } else {
                        write(indices.at(place), indices.step, entries, [](const Entry& each) { return static_cast<std::uint64_t>(each.index); });
                    }
                }
            }
        });
    }

    Kind kind() const override { return Kind::native; }
    double cost() const override { return static_cast<double>(count() * size_) * 32; }
    std::size_t scratch_bytes() const override { return align_to_line(static_cast<std::size_t>(size_) * sizeof(Entry)); }
    void visit(const Visitor& visitor) override {
        visitor(input_, false);
        visitor(values_, true);
        visitor(indices_, true);
    }

private:
    // The elements along the axis, some bytes apart; `data` is null if there is no tensor.
    struct Line {
        std::byte* data = nullptr;
        Sizes strides{};
        std::int64_t step = 0;

        std::byte* at(const Sizes& place) const {
            std::byte* result = data;
            for (int d = 0; result != nullptr && d < max_rank; ++d) {
                result += place[static_cast<std::size_t>(d)] * strides[static_cast<std::size_t>(d)];
            }
            return result;
        }
    };

    Line line_of(const RunContext& context, const View& view) const {
        if (view.buffer == no_buffer) {
            return {};
        }
        const Tensor tensor = context.tensor(view);
        return {tensor.data, tensor.strides, tensor.strides[axis_]};
    }

    std::int64_t count() const {
        std::int64_t result = 1;
        for (int d = 0; d < input_.rank; ++d) {
            result *= lines_[static_cast<std::size_t>(d)];
        }
        return result;
    }

    void select(const std::byte* line, std::int64_t step, Entry* entries) const {
        const std::uint64_t flipped = parameters_.descending ? ~std::uint64_t{0} : 0;
        for (std::int64_t i = 0; i < size_; ++i) {
            entries[i] = {rank_of(*reinterpret_cast<const T*>(line + i * step)) ^ flipped, i};
        }
        if (parameters_.count == 1) {
            std::iter_swap(entries, std::min_element(entries, entries + size_));
            return;
        }
        if (parameters_.count < size_) {
            std::nth_element(entries, entries + parameters_.count - 1, entries + size_);
        }
        std::sort(entries, entries + parameters_.count);
    }

    template <class Function>
    void write(std::byte* to, std::int64_t step, const Entry* entries, const Function& function) const {
        if (to == nullptr) {
            return;
        }
        for (std::int64_t i = 0; i < parameters_.count; ++i) {
            const auto value = function(entries[i]);
            std::memcpy(to + i * step, &value, sizeof(value));
        }
    }

    View input_;
    View values_;
    View indices_;
    TopParameters parameters_;
    std::size_t axis_ = 0;
    Sizes lines_{};           // the sizes, with 1 along the axis
    std::int64_t size_ = 1;  // along the axis
};

template <class T>
std::unique_ptr<Step> made(const StepTensors& tensors, const TopParameters& parameters) {
    return std::make_unique<TopStep<T>>(tensors, parameters);
}

}  // namespace

std::unique_ptr<Step> make_step(const StepTensors& tensors, const TopParameters& parameters) {
    switch (tensors.inputs.at(0).type) {
        case DataType::float32: return made<float>(tensors, parameters);
        case DataType::float16: return made<Half>(tensors, parameters);
        case DataType::int8: return made<std::int8_t>(tensors, parameters);
        case DataType::int16: return made<std::int16_t>(tensors, parameters);
        case DataType::int32: return made<std::int32_t>(tensors, parameters);
        case DataType::int64: return made<std::int64_t>(tensors, parameters);
        case DataType::uint8: return made<std::uint8_t>(tensors, parameters);
        case DataType::uint16: return made<std::uint16_t>(tensors, parameters);
        case DataType::uint32: return made<std::uint32_t>(tensors, parameters);
        case DataType::uint64: return made<std::uint64_t>(tensors, parameters);
        default: throw std::invalid_argument("elements of this data type have no order");
    }
}

}  // namespace dmlgraph::cpu
