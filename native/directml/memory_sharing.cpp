#include "directml/memory_sharing.h"

#include <array>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

#include "directml/executable.h"
#include "directml/host.h"
#include "directml/operator_desc.h"

namespace dmlgraph {
namespace {

using namespace abi;

// The DirectML of Windows 11 22H2. Older ones are not tried.
constexpr DML_FEATURE_LEVEL least_level = DML_FEATURE_LEVEL_5_0;

// Values of DML_TENSOR_DATA_TYPE and DML_OPERATOR_TYPE.
constexpr std::uint32_t float32 = 1;
constexpr std::uint32_t element_wise_identity = 1;

bool has_coherent_memory(ID3D12Device& device) {
    D3D12_FEATURE_DATA_ARCHITECTURE architecture{};
    const HRESULT code = device.CheckFeatureSupport(D3D12_FEATURE_ARCHITECTURE, &architecture, sizeof architecture);
    return succeeded(code) && architecture.UMA && architecture.CacheCoherentUMA;
}

// Compute-only devices and NPUs have only the levels 1_0.
bool has_full_level(ID3D12Device& device) {
    constexpr std::array levels{D3D_FEATURE_LEVEL_11_0};
    D3D12_FEATURE_DATA_FEATURE_LEVELS data{levels.size(), levels.data(), {}};
    return succeeded(device.CheckFeatureSupport(D3D12_FEATURE_FEATURE_LEVELS, &data, sizeof data)) &&
           data.MaxSupportedFeatureLevel >= D3D_FEATURE_LEVEL_11_0;
}

// ARM's caches are not coherent with every adapter.
bool may_work(Device& device) {
    return has_coherent_memory(device.d3d12()) && has_full_level(device.d3d12()) && !on_arm() &&
           device.feature_level() >= least_level;
}

// Copies 16 numbers from an input to an output that are both in shared memory.
bool identity_works(const std::shared_ptr<Device>& device) {
    constexpr std::uint32_t count = 16;
    using Numbers = std::array<float, count>;
    TensorDesc tensor;
    tensor.data_type = float32;
    tensor.sizes = {1, 1, 1, count};
    tensor.total_bytes = sizeof(Numbers);
    auto identity = std::make_shared<OperatorDesc>();
    identity->type = element_wise_identity;
    identity->fields = {{FieldKind::tensor, std::optional(tensor)},
                        {FieldKind::tensor, std::optional(tensor)},
                        {FieldKind::scale_bias, std::optional<ScaleBias>()}};
    GraphDesc graph;
    graph.name = "trial of shared memory";
    graph.inputs = {{"x", sizeof(Numbers), false}};
    graph.outputs = {{"y", sizeof(Numbers)}};
    graph.nodes = {OperatorNode{"identity", std::move(identity)}};
    graph.input_edges = {{0, 0, 0}};
    graph.output_edges = {{0, 0, 0}};

    Executable executable(device, std::move(graph), {.shared = true});
    const auto initialized = executable.initialize(std::vector<std::span<const std::byte>>(1));
    // Twice: a mapping that is not brought up to date would show the first result.
    for (const float start : {1.0f, 100.0f}) {
        Numbers x;
        std::iota(x.begin(), x.end(), start);
        Numbers y{};
        executable.run(initialized, {{{std::as_bytes(std::span(x))}}, {{std::as_writable_bytes(std::span(y))}}});
        if (x != y) {
            return false;
        }
    }
    return true;
}

}  // namespace

bool can_bind_shared_memory(const std::shared_ptr<Device>& device) {
    static std::mutex mutex;
    static auto& known = *new std::map<std::uint64_t, bool>;  // by the adapter's LUID
    const std::lock_guard lock(mutex);
    const auto [entry, is_new] = known.emplace(device->adapter().luid, false);
    if (is_new && may_work(*device)) {
        try {
            entry->second = identity_works(device);
        } catch (const Error&) {
            entry->second = false;  // refused
        }
    }
    return entry->second;
}

}  // namespace dmlgraph
