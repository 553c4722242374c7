#include "cpu/steps/recurrent_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu/quotient.h"
#include "cpu/runtime/processors.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t tiles_each = 6;  // of rows of X that a worker projects at a time: they stay in the first cache
constexpr double worth_dividing = 3 << 18;  // cost of a step whose hidden units are worth sharing between workers

}  // namespace

RecurrentRun::RecurrentRun(const RecurrentNetwork& network, std::vector<const Weights*> packed, RunContext& context)
    : network_(network),
      sizes_(network.sizes),
      block_count_(network.blocks.units.count()),
      context_(context),
      scratch_(context.scratch(0)),
      memory_(scratch_, network.sizes),
      shares_units_(shares_units()),
      groups_(shares_units_ ? 1 : row_groups()),
      packed_(std::move(packed)) {
    product_context_.workers = context_.workers;
    product_context_.scratch_base = context_.scratch_base + scratch_.bytes();
    product_context_.scratch_stride = context_.scratch_stride;
    for (std::int64_t group = 0; group < groups_; ++group) {
        for (std::int64_t row = first_row(group); row < first_row(group + 1); ++row) {
            places_.push_back(row * sizes_.line + group * sizes_.lanes);
        }
    }
}

void RecurrentRun::compute() {
    read_tensors();
    pack();
    for (std::int64_t first = 0; first < sizes_.steps; first += sizes_.chunk) {
        const std::int64_t count = std::min(sizes_.chunk, sizes_.steps - first);
        for (std::int64_t d = 0; d < sizes_.directions; ++d) {
            project(d, first, count);
        }
        shares_units_ ? run_together(first, count) : run_apart(first, count);
        context_.throw_if_cancelled();
    }
    write_state(1, &RecurrentMemory::hidden);
    if (network_.is_lstm()) {
        write_state(2, &RecurrentMemory::cell);
    }
}

std::optional<TensorLines> RecurrentRun::lines(std::size_t port) const {
    const View& view = network_.inputs[port];
    return view.buffer == no_buffer ? std::nullopt : std::optional(TensorLines(context_.tensor(view)));
}

void RecurrentRun::read(float* to, const TensorLines& from, const std::byte* first, std::int64_t count) const {
    network_.floats.read(to, from, first, count, reinterpret_cast<std::byte*>(memory_.spare()));
}

// What is small, in float32.
void RecurrentRun::read_tensors() {
    read_states(RecurrentNetwork::hidden_init, &RecurrentMemory::hidden);
    if (network_.is_lstm()) {
        read_states(RecurrentNetwork::cell_init, &RecurrentMemory::cell);
        read_peepholes();
    }
    read_biases();
    lengths_ = lines(network_.lengths());
    if (network_.outputs[0].buffer != no_buffer) {
        sequence_.emplace(context_.tensor(network_.outputs[0]));
    }
}

// Rows are projected by packed weights; blocks of them pack others themselves.
void RecurrentRun::pack() {
    for (const std::size_t port : {RecurrentNetwork::weights, RecurrentNetwork::recurrence}) {
        for (std::int64_t d = 0; d < sizes_.directions; ++d) {
            const Weights*& packed = packed_[network_.packed_index(port, d)];
            if (packed == nullptr && (port == RecurrentNetwork::recurrence || network_.projects_rows())) {
                packed = own_.emplace_back(network_.pack(context_, port, d)).get();
            }
        }
    }
}

void RecurrentRun::read_states(std::size_t port, State state) const {
    const auto found = lines(port);
    for (std::int64_t d = 0; d < sizes_.directions; ++d) {
        float* const plane = (memory_.*state)(d, 0);
        std::fill_n(plane, memory_.plane(), 0.0f);
        for (std::int64_t b = 0; found && b < sizes_.batch; ++b) {
            read(plane + places_[static_cast<std::size_t>(b)], *found, found->at(0, d, b), sizes_.hidden);
        }
    }
}

