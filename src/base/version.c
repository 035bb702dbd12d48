/* The version that the build was given. */
#include <lockstep/lockstep.h>

const char *lk_version(void)
{
    return LK_VERSION;
}
