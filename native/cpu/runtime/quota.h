// The part of the processors' time that a container may use.
#pragma once

#include <filesystem>
#include <optional>

namespace dmlgraph::cpu {

// As many processors as the control groups of this process give time to, rounded up; none if they do not limit it.
// `groups` is the file that names them, `root` the folder of their files.
std::optional<int> processor_quota(const std::filesystem::path& groups = "/proc/self/cgroup",
                                   const std::filesystem::path& root = "/sys/fs/cgroup");

}  // namespace dmlgraph::cpu
