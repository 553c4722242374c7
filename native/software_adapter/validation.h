// What a device keeps to check its use: the buffers that views refer to.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "software_adapter/live_objects.h"

namespace dmlgraph::software {

class Validation {
public:
    void add(const LiveRef& buffer);
    void forget(const LiveObject& buffer);

    // The buffer with this number, or the last one made of those that contain an address; null if there is none.
    LiveRef find(uint64_t number) const;
    LiveRef find_at(uint64_t address) const;

private:
    mutable std::mutex mutex_;
    std::map<uint64_t, LiveRef> buffers_;  // by number
};

}  // namespace dmlgraph::software
