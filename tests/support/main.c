/* main() of a test program that has none of its own: all its tests. */
#include "harness.h"

int main(void)
{
    return test_main();
}
