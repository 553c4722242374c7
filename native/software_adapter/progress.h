// What a device notes for the case that it is removed (DRED): the operations of the lists that have not ended.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "abi/d3d12.h"
#include "software_adapter/commands.h"

namespace dmlgraph::software {

using namespace abi;

// Whether devices that are made from now on note their progress.
bool notes_progress();
void set_notes_progress(bool on);

class Progress {
public:
    struct Entry {
        std::wstring list;
        std::wstring queue;
        std::vector<D3D12_AUTO_BREADCRUMB_OP> operations;
        uint32_t done = 0;
    };

    // Null if the device does not note anything. The entry is valid until end().
    Entry* begin(std::wstring list, std::wstring queue, const Commands& commands);
    void end(Entry* entry);

    // The output is valid until the next call.
    HRESULT output(D3D12_DRED_AUTO_BREADCRUMBS_OUTPUT* output);

private:
    const bool on_ = notes_progress();
    std::mutex mutex_;
    std::list<Entry> entries_;
    std::list<D3D12_AUTO_BREADCRUMB_NODE> nodes_;
};

}  // namespace dmlgraph::software
