// Random graphs: nodes of every kind on values of every layout.
#include <algorithm>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "cpu/tests/random.h"
#include "cpu/tests/runs.h"
#include "cpu/tests/sanitizers.h"

namespace dmlgraph::cpu::tests {
namespace {

constexpr std::int64_t most_elements = 60'000;
constexpr double greatest_number = 1000;  // float16 adds numbers up to this without rounding

// Adds nodes to a graph; records how large the numbers of each value may be, so that nothing is rounded.
class Sketch {
public:
    explicit Sketch(std::uint64_t seed) : random_(seed) {
        constexpr DataType types[] = {DataType::float32, DataType::float32, DataType::int32, DataType::float16,
                                      DataType::int64};
        type_ = types[random_.between(0, 4)];
        constexpr std::int64_t sizes[] = {1, 2, 3, 5, 17, 33, 64, 260};
        Shape shape;
        std::int64_t count = 1;
        for (std::int64_t d = random_.between(1, 4); d > 0; --d) {
            const std::int64_t size = sizes[random_.between(0, 7)];
            shape.push_back(count * size > most_elements / 2 ? 1 : size);
            count *= shape.back();
        }
        for (std::int64_t k = random_.between(1, 3); k > 0; --k) {
            keep(graph.input(type_, shape), 4);
        }
        if (random_.chance(40)) {  // a broadcast one
            for (std::int64_t& size : shape) {
                size = random_.chance(50) ? 1 : size;
            }
            keep(graph.input(type_, shape), 4);
        }
        const std::size_t inputs = values_.size();
        for (std::int64_t k = random_.between(2, 16); k > 0; --k) {
            grow();
        }
        std::size_t outputs = 0;
        for (std::size_t v = inputs; v < values_.size(); ++v) {
            const bool is_last = v + 1 == values_.size() && outputs == 0;
            for (int times = random_.chance(35) || is_last ? 1 + (random_.chance(5) ? 1 : 0) : 0; times > 0; --times) {
                graph.output(values_[v].id);
                ++outputs;
            }
        }
        if (outputs == 0) {
            graph.output(graph.apply(copied, {graph.read(values_[0].id)}));
        }
    }

    Graph graph;

private:
    struct Known {
        int id;
        double bound;
    };

    void keep(int id, double bound) { values_.push_back({id, bound}); }

    const Known& any() {
        return values_[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(values_.size()) - 1))];
    }

    Shape shape(const Known& value) const { return sizes_of(graph.desc(value.id)); }

    int axis_of(const Known& value) { return static_cast<int>(random_.between(0, graph.desc(value.id).rank - 1)); }

    // Another value with these sizes: an existing one, one that is broadcast to them, or a new one.
    Known beside(const Shape& sizes, Operand& operand) {
        for (int tries = 0; tries < 4; ++tries) {
            const Known other = any();
            const Shape given = shape(other);
            bool fits = given.size() == sizes.size();
            for (std::size_t d = 0; fits && d < given.size(); ++d) {
                fits = given[d] == sizes[d] || given[d] == 1;
            }
            if (fits) {
                operand = given == sizes ? graph.read(other.id) : graph.spread(other.id, sizes);
                return other;
            }
        }
        const Known made = random_.chance(50) ? Known{graph.fill(type_, sizes, 2), 2}
                                              : Known{graph.constant(type_, sizes, random_.bits()), 4};
        operand = graph.read(made.id);
        return made;
    }

    TensorDesc result_desc(const Shape& sizes) {
        if (!random_.chance(12)) {
            return packed(type_, sizes);
        }
        Shape strides(sizes.size());
        std::int64_t unit = random_.between(1, 2);
        for (std::size_t d = sizes.size(); d-- > 0;) {
            strides[d] = unit;
            unit = unit * sizes[d] + random_.between(0, 3);
        }
        return strided(type_, sizes, strides);
    }

    void grow() {
        const Known x = any();
        if (x.bound > greatest_number) {
            return;
        }
        switch (random_.between(0, 16)) {
            case 0:
            case 1:
            case 2: return combine(x);
            case 3: return compound(x);
            case 4: return keep(graph.apply(negate, {graph.transposed(x.id, axis_of(x), axis_of(x))}), x.bound);
            case 5: return slice(x);
            case 6: return split(x);
            case 7: return join(x);
            case 8: return pad(x);
            case 9: return tile(x);
            case 10: return reduce(x);
            case 11: return keep(graph.step(graph.read(x.id), random_.chance(50)), x.bound + 1);
            case 12: return reread(x);
            case 13:
            case 14: return move_ones(x);
            default: return multiply(x);
        }
    }

