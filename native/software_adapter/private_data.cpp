#include "software_adapter/private_data.h"

#include <algorithm>
#include <cstring>
#include <cwchar>

namespace dmlgraph::software {
namespace {

constexpr GUID debug_object_name = guid("4cca5fd8-921f-42c8-8566-70caf2a9b741");

}  // namespace

HRESULT PrivateData::get(const GUID& name, uint32_t* size, void* data) const {
    if (!size) {
        return E_INVALIDARG;
    }
    const std::lock_guard lock(mutex_);
    const auto entry = std::ranges::find(entries_, name, &Entry::name);
    if (entry == entries_.end()) {
        *size = 0;
        return DXGI_ERROR_NOT_FOUND;
    }
    const auto needed = entry->object ? sizeof(IUnknown*) : entry->bytes.size();
    const auto room = std::exchange(*size, static_cast<uint32_t>(needed));
    if (!data) {
        return S_OK;
    }
    if (room < needed) {
        return DXGI_ERROR_MORE_DATA;
    }
    if (entry->object) {
        *static_cast<IUnknown**>(data) = ComPtr(entry->object).detach();
    } else if (needed > 0) {
        std::memcpy(data, entry->bytes.data(), needed);
    }
    return S_OK;
}

HRESULT PrivateData::set(const GUID& name, uint32_t size, const void* data) {
    if (!data) {
        return replace(name, nullptr);
    }
    const auto* bytes = static_cast<const std::byte*>(data);
    Entry entry{name, {bytes, bytes + size}, nullptr};
    return replace(name, &entry);
}

HRESULT PrivateData::set_interface(const GUID& name, IUnknown* object) {
    if (!object) {
        return replace(name, nullptr);
    }
    Entry entry{name, {}, ComPtr(object)};
    return replace(name, &entry);
}

HRESULT PrivateData::set_name(const wchar_t* name) {
    const auto length = name ? std::wcslen(name) : 0;
    return set(debug_object_name, static_cast<uint32_t>(length * sizeof(wchar_t)), name);
}

HRESULT PrivateData::replace(const GUID& name, Entry* entry) {
    Entry old;  // released after the lock, because releasing it may call back
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(entries_, name, &Entry::name);
    if (found != entries_.end()) {
        old = std::move(*found);
        entries_.erase(found);
    } else if (!entry) {
        return S_FALSE;
    }
    if (entry) {
        entries_.push_back(std::move(*entry));
    }
    return S_OK;
}

}  // namespace dmlgraph::software
