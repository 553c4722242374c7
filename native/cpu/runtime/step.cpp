#include "cpu/runtime/step.h"

#include <algorithm>

namespace dmlgraph::cpu {
namespace {

// In bytes. Handing work to an awake thread takes half a microsecond, waking a thread about ten.
constexpr double worth_sharing = 256 << 10;
constexpr double worth_waking = 2 << 20;
// As much work as may begin before a worker is asked whether the run is cancelled: some milliseconds.
constexpr double worth_asking = 32 << 20;

}  // namespace

Tensor RunContext::tensor(const View& view) const {
    Tensor tensor{bases[view.buffer], view.type, view.rank, view.sizes, view.strides};
    const Sizes* const strides = any_custom ? custom[view.buffer] : nullptr;
    if (strides == nullptr) {
        tensor.data += view.offset;
        return tensor;
    }
    for (int a = 0; a < max_rank; ++a) {
        tensor.data += view.map.origin[a] * (*strides)[a];
    }
    for (int d = 0; d < view.rank; ++d) {
        tensor.strides[d] = view.map.axis[d] < 0 ? 0 : view.map.step[d] * (*strides)[view.map.axis[d]];
    }
    return tensor;
}

std::optional<int> dimension_of_rows(const View& view, const GrowingTensor& tensor) {
    if (view.buffer != tensor.buffer || view.offset != 0 || view.type != tensor.desc.type) {
        return std::nullopt;
    }
    auto row = static_cast<std::int64_t>(item_size(view.type));  // bytes
    for (int d = tensor.axis + 1; d < tensor.desc.rank; ++d) {
        row *= tensor.desc.sizes[d];
    }
    const std::int64_t count = tensor.desc.sizes[tensor.axis];
    std::optional<int> found;
    std::int64_t within = 0;  // the reach of the other dimensions, which must stay in a row
    for (int d = 0; d < view.rank; ++d) {
        if (view.sizes[d] == 1 || view.strides[d] % (row * count) == 0) {  // from one group of rows to the next
            continue;
        }
        if (!found && view.strides[d] == row && view.sizes[d] == count) {
            found = d;
        } else if (view.strides[d] > 0) {
            within += (view.sizes[d] - 1) * view.strides[d];
        } else {
            return std::nullopt;
        }
    }
    return within < row ? found : std::nullopt;
}

std::int64_t RunContext::written(const std::vector<BufferId>& inputs, std::int64_t all) const {
    std::int64_t most = rows == nullptr || inputs.empty() ? all : 0;
    for (const BufferId input : inputs) {
        most = std::max(most, rows == nullptr ? all : rows[input]);
    }
    return std::min(most, all);
}

int RunContext::workers_for(double cost) const { return cost < worth_sharing ? 1 : workers; }

void RunContext::parallel(std::int64_t count, double cost, ParallelTask task) {
    if (cost < worth_sharing) {  // it ends too soon to be stopped
        run_parallel(count, 1, task);
    } else {
        const auto most = static_cast<std::int64_t>(std::max(1.0, static_cast<double>(count) * worth_asking / cost));
        run_parallel(count, workers, task, cost >= worth_waking, &cancelled_, most);
    }
}

}  // namespace dmlgraph::cpu
