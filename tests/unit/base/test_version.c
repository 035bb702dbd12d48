/* The headers and the library are of one version. */
#include "harness.h"

#include <lockstep/lockstep.h>

TEST(headers_and_library_tell_the_same_version)
{
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", LK_VERSION_MAJOR, LK_VERSION_MINOR, LK_VERSION_PATCH);
    ASSERT_TRUE(strcmp(text, lk_version()) == 0);
}
