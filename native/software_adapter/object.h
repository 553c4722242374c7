// What every Direct3D 12 object has: reference count, interfaces, private data, a name, its device.
#pragma once

#include <atomic>
#include <new>
#include <utility>

#include "abi/d3d12.h"
#include "software_adapter/counters.h"
#include "software_adapter/device_state.h"
#include "software_adapter/not_implemented.h"
#include "software_adapter/private_data.h"

namespace dmlgraph::software {

// A COM object with the interface Interface and those it inherits (Parents, IUnknown). It is born with one
// reference, which belongs to whoever made it.
template <class Interface, class... Parents>
class Counted : public NotImplemented<Interface> {
public:
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

    HRESULT QueryInterface(const IID& riid, void** object) final {
        if (!object) {
            return E_POINTER;
        }
        const bool known = riid == Interface::iid || riid == IUnknown::iid || (... || (riid == Parents::iid));
        *object = known ? static_cast<Interface*>(this) : nullptr;
        if (known) {
            AddRef();
        }
        return known ? S_OK : E_NOINTERFACE;
    }
    uint32_t AddRef() final { return ++references_; }
    uint32_t Release() final {
        const uint32_t left = --references_;
        if (left == 0) {
            delete this;
        }
        return left;
    }

    // A reference to an object that is known by address alone; false where the last reference is gone
    // already.
    bool add_ref_if_alive() {
        uint32_t count = references_;
        while (count > 0 && !references_.compare_exchange_weak(count, count + 1)) {
        }
        return count > 0;
    }

protected:
    Counted() { ++counters.live_objects; }
    virtual ~Counted() { --counters.live_objects; }

private:
    std::atomic<uint32_t> references_{1};
};

// An object of Direct3D 12.
template <class Interface, class... Parents>
class Object : public Counted<Interface, ID3D12Object, Parents...> {
public:
    HRESULT GetPrivateData(const GUID& name, uint32_t* size, void* data) final {
        return private_data_.get(name, size, data);
    }
    HRESULT SetPrivateData(const GUID& name, uint32_t size, const void* data) final {
        return private_data_.set(name, size, data);
    }
    HRESULT SetPrivateDataInterface(const GUID& name, const void* data) final {
        return private_data_.set_interface(name, static_cast<IUnknown*>(const_cast<void*>(data)));
    }
    HRESULT SetName(const wchar_t* name) final { return private_data_.set_name(name); }

private:
    PrivateData private_data_;
};

// An object made by a device, which it keeps alive.
template <class Interface, class... Parents>
class DeviceChild : public Object<Interface, ID3D12DeviceChild, Parents...> {
public:
    HRESULT GetDevice(const IID& riid, void** device) final {
        return owner_.device->QueryInterface(riid, device);
    }

    DeviceState& device_state() const { return *owner_.state; }

protected:
    explicit DeviceChild(const DeviceOwner& owner) : owner_(owner) {}

private:
    DeviceOwner owner_;
};

// Makes a T and hands out its interface `riid`, the way every Create method ends: E_OUTOFMEMORY where memory
// is lacking, E_NOINTERFACE where T has no such interface, S_FALSE where the caller only asks whether it
// could be made.
template <class T, class... Arguments>
HRESULT create(const IID& riid, void** object, Arguments&&... arguments) {
    if (object) {
        *object = nullptr;
    }
    try {
        const auto made = ComPtr<T>::attach(new T(std::forward<Arguments>(arguments)...));
        return object ? made->QueryInterface(riid, object) : S_FALSE;
    } catch (const std::bad_alloc&) {
        return E_OUTOFMEMORY;
    }
}

}  // namespace dmlgraph::software
