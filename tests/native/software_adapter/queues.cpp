#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "harness.h"

static HANDLE as_event(int descriptor) {
    return reinterpret_cast<HANDLE>(static_cast<intptr_t>(descriptor));
}

// Whether the event is set, without waiting.
static bool is_set(int descriptor) {
    pollfd event{descriptor, POLLIN, 0};
    return poll(&event, 1, 0) == 1;
}

ADAPTER_CHECK(fences) {
    Bench bench;
    const int event = eventfd(0, EFD_CLOEXEC);
    const int later = eventfd(0, EFD_CLOEXEC);
    CHECK_EQUAL(bench.fence->GetCompletedValue(), 0);
    CHECK_OK(bench.fence->SetEventOnCompletion(3, as_event(event)));
    CHECK_OK(bench.fence->SetEventOnCompletion(10, as_event(later)));
    CHECK_OK(bench.queue->Signal(bench.fence.get(), 2));
    CHECK(!is_set(event));
    CHECK_OK(bench.fence->Signal(4));
    CHECK(is_set(event) && !is_set(later));
    CHECK_EQUAL(bench.fence->GetCompletedValue(), 4);
    const int reached = eventfd(0, EFD_CLOEXEC);
    CHECK_OK(bench.fence->SetEventOnCompletion(4, as_event(reached)));
    CHECK(is_set(reached));

    std::atomic<bool> woken = false;
    std::thread waiter([&] {
        CHECK_OK(bench.fence->SetEventOnCompletion(9, nullptr));
        woken = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(!woken);
    CHECK_OK(bench.fence->Signal(9));
    waiter.join();
    CHECK(!is_set(later));
    for (const int descriptor : {event, later, reached}) {
        close(descriptor);
    }
}

// A queue that waits for a fence holds nobody up; whoever signals it continues the work, in order.
ADAPTER_CHECK(queue_waits) {
    Bench bench;
    OneBuffer one(bench, "double_words", 1);
    auto value = bench.upload(std::vector<uint32_t>{1});
    bench.write_uav(one.heap.get(), 0, value.get(), DXGI_FORMAT_R32_TYPELESS, 0, 1);
    ComPtr<ID3D12Fence> gate;
    CHECK_OK(bench.device->CreateFence(0, D3D12_FENCE_FLAG_NONE, ID3D12Fence::iid, gate.put()));
    const uint64_t before = bench.fence_value;
    one.dispatch(bench, 1);
    CHECK_OK(bench.list->Close());
    bench.submit();
    CHECK_OK(bench.queue->Wait(gate.get(), 1));
    bench.submit();
    CHECK_OK(bench.queue->Signal(bench.fence.get(), ++bench.fence_value));
    CHECK_OK(bench.queue->Wait(gate.get(), 2));
    bench.submit();
    CHECK_OK(bench.queue->Signal(bench.fence.get(), ++bench.fence_value));
    bench.reset();  // what was submitted stays

    auto now = [&] { return *reinterpret_cast<uint32_t*>(value->GetGPUVirtualAddress()); };
    CHECK_EQUAL(now(), 2);
    CHECK_EQUAL(bench.fence->GetCompletedValue(), before);
    CHECK_OK(gate->Signal(1));
    CHECK_EQUAL(now(), 4);
    CHECK_EQUAL(bench.fence->GetCompletedValue(), before + 1);
    CHECK_OK(gate->Signal(2));
    CHECK_EQUAL(now(), 8);
    CHECK_EQUAL(bench.fence->GetCompletedValue(), before + 2);
    CHECK_OK(bench.queue->Wait(gate.get(), 2));  // reached long ago
    bench.wait();
}

// Work that waits for ever keeps its queue, until the device is lost.
ADAPTER_CHECK(abandoned_wait) {
    {
        Bench bench;
        OneBuffer one(bench, "double_words", 1);
        one.dispatch(bench, 1);
        CHECK_OK(bench.list->Close());
        CHECK_OK(bench.queue->Wait(bench.fence.get(), 1000));
        bench.submit();
    }
    CHECK_EQUAL(sw_counter("live_objects"), 3);  // the queue, the fence, the device
    sw_remove_device();
    CHECK_EQUAL(sw_counter("live_objects"), 0);
}

// Two queues that wait for each other in turn, fed from two threads.
ADAPTER_CHECK(queues_in_turn) {
    Bench bench;
    ComPtr<ID3D12CommandQueue> other;
    const D3D12_COMMAND_QUEUE_DESC desc{D3D12_COMMAND_LIST_TYPE_COMPUTE, 0, {}, 0};
    CHECK_OK(bench.device->CreateCommandQueue(&desc, ID3D12CommandQueue::iid, other.put()));
    constexpr uint64_t rounds = 2000;
    auto feed = [&](ID3D12CommandQueue* queue, uint64_t parity) {
        for (uint64_t i = parity; i < rounds; i += 2) {
            CHECK_OK(queue->Wait(bench.fence.get(), i));
            CHECK_OK(queue->Signal(bench.fence.get(), i + 1));
        }
    };
    std::thread odd([&] { feed(other.get(), 1); });
    feed(bench.queue.get(), 0);
    odd.join();
    CHECK_OK(bench.fence->SetEventOnCompletion(rounds, nullptr));
    CHECK_EQUAL(bench.fence->GetCompletedValue(), rounds);
}

// Every group of a grid runs exactly once, whatever the number of threads; each thread has its group-shared
// memory.
ADAPTER_CHECK(groups_run_once) {
    Bench bench;
    sw_reset_counters();
    const uint32_t grids[][3] = {{1, 1, 1}, {7, 1, 1}, {3, 5, 7}, {64, 64, 4}, {0, 3, 3}, {65535, 3, 1}};
    uint64_t dispatches = 0;
    uint64_t total = 0;
    for (const uint32_t threads : {1, 2, 5, 0}) {
        sw_set_threads(threads);
        for (const auto& [x, y, z] : grids) {
            const uint32_t groups = x * y * z;
            OneBuffer one(bench, "count_groups", groups + 1);
            one.dispatch(bench, x, y, z);
            bench.execute();
            auto counts = bench.read<uint32_t>(one.buffer.get());
            CHECK_EQUAL(counts.back(), 0);
            counts.pop_back();
            CHECK(counts == std::vector<uint32_t>(groups, 1));
            total += groups;
            CHECK_EQUAL(sw_counter("dispatches"), ++dispatches);
            CHECK_EQUAL(sw_counter("thread_groups"), total);
        }
    }
}

// Threads with queues and lists of their own share a device.
ADAPTER_CHECK(many_threads) {
    auto device = create_device();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&device] {
            Bench bench(device);
            OneBuffer one(bench, "count_groups", 3000);
            for (int round = 0; round < 50; ++round) {
                one.dispatch(bench, 3000);
                bench.execute();
            }
            CHECK(bench.read<uint32_t>(one.buffer.get()) == std::vector<uint32_t>(3000, 50));
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
}

// Several threads submit to one queue; nothing is lost.
ADAPTER_CHECK(shared_queue) {
    Bench owner;
    OneBuffer one(owner, "count_groups", 16);
    one.dispatch(owner, 16);
    CHECK_OK(owner.list->Close());
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&owner] {
            for (int round = 0; round < 500; ++round) {
                owner.submit();
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    owner.wait();
    owner.reset();
    CHECK(owner.read<uint32_t>(one.buffer.get()) == std::vector<uint32_t>(16, 2000));
}

static double processor_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

static void run_large_grid(Bench& bench) {
    OneBuffer one(bench, "count_groups", 1 << 20);
    one.dispatch(bench, 1024, 1024);
    bench.execute();
    CHECK(bench.read<uint32_t>(one.buffer.get()) == std::vector<uint32_t>(1 << 20, 1));
}

ADAPTER_CHECK(quiet_when_idle) {
    Bench bench;
    sw_set_threads(8);
    run_large_grid(bench);
    const double before = processor_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    CHECK(processor_seconds() - before < 0.03);
}

// A forked process has no helpers and makes its own.
ADAPTER_CHECK(forked_process) {
    Bench bench;
    sw_set_threads(4);
    run_large_grid(bench);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        run_large_grid(bench);
        _exit(17);
    }
    run_large_grid(bench);
    int status = 0;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 17);
}

ADAPTER_CHECK(suppressed_dispatches) {
    Bench bench;
    sw_reset_counters();
    OneBuffer one(bench, "count_groups", 4);
    sw_suppress_dispatches(1);
    one.dispatch(bench, 4);
    bench.execute();
    CHECK(bench.read<uint32_t>(one.buffer.get()) == std::vector<uint32_t>(4, 0));
    CHECK_EQUAL(sw_counter("dispatches"), 1);
    CHECK_EQUAL(sw_counter("thread_groups"), 0);
    sw_suppress_dispatches(0);
    one.dispatch(bench, 4);
    bench.execute();
    CHECK(bench.read<uint32_t>(one.buffer.get()) == std::vector<uint32_t>(4, 1));
}
