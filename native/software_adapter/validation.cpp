#include "software_adapter/validation.h"

#include <algorithm>
#include <ranges>

namespace dmlgraph::software {

void Validation::add(const LiveRef& buffer) {
    const std::lock_guard lock(mutex_);
    buffers_[buffer->number()] = buffer;
}

void Validation::forget(const LiveObject& buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.erase(buffer.number());
}

LiveRef Validation::find(uint64_t number) const {
    const std::lock_guard lock(mutex_);
    const auto found = buffers_.find(number);
    return found == buffers_.end() ? nullptr : found->second;
}

LiveRef Validation::find_at(uint64_t address) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, buffer] : buffers_ | std::views::reverse) {
        if (buffer->buffer.begin <= address && address < buffer->buffer.end) {
            return buffer;
        }
    }
    return nullptr;
}

}  // namespace dmlgraph::software
