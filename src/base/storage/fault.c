/* Fault injection for calls to the disk: the n-th one fails, or there were n.  Each call of
 * storage.c and folder.c asks here first; tests set the faults, and LK_STORAGE_FAULT in the
 * environment does. */
#include "base/storage/fault.h"

#include "base/env.h"
#include "base/text/number.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static _Atomic int64_t calls[LK__N_STORAGE_CALLS];
static _Atomic int64_t fail_in[LK__N_STORAGE_CALLS]; /* calls until the failure; 0: none */
static _Atomic int fail_with[LK__N_STORAGE_CALLS];
static _Atomic bool fail_on[LK__N_STORAGE_CALLS]; /* go on failing */
static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

static const char *const names[] = {
#define X(code, name) name,
    LK__STORAGE_MAP(X)
#undef X
};

const char *lk__storage_name(lk__storage_call call)
{
    return names[call];
}

void lk__storage_fail(lk__storage_call call, int64_t n, int error, bool lasting)
{
    atomic_store(&fail_in[call], 0);
    atomic_store(&fail_with[call], error);
    atomic_store(&fail_on[call], lasting);
    atomic_store(&fail_in[call], n);
}

int64_t lk__storage_calls(lk__storage_call call)
{
    return atomic_load(&calls[call]);
}

static int error_of(const char *name)
{
    static const struct {
        const char *name;
        int error;
    } known[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC},        {"EDQUOT", EDQUOT},
                 {"EACCES", EACCES}, {"ENOENT", ENOENT},        {"EINTR", EINTR},
                 {"EROFS", EROFS},   {"KILL", LK__STORAGE_KILL}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].error;
    const char *unit = strstr(name, "ms");
    int64_t ms = 0;
    char digits[16];
    if (!unit || unit[2] || (size_t)(unit - name) >= sizeof digits)
        return 0;
    memcpy(digits, name, (size_t)(unit - name));
    digits[unit - name] = '\0';
    return lk__number_read_int(digits, &ms) || ms < 0 || ms > 1000000
               ? 0
               : LK__STORAGE_SLOW_MS((int)ms);
}

/* "write:3:ENOSPC" or "write:3+:ENOSPC"; what does not read so is left alone. */
static void environment_read(void)
{
    const char *text = lk__env("LK_STORAGE_FAULT");
    char call[16], number[16], error[16];
    int64_t n = 0;
    if (!text || sscanf(text, "%15[^:]:%15[^:]:%15s", call, number, error) != 3)
        return;
    size_t digits = strspn(number, "0123456789");
    bool lasting = number[digits] == '+';
    number[digits] = '\0';
    if (lk__number_read_int(number, &n) || error_of(error) == 0)
        return;
    for (int i = 0; i < LK__N_STORAGE_CALLS; i++)
        if (strcmp(names[i], call) == 0)
            lk__storage_fail((lk__storage_call)i, n, error_of(error), lasting);
}

/* Whether the n-th call is this one; counts down. */
static bool is_due(lk__storage_call call)
{
    int64_t n = atomic_load(&fail_in[call]);
    bool lasting = atomic_load(&fail_on[call]);
    while (n > 0 && !(n == 1 && lasting) &&
           !atomic_compare_exchange_weak(&fail_in[call], &n, n - 1))
        ;
    return n == 1;
}

bool lk__storage_fails(lk__storage_call call, const char *path, int *error)
{
    pthread_once(&environment_once, environment_read);
    lk__storage_shows(call, path);
    atomic_fetch_add(&calls[call], 1);
    bool due = is_due(call);
    *error = atomic_load(&fail_with[call]);
    if (due && *error == LK__STORAGE_KILL && call != LK__STORAGE_WRITE)
        raise(SIGKILL);
    if (!due || *error > LK__STORAGE_SLOW)
        return due;
    int64_t ms = LK__STORAGE_SLOW - *error;
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
    return false;
}

int lk__storage_error(lk__storage_call call, const char *path)
{
    int error;
    return lk__storage_fails(call, path, &error) ? error : 0;
}
