#include "bind/growing_states.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "cpu/tensor/strided.h"

namespace dmlgraph::cpu {

GrowingStates::GrowingStates(const std::vector<std::tuple<std::size_t, int, int, int, bool>>& states) {
    for (const auto& [input, axis, length, rows, is_shown] : states) {
        states_.push_back({input, axis, length, rows, is_shown});
    }
}

std::vector<int> GrowingStates::axes(std::size_t inputs) const {
    std::vector<int> result(inputs, -1);
    for (const GrowingState& each : states_) {
        result.at(each.input) = each.axis;
    }
    return result;
}

void GrowingStates::bind(const Program& program, const std::vector<std::int64_t>& written,
                         const std::vector<std::int64_t>& lengths, Binding& binding, Use& use) const {
    if ((!written.empty() && written.size() != states_.size()) ||
        (!lengths.empty() && lengths.size() != states_.size())) {
        throw std::invalid_argument("expected a number for each state that grows");
    }
    binding.rows.assign(written.empty() ? 0 : program.inputs.size(), std::numeric_limits<std::int64_t>::max());
    for (std::size_t s = 0; s < written.size(); ++s) {
        // One at least: what a softmax over no rows gives times that is not a number, as it is times all.
        binding.rows[states_[s].input] = std::max<std::int64_t>(written[s], 1);
    }
    use.lengths.assign(lengths.begin(), lengths.end());
    use.rows.resize(lengths.size());
    for (std::size_t s = 0; s < lengths.size(); ++s) {
        const GrowingState& state = states_[s];
        if (state.length >= 0) {
            binding.inputs[static_cast<std::size_t>(state.length)] = {reinterpret_cast<std::byte*>(&use.lengths[s])};
        }
        if (state.rows < 0) {
            continue;
        }
        const auto output = static_cast<std::size_t>(state.rows);
        const TensorDesc& rows = program.outputs[output];
        const std::int64_t capacity = program.inputs[state.input].sizes[state.axis];
        if (lengths[s] < 0 || lengths[s] > capacity - rows.sizes[state.axis]) {
            throw std::invalid_argument("the rows do not fit a state");
        }
        if (!state.is_shown && binding.outputs[output].data == nullptr) {
            if (use.rows[s].bytes() == 0) {
                use.rows[s] = Memory(rows.total_bytes());
            }
            binding.outputs[output] = {use.rows[s].get()};
        }
    }
}

void GrowingStates::append(const Program& program, const Binding& binding, const Use& use) const {
    for (std::size_t s = 0; s < use.lengths.size(); ++s) {
        const GrowingState& state = states_[s];
        if (state.rows < 0) {
            continue;
        }
        const auto output = static_cast<std::size_t>(state.rows);
        const Tensor rows = tensor_of(binding.outputs[output], program.outputs[output]);
        Tensor to = tensor_of(binding.inputs[state.input], program.inputs[state.input]);
        to.data += use.lengths[s] * to.strides[state.axis];
        to.sizes = rows.sizes;
        copy(to, rows);
    }
}

}  // namespace dmlgraph::cpu
