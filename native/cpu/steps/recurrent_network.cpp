#include "cpu/steps/recurrent_network.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "cpu/kernels/level.h"
#include "cpu/quotient.h"

namespace dmlgraph::cpu {
namespace {

constexpr std::int64_t most_sums =
    128 << 10;                           // of the steps whose inputs are multiplied at a time: they stay in the caches
constexpr std::int64_t least_rows = 48;  // … unless these are fewer rows, which do not make a fast product

}  // namespace

RecurrentNetwork::RecurrentNetwork(const StepTensors& tensors, const RecurrentParameters& given)
    : inputs(tensors.inputs),
      outputs(tensors.outputs),
      parameters(given),
      kernels(*chosen_level().products),
      floats(tensors.inputs.at(0).type) {
    check();
    const View &in = inputs[x], &carries = inputs[recurrence];
    sizes.steps = in.sizes[in.rank - 3];
    sizes.batch = in.sizes[in.rank - 2];
    sizes.directions = static_cast<std::int64_t>(parameters.backward.size());
    sizes.inputs = in.sizes[in.rank - 1];
    sizes.hidden = carries.sizes[carries.rank - 1];
    sizes.gates = parameters.gates;
    blocks = divide_units(sizes, chosen_level().few_rows);
    sizes.chunk = std::min(
        sizes.steps, std::max(most_sums / (sizes.batch * sizes.all_line()), quotient_up(least_rows, sizes.batch)));
    projects = row_projection(chosen_level().few_rows, sizes.chunk * sizes.batch, sizes.all());
    const auto of = [&](std::int64_t first, std::int64_t last, std::int64_t added, std::int64_t plane) {
        return RecurrentProduct(sizes, blocks, chosen_level().few_rows, {first, last}, {added, plane * sizes.plane()});
    };
    product = of(0, is_gru() ? 2 : sizes.gates, 0, 0);
    if (resets_before()) {
        other = of(2, 3, 2 * sizes.hidden, 2);
    } else if (is_gru()) {
        other = of(2, 3, 0, 3);
        input = of(2, 3, 2 * sizes.hidden, 2);
    }
    const std::size_t functions = parameters.activations.size() / parameters.backward.size();
    const auto bound = parameters.bound.empty() ? std::nullopt : std::optional(parameters.bound[0]);
    for (std::size_t d = 0; d < parameters.backward.size(); ++d) {
        gates.emplace_back(parameters.activations.data() + d * functions, functions, bound,
                           parameters.couples_input_forget);
    }
    if (has_bias()) {
        InstructionSpec sum;
        sum.kernel = find_kernel(Opcode::ADD, DataType::float32, DataType::float32);
        sum.result = DataType::float32;
        sum.operands = {0, first_operand};
        epilogue = Epilogue({sum}, DataType::float32, first_operand + 1);
    } else {
        epilogue = Epilogue({}, DataType::float32, first_operand);
    }
}

void RecurrentNetwork::check() const {
    const std::int64_t count = parameters.gates;
    if (count != rnn && count != gru && count != lstm) {
        throw std::invalid_argument("a recurrent network has 1, 3 or 4 gates");
    }
    if (inputs.size() != (count == lstm ? 8 : 6) || outputs.size() != (count == lstm ? 3 : 2)) {
        throw std::invalid_argument("a recurrent network has other tensors");
    }
    const std::size_t of_lengths = count == lstm ? 6 : 5;
    for (std::size_t port = 0; port < inputs.size(); ++port) {
        const View& each = inputs[port];
        const bool is_right = port == of_lengths ? each.type == DataType::uint32
                                                 : each.type == inputs[0].type && (each.type == DataType::float32 ||
                                                                                   each.type == DataType::float16);
        if (each.buffer == no_buffer ? port < bias : !is_right || each.rank < 4) {
            throw std::invalid_argument(
                "the tensors of a recurrent network have 4 dimensions or more, and are float32 or float16");
        }
    }
    const std::size_t functions = count == rnn ? 1 : count == gru ? 2 : 3;
    if (parameters.backward.empty() || parameters.activations.size() != functions * parameters.backward.size()) {
        throw std::invalid_argument("a recurrent network has another number of activations");
    }
}

MatrixPanels RecurrentNetwork::matrix(const RunContext& context, std::size_t port, std::int64_t direction) const {
    const TensorLines lines(context.tensor(inputs[port]));
    return {lines.at(0, direction, 0), lines.type, {}, lines.strides[2], lines.step()};
}

std::shared_ptr<const Weights> RecurrentNetwork::pack(const RunContext& context, std::size_t port,
                                                      std::int64_t direction) const {
    const MatrixPanels from = matrix(context, port, direction);
    if (port == recurrence) {
        return context.made<Recurrence>(
            std::tuple(from, sizes.gates, sizes.hidden, sizes.lanes, blocks.units, &kernels),
            [&] { return Recurrence(from, sizes, blocks, kernels); });
    }
    const ProductSizes product = projection(sizes.chunk);
    const Division columns = projects_rows() ? Division{sizes.all(), sizes.lanes} : columns_of(product, kernels);
    return shared_panels(context, from, {0, {}, product.k, columns, true, &kernels});
}

}  // namespace dmlgraph::cpu