    // A product with a square matrix.
    void multiply(const Known& x) {
        Shape sizes = shape(x);
        const std::int64_t depth = sizes.back();
        const double bound = x.bound * 4 * static_cast<double>(depth);
        if (type_ != DataType::float32 || sizes.size() < 2 || bound > greatest_number) {
            return combine(x);
        }
        Shape square(sizes.size(), 1);
        square[square.size() - 2] = square.back() = sizes[sizes.size() - 2] = depth;
        const int matrix = graph.constant(type_, square, random_.bits());
        keep(graph.product(graph.read(x.id), graph.spread(matrix, sizes)), bound);
    }

    void combine(const Known& x) {
        const Shape sizes = shape(x);
        Operand other{};
        const Known y = beside(sizes, other);
        if (y.bound <= greatest_number) {
            const bool sum = random_.chance(50);
            const Operand operands[] = {graph.read(x.id), other};
            const bool turned = random_.chance(40);
            keep(graph.apply(sum ? add : greater, {operands[turned], operands[!turned]}, result_desc(sizes)),
                 x.bound + y.bound);
        }
    }

    void compound(const Known& x) {
        const Shape sizes = shape(x);
        Operand other{};
        const Known y = beside(sizes, other);
        if (y.bound <= greatest_number / 2) {
            keep(graph.compound(graph.read(x.id), other), x.bound + 3 * y.bound);
        }
    }

    void slice(const Known& x) {
        const Shape sizes = shape(x);
        Shape part = sizes, origin(sizes.size()), steps(sizes.size());
        for (std::size_t d = 0; d < sizes.size(); ++d) {
            part[d] = random_.between(1, sizes[d]);
            const std::int64_t step = part[d] == 1 ? 1 : random_.between(1, (sizes[d] - 1) / (part[d] - 1));
            const std::int64_t reach = step * (part[d] - 1);
            const std::int64_t first = random_.between(0, sizes[d] - 1 - reach);
            const bool backwards = random_.chance(25);
            origin[d] = backwards ? first + reach : first;
            steps[d] = backwards ? -step : step;
        }
        keep(graph.slice(graph.read(x.id), part, origin, steps), x.bound);
    }

    void split(const Known& x) {
        const Shape sizes = shape(x);
        const int axis = axis_of(x);
        const std::int64_t size = sizes[static_cast<std::size_t>(axis)];
        if (size > 1) {
            const std::int64_t first = random_.between(1, size - 1);
            for (const int part : graph.split(graph.read(x.id), axis, {first, size - first})) {
                keep(part, x.bound);
            }
        }
    }

    // The same elements with dimensions of size 1 elsewhere, as an operand of one more node.
    Operand with_other_ones(int value) {
        Shape sizes, strides;
        const TensorDesc& desc = graph.desc(value);
        for (int d = 0; d < desc.rank; ++d) {
            if (desc.sizes[d] != 1) {
                sizes.push_back(desc.sizes[d]), strides.push_back(desc.strides[d]);
            }
        }
        while (sizes.size() < static_cast<std::size_t>(desc.rank)) {
            const auto at = random_.between(0, static_cast<std::int64_t>(sizes.size()));
            sizes.insert(sizes.begin() + at, 1), strides.insert(strides.begin() + at, random_.between(0, 7));
        }
        return graph.view(value, sizes, strides);
    }

    void move_ones(const Known& x) {
        const Operand operand = with_other_ones(x.id), other = random_.chance(50) ? with_other_ones(x.id) : operand;
        const Shape sizes = sizes_of(operand.desc);
        const bool alike = sizes_of(other.desc) == sizes;
        const int axis = axis_of(x);
        if (alike && 3 * operand.desc.element_count() <= most_elements && random_.chance(60)) {
            return keep(graph.join({operand, other, operand}, axis), x.bound);
        }
        Shape before(sizes.size()), after(sizes.size());
        before[static_cast<std::size_t>(axis)] = 1;
        if (2 * operand.desc.element_count() <= most_elements && random_.chance(60)) {
            return keep(graph.pad(operand, before, after, 1), std::max(x.bound, 1.0));
        }
        keep(graph.apply(negate, {operand}), x.bound);
    }

