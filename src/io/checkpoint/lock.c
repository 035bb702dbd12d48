/* One run at a time: rank 0 holds a lock on the file LOCK, which ends with its process, however that
 * ends.  The file says who holds it, for the message to another run, and for ranks on other hosts to
 * see that they look at the same folder. */
#include "base/fpenv.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/extra/clock.h>

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { HOLDER = 128, PAUSE_NS = 20000000 };

/* The first line of the lock file, cut; "" if there is none. */
static void holder_read(int fd, char text[HOLDER])
{
    ssize_t n = pread(fd, text, HOLDER - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* Say that this takes time, and why. */
static void wait_report(int fd, const char *path, const lk_checkpoint_dir_options *o)
{
    char holder[HOLDER], text[LK_PATH_SIZE + 2 * HOLDER];
    if (!o->message || o->wait_seconds <= 0)
        return;
    holder_read(fd, holder);
    snprintf(text, sizeof text, "waiting up to %g s for another run to leave %s (%s)",
             o->wait_seconds, path, holder[0] ? holder : "unknown");
    o->message(o->arg, text);
}

/* Lock it, within o->wait seconds; whether there are locks here at all. */
static lk_status lock_wait(int fd, const char *path, const lk_checkpoint_dir_options *o,
                           bool *locks)
{
    char holder[HOLDER];
    int64_t began = lk_clock_ns();
    bool reported = false;
    *locks = true;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        *locks = errno == EWOULDBLOCK || errno == EINTR;
        if (!*locks)
            return LK_OK;
        if (!reported)
            wait_report(fd, path, o);
        reported = true;
        if ((double)(lk_clock_ns() - began) >= 1e9 * o->wait_seconds) {
            holder_read(fd, holder);
            return LK_RAISE(LK_ESTATE,
                            "%s: another run saves its checkpoints here (%s); end that one first, "
                            "or use another folder",
                            path, holder[0] ? holder : "unknown");
        }
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return LK_OK;
}

static lk_status holder_write(int fd, const char *path, const char *run)
{
    char host[65] = "", text[HOLDER];
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    int n = snprintf(text, sizeof text, "host %s, process %lld, run %s\n", host,
                     (long long)getpid(), run);
    LK_TRY(lk__storage_truncate(fd, path, 0));
    LK_TRY(lk__storage_write(fd, path, 0, text, n));
    LK_TRY(lk__storage_sync(fd, path)); /* so that other hosts see it */
    return LK_OK;
}

lk_status lk__lock_take(const char *folder, const char *run,
                        const lk_checkpoint_dir_options *options, int *fd)
{
    LK_FP_GUARD();
    char path[LK_PATH_SIZE];
    int file;
    bool locks;
    *fd = -1;
    LK_TRY(lk__path_join(folder, "LOCK", path, sizeof path));
    LK_TRY(lk__storage_open_write(path, &file));
    lk_status st = lock_wait(file, path, options, &locks);
    if (st == LK_OK)
        st = holder_write(file, path, run);
    if (st != LK_OK || !locks)
        lk__storage_release(file);
    else
        *fd = file;
    return LK_TRACE(st);
}

bool lk__lock_is_seen(const char *folder, const char *run)
{
    char path[LK_PATH_SIZE], holder[HOLDER];
    int fd;
    int64_t bytes;
    bool seen = false;
    if (lk__path_join(folder, "LOCK", path, sizeof path) == LK_OK &&
        lk__storage_open(path, &fd, &bytes) == LK_OK) {
        holder_read(fd, holder);
        seen = strstr(holder, run) != NULL;
        lk__storage_release(fd);
    }
    lk_error_clear();
    return seen;
}
