// Where helper threads run.
#include "cpu/runtime/processors.h"

#include <atomic>
#include <latch>
#include <thread>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#elif defined(_WIN32)
#include <windows.h>
#endif

#include <doctest/doctest.h>

namespace dmlgraph::cpu::tests {

TEST_CASE("there is a processor") {
    CHECK_MESSAGE(processors() >= 1, "processors");
    CHECK_MESSAGE(this_processor() >= -1, "the one this runs on, if it can be told");
}

#if defined(_WIN32)

TEST_CASE("the processors are those that this process may use") {
    DWORD_PTR before = 0, all = 0;
    CHECK_MESSAGE(GetProcessAffinityMask(GetCurrentProcess(), &before, &all) != 0, "the processors of this process");
    const DWORD_PTR one = before & (~before + 1);
    CHECK_MESSAGE(SetProcessAffinityMask(GetCurrentProcess(), one) != 0, "takes only one");
    CHECK_MESSAGE(processors() == 1, "one");
    SetProcessAffinityMask(GetCurrentProcess(), before);
}

#elif defined(__linux__)

namespace {

cpu_set_t allowed(std::thread& thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CHECK_MESSAGE(pthread_getaffinity_np(thread.native_handle(), sizeof set, &set) == 0, "the processors of a thread");
    return set;
}

// A thread that runs given tasks one after another.
struct Sleeper {
    Placement placement;
    std::atomic<int> told{0}, done{0};
    std::thread thread{[this] {
        for (int at = 0; at < 2; ++at) {
            told.wait(at);
            at == 0 ? placement.sleep() : placement.note();
            done = at + 1;
            done.notify_one();
        }
    }};

    void tell() {
        const int before = done;
        ++told;
        told.notify_one();
        done.wait(before);
    }
};

}  // namespace

TEST_CASE("a sleeper is kept off a processor until it wakes") {
    if (processors() < 2) {
        return;  // there is no other processor
    }
    const int here = this_processor();
    Sleeper sleeper;
    const cpu_set_t before = allowed(sleeper.thread);
    sleeper.tell();
    sleeper.placement.keep_off(here, sleeper.thread);
    cpu_set_t kept = allowed(sleeper.thread);
    CHECK_MESSAGE((!CPU_ISSET(static_cast<std::size_t>(here), &kept) && CPU_COUNT(&kept) == CPU_COUNT(&before) - 1),
                  "it may run on all but this one");
    sleeper.placement.keep_off(here, sleeper.thread);  // once is enough
    sleeper.tell();
    cpu_set_t after = allowed(sleeper.thread);
    CHECK_MESSAGE(CPU_EQUAL(&after, &before), "then on all it could before");
    sleeper.thread.join();
}

TEST_CASE("a thread is never left without a processor") {
    cpu_set_t all, one;
    CHECK_MESSAGE(sched_getaffinity(0, sizeof all, &all) == 0, "the processors of this thread");
    const int here = this_processor();
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(here), &one);
    sched_setaffinity(0, sizeof one, &one);
    CHECK_MESSAGE(processors() == 1, "this thread may use one");
    {
        Sleeper sleeper;  // it inherits the one processor
        sleeper.tell();
        sleeper.placement.keep_off(here, sleeper.thread);
        cpu_set_t kept = allowed(sleeper.thread);
        CHECK_MESSAGE(CPU_EQUAL(&kept, &one), "it keeps the only one it has");
        sleeper.tell();
        sleeper.thread.join();
    }
    sched_setaffinity(0, sizeof all, &all);
}

#endif

}  // namespace dmlgraph::cpu::tests
