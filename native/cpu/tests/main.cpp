// The program that runs the tests.
#define DOCTEST_CONFIG_IMPLEMENT
#include <iostream>

#include <doctest/doctest.h>

int main(int count, char** arguments) {
    std::cout << std::unitbuf;  // what was printed is there, too, if a test ends the program
    return doctest::Context(count, arguments).run();
}