void RecurrentRun::write_state(std::size_t port, State state) const {
    if (network_.outputs[port].buffer == no_buffer) {
        return;
    }
    const TensorLines to(context_.tensor(network_.outputs[port]));
    for (std::int64_t d = 0; d < sizes_.directions; ++d) {
        const float* const plane = (memory_.*state)(d, sizes_.steps);
        for (std::int64_t b = 0; b < sizes_.batch; ++b) {
            network_.floats.write(to, to.at(0, d, b), plane + places_[static_cast<std::size_t>(b)], sizes_.hidden,
                                  reinterpret_cast<std::byte*>(memory_.spare()));
        }
    }
}

// W's and R's biases are added at once, except where R's are multiplied by the reset gate.
void RecurrentRun::read_biases() const {
    const auto found = lines(RecurrentNetwork::bias);
    const std::int64_t all = sizes_.all(), added = network_.resets_after() ? 2 * sizes_.hidden : all;
    for (std::int64_t d = 0; d < sizes_.directions; ++d) {
        float *const sums = memory_.biases(d), *const other = memory_.spare() + all;
        std::fill_n(sums, sizes_.all_line(), 0.0f);
        std::fill_n(memory_.other_biases(d), sizes_.vectors * sizes_.lanes, 0.0f);
        if (found) {
            read(sums, *found, found->at(0, 0, d), all);
            read(other, *found, found->at(0, 0, d, all), all);
            for (std::int64_t i = 0; i < added; ++i) {
                sums[i] += other[i];
            }
            std::copy(other + added, other + all, memory_.other_biases(d));
        }
    }
}

void RecurrentRun::read_peepholes() {
    const auto found = lines(RecurrentNetwork::peephole);
    has_peephole_ = found.has_value();
    for (std::int64_t each = 0; found && each < sizes_.directions * 3; ++each) {
        const std::int64_t d = each / 3, part = each % 3;
        float* const plane = memory_.peepholes(d) + part * memory_.plane();
        std::fill_n(plane, memory_.plane(), 0.0f);
        for (const std::int64_t place : places_) {
            read(plane + place, *found, found->at(0, 0, d, part * sizes_.hidden), sizes_.hidden);
        }
    }
}

std::int64_t RecurrentRun::time_of(std::int64_t direction, std::int64_t first, std::int64_t count) const {
    return network_.is_backward(direction) ? sizes_.steps - first - count : first;
}

std::size_t RecurrentRun::projection_scratch(const RecurrentNetwork& network) {
    const RecurrentSizes& sizes = network.sizes;
    if (network.projects_rows()) {
        const auto numbers =
            static_cast<std::size_t>((tiles_each * network.projects.rows_at_once() + 1) * sizes.inputs);
        return numbers * sizeof(float);
    }
    return product_scratch(network.projection(sizes.chunk), network.has_bias() ? 1 : 0, network.epilogue,
                           network.kernels);
}

void RecurrentRun::project(std::int64_t direction, std::int64_t first, std::int64_t count) {
    network_.projects_rows() ? project_rows(direction, first, count) : project_blocks(direction, first, count);
}

