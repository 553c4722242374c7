// The common part of Direct3D 12 objects: reference count, interfaces, private data, name, device.
#pragma once

#include <atomic>
#include <new>
#include <utility>

#include "abi/d3d12.h"
#include "software_adapter/counters.h"
#include "software_adapter/device_state.h"
#include "software_adapter/live_objects.h"
#include "software_adapter/private_data.h"

namespace dmlgraph::software {

// A COM object with the interface Interface and those it inherits (Parents, IUnknown). It starts with one
// reference, which its creator owns.
template <class Interface, class... Parents>
class Counted : public Interface {
public:
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

    HRESULT QueryInterface(const IID& riid, void** object) final {
        if (!object) {
            return E_POINTER;
        }
        const bool known = riid == Interface::iid || riid == IUnknown::iid || (... || (riid == Parents::iid));
        *object = known ? static_cast<Interface*>(this) : find_interface(riid);
        if (*object) {
            AddRef();
        }
        return *object ? S_OK : E_NOINTERFACE;
    }
    uint32_t AddRef() final { return ++references_; }
    uint32_t Release() final {
        const uint32_t left = --references_;
        if (left == 0) {
            before_end();
            delete this;
        }
        return left;
    }

    // Adds a reference to an object that is known only by its address; false if the last reference has already
    // been released.
    bool add_ref_if_alive() {
        uint32_t count = references_;
        while (count > 0 && !references_.compare_exchange_weak(count, count + 1)) {
        }
        return count > 0;
    }

protected:
    Counted() { ++counters.live_objects; }
    virtual ~Counted() { --counters.live_objects; }

    // Called with the last reference.
    virtual void before_end() {}

    // An interface that another class implements, with the references of this object; null if there is none.
    virtual void* find_interface(const IID&) { return nullptr; }

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
    HRESULT SetName(const wchar_t* name) final {
        live()->set_name(name);
        return private_data_.set_name(name);
    }

    const LiveRef& live() const { return entry_.object(); }

private:
    PrivateData private_data_;
    LiveEntry entry_{interface_name<Interface>()};
};

// An object made by a device; it keeps the device alive.
template <class Interface, class... Parents>
class DeviceChild : public Object<Interface, ID3D12DeviceChild, Parents...> {
public:
    HRESULT GetDevice(const IID& riid, void** device) final { return owner_.device->QueryInterface(riid, device); }

    DeviceState& device_state() const { return *owner_.state; }

protected:
    explicit DeviceChild(const DeviceOwner& owner) : owner_(owner) {}

    const DeviceOwner& owner() const { return owner_; }

    void before_end() override {
        if (!device_state().removed() && this->live()->is_in_flight()) {
            device_state().remove(DXGI_ERROR_INVALID_CALL, this->live()->describe() +
                                                               " is released while submitted work may still use it; " +
                                                               "no fence was waited for");
        }
    }

private:
    DeviceOwner owner_;
};

// Makes a T and returns its interface `riid`, as every Create method does at its end: E_OUTOFMEMORY if there is
// not enough memory, E_NOINTERFACE if T does not have the interface, S_FALSE if the caller only asks whether
// the object could be made.
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
