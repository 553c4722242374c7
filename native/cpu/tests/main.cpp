// The program that runs the tests.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdlib>
#include <iostream>

#include <doctest/doctest.h>

int main(int count, char** arguments) {
    std::cout << std::unitbuf;  // what was printed is there, too, if a test ends the program
    const int result = doctest::Context(count, arguments).run();
#if defined(_WIN32)
    // Helpers are still asleep. With MinGW they sleep by a lock of the standard library, which would be destroyed under
    // them.
    std::_Exit(result);
#else
    return result;
#endif
}