    void join(const Known& x) {
        const Shape sizes = shape(x);
        const std::int64_t count = graph.desc(x.id).element_count();
        Operand other{};
        const Known y = beside(sizes, other);
        if (2 * count <= most_elements) {
            keep(graph.join({graph.read(x.id), other}, axis_of(x)), std::max(x.bound, y.bound));
        }
    }

    void pad(const Known& x) {
        const Shape sizes = shape(x);
        const std::int64_t count = graph.desc(x.id).element_count();
        const int rank = graph.desc(x.id).rank;
        Shape before(sizes.size()), after(sizes.size());
        for (std::size_t d = 0; d < sizes.size(); ++d) {
            before[d] = random_.between(0, 2), after[d] = random_.between(0, 1);
        }
        if (count * (1 << rank) <= most_elements) {
            keep(graph.pad(graph.read(x.id), before, after, 1), x.bound);
        }
    }

    void tile(const Known& x) {
        const Shape sizes = shape(x);
        const std::int64_t count = graph.desc(x.id).element_count();
        Shape repeats(sizes.size(), 1);
        repeats[static_cast<std::size_t>(axis_of(x))] = random_.between(1, 3);
        if (3 * count <= most_elements) {
            keep(graph.tile(graph.read(x.id), repeats), x.bound);
        }
    }

    void reduce(const Known& x) {
        const Shape sizes = shape(x);
        const int rank = graph.desc(x.id).rank;
        std::vector<int> axes;
        std::int64_t row = 1;
        for (int d = 0; d < rank; ++d) {
            if (random_.chance(50)) {
                axes.push_back(d);
                row *= sizes[static_cast<std::size_t>(d)];
            }
        }
        if (axes.empty()) {
            return;
        }
        if (static_cast<double>(row) * x.bound <= greatest_number) {
            keep(graph.reduce("SUM", graph.read(x.id), axes, type_), static_cast<double>(row) * x.bound);
        } else {
            keep(graph.reduce(random_.chance(50) ? "MAX" : "MIN", graph.read(x.id), axes, type_), x.bound);
        }
    }

    void reread(const Known& x) {
        const TensorDesc& desc = graph.desc(x.id);
        const Shape sizes = shape(x);
        const std::int64_t count = graph.desc(x.id).element_count();
        if (desc.packed && random_.chance(50)) {
            keep(graph.apply(copied, {graph.view(x.id, {count}, {1})}), x.bound);
        } else if (count <= 900) {
            Operand turned = graph.read(graph.sequence(type_, sizes, 0, 1));
            keep(graph.apply(greater, {graph.read(x.id), turned}),
                 std::max<double>(x.bound, static_cast<double>(count)));
        } else {
            keep(graph.same(graph.read(x.id), result_desc(sizes)), x.bound);
        }
    }

    Random random_;
    DataType type_;
    std::vector<Known> values_;
};

// A number in the environment, or another one where it has none.
std::uint64_t asked(const char* name, std::uint64_t otherwise) {
    const char* const given = std::getenv(name);
    return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("random graphs") {
    // DMLGRAPH_RANDOM_GRAPHS asks for more than a usual run has time for, DMLGRAPH_RANDOM_SEED for others.
    const std::uint64_t count = asked("DMLGRAPH_RANDOM_GRAPHS", watches_threads ? 60 : 400);
    const std::uint64_t first = asked("DMLGRAPH_RANDOM_SEED", 0);
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        INFO("seed ", seed);
        const Graph graph = Sketch(seed).graph;
        Random random(seed);
        const Sample sample(graph, seed);
        check_run(graph, sample, {});
        check_run(graph, sample, {4, lies[random.between(0, 3)], lies[random.between(0, 3)]});
        for (std::size_t o = 0; o < graph.output_count() && o < 3; ++o) {
            const std::size_t input =
                static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(graph.input_count()) - 1));
            if (graph.output_desc(o).type == graph.input_desc(input).type) {
                check_run(graph, sample, {2, Lie::packed, Lie::packed, Overlap{o, input, random.between(-2, 2)}});
            }
        }
    }
}

}  // namespace dmlgraph::cpu::tests