void RecurrentRun::project_rows(std::int64_t direction, std::int64_t first, std::int64_t count) {
    const TensorLines x(context_.tensor(network_.inputs[RecurrentNetwork::x]));
    const float* const columns = weights(direction)->at({}, 0, 0).as<float>();
    const std::int64_t start = time_of(direction, first, count), rows = count * sizes_.batch, inputs = sizes_.inputs;
    const std::int64_t step = sizes_.batch == 1 ? x.strides[1] : x.strides[2];  // from row to row, if they are even
    const bool in_place = network_.floats.are_singles() && x.is_packed() && step % std::int64_t{sizeof(float)} == 0 &&
                          (sizes_.batch == 1 || x.strides[1] == sizes_.batch * x.strides[2]);
    const std::int64_t most = tiles_each * network_.projects.rows_at_once();
    const double cost = product_cost(network_.projection(count));
    context_.parallel(quotient_up(rows, most), cost, [&](int worker, Chunks& chunks) {
        auto* const copied = reinterpret_cast<float*>(product_context_.scratch(worker));
        auto* const spare = reinterpret_cast<std::byte*>(copied + most * inputs);
        for (std::int64_t each = 0, last = 0; chunks.next(each, last);) {
            for (; each < last; ++each) {
                const std::int64_t row = each * most, some = std::min(most, rows - row);
                Rows<const float> a{copied, inputs};
                if (in_place) {
                    a = {reinterpret_cast<const float*>(x.at(0, start, 0) + row * step),
                         step / std::int64_t{sizeof(float)}};
                }
                for (std::int64_t r = 0; !in_place && r < some; ++r) {
                    network_.floats.read(copied + r * inputs, x,
                                         x.at(0, start + (row + r) / sizes_.batch, (row + r) % sizes_.batch), inputs,
                                         spare);
                }
                network_.projects.multiply(
                    columns, inputs, some, a, {memory_.biases(direction), 0},
                    {memory_.projected(direction, 0) + row * sizes_.all_line(), sizes_.all_line()});
            }
        }
    });
}

void RecurrentRun::project_blocks(std::int64_t direction, std::int64_t first, std::int64_t count) {
    const TensorLines x(context_.tensor(network_.inputs[RecurrentNetwork::x]));
    const Panels* const packed = weights(direction);
    const MatrixPanels weights =
        packed != nullptr ? MatrixPanels() : network_.matrix(context_, RecurrentNetwork::weights, direction);
    Product product;
    product.sizes = network_.projection(count);
    MatrixPanels rows(x.at(0, time_of(direction, first, count), 0), x.type, {}, x.strides[2], x.step());
    const std::int64_t row = sizes_.all_line() * std::int64_t{sizeof(float)};
    if (sizes_.batch == 1) {
        rows.line = x.strides[1];
    } else if (x.strides[1] != sizes_.batch * x.strides[2]) {  // a product for each step
        product.sizes.rank = 1;
        product.sizes.batch[0] = count;
        product.sizes.m = sizes_.batch;
        rows.batch[0] = x.strides[1];
        product.target.out.batch[0] = sizes_.batch * row;
    }
    product.a = {nullptr, &rows, &rows};
    product.b = {packed, &weights, &weights};
    MatrixTensor& out = product.target.out;
    out.data = reinterpret_cast<std::byte*>(memory_.projected(direction, 0));
    out.type = DataType::float32;
    out.row = row;
    out.sizes[0] = product.sizes.n;
    out.strides[0] = sizeof(float);
    if (network_.has_bias()) {
        MatrixTensor biases;
        biases.data = reinterpret_cast<std::byte*>(memory_.biases(direction));
        biases.type = DataType::float32;
        biases.sizes[0] = product.sizes.n;
        biases.strides[0] = sizeof(float);
        product.target.operands.push_back(biases);
    }
    product.target.epilogue = &network_.epilogue;
    product.kernels = &network_.kernels;
    run_product(product_context_, product);
}

double RecurrentRun::step_cost() const {
    return product_cost(network_.carried(sizes_.batch)) * static_cast<double>(sizes_.directions);
}

// How many groups of rows run on workers of their own.
std::int64_t RecurrentRun::row_groups() const {
    return std::min<std::int64_t>(quotient_up(context_.workers, sizes_.directions), sizes_.groups);
}

// Whether workers share the hidden units of each step: if there are more workers than groups of rows, or if the
// weights, which each group reads in every step, do not fit into the second cache.
bool RecurrentRun::shares_units() const {
    const double bytes = static_cast<double>(sizes_.all() * sizes_.hidden) * sizeof(float);
    const bool fits = bytes <= static_cast<double>(second_cache_bytes()) / 2;
    return sizes_.directions < context_.workers && block_count_ > 1 && step_cost() >= worth_dividing &&
           (!fits || sizes_.directions * row_groups() < context_.workers);
}

