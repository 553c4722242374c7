#include "directml/run_copies.h"

#include <string>

#include "directml/recording.h"

namespace dmlgraph {
namespace {

using namespace abi;

constexpr auto common = D3D12_RESOURCE_STATE_COMMON;
constexpr auto source = D3D12_RESOURCE_STATE_COPY_SOURCE;
constexpr auto target = D3D12_RESOURCE_STATE_COPY_DEST;
constexpr auto dispatched = D3D12_RESOURCE_STATE_UNORDERED_ACCESS;

void append_need(std::vector<BufferNeed>& needs, BufferKind kind, std::uint64_t bytes, const std::string& what) {
    if (bytes) {
        needs.push_back({kind, bytes, what});
    }
}

TensorMemory::Used mask_of(const std::vector<StepMemory::Placed>& placed, std::size_t count) {
    TensorMemory::Used mask(count);
    for (const StepMemory::Placed& each : placed) {
        mask[each.slot] = true;
    }
    return mask;
}

}  // namespace

StepMemory::StepMemory(const GraphDesc& graph, const Run& run, std::size_t steps) {
    std::uint64_t uploaded = 0;
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
        if (run.inputs[i].bytes.size() > graph.inputs[i].bytes) {
            inputs_.push_back({i, 0, uploaded, graph.inputs[i].bytes});
            uploaded += steps * graph.inputs[i].bytes;
        }
    }
    append_need(needs_, BufferKind::upload, uploaded, "inputs of every step");
    std::uint64_t read = 0;
    for (std::size_t i = 0; i < run.outputs.size(); ++i) {
        if (run.outputs[i].bytes.size() > graph.outputs[i].bytes) {
            outputs_.push_back({i, needs_.size(), read, graph.outputs[i].bytes});
            read += steps * graph.outputs[i].bytes;
        }
    }
    append_need(needs_, BufferKind::readback, read, "outputs of every step");
}

RunCopies::RunCopies(const GraphDesc& graph, const RunLayout& layout, const BufferPool::Lease& lease, const Run& run)
    : layout_(layout),
      lease_(lease),
      run_(run),
      uploaded_(graph.inputs.size()),
      returned_(graph.outputs.size()),
      rows_(graph.outputs.size()) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        uploaded_[i] = !graph.inputs[i].owned && !graph.inputs[i].resident && !run.inputs[i].resident;
    }
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
        returned_[i] = graph.outputs[i].target == Target::back && !run.outputs[i].resident;
        rows_[i] = graph.outputs[i].target == Target::rows;
    }
}

void RunCopies::begin(ID3D12GraphicsCommandList& list, const StepMemory* steps) const {
    for (const auto& buffer : lease_.buffers()) {
        activate(list, *buffer);
    }
    for (const RunOutput& output : run_.outputs) {
        if (output.resident) {
            activate(list, *output.resident->buffer());
        }
    }
    layout_.inputs.record_copies(list, lease_, uploaded_);
    Barriers barriers;
    if (layout_.inputs.is_staged()) {
        layout_.inputs.transition(barriers, lease_, uploaded_, target, dispatched);
    } else if (steps) {
        layout_.inputs.transition(barriers, lease_, mask_of(steps->inputs(), uploaded_.size()), common, dispatched);
    }
    move_states(barriers, common, dispatched);  // a dispatch does so only with states that it reads
    record_barriers(list, barriers);
}

void RunCopies::end(ID3D12GraphicsCommandList& list) const {
    if (layout_.outputs.is_staged()) {
        Barriers barriers;
        layout_.outputs.transition(barriers, lease_, returned_, dispatched, source);
        record_barriers(list, barriers);
        layout_.outputs.record_copies(list, lease_, returned_);
    }
}

void RunCopies::append(ID3D12GraphicsCommandList& list, std::size_t step) const {
    Barriers barriers;
    layout_.rows.transition(barriers, lease_, rows_, dispatched, source);
    move_states(barriers, dispatched, target);
    record_barriers(list, barriers);
    copy_rows(list, step);
}

void RunCopies::between(ID3D12GraphicsCommandList& list, const StepMemory& steps, const BufferPool::Lease& step_lease,
                        std::size_t step, std::size_t place, bool is_last) const {
    const auto wanted = mask_of(steps.outputs(), returned_.size());
    const auto changing = mask_of(steps.inputs(), uploaded_.size());
    const auto move = [&](D3D12_RESOURCE_STATES read_before, D3D12_RESOURCE_STATES read_after,
                          D3D12_RESOURCE_STATES written_before, D3D12_RESOURCE_STATES written_after) {
        Barriers barriers{after_dispatches()};
        layout_.rows.transition(barriers, lease_, rows_, read_before, read_after);
        layout_.outputs.transition(barriers, lease_, wanted, read_before, read_after);
        move_states(barriers, written_before, written_after);
        if (!is_last) {
            layout_.inputs.transition(barriers, lease_, changing, written_before, written_after);
        }
        record_barriers(list, barriers);
    };
    move(dispatched, source, dispatched, target);
    copy_rows(list, step);
    for (const StepMemory::Placed& each : steps.outputs()) {
        const DML_BUFFER_BINDING from = layout_.outputs.binding(lease_, each.slot);
        list.CopyBufferRegion(&step_lease[each.need].resource(), each.offset + place * each.bytes, from.Buffer,
                              from.Offset, each.bytes);
    }
    for (const StepMemory::Placed& each : steps.inputs()) {
        if (!is_last) {
            const DML_BUFFER_BINDING to = layout_.inputs.binding(lease_, each.slot);
            list.CopyBufferRegion(to.Buffer, to.Offset, &step_lease[each.need].resource(),
                                  each.offset + (place + 1) * each.bytes, each.bytes);
        }
    }
    move(source, dispatched, target, dispatched);
    if (is_last) {
        end(list);
    }
}

void RunCopies::copy_rows(ID3D12GraphicsCommandList& list, std::size_t step) const {
    for (const Append& append : run_.appends) {
        const DML_BUFFER_BINDING from = layout_.rows.binding(lease_, append.output);
        const auto state = append.state->buffer();
        const std::uint64_t bytes = append.rows * append.row_bytes;
        const std::uint64_t begin = (append.begin + step * append.rows) * append.row_bytes;
        for (std::uint64_t block = 0; block < append.blocks; ++block) {
            list.CopyBufferRegion(&state->resource(), block * append.capacity * append.row_bytes + begin, from.Buffer,
                                  from.Offset + block * bytes, bytes);
        }
    }
}

void RunCopies::move_states(Barriers& barriers, D3D12_RESOURCE_STATES before, D3D12_RESOURCE_STATES after) const {
    for (const Append& append : run_.appends) {
        barriers.push_back(transition(*append.state->buffer(), before, after));
    }
}

}  // namespace dmlgraph
