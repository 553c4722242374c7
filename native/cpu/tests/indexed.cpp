// Gather and scatter steps, compared with loops.
#include "cpu/steps/native_step.h"

#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/tests/random.h"
#include "cpu/tests/tensors.h"

namespace dmlgraph::cpu::tests {
namespace {

// A tensor of a step, in its own buffer.
struct Buffer {
    TensorDesc desc;
    std::vector<std::byte> bytes;

    Buffer(DataType type, const Shape& sizes) : desc(packed(type, sizes)), bytes(desc.total_bytes()) {}

    double get(std::size_t element) const { return load(desc.type, bytes.data() + element * item_size(desc.type)); }
    void set(std::size_t element, double number) {
        store(desc.type, bytes.data() + element * item_size(desc.type), number);
    }
    std::size_t count() const { return static_cast<std::size_t>(desc.element_count()); }
};

void run(const StepParameters& parameters, std::vector<Buffer*> inputs, Buffer& output) {
    StepTensors tensors;
    std::vector<std::byte*> bases;
    const auto view = [&](Buffer& buffer) {
        bases.push_back(buffer.bytes.data());
        return whole(static_cast<BufferId>(bases.size()) - 1, buffer.desc, false);
    };
    for (Buffer* const input : inputs) {
        tensors.inputs.push_back(view(*input));
    }
    tensors.outputs.push_back(view(output));
    const std::unique_ptr<Step> step = make_native_step(tensors, parameters);
    RunContext context;
    context.bases = bases.data();
    context.workers = 3;
    step->run(context);
}

// Numbers for the tensors, and indices inside and on both sides of the valid range.
void fill(Buffer& buffer, double first) {
    for (std::size_t i = 0; i < buffer.count(); ++i) {
        buffer.set(i, first + static_cast<double>(i % 97));
    }
}

void fill_indices(Buffer& buffer, std::int64_t size, std::uint64_t seed) {
    Random random(seed);
    const bool is_signed = buffer.desc.type == DataType::int32 || buffer.desc.type == DataType::int64;
    for (std::size_t i = 0; i < buffer.count(); ++i) {
        buffer.set(i, static_cast<double>(random.between(is_signed ? -size - 2 : 0, size + 2)));
    }
}

// The position for an index, −1 if there is none.
std::int64_t place(double index, std::int64_t size) {
    const auto from_start = static_cast<std::int64_t>(index) + (index < 0 ? size : 0);
    return from_start >= 0 && from_start < size ? from_start : -1;
}

std::size_t nearest(double index, std::int64_t size) {
    const std::int64_t found = place(index, size);
    return static_cast<std::size_t>(found >= 0 ? found : index < 0 ? 0 : size - 1);
}

constexpr std::array types{DataType::uint32, DataType::int32, DataType::uint64, DataType::int64};
constexpr std::array items{DataType::uint8, DataType::float16, DataType::float32, DataType::float64};

template <class Check>
void each_type(const Check& check) {
    for (const DataType index : types) {
        for (const DataType item : items) {
            INFO("indices of type ", static_cast<int>(index), ", elements of type ", static_cast<int>(item));
            check(index, item);
        }
    }
}

}  // namespace

TEST_CASE("slices are gathered") {
    each_type([](DataType index, DataType item) {
        constexpr std::size_t batches = 3, size = 7, slice = 500, tuples = 90;
        Buffer x(item, {batches, size, slice}), indices(index, {tuples}), y(item, {batches, tuples, slice});
        fill(x, 0);
        fill_indices(indices, size, 1);
        run(GatherParameters{batches, tuples, slice, true, {size}}, {&x, &indices}, y);
        bool right = true;
        for (std::size_t b = 0; b < batches; ++b) {
            for (std::size_t k = 0; k < tuples; ++k) {
                const std::size_t from = (b * size + nearest(indices.get(k), size)) * slice;
                for (std::size_t s = 0; s < slice; ++s) {
                    right = right && y.get((b * tuples + k) * slice + s) == x.get(from + s);
                }
            }
        }
        CHECK_MESSAGE(right, "every slice is the one that is named");
    });
}

TEST_CASE("elements are gathered along an axis") {
    each_type([](DataType index, DataType item) {
        constexpr std::size_t outer = 40, size = 5, taken = 9, inner = 70;
        Buffer x(item, {outer, size, inner}), indices(index, {outer, taken, inner}), y(item, {outer, taken, inner});
        fill(x, 0);
        fill_indices(indices, size, 2);
        run(GatherElementsParameters{outer, inner, size, taken}, {&x, &indices}, y);
        bool right = true;
        for (std::size_t at = 0; at < y.count(); ++at) {
            const std::size_t o = at / (taken * inner), n = at % inner;
            right = right && y.get(at) == x.get((o * size + nearest(indices.get(at), size)) * inner + n);
        }
        CHECK_MESSAGE(right, "every element is the one that is named");
    });
}

TEST_CASE("slices are scattered") {
    each_type([](DataType index, DataType item) {
        constexpr std::size_t rows = 4, columns = 6, slice = 900, tuples = 30;
        Buffer x(item, {rows, columns, slice}), indices(index, {tuples, 2}), updates(item, {tuples, slice});
        Buffer y(item, {rows, columns, slice});
        fill(x, 0);
        fill(updates, 100);
        fill_indices(indices, rows, 3);
        run(ScatterParameters{tuples, slice, {rows, columns}}, {&x, &indices, &updates}, y);
        Buffer expected = x;
        for (std::size_t k = 0; k < tuples; ++k) {
            const std::int64_t row = place(indices.get(2 * k), rows), column = place(indices.get(2 * k + 1), columns);
            for (std::size_t s = 0; row >= 0 && column >= 0 && s < slice; ++s) {
                const auto at = static_cast<std::size_t>(row) * columns + static_cast<std::size_t>(column);
                expected.set(at * slice + s, updates.get(k * slice + s));
            }
        }
        CHECK_MESSAGE(y.bytes == expected.bytes,
                      "the last update of each slice is there, and nothing else has changed");
    });
}

TEST_CASE("elements are scattered along an axis") {
    each_type([](DataType index, DataType item) {
        constexpr std::size_t outer = 20, size = 8, given = 5, inner = 33;
        Buffer x(item, {outer, size, inner}), y(item, {outer, size, inner});
        Buffer indices(index, {outer, given, inner}), updates(item, {outer, given, inner});
        fill(x, 0);
        fill(updates, 100);
        fill_indices(indices, size, 4);
        run(ScatterElementsParameters{outer, inner, size, given}, {&x, &indices, &updates}, y);
        Buffer expected = x;
        for (std::size_t at = 0; at < updates.count(); ++at) {
            const std::size_t o = at / (given * inner), n = at % inner;
            const std::int64_t to = place(indices.get(at), size);
            if (to >= 0) {
                expected.set((o * size + static_cast<std::size_t>(to)) * inner + n, updates.get(at));
            }
        }
        CHECK_MESSAGE(y.bytes == expected.bytes,
                      "the last update of each element is there, and nothing else has changed");
    });
}

}  // namespace dmlgraph::cpu::tests
