#include "directml/removal.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "directml/names.h"

namespace dmlgraph {
namespace {

using namespace abi;

constexpr std::size_t most_lists = 8;
constexpr std::size_t most_buffers = 8;

constexpr std::array<std::pair<D3D12_AUTO_BREADCRUMB_OP, const char*>, 10> operation_names{{
    {D3D12_AUTO_BREADCRUMB_OP_SETMARKER, "SETMARKER"},
    {D3D12_AUTO_BREADCRUMB_OP_BEGINEVENT, "BEGINEVENT"},
    {D3D12_AUTO_BREADCRUMB_OP_ENDEVENT, "ENDEVENT"},
    {D3D12_AUTO_BREADCRUMB_OP_EXECUTEINDIRECT, "EXECUTEINDIRECT"},
    {D3D12_AUTO_BREADCRUMB_OP_DISPATCH, "DISPATCH"},
    {D3D12_AUTO_BREADCRUMB_OP_COPYBUFFERREGION, "COPYBUFFERREGION"},
    {D3D12_AUTO_BREADCRUMB_OP_COPYRESOURCE, "COPYRESOURCE"},
    {D3D12_AUTO_BREADCRUMB_OP_CLEARUNORDEREDACCESSVIEW, "CLEARUNORDEREDACCESSVIEW"},
    {D3D12_AUTO_BREADCRUMB_OP_RESOURCEBARRIER, "RESOURCEBARRIER"},
    {D3D12_AUTO_BREADCRUMB_OP_RESOLVEQUERYDATA, "RESOLVEQUERYDATA"},
}};

std::string operation_name(D3D12_AUTO_BREADCRUMB_OP operation) {
    const auto* known = std::ranges::find(operation_names, operation, [](const auto& entry) { return entry.first; });
    return known == operation_names.end() ? "operation of type " + std::to_string(operation) : known->second;
}

// An object has its name in one of two encodings, or none.
std::string object_name(const char* text, const wchar_t* wide_text) {
    if (wide_text) {
        return narrow(wide_text);
    }
    return text ? text : "without a name";
}

// Empty for a list that has ended.
std::string describe(const D3D12_AUTO_BREADCRUMB_NODE& node) {
    const std::uint32_t done = node.pLastBreadcrumbValue ? *node.pLastBreadcrumbValue : 0;
    if (done >= node.BreadcrumbCount) {
        return {};
    }
    std::string text = "the command list '" + object_name(node.pCommandListDebugNameA, node.pCommandListDebugNameW) +
                       "' has done " + std::to_string(done) + " of " + std::to_string(node.BreadcrumbCount) +
                       " operations";
    if (node.pCommandHistory) {
        text += "; the next one is " + operation_name(node.pCommandHistory[done]);
    }
    return text;
}

void append_buffers(const D3D12_DRED_ALLOCATION_NODE* node, const std::string& what, std::vector<std::string>& lines) {
    for (std::size_t count = 0; node && count < most_buffers; node = node->pNext, ++count) {
        lines.push_back("  " + what + ": '" + object_name(node->ObjectNameA, node->ObjectNameW) + "'");
    }
}

}  // namespace

void note_progress(const Library& library) {
    ComPtr<ID3D12DeviceRemovedExtendedDataSettings> settings;
    if (library.d3d12_get_debug_interface &&
        succeeded(library.d3d12_get_debug_interface(ID3D12DeviceRemovedExtendedDataSettings::iid, settings.put()))) {
        settings->SetAutoBreadcrumbsEnablement(D3D12_DRED_ENABLEMENT_FORCED_ON);
        settings->SetPageFaultEnablement(D3D12_DRED_ENABLEMENT_FORCED_ON);
    }
}

std::vector<std::string> describe_progress(ID3D12Device& device) {
    std::vector<std::string> lines;
    const auto data = ComPtr<ID3D12Device>(&device).as<ID3D12DeviceRemovedExtendedData>();
    D3D12_DRED_AUTO_BREADCRUMBS_OUTPUT progress{};
    if (data && succeeded(data->GetAutoBreadcrumbsOutput(&progress))) {
        for (const auto* node = progress.pHeadAutoBreadcrumbNode; node && lines.size() < most_lists;
             node = node->pNext) {
            if (std::string line = describe(*node); !line.empty()) {
                lines.push_back(std::move(line));
            }
        }
    }
    D3D12_DRED_PAGE_FAULT_OUTPUT fault{};
    if (data && succeeded(data->GetPageFaultAllocationOutput(&fault)) && fault.PageFaultVA) {
        std::array<char, 24> address;
        std::snprintf(address.data(), address.size(), "0x%llX", static_cast<unsigned long long>(fault.PageFaultVA));
        lines.push_back(std::string("the adapter used the address ") + address.data() + ", where nothing is");
        append_buffers(fault.pHeadExistingAllocationNode, "near it", lines);
        append_buffers(fault.pHeadRecentFreedAllocationNode, "freed before", lines);
    }
    return lines;
}

}  // namespace dmlgraph
