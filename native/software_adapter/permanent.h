// COM objects that are never destroyed: references are counted only for the results of AddRef and Release.
#pragma once

#include <atomic>

#include "abi/base.h"

namespace dmlgraph::software {

// Parents: older interfaces whose methods are the first ones of Interface.
template <class Interface, class... Parents>
class Permanent : public Interface {
public:
    abi::HRESULT QueryInterface(const abi::IID& riid, void** object) final {
        if (!object) {
            return abi::E_POINTER;
        }
        const bool known = riid == Interface::iid || riid == abi::IUnknown::iid || (... || (riid == Parents::iid));
        *object = known ? static_cast<Interface*>(this) : nullptr;
        if (known) {
            AddRef();
        }
        return known ? abi::S_OK : abi::E_NOINTERFACE;
    }
    uint32_t AddRef() final { return ++references_; }
    uint32_t Release() final { return --references_; }

private:
    std::atomic<uint32_t> references_{1};
};

}  // namespace dmlgraph::software
