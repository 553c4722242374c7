// The thread pool: every piece runs once, for calls from any number of threads.
#include "cpu/runtime/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <doctest/doctest.h>

#include "cpu/runtime/counter.h"
#include "cpu/tests/any_thread.h"
#include "cpu/tests/sanitizers.h"

namespace dmlgraph::cpu::tests {
namespace {

// Whether the task got each piece once. Pieces are plain memory: two workers with the same piece are a data race.
bool covers(std::int64_t count, int workers) {
    std::vector<int> taken(static_cast<std::size_t>(count));
    std::atomic<bool> known_workers{true};
    run_parallel(count, workers, [&](int worker, Chunks& chunks) {
        known_workers = known_workers && worker >= 0 && worker < workers;
        std::int64_t first = 0, last = 0;
        while (chunks.next(first, last)) {
            for (std::int64_t i = first; i < last; ++i) {
                ++taken[static_cast<std::size_t>(i)];
                if (i % 8 == 0) {
                    std::this_thread::yield();  // so that other threads run in between, on few processors too
                }
            }
        }
    });
    for (const int times : taken) {
        if (times != 1) {
            return false;
        }
    }
    return known_workers;
}

}  // namespace

TEST_CASE("every piece is taken once") {
    for (const std::int64_t count : {0, 1, 2, 3, 7, 63, 64, 65, 1000, 20'001}) {
        for (const int workers : {1, 2, 3, 8, 17}) {
            CHECK_MESSAGE(covers(count, workers), count, " pieces, ", workers, " workers");
        }
    }
}

TEST_CASE("many small jobs") {
    for (int job = 0; job < (watches_threads ? 500 : 3000); ++job) {
        CHECK_MESSAGE(covers(1 + job % 9, 1 + job % 5), "a small job");
        if (job % 100 == 99) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));  // helpers fall asleep meanwhile
        }
    }
}

TEST_CASE("jobs from several threads") {
    std::vector<std::thread> callers;
    std::latch all_are_there(6);
    for (int caller = 0; caller < 6; ++caller) {
        callers.emplace_back([caller, &all_are_there] {
            all_are_there.arrive_and_wait();
            for (int job = 0; job < 150; ++job) {
                check_on_any_thread(covers(10 + caller * 31, 2 + caller % 4), "a job beside others");
            }
        });
    }
    for (std::thread& caller : callers) {
        caller.join();
    }
}

TEST_CASE("helpers take part") {
    std::vector<int> pieces_of(4);
    std::atomic<bool> helped{false};
    const auto patience = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    run_parallel(24, 4, [&](int worker, Chunks& chunks) {
        for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
            pieces_of[static_cast<std::size_t>(worker)] += static_cast<int>(last - first);
            if (worker > 0) {
                helped = true;
            }
            // Other processes may keep helpers waiting for a processor.
            while (!helped && std::chrono::steady_clock::now() < patience) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
    });
    CHECK_MESSAGE(pieces_of[0] + pieces_of[1] + pieces_of[2] + pieces_of[3] == 24, "all pieces are done on return");
    CHECK_MESSAGE(pieces_of[0] < 24, "not by the caller alone");
}

TEST_CASE("an exception of a job within a job") {
    std::atomic<int> caught = 0;
    run_parallel(40, 4, [&](int, Chunks& chunks) {
        for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
            try {
                run_parallel(25, 4, [](int, Chunks&) { throw std::bad_alloc(); });
            } catch (const std::bad_alloc&) {
                caught += static_cast<int>(last - first);
            }
        }
    });
    CHECK_MESSAGE(caught == 40, "each reaches its own caller");
}

TEST_CASE("jobs within jobs") {
    std::atomic<std::int64_t> sum{0};
    run_parallel(40, 4, [&](int, Chunks& chunks) {
        std::int64_t first = 0, last = 0;
        while (chunks.next(first, last)) {
            for (std::int64_t i = first; i < last; ++i) {
                run_parallel(25, 4, [&](int, Chunks& inner) {
                    std::int64_t from = 0, to = 0;
                    while (inner.next(from, to)) {
                        sum += to - from;
                    }
                });
            }
        }
    });
    CHECK_MESSAGE(sum == 40 * 25, "all inner pieces are done");
}

