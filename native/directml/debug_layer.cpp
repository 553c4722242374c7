#include "directml/debug_layer.h"

#include <mutex>
#include <optional>

#include "directml/error.h"

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

}  // namespace

bool decide_debug_layer(const Library& library, bool wanted) {
    static std::mutex mutex;
    static std::optional<bool> decided;
    const std::lock_guard lock(mutex);
    if (wanted && !decided) {
        find_layer(library)->EnableDebugLayer();
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
