#include "harness.h"

#include <map>
#include <mutex>

namespace {

enum ResourceClass : uint32_t { srv, uav, cbv };
enum Shape : uint32_t { typed = 10, raw = 11, structured = 12, constants = 13 };

// All kernels write to u0 only, and read the rest.
SwResourceRange range(ResourceClass resource_class, uint32_t lower, Shape shape, uint32_t count = 1,
                      uint32_t stride = 0) {
    const uint32_t access = resource_class == uav && lower == 0 ? SW_READS | SW_WRITES : SW_READS;
    return {resource_class, access, 0, lower, count, shape, stride};
}

uint32_t* words(const SwView* view) {
    return reinterpret_cast<uint32_t*>(view->data);
}

// u0[group] += 1, and 16 bytes of group-shared memory are written, so that a shared block would be seen.
void count_groups(SwView** views, const uint32_t*, uint64_t first, uint64_t last, void* shared) {
    auto* scratch = static_cast<volatile uint64_t*>(shared);
    for (uint64_t i = first; i < last; ++i) {
        scratch[0] = i;
        scratch[1] = ~i;
        ++words(views[0])[i];
        if (scratch[0] != i || scratch[1] != ~i || reinterpret_cast<uintptr_t>(shared) % 64 != 0) {
            words(views[0])[i] = 0xbad;
        }
    }
}

// u0 = the views of all other ranges: size, stride, format, first word (0 where there is none).
void describe_views(SwView** views, const uint32_t*, uint64_t, uint64_t, void*) {
    uint32_t* out = words(views[0]);
    for (int i = 1; i <= 3; ++i) {
        const SwView& view = *views[i];
        *out++ = static_cast<uint32_t>(view.size);
        *out++ = view.stride;
        *out++ = view.format;
        *out++ = view.data && view.size >= 4 ? words(&view)[0] : 0;
    }
}

// u0[i] = t0 and the registers after it, one word each.
void gather_registers(SwView** views, const uint32_t*, uint64_t, uint64_t, void*) {
    for (int i = 0; i < 3; ++i) {
        words(views[0])[i] = words(views[1] + i)[0];
    }
}

// u0[i] = 2 * u0[i] for all its words.
void double_words(SwView** views, const uint32_t*, uint64_t, uint64_t, void*) {
    for (uint64_t i = 0; i < views[0]->size / 4; ++i) {
        words(views[0])[i] *= 2;
    }
}

struct Shader {
    std::vector<SwResourceRange> ranges;
    SwKernelFunction kernel;  // null: cannot be compiled
    uint64_t shared_bytes = 0;
};

const std::map<std::string, Shader> shaders = {
    {"count_groups", {{range(uav, 0, raw)}, count_groups, 16}},
    {"describe_views",
     {{range(uav, 0, raw), range(srv, 0, raw), range(uav, 1, structured, 1, 8), range(cbv, 0, constants)},
      describe_views}},
    {"typed_views",
     {{range(uav, 0, raw), range(srv, 0, typed), range(uav, 1, typed), range(cbv, 0, constants)},
      describe_views}},
    {"gather_registers", {{range(uav, 0, raw), range(srv, 4, raw, 3)}, gather_registers}},
    {"double_words", {{range(uav, 0, raw)}, double_words}},
    {"cannot_compile", {{range(uav, 0, raw)}, nullptr}},
};

const Shader* find_shader(const void* dxbc, uint64_t size) {
    const auto found = shaders.find(std::string(static_cast<const char*>(dxbc), size));
    return found == shaders.end() ? nullptr : &found->second;
}

int describe(const void* dxbc, uint64_t size, SwShaderInfo* info, char* error, uint64_t error_size) {
    const auto* shader = find_shader(dxbc, size);
    if (!shader) {
        std::snprintf(error, error_size, "unknown intrinsic dx.op.waveMystery");
        return 0;
    }
    *info = {{1, 1, 1}, static_cast<uint32_t>(shader->ranges.size()), shader->ranges.data()};
    return 1;
}

int compile(const void* dxbc, uint64_t size, const uint32_t* formats, SwKernel* kernel, char* error,
            uint64_t error_size) {
    const auto* shader = find_shader(dxbc, size);
    if (!shader->kernel) {
        std::snprintf(error, error_size, "this shader is too hard");
        return 0;
    }
    static std::mutex mutex;  // kernels are compiled on any thread
    const std::lock_guard lock(mutex);
    compiled_formats.emplace_back(formats, formats + shader->ranges.size());
    *kernel = {shader->kernel, shader->shared_bytes};
    return 1;
}

// Checks register themselves before main.
std::vector<Check>& checks() {
    static std::vector<Check> all;
    return all;
}

}  // namespace

std::vector<std::vector<uint32_t>> compiled_formats;

ComPtr<ID3D12Device5> create_device(D3D_FEATURE_LEVEL minimum) {
    sw_set_compiler(describe, compile);
    ComPtr<ID3D12Device5> device;
    CHECK_OK(D3D12CreateDevice(nullptr, minimum, ID3D12Device5::iid, device.put()));
    return device;
}

// For a process whose compiler is written in Python.
extern "C" __attribute__((visibility("default"))) SwKernelFunction native_kernel() {
    return count_groups;
}

extern "C" __attribute__((visibility("default"))) void count_with_registered_compiler() {
    ComPtr<ID3D12Device5> device;
    CHECK_OK(D3D12CreateDevice(nullptr, D3D_FEATURE_LEVEL_11_0, ID3D12Device5::iid, device.put()));
    Bench bench(device);
    OneBuffer one(bench, "count_groups", 64);
    one.dispatch(bench, 64);
    bench.execute();
    CHECK(bench.read<uint32_t>(one.buffer.get()) == std::vector<uint32_t>(64, 1));
}

Check::Check(const char* check_name, void (*function)(), const char* restrictions)
    : name(check_name), run(function), strict(restrictions) {
    checks().push_back(*this);
}

// Runs the check named by the argument; without one, lists them all.
int main(int argc, char** argv) {
    for (const auto& check : checks()) {
        if (argc < 2) {
            std::puts(check.name);
        } else if (std::string(argv[1]) == check.name) {
            setenv("DMLGRAPH_SOFTWARE_STRICT", check.strict, 1);
            check.run();
            // Whatever a check does, it leaves nothing behind.
            CHECK_EQUAL(sw_counter("live_objects"), 0);
            CHECK_EQUAL(sw_counter("live_bytes"), 0);
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}
