/* lk__source: files, unpacked files and memory to read from, for all readers of formats. */
#include "data/source.h"

#include "data/packed/inflate.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/hash.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct lk__source {
    int fd;    /* -1: in memory, or `late` */
    bool late; /* a file that is opened by its name for each read: see is_scarce() */
    const unsigned char *bytes;
    void *owned; /* the same, if it is to be freed */
    int64_t size;
    uint64_t stamp;
    char name[];
};

static lk_status source_new(const char *name, lk__source **out)
{
    size_t length = strlen(name) + 1;
    LK_TRY(lk_alloc_zero(out, 1, sizeof **out + length));
    (*out)->fd = -1;
    memcpy((*out)->name, name, length);
    return LK_OK;
}

lk_status lk__source_memory(const char *name, const void *bytes, int64_t n, lk__source **out)
{
    LK_TRY(source_new(name, out));
    (*out)->bytes = bytes;
    (*out)->size = n;
    return LK_OK;
}

lk_status lk__source_adopt(const char *name, void *block, int64_t n, lk__source **out)
{
    lk_status st = lk__source_memory(name, block, n, out);
    if (st != LK_OK)
        lk_free(block);
    else
        (*out)->owned = block;
    return st;
}

lk_status lk__source_file(const char *name, int fd, int64_t n, lk__source **out)
{
    lk_status st = source_new(name, out);
    if (st != LK_OK) {
        close(fd);
        return st;
    }
    (*out)->fd = fd;
    (*out)->size = n;
    return LK_OK;
}

/* The time of the inode is set by the system alone: a file that was changed, and its time put back, has
 * another. */
static uint64_t stamp_of(const struct stat *about)
{
    const int64_t identity[] = {(int64_t)about->st_ino,         about->st_size,
                                (int64_t)about->st_mtim.tv_sec, (int64_t)about->st_mtim.tv_nsec,
                                (int64_t)about->st_ctim.tv_sec, (int64_t)about->st_ctim.tv_nsec};
    lk_hash h = lk_hash_start();
    for (size_t i = 0; i < sizeof identity / sizeof identity[0]; i++)
        lk_hash_add_i64(&h, identity[i]);
    return lk_hash_value(&h);
}

/* A process may hold only so many files, and a set may have thousands: from half of that on they are not
 * held open. */
static bool is_scarce(int fd)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           (rlim_t)fd >= limit.rlim_cur / 2;
}

static lk_status open_named(const lk__source *s, int *fd, struct stat *about)
{
    *fd = open(s->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    LK_CHECK(*fd >= 0, LK_EIO, "%s: cannot be opened: %s", s->name, strerror(errno));
    LK_CHECK(fstat(*fd, about) == 0, LK_EIO, "%s: %s", s->name, strerror(errno));
    return LK_OK;
}

static lk_status open_file(lk__source *s)
{
    struct stat about;
    LK_TRY(open_named(s, &s->fd, &about));
    LK_CHECK(S_ISREG(about.st_mode), LK_EIO, "%s: is %s, not a file", s->name,
             S_ISDIR(about.st_mode) ? "a folder" : "a device or pipe");
    s->size = about.st_size;
    s->stamp = stamp_of(&about);
    s->late = is_scarce(s->fd);
    if (s->late) {
        close(s->fd);
        s->fd = -1;
    }
    return LK_OK;
}

lk_status lk__source_open_packed(const char *path, lk__source **out)
{
    *out = NULL;
    lk__source *s;
    LK_TRY(source_new(path, &s));
    lk_status st = open_file(s);
    if (st != LK_OK) {
        lk__source_free(s);
        LK_TRY(st);
    }
    *out = s;
    return LK_OK;
}

lk_status lk__source_open(const char *path, lk__source **out)
{
    LK_TRY(lk__source_open_packed(path, out));
    if (lk__path_ends(path, ".gz"))
        LK_TRY(lk__source_unpack(out, LK_PACKED_GZIP, NULL));
    return LK_OK;
}

lk_status lk__source_unpack(lk__source **s, lk__packing how, bool *cut)
{
    lk__source *packed = *s;
    lk_status st = lk__unpack(packed, how, cut, s);
    if (st == LK_OK)
        (*s)->stamp = packed->stamp;
    lk__source_free(packed);
    return LK_TRACE(st);
}

void lk__source_free(lk__source *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    lk_free(s->owned);
    lk_free(s);
}

int64_t lk__source_size(const lk__source *s)
{
    return s->size;
}

uint64_t lk__source_stamp(const lk__source *s)
{
    return s->stamp;
}

const char *lk__source_name(const lk__source *s)
{
    return s->name;
}

/* Read from the file; one that became shorter since is an error as well. */
static lk_status read_file(const lk__source *s, int fd, int64_t offset, char *out, int64_t n)
{
    while (n > 0) {
        ssize_t got = pread(fd, out, (size_t)n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        LK_CHECK(got >= 0, LK_EIO, "%s: offset %lld: %s", s->name, (long long)offset,
                 strerror(errno));
        LK_CHECK(got > 0, LK_EIO, "%s: offset %lld: the file became shorter while it was read",
                 s->name, (long long)offset);
        offset += got;
        out += got;
        n -= got;
    }
    return LK_OK;
}

static lk_status read_late(const lk__source *s, int64_t offset, char *out, int64_t n)
{
    int fd = -1;
    struct stat about;
    lk_status st = open_named(s, &fd, &about);
    if (st == LK_OK && stamp_of(&about) != s->stamp)
        st = LK_RAISE(LK_EIO, "%s: the file was changed since it was opened", s->name);
    if (st == LK_OK)
        st = read_file(s, fd, offset, out, n);
    if (fd >= 0)
        close(fd);
    return st;
}

lk_status lk__source_read(const lk__source *s, int64_t offset, void *out, int64_t n,
                          const char *what)
{
    LK_CHECK(offset >= 0 && n >= 0 && offset <= s->size && n <= s->size - offset, LK_EIO,
             "%s: offset %lld: %s needs %lld bytes, but the file ends at %lld", s->name,
             (long long)offset, what, (long long)n, (long long)s->size);
    if (s->late)
        LK_TRY(read_late(s, offset, out, n));
    else if (s->fd >= 0)
        LK_TRY(read_file(s, s->fd, offset, out, n));
    else if (n > 0)
        memcpy(out, s->bytes + offset, (size_t)n);
    return LK_OK;
}

lk_status lk__source_load(const lk__source *s, int64_t offset, int64_t n, const char *what,
                          void *out)
{
    void *block = NULL;
    memcpy(out, &block, sizeof block);
    /* Before memory is taken: are there so many bytes? */
    LK_TRY(lk__source_read(s, offset, NULL, 0, what));
    LK_CHECK(n >= 0 && n <= s->size - offset, LK_EIO,
             "%s: offset %lld: %s needs %lld bytes, but the file ends at %lld", s->name,
             (long long)offset, what, (long long)n, (long long)s->size);
    LK_TRY(lk_alloc(&block, n, 1));
    lk_status st = LK_OK;
    LK_TRY_TO(fail, lk__source_read(s, offset, block, n, what));
    memcpy(out, &block, sizeof block);
    return LK_OK;
fail:
    lk_free(block);
    return st;
}
