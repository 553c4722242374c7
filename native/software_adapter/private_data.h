// Data and interfaces that callers attach to an object under a GUID.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "abi/base.h"

namespace dmlgraph::software {

using namespace abi;

class PrivateData {
public:
    // If data is null, only the size is written. *size is the capacity of `data` in bytes and becomes the size of
    // the data.
    HRESULT get(const GUID& name, uint32_t* size, void* data) const;
    // Null data removes the entry.
    HRESULT set(const GUID& name, uint32_t size, const void* data);
    HRESULT set_interface(const GUID& name, IUnknown* object);
    // Stored under the GUID that debuggers read names from.
    HRESULT set_name(const wchar_t* name);

private:
    struct Entry {
        GUID name;
        std::vector<std::byte> bytes;
        ComPtr<IUnknown> object;
    };

    HRESULT replace(const GUID& name, Entry* entry);

    mutable std::mutex mutex_;
    std::vector<Entry> entries_;
};

}  // namespace dmlgraph::software
