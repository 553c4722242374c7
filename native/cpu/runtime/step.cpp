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
