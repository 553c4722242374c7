#include "directml/host.h"

#ifdef _WIN32
#include <windows.h>
#endif

namespace dmlgraph {

bool on_arm() {
#if defined(__aarch64__) || defined(_M_ARM64)
    return true;
#elif defined(_WIN32)
    USHORT process = 0;
    USHORT machine = 0;
    return IsWow64Process2(GetCurrentProcess(), &process, &machine) && machine == IMAGE_FILE_MACHINE_ARM64;
#else
    return false;
#endif
}

}  // namespace dmlgraph
