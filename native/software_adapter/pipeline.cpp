#include "software_adapter/pipeline.h"

#include <cxxabi.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "software_adapter/log.h"
#include "software_adapter/submission.h"

namespace dmlgraph::software {
namespace {

std::atomic<SwDescribe> describe_shader;
std::atomic<SwCompile> compile_shader;

// The DXIL resource kind that has a format.
constexpr uint32_t typed_buffer = 10;

// The compiler's error message, with its NUL.
using ErrorText = char[1024];

// Calls the compiler. Its language runtime may end a thread inside it with pthread_exit when the process exits. The
// caller's stack must not be unwound, since its objects may still be needed: the thread sleeps until the process ends.
[[noreturn]] void sleep_forever() {
    while (true) {
        std::this_thread::sleep_for(std::chrono::hours(1));
    }
}

#ifdef __GLIBCXX__
template <class Function>
int outlive(const Function& function) {
    try {
        return function();
    } catch (__cxxabiv1::__forced_unwind&) {
        sleep_forever();
    }
}
#else  // libc++ has no name for it; what the compiler is called through throws nothing else
template <class Function>
int outlive(const Function& function) {
    struct Guard {
        bool returned = false;
        ~Guard() {
            if (!returned) {
                sleep_forever();
            }
        }
    } guard;
    const int result = function();
    guard.returned = true;
    return result;
}
#endif

std::string register_name(const SwResourceRange& range) {
    constexpr char letters[] = "tubs";  // by resource class
    return letters[range.resource_class & 3] + std::to_string(range.lower) + ", space" + std::to_string(range.space);
}

}  // namespace

PipelineState::PipelineState(const DeviceOwner& owner, ComPtr<RootSignature> root_signature,
                             std::span<const std::byte> dxbc, const SwShaderInfo& info,
                             std::vector<RootBinding> bindings)
    : DeviceChild(owner),
      root_signature_(std::move(root_signature)),
      dxbc_(dxbc.begin(), dxbc.end()),
      info_(info),
      bindings_(std::move(bindings)) {
    ++counters.pipelines_compiled;
}

const SwKernel* PipelineState::kernel(SwView* const* views) {
    // Kept between calls, so that the common case does not allocate.
    static thread_local std::vector<uint32_t> formats;
    formats.clear();
    for (uint32_t i = 0; i < info_.range_count; ++i) {
        const bool typed = info_.ranges[i].shape == typed_buffer;
        // Nothing is read through an unbound view, so any format works.
        formats.push_back(!typed ? 0 : views[i]->format ? views[i]->format : uint32_t{DXGI_FORMAT_R32_UINT});
    }
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = kernels_.find(formats); found != kernels_.end()) {
            return &found->second;
        }
    }
    return compile(formats);
}

const SwKernel* PipelineState::compile(std::vector<uint32_t> formats) {
    // Without the lock: the compiler may take a lock that another thread holds while it waits for this one.
    // Two threads may compile the same kernel; the first result is kept.
    const auto compiler = compile_shader.load();
    SwKernel kernel{};
    ErrorText error = "no compiler is registered";
    const int result = !compiler ? 0 : outlive([&] {
        return compiler(dxbc_.data(), dxbc_.size(), formats.data(), &kernel, error, sizeof error);
    });
    if (result < 0) {
        Submission::current().give_up();
        return nullptr;
    }
    if (result == 0) {
        device_state().remove(DXGI_ERROR_DRIVER_INTERNAL_ERROR, std::string("compiling a kernel: ") + error);
        return nullptr;
    }
    const std::lock_guard lock(mutex_);
    const auto [entry, added] = kernels_.emplace(std::move(formats), kernel);
    counters.kernels_compiled += added;
    return &entry->second;
}

HRESULT create_compute_pipeline(const DeviceOwner& owner, const D3D12_COMPUTE_PIPELINE_STATE_DESC& desc,
                                const IID& riid, void** pipeline) {
    if (!desc.CS.pShaderBytecode || desc.CS.BytecodeLength == 0) {
        return E_INVALIDARG;
    }
    const std::span dxbc(static_cast<const std::byte*>(desc.CS.pShaderBytecode), desc.CS.BytecodeLength);

    const auto describe = describe_shader.load();
    SwShaderInfo info{};
    ErrorText error = "no compiler is registered";
    if (!describe || !outlive([&] { return describe(dxbc.data(), dxbc.size(), &info, error, sizeof error); })) {
        log(std::string("creating a pipeline: ") + error);
        return E_NOTIMPL;
    }

    ComPtr root_signature(static_cast<RootSignature*>(desc.pRootSignature));
    if (!root_signature) {  // then the shader has its own
        try {
            root_signature = ComPtr<RootSignature>::attach(new RootSignature(owner, parse(dxbc)));
        } catch (const RootSignatureError& fault) {
            log(std::string("creating a pipeline without root signature: ") + fault.what());
            return E_INVALIDARG;
        }
    }

    std::vector<RootBinding> bindings;
    for (const auto& range : std::span(info.ranges, info.range_count)) {
        const auto binding = root_signature->find(range);
        if (!binding) {
            log("creating a pipeline: the root signature has no " + register_name(range));
            return E_INVALIDARG;
        }
        bindings.push_back(*binding);
    }
    return create<PipelineState>(riid, pipeline, owner, std::move(root_signature), dxbc, info, std::move(bindings));
}

}  // namespace dmlgraph::software

void sw_set_compiler(SwDescribe describe, SwCompile compile) {
    dmlgraph::software::describe_shader = describe;
    dmlgraph::software::compile_shader = compile;
}
