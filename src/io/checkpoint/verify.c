/* Checkpoints on disk: listing them, and verifying one against its MANIFEST, for loading and for
 * `lockstep ckpt`. */
#include "base/memory/grow.h"
#include "io/checkpoint/checkpoint.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/crc32c.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 20 };

/* ---- names ---- */

void lk__step_name(int64_t step, char name[LK__STEP_NAME])
{
    snprintf(name, LK__STEP_NAME, "step-%012" PRId64, step);
}

lk_status lk__step_path(const char *folder, int64_t step, const char *tail, char path[LK_PATH_SIZE])
{
    char name[LK__STEP_NAME], file[2 * LK__STEP_NAME];
    lk__step_name(step, name);
    snprintf(file, sizeof file, "%s%s", name, tail);
    return LK_TRACE(lk__path_join(folder, file, path, LK_PATH_SIZE));
}

int64_t lk__step_of_name(const char *name)
{
    const char *dash = strchr(name, '-');
    char same[LK__STEP_NAME];
    bool before = strncmp(name, "before-", 7) == 0;
    if (!dash || (!before && strncmp(name, "step-", 5) != 0))
        return -1;
    int64_t step = strtoll(dash + 1, NULL, 10);
    lk__step_name(step, same);
    return step >= 0 && strcmp(strchr(same, '-'), dash) == 0 ? step : -1;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

lk_status lk__steps_list(const char *folder, lk_arena *arena, int64_t **out, int64_t *n)
{
    const char **names;
    int64_t n_names;
    *n = 0;
    LK_TRY(lk__storage_list(folder, "step-", arena, &names, &n_names));
    LK_TRY(lk_arena_alloc(arena, out, n_names, sizeof **out));
    for (int64_t i = 0; i < n_names; i++) {
        int64_t step = lk__step_of_name(names[i]);
        if (step >= 0)
            (*out)[(*n)++] = step;
    }
    if (*n > 0)
        qsort(*out, (size_t)*n, sizeof **out, by_value);
    return LK_OK;
}

/* ---- contents ---- */

/* A part that is read from its beginning to its end. */
typedef struct stream {
    int fd;
    char path[LK_PATH_SIZE];
    int64_t at;
    lk_hash hash;
    unsigned char *chunk;
} stream;

/* Read on to `end`; the CRC of what was read. */
static lk_status stream_to(stream *s, int64_t end, uint32_t *crc)
{
    *crc = 0;
    while (s->at < end) {
        int64_t n = end - s->at < CHUNK ? end - s->at : CHUNK;
        LK_TRY(lk__storage_read(s->fd, s->path, s->at, s->chunk, n));
        lk_hash_add_bytes(&s->hash, s->chunk, (size_t)n);
        *crc = lk_crc32c(*crc, s->chunk, (size_t)n);
        s->at += n;
    }
    return LK_OK;
}

lk_status lk__crc_check(const char *path, const lk_checkpoint_tensor *t, uint32_t crc)
{
    LK_CHECK(crc == t->crc, LK_EIO,
             "%s: offset %lld: tensor \"%.128s\" (%lld bytes) has the checksum %08x, the MANIFEST "
             "says %08x",
             path, (long long)t->offset, t->name, (long long)t->bytes, (unsigned)crc,
             (unsigned)t->crc);
    return LK_OK;
}

static lk_status part_verify(const lk_checkpoint *c, int64_t part, stream *s)
{
    uint32_t crc;
    int64_t first = lk__part_begin(c, part), end = lk__part_begin(c, part + 1);
    LK_TRY(stream_to(s, c->tensor[first].offset, &crc));
    for (int64_t i = first; i < end; i++) {
        LK_TRY(stream_to(s, c->tensor[i].offset + c->tensor[i].bytes, &crc));
        LK_TRY(lk__crc_check(s->path, &c->tensor[i], crc));
    }
    LK_CHECK(lk_hash_value(&s->hash) == c->part[part].hash, LK_EIO,
             "%s: offset 0: its tensors are right, but its first %lld bytes are not those that "
             "were written",
             s->path, (long long)c->tensor[first].offset);
    return LK_OK;
}

lk_status lk_checkpoint_verify(const lk_checkpoint *c, int64_t part)
{
    lk_status st;
    stream s = {.hash = lk_hash_start()};
    int64_t bytes;
    LK_CHECK(c && part >= 0 && part < c->n_parts, LK_EINVAL, "there is no part %lld",
             (long long)part);
    LK_TRY(lk__path_join(c->path, c->part[part].file, s.path, sizeof s.path));
    LK_TRY(lk_alloc(&s.chunk, CHUNK, 1));
    LK_TRY_TO(free_chunk, lk__storage_open(s.path, &s.fd, &bytes));
    LK_TRY_TO(done, bytes == c->part[part].bytes
                        ? LK_OK
                        : LK_RAISE(LK_EIO, "%s: offset %lld: ends here, the MANIFEST says at %lld",
                                   s.path, (long long)bytes, (long long)c->part[part].bytes));
    LK_TRY_TO(done, part_verify(c, part, &s));
done:
    lk__storage_release(s.fd);
free_chunk:
    lk_free(s.chunk);
    return st;
}

lk_status lk__checkpoint_verify_all(const lk_checkpoint *c)
{
    for (int64_t i = 0; i < c->n_parts; i++)
        LK_TRY(lk_checkpoint_verify(c, i));
    return LK_OK;
}

/* Read the one tensor of `c`, and keep what flows into the box `held`. */
static lk_status tensor_read(const lk_checkpoint *c, stream *s, const lk__flow *flow,
                             const lk__box_held *held)
{
    const lk_checkpoint_tensor *t = &c->tensor[0];
    int64_t size = (int64_t)lk_dtype_size(t->dtype);
    lk__band band = {.end = 1};
    lk__endpoint file = {.c = c, .flow = flow, .band = &band, .base = s->chunk};
    lk__endpoint end = {.c = c, .flow = flow, .band = &band, .held = held};
    uint32_t crc = 0;
    for (int64_t at = 0; at < t->bytes; at += band.bytes) {
        band.bytes = t->bytes - at < CHUNK ? t->bytes - at : CHUNK;
        band.offset = t->offset + at;
        band.first = at / size;
        band.last = (at + band.bytes) / size;
        unsigned char *to = lk__endpoint_direct(&end, band.bytes), *bytes = to ? to : s->chunk;
        LK_TRY(lk__storage_read(s->fd, s->path, band.offset, bytes, band.bytes));
        crc = lk_crc32c(crc, bytes, (size_t)band.bytes);
        if (!to)
            lk__endpoint_copy(&file, &end);
    }
    return LK_TRACE(lk__crc_check(s->path, t, crc));
}

lk_status lk__checkpoint_read_held(const lk_checkpoint *c, int64_t i, const lk__box_held *held)
{
    lk_status st;
    stream s = {.fd = -1};
    int64_t bytes;
    lk_checkpoint_tensor seen = c->tensor[i];
    lk_checkpoint one = {.tensor = &seen, .n_tensors = 1};
    lk__piece piece = {0, held->box};
    lk__flow flow = {.piece = &piece, .n = lk_box_count(&piece.box) > 0};
    seen.shape = held->of;
    LK_TRY(lk__path_join(c->path, c->part[seen.part].file, s.path, sizeof s.path));
    LK_TRY(lk_alloc(&s.chunk, CHUNK, 1));
    LK_TRY_TO(free_chunk, lk__storage_open(s.path, &s.fd, &bytes));
    LK_TRY_TO(done, tensor_read(&one, &s, &flow, held));
done:
    lk__storage_release(s.fd);
free_chunk:
    lk_free(s.chunk);
    return st;
}

lk_status lk_checkpoint_read_box(const lk_checkpoint *c, int64_t i, const lk_box *box, void *data)
{
    LK_CHECK(c && i >= 0 && i < c->n_tensors, LK_EINVAL, "there is no tensor %lld", (long long)i);
    const lk_shape *shape = &c->tensor[i].shape;
    lk__box_held held = {data, box ? *box : lk_box_whole(shape->ndim, shape->dim), *shape};
    LK_CHECK(held.box.ndim == shape->ndim && lk_box_is_within(&held.box, shape->dim), LK_ESHAPE,
             "a box that is not within the tensor \"%.128s\", which is %s", c->tensor[i].name,
             lk_shape_text(*shape).s);
    LK_CHECK(data || lk_box_count(&held.box) == 0, LK_EINVAL, "data is NULL");
    return LK_TRACE(lk__checkpoint_read_held(c, i, &held));
}

lk_status lk_checkpoint_read_tensor(const lk_checkpoint *c, int64_t i, void *data)
{
    return LK_TRACE(lk_checkpoint_read_box(c, i, NULL, data));
}

/* ---- one checkpoint ---- */

/* Whether the folder has a MANIFEST of its own. */
static bool has_manifest(const char *path)
{
    char name[LK_PATH_SIZE];
    if (lk__path_join(path, "MANIFEST", name, sizeof name) == LK_OK)
        return lk__path_exists(name);
    lk_error_clear();
    return false;
}

/* The newest in a folder that verifies, and in `wrong` what is the matter with newer ones. */
static lk_status newest(const char *folder, lk_arena *arena, lk__out *wrong, lk_checkpoint **out)
{
    char path[LK_PATH_SIZE];
    int64_t *step, n;
    LK_TRY(lk__steps_list(folder, arena, &step, &n));
    LK_CHECK(n > 0, LK_EIO, "%s: is no checkpoint, and holds none", folder);
    for (int64_t i = n - 1; i >= 0; i--) {
        LK_TRY(lk__step_path(folder, step[i], "", path));
        lk_status st = lk__manifest_read(path, out);
        if (st == LK_OK)
            st = lk__checkpoint_verify_all(*out);
        if (st == LK_OK)
            return LK_OK;
        lk_checkpoint_free(*out);
        *out = NULL;
        if (st == LK_ENOMEM)
            LK_TRY(st);
        lk__out_put(wrong, lk_error_message());
        lk__out_put(wrong, "\n");
    }
    LK_TRY(wrong->st);
    return LK_RAISE(LK_EIO, "%s: none of its %lld checkpoints verifies; the newest: %.*s", folder,
                    (long long)n, (int)strcspn(wrong->text, "\n"), wrong->text);
}

static lk_status open_newest(const char *folder, lk_checkpoint **out)
{
    lk_status st;
    lk_arena *arena = NULL;
    lk__out wrong = {0};
    LK_TRY_TO(done, lk_arena_new(&arena));
    LK_TRY_TO(done, newest(folder, arena, &wrong, out));
    LK_TRY_TO(done, wrong.st);
    if (wrong.n > 0)
        LK_TRY_TO(done,
                  lk_arena_text((*out)->arena, wrong.text, (size_t)wrong.n, &(*out)->messages));
done:
    if (st != LK_OK) {
        lk_checkpoint_free(*out);
        *out = NULL;
    }
    lk_free(wrong.text);
    lk_arena_free(arena);
    return st;
}

bool lk_checkpoint_exists(const char *path)
{
    lk_arena *arena;
    int64_t *step, n = 0;
    if (!path || !lk__path_is_folder(path))
        return false;
    if (has_manifest(path))
        return true;
    if (lk_arena_new(&arena) != LK_OK || lk__steps_list(path, arena, &step, &n) != LK_OK)
        lk_error_clear();
    lk_arena_free(arena);
    return n > 0;
}

lk_status lk_checkpoint_read(const char *path, lk_checkpoint **out)
{
    *out = NULL;
    LK_CHECK(path, LK_EINVAL, "path is NULL");
    if (has_manifest(path))
        LK_TRY(lk__manifest_read(path, out));
    else
        LK_TRY(open_newest(path, out));
    return LK_OK;
}

void lk_checkpoint_free(lk_checkpoint *c)
{
    if (!c)
        return;
    lk_arena_free(c->arena);
    lk_free(c);
}
