// Recurrent networks on memory of exactly the needed bytes: any sizes, lengths, strides and workers, compared with the
// equations.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "cpu/runtime/memory.h"
#include "cpu/runtime/packing_step.h"
#include "cpu/steps/native_step.h"
#include "cpu/tests/random.h"
#include "cpu/tests/tensors.h"

namespace dmlgraph::cpu::tests {
namespace {

// A tensor of floats in a block of exactly its span, with a gap between its elements at times.
struct Numbers {
    TensorDesc desc;
    std::unique_ptr<float[]> data;

    Numbers() = default;
    Numbers(const Shape& sizes, Random& random, float magnitude) : desc(packed(DataType::float32, sizes)) {
        if (random.chance(30)) {
            const std::int64_t gap = random.between(2, 3);
            std::ranges::for_each(desc.strides, [&](std::int64_t& each) { each *= gap; });
            desc.packed = is_packed(desc);
        }
        const auto count = static_cast<std::size_t>(desc.span());
        data.reset(new float[count]);
        std::generate_n(data.get(), count, [&] { return magnitude * static_cast<float>(random.between(-8, 8)) / 8; });
    }
    double at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
        return data[static_cast<std::size_t>(a * desc.strides[0] + b * desc.strides[1] + c * desc.strides[2] +
                                             d * desc.strides[3])];
    }
    bool present() const { return data != nullptr; }
};

struct Network {
    std::int64_t gates, steps, batch, inputs, hidden;
    std::vector<std::int64_t> backward;
    bool couples, resets_after, clips;
    Numbers x, w, r, bias, first_hidden, first_cell, peephole;
    std::vector<std::uint32_t> lengths;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Network random_network(Random& random) {
    Network n;
    n.gates = std::vector<std::int64_t>{1, 3, 4}[static_cast<std::size_t>(random.between(0, 2))];
    n.steps = random.between(1, 4), n.batch = random.chance(50) ? 1 : random.between(1, 18);
    n.inputs = random.chance(20) ? random.between(200, 400) : random.between(1, 9);  // W · X in blocks, or row by row
    n.hidden = random.chance(10) ? random.between(100, 200) : random.between(1, 40);
    const std::int64_t way = random.between(0, 2);
    n.backward = way == 2 ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{way};
    const auto directions = static_cast<std::int64_t>(n.backward.size());
    n.couples = random.chance(30), n.resets_after = random.chance(50);
    n.clips = random.chance(n.gates == 3 ? 20 : 80);  // else one operation follows the other
    const float weight = 1 / static_cast<float>(n.hidden);
    n.x = Numbers({1, n.steps, n.batch, n.inputs}, random, 1);
    n.w = Numbers({1, directions, n.gates * n.hidden, n.inputs}, random, n.inputs > 9 ? 0.02f : 0.5f);
    n.r = Numbers({1, directions, n.gates * n.hidden, n.hidden}, random, weight);
    const auto maybe = [&](const Shape& sizes) { return random.chance(60) ? Numbers(sizes, random, 0.5f) : Numbers(); };
    n.bias = maybe({1, 1, directions, 2 * n.gates * n.hidden});
    n.first_hidden = maybe({1, directions, n.batch, n.hidden});
    if (n.gates == 4) {
        n.first_cell = maybe({1, directions, n.batch, n.hidden});
        n.peephole = maybe({1, 1, directions, 3 * n.hidden});
    }
    if (random.chance(50)) {
        for (std::int64_t b = 0; b < n.batch; ++b) {
            n.lengths.push_back(static_cast<std::uint32_t>(random.between(0, n.steps + 1)));
        }
    }
    return n;
}

// The state {hidden, cell} after a step of a sequence, unit by unit.
void advance(const Network& n, std::int64_t d, std::int64_t t, std::int64_t b, std::vector<double>& hidden,
             std::vector<double>& cell) {
    const auto biased = [&](std::int64_t part, std::int64_t row) {
        return n.bias.present() ? n.bias.at(0, 0, d, part * n.gates * n.hidden + row) : 0.0;
    };
    const auto from_x = [&](std::int64_t gate, std::int64_t unit) {
        const std::int64_t row = gate * n.hidden + unit;
        double total = biased(0, row);
        for (std::int64_t i = 0; i < n.inputs; ++i) {
            total += n.w.at(0, d, row, i) * n.x.at(0, t, b, i);
        }
        return total;
    };
    const auto from_state = [&](std::int64_t gate, std::int64_t unit, const std::vector<double>& state) {
        const std::int64_t row = gate * n.hidden + unit;
        double total = biased(1, row);
        for (std::int64_t i = 0; i < n.hidden; ++i) {
            total += n.r.at(0, d, row, i) * state[static_cast<std::size_t>(i)];
        }
        return total;
    };
    const auto gate = [&](std::int64_t g, std::int64_t u) { return from_x(g, u) + from_state(g, u, hidden); };
    std::vector<double> next(hidden.size()), reset(hidden.size());
    for (std::size_t u = 0; u < hidden.size(); ++u) {
        const auto unit = static_cast<std::int64_t>(u);
        const auto look = [&](std::int64_t p, double c) {
            return n.peephole.present() ? n.peephole.at(0, 0, d, p * n.hidden + unit) * c : 0.0;
        };
        if (n.gates == 1) {
            next[u] = std::tanh(gate(0, unit));
        } else if (n.gates == 3) {
            reset[u] = sigmoid(gate(1, unit)) * hidden[u];
        } else {
            const double i = sigmoid(gate(0, unit) + look(0, cell[u]));
            const double forget = n.couples ? 1 - i : sigmoid(gate(2, unit) + look(2, cell[u]));
            cell[u] = forget * cell[u] + i * std::tanh(gate(3, unit));
            next[u] = sigmoid(gate(1, unit) + look(1, cell[u])) * std::tanh(cell[u]);
        }
    }
    for (std::size_t u = 0; n.gates == 3 && u < hidden.size(); ++u) {
        const auto unit = static_cast<std::int64_t>(u);
        const double z = sigmoid(gate(0, unit)), r = sigmoid(gate(1, unit));
        const double h = std::tanh(from_x(2, unit) +
                                   (n.resets_after ? r * from_state(2, unit, hidden) : from_state(2, unit, reset)));
        next[u] = (1 - z) * h + z * hidden[u];
    }
    hidden = next;
}

struct Result {
    std::vector<float> sequence, hidden, cell;
    bool operator==(const Result&) const = default;
};

RecurrentParameters parameters_of(const Network& n) {
    RecurrentParameters parameters;
    parameters.gates = n.gates;
    parameters.backward = n.backward;
    parameters.bound = n.clips ? std::vector<float>{3e38f} : std::vector<float>{};
    parameters.couples_input_forget = n.couples;
    parameters.resets_after_product = n.resets_after;
    const auto activation = [&](Opcode opcode) {
        InstructionSpec made;
        made.opcode = opcode;
        made.operand = made.result = DataType::float32;
        made.kernel = find_kernel(opcode, DataType::float32, DataType::float32);
        made.operands = {0};
        return made;
    };
    for (std::size_t d = 0; d < n.backward.size(); ++d) {
        if (n.gates > 1) {
            parameters.activations.push_back(activation(Opcode::SIGMOID));
        }
        parameters.activations.push_back(activation(Opcode::TANH));
        if (n.gates == 4) {
            parameters.activations.push_back(activation(Opcode::TANH));
        }
    }
    return parameters;
}

// Checks that a prepared step writes the numbers of a weight to the memory it is given.
void check_unpacked(const PackingStep& step, const Numbers& weight, std::size_t port, RunContext& context) {
    const auto buffer = static_cast<BufferId>(port);
    const auto count = static_cast<std::size_t>(weight.desc.span());
    const std::unique_ptr<float[]> kept(new float[count]);
    std::copy_n(weight.data.get(), count, kept.get());
    each_coordinate(weight.desc,
                    [&](const Sizes& at) { weight.data[static_cast<std::size_t>(place(weight.desc, at))] = -1; });
    CHECK_MESSAGE(step.keeps(buffer), "it keeps the weights");
    step.unpack(buffer, context);
    CHECK_MESSAGE(std::equal(kept.get(), kept.get() + count, weight.data.get()), "weights are as they were");
}

// When the weights are packed: in the run, before all runs, or for several of them.
enum class When : std::uint8_t { in_run, before, for_several };

Result run(const Network& n, int workers, When packs) {
    const auto directions = static_cast<std::int64_t>(n.backward.size());
    StepTensors tensors;
    std::vector<std::byte*> bases;
    const auto add = [&](std::vector<View>& views, const TensorDesc& desc, const void* data) {
        if (data == nullptr) {
            views.emplace_back();
            return;
        }
        bases.push_back(static_cast<std::byte*>(const_cast<void*>(data)));
        views.push_back(whole(static_cast<BufferId>(bases.size()) - 1, desc, false));
    };
    for (const Numbers* each : {&n.x, &n.w, &n.r, &n.bias, &n.first_hidden}) {
        add(tensors.inputs, each->desc, each->data.get());
    }
    if (n.gates == 4) {
        add(tensors.inputs, n.first_cell.desc, n.first_cell.data.get());
    }
    add(tensors.inputs, packed(DataType::uint32, {1, 1, 1, n.batch}), n.lengths.empty() ? nullptr : n.lengths.data());
    if (n.gates == 4) {
        add(tensors.inputs, n.peephole.desc, n.peephole.data.get());
    }
    Result result;
    const auto rows = static_cast<std::size_t>(directions * n.batch * n.hidden);
    result.sequence.resize(rows * static_cast<std::size_t>(n.steps));
    result.hidden.resize(rows);
    add(tensors.outputs, packed(DataType::float32, {n.steps, directions, n.batch, n.hidden}), result.sequence.data());
    add(tensors.outputs, packed(DataType::float32, {1, directions, n.batch, n.hidden}), result.hidden.data());
    if (n.gates == 4) {
        result.cell.resize(rows);
        add(tensors.outputs, packed(DataType::float32, {1, directions, n.batch, n.hidden}), result.cell.data());
    }
    const std::unique_ptr<Step> step = make_native_step(tensors, parameters_of(n));
    RunContext context;
    context.bases = bases.data();
    std::vector<const Sizes*> custom(bases.size());
    context.custom = custom.data();
    PackingStep& packing = *step->packing();
    const AllWeights kept = packs == When::for_several ? packing.keep(context) : AllWeights();
    context.kept = kept.empty() ? nullptr : &kept;
    if (packs == When::before) {
        packing.prepare(context);
        for (const std::size_t port : {1, 2}) {
            check_unpacked(packing, port == 1 ? n.w : n.r, port, context);
            bases[port] = nullptr;  // runs do not read it
        }
    }
    context.scratch_stride = (step->scratch_bytes() + 63) / 64 * 64;
    const Memory scratch(context.scratch_stride * static_cast<std::size_t>(workers));
    context.scratch_base = scratch.get();
    context.workers = workers;
    step->run(context);
    return result;
}

void check(const Network& n, const Result& result) {
    const auto directions = static_cast<std::int64_t>(n.backward.size());
    double worst = 0;
    for (std::int64_t d = 0; d < directions; ++d) {
        for (std::int64_t b = 0; b < n.batch; ++b) {
            std::vector<double> hidden(static_cast<std::size_t>(n.hidden)), cell(hidden.size());
            for (std::size_t u = 0; u < hidden.size(); ++u) {
                const auto unit = static_cast<std::int64_t>(u);
                hidden[u] = n.first_hidden.present() ? n.first_hidden.at(0, d, b, unit) : 0;
                cell[u] = n.first_cell.present() ? n.first_cell.at(0, d, b, unit) : 0;
            }
            for (std::int64_t s = 0; s < n.steps; ++s) {
                const std::int64_t t = n.backward[static_cast<std::size_t>(d)] != 0 ? n.steps - 1 - s : s;
                const bool lasts =
                    n.lengths.empty() || t < static_cast<std::int64_t>(n.lengths[static_cast<std::size_t>(b)]);
                if (lasts) {
                    advance(n, d, t, b, hidden, cell);
                }
                const auto first = static_cast<std::size_t>(((t * directions + d) * n.batch + b) * n.hidden);
                for (std::size_t u = 0; u < hidden.size(); ++u) {
                    worst = std::max(worst, std::abs(result.sequence[first + u] - (lasts ? hidden[u] : 0)));
                }
            }
            const auto first = static_cast<std::size_t>((d * n.batch + b) * n.hidden);
            for (std::size_t u = 0; u < hidden.size(); ++u) {
                worst = std::max(worst, std::abs(result.hidden[first + u] - hidden[u]));
                worst = n.gates == 4 ? std::max(worst, std::abs(result.cell[first + u] - cell[u])) : worst;
            }
        }
    }
    CHECK_MESSAGE(worst < 1e-5, "gates " << n.gates << ", batch " << n.batch << ", hidden " << n.hidden);
}

}  // namespace

TEST_CASE("recurrent networks follow their equations") {
    Random random(1);
    for (int i = 0; i < 300; ++i) {
        const Network network = random_network(random);
        const Result first = run(network, 1, When::before);
        check(network, first);
        CHECK(run(network, 3, When::before) == first);
        CHECK(run(network, 2, When::for_several) == first);
        const Result unprepared =
            run(network, 3, When::in_run);  // a product of few rows adds up weights in another order where they lie
        check(network, unprepared);
        CHECK(run(network, 1, When::in_run) == unprepared);
        if (network.inputs < 10) {
            CHECK(unprepared == first);
        }
    }
}

TEST_CASE("workers that share the hidden units of a step give the same bits") {
    Random random(2);
    for (const std::int64_t gates : {1, 3, 4}) {
        for (const bool after : {false, true}) {
            Network network = random_network(random);
            while (network.gates != gates || network.resets_after != after) {
                network = random_network(random);
            }
            network.steps = 3, network.batch = 1 + 4 * after, network.hidden = gates == 1 ? 600 : 320,
            network.backward = {0};
            network.x = Numbers({1, 3, network.batch, network.inputs}, random, 1);
            network.w = Numbers({1, 1, gates * network.hidden, network.inputs}, random, 0.5f);
            network.r = Numbers({1, 1, gates * network.hidden, network.hidden}, random, 0.003f);
            network.bias = Numbers(), network.first_hidden = Numbers(), network.first_cell = Numbers(),
            network.peephole = Numbers();
            network.lengths.clear();
            const Result first = run(network, 1, When::before);
            check(network, first);
            CHECK(run(network, 2, When::before) == first);
            CHECK(run(network, 5, When::in_run) == first);
        }
    }
}

}  // namespace dmlgraph::cpu::tests