TEST_CASE("what helpers wrote is seen") {
    std::vector<std::int64_t> squares(5000), sums(5000);
    run_parallel(5000, 4, [&](int, Chunks& chunks) {
        for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
            for (std::int64_t i = first; i < last; ++i) {
                squares[static_cast<std::size_t>(i)] = i * i;
            }
        }
    });
    run_parallel(5000, 4, [&](int, Chunks& chunks) {  // other workers get other pieces now
        for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
            for (std::int64_t i = first; i < last; ++i) {
                sums[static_cast<std::size_t>(i)] = squares[static_cast<std::size_t>(4999 - i)] + 1;
            }
        }
    });
    bool right = true;
    for (std::int64_t i = 0; i < 5000; ++i) {
        right = right && sums[static_cast<std::size_t>(i)] == (4999 - i) * (4999 - i) + 1;
    }
    CHECK_MESSAGE(right, "the second job reads what the first one wrote");
}

TEST_CASE("a job that is stopped takes no further pieces") {
    constexpr std::int64_t count = 100'000;
    for (const int workers : {1, 4}) {
        std::atomic<bool> stop = false;
        std::atomic<std::int64_t> taken = 0;
        run_parallel(
            count, workers,
            [&](int, Chunks& chunks) {
                for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                    taken += last - first;
                    stop = true;
                }
            },
            true, &stop);
        CHECK_MESSAGE((taken > 0 && taken < count), "some pieces are left out");
        run_parallel(
            count, workers,
            [&](int, Chunks& chunks) {
                std::int64_t first = 0, last = 0;
                check_on_any_thread(!chunks.next(first, last), "nothing is left to do");
            },
            true, &stop);
    }
}

TEST_CASE("the first exception of a job is thrown to its caller, when all workers have finished") {
    constexpr std::int64_t count = 100'000;
    for (const int workers : {1, 2, 5}) {
        for (const int thrower : {0, 1, -1}) {  // the caller, a helper, all
            std::atomic<int> inside = 0;
            std::atomic<bool> thrown = false;
            std::atomic<std::int64_t> begun = 0;
            const auto patience = std::chrono::steady_clock::now() + std::chrono::minutes(2);
            const auto task = [&](int worker, Chunks& chunks) {
                struct Inside {
                    std::atomic<int>& count;
                    explicit Inside(std::atomic<int>& counter) : count(counter) { ++count; }
                    ~Inside() { --count; }
                } const here(inside);
                for (std::int64_t first = 0, last = 0; chunks.next(first, last);) {
                    begun += last - first;
                    if (thrower < 0 || workers == 1 || worker == thrower) {
                        thrown = true;
                        throw std::runtime_error("of worker " + std::to_string(worker));
                    }
                    while (!thrown && std::chrono::steady_clock::now() < patience) {
                        std::this_thread::yield();
                    }
                }
            };
            CHECK_THROWS_AS_MESSAGE(run_parallel(count, workers, task), std::runtime_error, "that of a worker");
            CHECK_MESSAGE(inside == 0, "no worker is left in the task");
            const bool all_throw = thrower < 0 && workers > 1;  // else another worker may take all pieces before
            CHECK_MESSAGE((begun > 0 && (begun < count || !all_throw)), "pieces that no worker had begun are left out");
            CHECK_MESSAGE(covers(1000, workers), "the next job");
        }
    }
}

// Each thread waits for the number of the other one: a single lost wake would leave both asleep.
TEST_CASE("a thread that sleeps on a counter is always woken") {
    const std::uint32_t turns = watches_threads ? 1000 : 5000;
    Counter there, back;
    std::thread other([&] {
        for (std::uint32_t turn = 0; turn < turns; ++turn) {
            there.sleep_while(turn);
            back.add_one();
            back.wake_all();
        }
    });
    for (std::uint32_t turn = 0; turn < turns; ++turn) {
        there.add_one();
        there.wake_all();
        back.sleep_while(turn);
    }
    other.join();
    CHECK_MESSAGE((there.value() == turns && back.value() == turns), "each took all its turns");
}

TEST_CASE("there is a thread at least") { CHECK_MESSAGE(default_threads() >= 1, "default_threads"); }

#if !defined(_WIN32)
TEST_CASE("a forked process has a pool of its own") {
    if (watches_threads) {
        return;
    }
    CHECK_MESSAGE(covers(100, 4), "before the fork");
    for (int child = 0; child < 3; ++child) {
        const pid_t process = fork();
        if (process == 0) {
            _exit(covers(100, 4) && covers(1000, 3) ? 7 : 1);
        }
        int status = 0;
        CHECK_MESSAGE((waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 7),
                      "a child runs jobs");
    }
    CHECK_MESSAGE(covers(100, 4), "after it");
}
#endif

}  // namespace dmlgraph::cpu::tests
