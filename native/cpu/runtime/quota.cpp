#include "cpu/runtime/quota.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

namespace dmlgraph::cpu {
namespace {

// The processors of a group: a quota of microseconds in each period. A file may be missing, and the quota "max" or −1.
std::optional<int> quota_of(const std::filesystem::path& group, bool unified) {
    double quota = 0, period = 0;
    if (unified) {
        std::ifstream(group / "cpu.max") >> quota >> period;
    } else {
        std::ifstream(group / "cpu.cfs_quota_us") >> quota;
        std::ifstream(group / "cpu.cfs_period_us") >> period;
    }
    constexpr double most = 1 << 20;
    if (quota <= 0 || period <= 0) {
        return {};
    }
    return static_cast<int>(std::ceil(std::min(quota / period, most)));
}

// Whether a list of controllers, such as "cpu,cpuacct", has that of the processors' time.
bool has_time(const std::string& controllers) { return ("," + controllers + ",").find(",cpu,") != std::string::npos; }

}  // namespace

std::optional<int> processor_quota(const std::filesystem::path& groups, const std::filesystem::path& root) {
    std::optional<int> least;
    std::ifstream file(groups);
    for (std::string line; std::getline(file, line);) {  // number:controllers:path, without controllers in version 2
        std::istringstream fields(line);
        std::string number, controllers, path;
        std::getline(std::getline(fields, number, ':'), controllers, ':');
        std::getline(fields, path);
        const bool unified = controllers.empty();
        if (!unified && !has_time(controllers)) {
            continue;
        }
        // Each group limits those within it. A container may see its own group as the root, under the path of the host.
        while (true) {
            auto group = root;
            group += (unified ? "" : "/cpu") + path;
            const auto found = quota_of(group, unified);
            least = found && least ? std::min(found, least) : found ? found : least;
            const auto slash = path.rfind('/');
            if (slash == std::string::npos) {
                break;
            }
            path.resize(slash);
        }
    }
    return least;
}

}  // namespace dmlgraph::cpu
