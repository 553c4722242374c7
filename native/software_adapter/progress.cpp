#include "software_adapter/progress.h"

#include <atomic>
#include <utility>

namespace dmlgraph::software {
namespace {

std::atomic<bool> on{false};

D3D12_AUTO_BREADCRUMB_OP operation(const DispatchCommand&) { return D3D12_AUTO_BREADCRUMB_OP_DISPATCH; }
D3D12_AUTO_BREADCRUMB_OP operation(const CopyCommand&) { return D3D12_AUTO_BREADCRUMB_OP_COPYBUFFERREGION; }
D3D12_AUTO_BREADCRUMB_OP operation(const FillCommand&) { return D3D12_AUTO_BREADCRUMB_OP_CLEARUNORDEREDACCESSVIEW; }
D3D12_AUTO_BREADCRUMB_OP operation(const TimestampCommand&) { return D3D12_AUTO_BREADCRUMB_OP_RESOLVEQUERYDATA; }
D3D12_AUTO_BREADCRUMB_OP operation(const EventCommand& command) {
    return command.begins ? D3D12_AUTO_BREADCRUMB_OP_BEGINEVENT : D3D12_AUTO_BREADCRUMB_OP_ENDEVENT;
}

}  // namespace

bool notes_progress() { return on; }

void set_notes_progress(bool enabled) { on = enabled; }

Progress::Entry* Progress::begin(std::wstring list, std::wstring queue, const Commands& commands) {
    if (!on_) {
        return nullptr;
    }
    Entry entry{std::move(list), std::move(queue), {}};
    for (const Command& command : commands) {
        entry.operations.push_back(std::visit([](const auto& each) { return operation(each); }, command));
    }
    const std::lock_guard lock(mutex_);
    return &entries_.emplace_back(std::move(entry));
}

void Progress::end(Entry* entry) {
    const std::lock_guard lock(mutex_);
    entries_.remove_if([&](const Entry& each) { return &each == entry; });
}

HRESULT Progress::output(D3D12_DRED_AUTO_BREADCRUMBS_OUTPUT* output) {
    if (!output) {
        return E_INVALIDARG;
    }
    if (!on_) {
        return DXGI_ERROR_NOT_FOUND;
    }
    const std::lock_guard lock(mutex_);
    nodes_.clear();
    const D3D12_AUTO_BREADCRUMB_NODE* next = nullptr;
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
        next = &nodes_.emplace_back(D3D12_AUTO_BREADCRUMB_NODE{
            nullptr, entry->list.c_str(), nullptr, entry->queue.c_str(), nullptr, nullptr,
            static_cast<uint32_t>(entry->operations.size()), &entry->done, entry->operations.data(), next});
    }
    output->pHeadAutoBreadcrumbNode = next;
    return S_OK;
}

}  // namespace dmlgraph::software
