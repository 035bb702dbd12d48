/* Version, numerics epoch, hash format and how the library was built: constants. */
#include <lockstep/version.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *lk_version(void)
{
    return LK_VERSION;
}

int lk_numerics_epoch(void)
{
    return LK_NUMERICS_EPOCH;
}

int lk_hash_format(void)
{
    return LK_HASH_FORMAT;
}

const char *lk_build_compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__) "." TEXT(__GNUC_PATCHLEVEL__);
#else
    return "unknown";
#endif
}

const char *lk_build_type(void)
{
    return LK_BUILD_TYPE;
}
