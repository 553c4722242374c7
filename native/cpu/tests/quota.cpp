// The quota of processors' time, read from folders such as a system's.
#include "cpu/runtime/quota.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "cpu/runtime/processors.h"

namespace dmlgraph::cpu::tests {
namespace {

// A folder with these files, by path: "groups" is what names the groups of the process.
class System {
public:
    explicit System(const std::map<std::string, std::string>& files)
        : folder_(std::filesystem::temp_directory_path() / ("dmlgraph_quota_" + std::to_string(number++))) {
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
        for (const auto& [path, text] : files) {
            std::filesystem::create_directories((folder_ / path).parent_path());
            std::ofstream(folder_ / path) << text;
        }
    }
    System(const System&) = delete;
    ~System() { std::filesystem::remove_all(folder_); }

    std::optional<int> quota() const { return processor_quota(folder_ / "groups", folder_); }

private:
    static inline int number = 0;
    std::filesystem::path folder_;
};

using Files = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("the quota of a container") {
    const std::map<std::string, std::pair<Files, std::optional<int>>> systems{
        {"version 2", {{{"groups", "0::/\n"}, {"cpu.max", "200000 100000\n"}}, 2}},
        {"in a group", {{{"groups", "0::/a/b\n"}, {"a/b/cpu.max", "300000 100000\n"}}, 3}},
        {"of an outer group",
         {{{"groups", "0::/a/b\n"}, {"a/cpu.max", "400000 100000\n"}, {"a/b/cpu.max", "max 100000\n"}}, 4}},
        {"the least of several",
         {{{"groups", "0::/a/b\n"}, {"a/cpu.max", "100000 50000\n"}, {"a/b/cpu.max", "800000 100000\n"}}, 2}},
        {"rounded up", {{{"groups", "0::/\n"}, {"cpu.max", "150000 100000\n"}}, 2}},
        {"part of a processor", {{{"groups", "0::/\n"}, {"cpu.max", "10000 100000\n"}}, 1}},
        {"no limit", {{{"groups", "0::/\n"}, {"cpu.max", "max 100000\n"}}, {}}},
        {"no files", {{{"groups", "0::/a\n"}}, {}}},
        {"no groups", {{{"cpu.max", "200000 100000\n"}}, {}}},
        {"not a number", {{{"groups", "0::/\n"}, {"cpu.max", "many\n"}}, {}}},
        {"an empty file", {{{"groups", "0::/\n"}, {"cpu.max", ""}}, {}}},
        {"a period of zero", {{{"groups", "0::/\n"}, {"cpu.max", "200000 0\n"}}, {}}},
        {"a huge one", {{{"groups", "0::/\n"}, {"cpu.max", "9223372036854775807 1\n"}}, 1 << 20}},
        {"lines of other kinds", {{{"groups", "\nnothing\n7:\n0::/\n"}, {"cpu.max", "200000 100000\n"}}, 2}},
        {"version 1",
         {{{"groups", "5:memory:/\n4:cpu:/\n0::/\n"},
           {"cpu/cpu.cfs_quota_us", "250000\n"},
           {"cpu/cpu.cfs_period_us", "100000\n"}},
          3}},
        {"version 1, with another controller",
         {{{"groups", "4:cpu,cpuacct:/a\n"},
           {"cpu/a/cpu.cfs_quota_us", "200000\n"},
           {"cpu/a/cpu.cfs_period_us", "100000\n"}},
          2}},
        {"version 1, under the path of the host",
         {{{"groups", "4:cpuacct,cpu:/docker/0123\n"},
           {"cpu/cpu.cfs_quota_us", "200000\n"},
           {"cpu/cpu.cfs_period_us", "100000\n"}},
          2}},
        {"version 1, no limit",
         {{{"groups", "4:cpu:/\n"}, {"cpu/cpu.cfs_quota_us", "-1\n"}, {"cpu/cpu.cfs_period_us", "100000\n"}}, {}}},
        {"version 1, of another controller",
         {{{"groups", "4:cpuset:/\n"}, {"cpu/cpu.cfs_quota_us", "200000\n"}, {"cpu/cpu.cfs_period_us", "100000\n"}},
          {}}},
    };
    for (const auto& [name, system] : systems) {
        CHECK_MESSAGE(System(system.first).quota() == system.second, name);
    }
}

TEST_CASE("no more processors are used than the quota of this process allows") {
    CHECK_MESSAGE(processors() <= processor_quota().value_or(processors()), "the quota counts");
}

}  // namespace dmlgraph::cpu::tests
