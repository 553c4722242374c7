#include "software_adapter/counters.h"

#include <cstring>
#include <string_view>

#include "software_adapter/log.h"
#include "software_adapter/not_implemented.h"
#include "software_adapter/shader_abi.h"

namespace dmlgraph::software {

Counters counters;

namespace {

struct NamedCounter {
    const char* name;
    Counter& counter;
    bool resettable;
};

const NamedCounter named_counters[] = {
    {"dispatches", counters.dispatches, true},
    {"thread_groups", counters.thread_groups, true},
    {"submissions", counters.submissions, true},
    {"waits", counters.waits, true},
    {"command_lists", counters.command_lists, true},
    {"bytes_copied", counters.bytes_copied, true},
    {"bytes_cleared", counters.bytes_cleared, true},
    {"pipelines_compiled", counters.pipelines_compiled, true},
    {"kernels_compiled", counters.kernels_compiled, true},
    {"fallible_calls", counters.fallible_calls, true},
    {"not_implemented", counters.not_implemented, true},
    {"gpu_validation", counters.gpu_validation, true},
    {"live_objects", counters.live_objects, false},
    {"live_bytes", counters.live_bytes, false},
    {"device_bytes", counters.device_bytes, false},
};

}  // namespace

void note_not_implemented(const char* signature, bool first) {
    ++counters.not_implemented;
    if (first) {  // "virtual HRESULT dmlgraph::abi::ID3D12Device::CreateSampler(const void*, ...)"
        std::string_view name(signature);
        name = name.substr(0, name.find('('));
        name.remove_prefix(name.rfind(' ') + 1);
        constexpr std::string_view scope = "dmlgraph::abi::";
        name.remove_prefix(name.starts_with(scope) ? scope.size() : 0);
        log("not implemented: " + std::string(name));
    }
}

}  // namespace dmlgraph::software

using dmlgraph::software::named_counters;

uint64_t sw_counter(const char* name) {
    for (const auto& entry : named_counters) {
        if (name && std::strcmp(name, entry.name) == 0) {
            return entry.counter;
        }
    }
    return UINT64_MAX;
}

void sw_reset_counters() {
    for (const auto& entry : named_counters) {
        if (entry.resettable) {
            entry.counter = 0;
        }
    }
}