RecurrentRun::Part RecurrentRun::part_of(std::int64_t direction, std::int64_t group) const {
    return {direction, first_row(group), first_row(group + 1), 0, block_count_};
}

RecurrentRun::Moment RecurrentRun::moment(std::int64_t direction, std::int64_t first, std::int64_t s,
                                          std::int64_t count) const {
    const bool backward = network_.is_backward(direction);
    return {first + s, backward ? sizes_.steps - 1 - first - s : first + s, backward ? count - 1 - s : s};
}

// Each group of rows of each direction by itself, through all steps.
void RecurrentRun::run_apart(std::int64_t first, std::int64_t count) {
    context_.each(sizes_.directions * groups_, step_cost() * static_cast<double>(count), [&](std::int64_t i) {
        const Part part = part_of(i / groups_, i % groups_);
        for (std::int64_t s = 0; s < count; ++s) {
            const Moment now = moment(part.direction, first, s, count);
            run_first(part, now);
            if (network_.resets_before()) {
                run_second(part, now);
            }
        }
    });
}

// Step by step, the blocks of hidden units shared between workers.
void RecurrentRun::run_together(std::int64_t first, std::int64_t count) {
    const auto share = [&](auto&& function) {
        context_.each(sizes_.directions * block_count_, step_cost(), [&](std::int64_t i) {
            Part part = part_of(i / block_count_, 0);
            part.first_block = i % block_count_;
            part.last_block = part.first_block + 1;
            function(part);
        });
    };
    for (std::int64_t s = 0; s < count; ++s) {
        share([&](const Part& part) { run_first(part, moment(part.direction, first, s, count)); });
        if (network_.resets_before()) {
            share([&](const Part& part) { run_second(part, moment(part.direction, first, s, count)); });
        }
        context_.throw_if_cancelled();
    }
}

bool RecurrentRun::lasts(std::int64_t row, std::int64_t time) const {
    if (!lengths_) {
        return true;
    }
    std::uint32_t length = 0;
    std::memcpy(&length, lengths_->at(0, 0, 0, row), sizeof(length));
    return time < static_cast<std::int64_t>(length);
}

RecurrentRun::Part RecurrentRun::lasting(const Part& part, std::int64_t time) const {
    Part result = part;
    while (result.first_row < result.last_row && !lasts(result.first_row, time)) {
        ++result.first_row;
    }
    while (result.first_row < result.last_row && !lasts(result.last_row - 1, time)) {
        --result.last_row;
    }
    return result;
}

void RecurrentRun::multiply(const RecurrentProduct& product, const Part& part, Rows<const float> a,
                            Rows<const float> added, bool multiplies) const {
    float* const out = memory_.planes(part.direction) + places_[static_cast<std::size_t>(part.first_row)];
    product.multiply(multiplies ? recurrence(part.direction) : nullptr, part.first_block, part.last_block,
                     part.last_row - part.first_row, a, added, {out, sizes_.line});
}

Rows<const float> RecurrentRun::projected(const Part& part, const Moment& moment) const {
    return {memory_.projected(part.direction, moment.place) + part.first_row * sizes_.all_line(), sizes_.all_line()};
}

// The steps of rows that have not ended; of a GRU that resets before its product, what comes before that.
void RecurrentRun::run_first(const Part& part, const Moment& moment) const {
    const Part some = lasting(part, moment.time);
    if (some.first_row < some.last_row) {
        const Gates& gates = network_.gates[static_cast<std::size_t>(part.direction)];
        const GateLines lines = gate_lines(some, moment.step);
        const Rows<const float> inputs = projected(some, moment);
        const Rows<const float> state{
            memory_.hidden(part.direction, moment.step) + places_[static_cast<std::size_t>(some.first_row)],
            sizes_.line};
        multiply(network_.product, some, state, inputs);
        if (network_.is_lstm()) {
            gates.run(&GateKernels::lstm, lines);
        } else if (!network_.is_gru()) {
            gates.run(&GateKernels::rnn, lines);
        } else if (network_.resets_before()) {
            return gates.run(&GateKernels::gru_reset, lines);
        } else {
            multiply(network_.other, some, state, {memory_.other_biases(part.direction), 0});
            multiply(network_.input, some, state, inputs, false);
            gates.run(&GateKernels::gru_reset_after, lines);
        }
    }
    if (!network_.resets_before()) {
        finish(part, moment);
    }
}

