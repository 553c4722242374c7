// A DirectML that is too old, for the tests of the loader. It knows devices and their feature level, nothing
// else. OLDEST: without DMLCreateDevice1. WITH_GRAPHS: with IDMLDevice1, at feature level 5.0, which takes any operator
// and tells with which flags a graph is compiled.
#include <cstdio>

#include "abi/d3d12.h"
#include "abi/directml.h"

using namespace dmlgraph::abi;

namespace {

#ifdef WITH_GRAPHS
constexpr IID device_iid = IDMLDevice1::iid;
constexpr DML_FEATURE_LEVEL level = DML_FEATURE_LEVEL_5_0;
#else
constexpr IID device_iid = IDMLDevice::iid;
constexpr DML_FEATURE_LEVEL level = DML_FEATURE_LEVEL_2_0;
#endif

// Lives as long as the process, so references need no counting.
template <class Interface>
struct Object : Interface {
    HRESULT QueryInterface(const IID& riid, void** object) override {
        *object = riid == device_iid ? this : nullptr;
        return *object ? S_OK : E_NOINTERFACE;
    }
    uint32_t AddRef() override { return 1; }
    uint32_t Release() override { return 1; }
    HRESULT GetPrivateData(const GUID&, uint32_t*, void*) override { return E_NOTIMPL; }
    HRESULT SetPrivateData(const GUID&, uint32_t, const void*) override { return E_NOTIMPL; }
    HRESULT SetPrivateDataInterface(const GUID&, IUnknown*) override { return E_NOTIMPL; }
    HRESULT SetName(const wchar_t*) override { return E_NOTIMPL; }
};

struct Recorder final : Object<IDMLCommandRecorder> {
    HRESULT GetDevice(const IID&, void**) override { return E_NOTIMPL; }
    void RecordDispatch(ID3D12CommandList*, IDMLDispatchable*, IDMLBindingTable*) override {}
};

struct Operator final : Object<IDMLOperator> {
    HRESULT GetDevice(const IID&, void**) override { return E_NOTIMPL; }
};

struct Device final : Object<IDMLDevice1> {
    HRESULT CheckFeatureSupport(DML_FEATURE feature, uint32_t, const void*, uint32_t,
                                void* support) override {
        if (feature == DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT) {
            static_cast<DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT*>(support)->IsSupported = 1;
            return S_OK;
        }
        if (feature != DML_FEATURE_FEATURE_LEVELS) {
            return DXGI_ERROR_UNSUPPORTED;
        }
        static_cast<DML_FEATURE_DATA_FEATURE_LEVELS*>(support)->MaxSupportedFeatureLevel = level;
        return S_OK;
    }
    HRESULT CreateOperator(const DML_OPERATOR_DESC*, const IID&, void** op) override {
        static Operator any;
        *op = static_cast<IDMLOperator*>(&any);
        return S_OK;
    }
    HRESULT CompileOperator(IDMLOperator*, DML_EXECUTION_FLAGS, const IID&, void**) override {
        return E_NOTIMPL;
    }
    HRESULT CreateOperatorInitializer(uint32_t, IDMLCompiledOperator* const*, const IID&, void**) override {
        return E_NOTIMPL;
    }
    HRESULT CreateCommandRecorder(const IID&, void** recorder) override {
        static Recorder the_recorder;
        *recorder = static_cast<IDMLCommandRecorder*>(&the_recorder);
        return S_OK;
    }
    HRESULT CreateBindingTable(const DML_BINDING_TABLE_DESC*, const IID&, void**) override {
        return E_NOTIMPL;
    }
    HRESULT Evict(uint32_t, IDMLPageable* const*) override { return E_NOTIMPL; }
    HRESULT MakeResident(uint32_t, IDMLPageable* const*) override { return E_NOTIMPL; }
    HRESULT GetDeviceRemovedReason() override { return S_OK; }
    HRESULT GetParentDevice(const IID&, void**) override { return E_NOTIMPL; }
    HRESULT CompileGraph(const DML_GRAPH_DESC*, DML_EXECUTION_FLAGS flags, const IID&, void**) override {
        std::printf("flags %u\n", static_cast<unsigned>(flags));
        std::fflush(stdout);
        return E_NOTIMPL;
    }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) HRESULT DMLCreateDevice(ID3D12Device*,
                                                                          DML_CREATE_DEVICE_FLAGS, const IID&,
                                                                          void** device) {
    static Device the_device;
    *device = static_cast<IDMLDevice*>(&the_device);
    return S_OK;
}

#ifndef OLDEST
extern "C" __attribute__((visibility("default"))) HRESULT DMLCreateDevice1(ID3D12Device* parent,
                                                                           DML_CREATE_DEVICE_FLAGS flags,
                                                                           DML_FEATURE_LEVEL, const IID& riid,
                                                                           void** device) {
    return DMLCreateDevice(parent, flags, riid, device);
}
#endif
