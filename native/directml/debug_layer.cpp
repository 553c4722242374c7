#include "directml/debug_layer.h"

#include <mutex>
#include <optional>

#include "directml/error.h"
#include "directml/removal.h"

namespace dmlgraph {
namespace {

using namespace abi;

ComPtr<ID3D12Debug> find_layer(const Library& library) {
    ComPtr<ID3D12Debug> layer;
    if (!library.d3d12_get_debug_interface ||
        failed(library.d3d12_get_debug_interface(ID3D12Debug::iid, layer.put()))) {
        throw Error(ErrorKind::debug_layer,
                    "Direct3D 12 has no debug layer here; on Windows install the optional feature "
                    "\"Graphics Tools\", on other systems do not use debug");
    }
    return layer;
}

void enable_gpu_validation(ID3D12Debug& layer) {
    const auto more = ComPtr<ID3D12Debug>(&layer).as<ID3D12Debug1>();
    if (!more) {
        throw Error(ErrorKind::debug_layer,
                    "this system's debug layer does not check what shaders do; set DMLGRAPH_DEBUG=1 instead of gpu");
    }
    more->SetEnableGPUBasedValidation(1);
}

}  // namespace

bool decide_debug_layer(const Library& library, bool wanted, bool gpu_validation) {
    static std::mutex mutex;
    static std::optional<bool> decided;
    const std::lock_guard lock(mutex);
    if (wanted && !decided) {
        const auto layer = find_layer(library);
        layer->EnableDebugLayer();
        if (gpu_validation) {
            enable_gpu_validation(*layer);
        }
        note_progress(library);
    }
    if (!decided) {
        decided = wanted;
    }
    if (wanted && !*decided) {
        find_layer(library);
        throw Error(ErrorKind::debug_layer,
                    "this process already uses Direct3D 12 without the debug layer, and switching it on now would "
                    "remove all its devices; set DMLGRAPH_DEBUG=1 before the process starts, or compile the first "
                    "graph with debug");
    }
    return *decided;
}

}  // namespace dmlgraph
