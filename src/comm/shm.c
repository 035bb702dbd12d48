/* A block that processes share is a memfd: memory that looks like a file, without a name.
 *
 * Its maker tells the others its process id and descriptor; they open /proc/PID/fd/FD, which the
 * system allows to processes of the same user only, and compare a random number at its beginning:
 * in another name space of processes the same id is another process.  The memory is gone when the last
 * process that has it ends, however it ends.
 */
#include "comm/shm.h"

#include "base/memory/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static lk_status failed(const char *what)
{
    int code = errno;
    char text[128];
    return LK_RAISE(code == ENOMEM || code == ENOSPC ? LK_ENOMEM : LK_ENOTSUP,
                    "no shared memory: %s: %s", what, strerror_r(code, text, sizeof text));
}

static lk_status map(int64_t bytes, lk__shm_block *b)
{
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    if (at == MAP_FAILED)
        return failed("mmap");
    b->base = at;
    b->bytes = bytes;
    return LK_OK;
}

/* The system promises memory that it does not have, and ends processes when it is used: ask first. */
static lk_status check_available(int64_t bytes)
{
    int64_t available = lk__memory_available();
    LK_CHECK(bytes <= available, LK_ENOMEM,
             "no shared memory: %lld KiB asked for, %lld KiB available", (long long)bytes / 1024,
             (long long)available / 1024);
    return LK_OK;
}

static lk_status make(int64_t bytes, lk__key *key, lk__shm_block *b)
{
    LK_TRY(check_available(bytes));
    b->fd = memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (b->fd < 0)
        return failed("memfd_create");
    if (fchmod(b->fd, 0600) != 0)
        return failed("fchmod");
    if (ftruncate(b->fd, bytes) != 0)
        return failed("ftruncate");
    /* Its size can no longer change: no access lies beyond its end. */
    if (fcntl(b->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return failed("fcntl");
    *key = (lk__key){.pid = getpid(), .fd = b->fd};
    if (getrandom(key->random, sizeof key->random, 0) != sizeof key->random)
        return failed("getrandom");
    if (fallocate(b->fd, 0, 0, sizeof key->random) != 0)
        return failed("fallocate");
    LK_TRY(map(bytes, b));
    memcpy(b->base, key->random, sizeof key->random);
    return LK_OK;
}

lk_status lk__shm_make(int64_t bytes, lk__key *key, lk__shm_block *out)
{
    *out = (lk__shm_block){.fd = -1};
    lk_status st = make(bytes, key, out);
    if (st != LK_OK)
        lk__shm_free(out);
    return st;
}

static lk_status open_key(int64_t bytes, const lk__key *key, lk__shm_block *b)
{
    static const char start[] = "/memfd:lockstep";
    char path[64], to[64] = "";
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)key->pid, (int)key->fd);
    if (readlink(path, to, sizeof to - 1) < 0)
        return failed(path);
    LK_CHECK(strncmp(to, start, sizeof start - 1) == 0, LK_ENOTSUP,
             "no shared memory: %s is another process's", path);
    b->fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (b->fd < 0 || fstat(b->fd, &info) != 0)
        return failed(path);
    LK_CHECK(info.st_size == bytes, LK_ENOTSUP, "no shared memory: %s has %lld bytes, not %lld",
             path, (long long)info.st_size, (long long)bytes);
    LK_TRY(map(bytes, b));
    LK_CHECK(memcmp(b->base, key->random, sizeof key->random) == 0, LK_ENOTSUP,
             "no shared memory: %s is another run's", path);
    return LK_OK;
}

lk_status lk__shm_open(int64_t bytes, const lk__key *key, lk__shm_block *out)
{
    *out = (lk__shm_block){.fd = -1};
    lk_status st = open_key(bytes, key, out);
    if (st != LK_OK)
        lk__shm_free(out);
    return st;
}

lk_status lk__shm_touch(const lk__shm_block *b, const void *part, int64_t bytes)
{
    off_t at = (const unsigned char *)part - (const unsigned char *)b->base;
    if (bytes > 0 && fallocate(b->fd, 0, at, bytes) != 0)
        return failed("fallocate");
    return LK_OK;
}

void lk__shm_seal(lk__shm_block *b)
{
    if (b->fd >= 0)
        close(b->fd);
    b->fd = -1;
}

void lk__shm_free(lk__shm_block *b)
{
    if (b->base)
        munmap(b->base, (size_t)b->bytes);
    lk__shm_seal(b);
    *b = (lk__shm_block){.fd = -1};
}

lk_status lk__shm_hold(const lk__shm_block *b, int number)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    if (fcntl(b->fd, F_OFD_SETLK, &lock) != 0)
        return failed("fcntl");
    return LK_OK;
}

bool lk__shm_held(const lk__shm_block *b, int number)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    return fcntl(b->fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}
