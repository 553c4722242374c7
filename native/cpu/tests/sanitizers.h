// Which sanitizer the tests run with.
#pragma once

namespace dmlgraph::cpu::tests {

// Sanitizers that watch threads are slow, and do not follow a forked process.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool watches_threads = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool watches_threads = true;
#else
inline constexpr bool watches_threads = false;
#endif
#else
inline constexpr bool watches_threads = false;
#endif

}  // namespace dmlgraph::cpu::tests