// What is left of a GRU that resets before its product.
void RecurrentRun::run_second(const Part& part, const Moment& moment) const {
    const Part some = lasting(part, moment.time);
    if (some.first_row < some.last_row) {
        const std::int64_t place = places_[static_cast<std::size_t>(some.first_row)];
        multiply(network_.other, some, {memory_.planes(part.direction) + 3 * memory_.plane() + place, sizes_.line},
                 projected(some, moment));
        network_.gates[static_cast<std::size_t>(part.direction)].run(&GateKernels::gru, gate_lines(some, moment.step));
    }
    finish(part, moment);
}

std::int64_t RecurrentRun::units(const Part& part) const {
    return std::min(network_.blocks.units.first(part.last_block), sizes_.hidden) - first_unit(part);
}

// All rows as one line if it has all units.
GateLines RecurrentRun::gate_lines(const Part& part, std::int64_t step) const {
    const std::int64_t d = part.direction, rows = part.last_row - part.first_row, count = units(part);
    const std::int64_t place = places_[static_cast<std::size_t>(part.first_row)] + first_unit(part);
    const bool is_one = count == sizes_.hidden;
    GateLines result;
    result.sums = memory_.planes(d) + place;
    result.plane = memory_.plane();
    result.hidden = memory_.hidden(d, step) + place;
    result.new_hidden = memory_.hidden(d, step + 1) + place;
    if (network_.is_lstm()) {
        result.cell = memory_.cell(d, step) + place;
        result.new_cell = memory_.cell(d, step + 1) + place;
        result.peephole = has_peephole_ ? memory_.peepholes(d) + place : nullptr;
    }
    result.rows = is_one ? 1 : rows;
    result.step = sizes_.line;
    result.count = quotient_up(is_one ? rows * sizes_.line : count, sizes_.lanes) * sizes_.lanes;
    return result;
}

// Keeps the state of rows that have ended, and writes the output.
void RecurrentRun::finish(const Part& part, const Moment& moment) const {
    const std::int64_t d = part.direction, first = first_unit(part), count = units(part), step = moment.step;
    float* const hidden = memory_.hidden(d, step + 1) + first;
    if (sequence_ && !lengths_ && network_.floats.are_singles() && count == sizes_.line && sequence_->is_packed() &&
        sequence_->strides[2] == count * sequence_->strides[3]) {  // all rows as one
        std::copy_n(hidden + places_[static_cast<std::size_t>(part.first_row)],
                    (part.last_row - part.first_row) * count,
                    reinterpret_cast<float*>(sequence_->at(moment.time, d, part.first_row)));
        return;
    }
    for (std::int64_t r = part.first_row; r < part.last_row; ++r) {
        const std::int64_t place = places_[static_cast<std::size_t>(r)];
        const bool goes_on = lasts(r, moment.time);
        if (!goes_on) {
            std::copy_n(memory_.hidden(d, step) + first + place, count, hidden + place);
            if (network_.is_lstm()) {
                std::copy_n(memory_.cell(d, step) + first + place, count, memory_.cell(d, step + 1) + first + place);
            }
        }
        if (sequence_) {
            auto* const spare = reinterpret_cast<std::byte*>(memory_.planes(d) + place + first);  // the sums are used
            network_.floats.write(*sequence_, sequence_->at(moment.time, d, r, first),
                                  goes_on ? hidden + place : nullptr, count, spare);
        }
    }
}

}  // namespace dmlgraph::cpu
