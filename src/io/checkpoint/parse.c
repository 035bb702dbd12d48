/* Reading a MANIFEST, which is not trusted: its checksum first, then every member in its order,
 * then whether they agree.  load.c parses on each rank what rank 0 has sent; others read a
 * file, on the rank that looks at it. */
#include "base/memory/grow.h"
#include "base/text/json.h"
#include "io/checkpoint/checkpoint.h"
#include "io/safetensors/safetensors.h"

#include <lockstep/extra/checked.h>
#include <lockstep/extra/crc32c.h>

#include <string.h>

enum {
    TAIL = 20,              /* bytes of the last line */
    MOST_BYTES = 256 << 20, /* of a MANIFEST */
    MOST_THINGS = 10000000  /* in a list */
};

/* What is read, and into what. */
typedef struct reader {
    lk__json j;
    lk_checkpoint *c;
} reader;

/* ---- values ---- */

/* The name of the next member. */
static lk_status next(reader *r, const char **name)
{
    bool more;
    *name = "";
    LK_TRY(lk__json_more(&r->j, '}', &more));
    if (!more)
        return lk__json_refuse(&r->j, "a member is missing");
    return LK_TRACE(lk__json_key(&r->j, r->c->arena, name));
}

/* The next member must be this one. */
static lk_status key(reader *r, const char *wanted)
{
    const char *name;
    LK_TRY(next(r, &name));
    if (strcmp(name, wanted) != 0)
        return lk__json_refuse(&r->j, "a member that is not in its place");
    return LK_OK;
}

static lk_status text(reader *r, const char *name, const char **out)
{
    LK_TRY(key(r, name));
    return LK_TRACE(lk__json_text(&r->j, r->c->arena, out));
}

static lk_status integer(reader *r, const char *name, int64_t *out)
{
    LK_TRY(key(r, name));
    return LK_TRACE(lk__json_int(&r->j, out));
}

/* `n` hex digits, all of the text; lower case. */
static bool hex_read(const char *digits, int n, uint64_t *out)
{
    static const char hex_digits[] = "0123456789abcdef";
    *out = 0;
    for (int i = 0; i < n; i++) {
        const char *found = digits[i] ? strchr(hex_digits, digits[i]) : NULL;
        if (!found)
            return false;
        *out = *out << 4 | (uint64_t)(found - hex_digits);
    }
    return true;
}

static lk_status hex(reader *r, const char *name, int n, uint64_t *out)
{
    const char *digits;
    LK_TRY(text(r, name, &digits));
    if (strlen(digits) != (size_t)n || !hex_read(digits, n, out))
        return lk__json_refuse(&r->j, "hex digits that are none, or not as many as there must be");
    return LK_OK;
}

static lk_status dtype(reader *r, const char *name, lk_dtype *out)
{
    const char *read;
    LK_TRY(text(r, name, &read));
    for (int i = 0; i < LK_N_DTYPES; i++)
        if (lk__safetensors_dtype((lk_dtype)i) &&
            strcmp(lk__safetensors_dtype((lk_dtype)i), read) == 0) {
            *out = (lk_dtype)i;
            return LK_OK;
        }
    return lk__json_refuse(&r->j, "an unknown dtype");
}

static lk_status shape(reader *r, lk_shape *out)
{
    *out = LK_SCALAR;
    LK_TRY(key(r, "shape"));
    LK_TRY(lk__json_open(&r->j, '['));
    for (;;) {
        bool more;
        LK_TRY(lk__json_more(&r->j, ']', &more));
        if (!more)
            return LK_OK;
        if (out->ndim == LK_MAX_NDIM)
            return lk__json_refuse(&r->j, "a shape of more than 8 axes");
        LK_TRY(lk__json_int(&r->j, &out->dim[out->ndim++]));
    }
}

/* ---- things in lists ---- */

/* Item number `i` of a list: what `at`, of its size, is to become. */
typedef lk_status item_read(reader *r, int64_t i, void *at);

static lk_status part_read(reader *r, int64_t i, void *at)
{
    lk_checkpoint_part *part = at;
    char wanted[64];
    LK_TRY(text(r, "file", &part->file));
    snprintf(wanted, sizeof wanted, "part-%05lld.safetensors", (long long)i);
    if (strcmp(part->file, wanted) != 0)
        return lk__json_refuse(&r->j, "a part that is not named by its number");
    LK_TRY(integer(r, "bytes", &part->bytes));
    return LK_TRACE(hex(r, "xxh64", 16, &part->hash));
}

static lk_status tensor_read(reader *r, int64_t i, void *at)
{
    lk_checkpoint_tensor *t = at;
    uint64_t crc = 0;
    int64_t bytes;
    (void)i;
    LK_TRY(text(r, "name", &t->name));
    LK_TRY(dtype(r, "dtype", &t->dtype));
    LK_TRY(shape(r, &t->shape));
    LK_TRY(integer(r, "part", &t->part));
    LK_TRY(integer(r, "offset", &t->offset));
    LK_TRY(integer(r, "bytes", &t->bytes));
    LK_TRY(hex(r, "crc32c", 8, &crc));
    t->crc = (uint32_t)crc;
    lk_status st = lk_shape_count(t->shape, &bytes);
    if (st == LK_OK)
        st = lk_mul_i64(bytes, (int64_t)lk_dtype_size(t->dtype), &bytes);
    if (st != LK_OK || bytes != t->bytes) {
        lk_error_clear();
        return lk__json_refuse(&r->j, "shape and bytes disagree about the size");
    }
    return LK_OK;
}

static lk_status number_read(reader *r, int64_t i, void *at)
{
    lk_state_number *number = at;
    uint64_t bits;
    const char *value;
    (void)i;
    LK_TRY(text(r, "name", &number->name));
    LK_TRY(dtype(r, "type", &number->dtype));
    LK_TRY(hex(r, "bits", 16, &bits));
    LK_TRY(text(r, "value", &value));
    if (number->dtype == LK_I64)
        memcpy(&number->i64, &bits, sizeof bits);
    else if (number->dtype == LK_F64)
        memcpy(&number->f64, &bits, sizeof bits);
    else
        return lk__json_refuse(&r->j, "a number that is neither I64 nor F64");
    return LK_OK;
}

static lk_status fact_read(reader *r, int64_t i, void *at)
{
    lk_metadata *metadata = at;
    (void)i;
    LK_TRY(text(r, "name", &metadata->name));
    return LK_TRACE(text(r, "text", &metadata->text));
}

/* [{...}, ...] into `*out`, in the arena; its name was read. */
static lk_status list(reader *r, size_t size, item_read *read, void *out, int64_t *n)
{
    char *items = NULL, *kept = NULL;
    int64_t room = 0;
    bool more = true;
    lk_status st;
    LK_TRY(lk__json_open(&r->j, '['));
    for (*n = 0;; (*n)++) {
        LK_TRY_TO(done, lk__json_more(&r->j, ']', &more));
        if (!more)
            break;
        LK_TRY_TO(done, *n < MOST_THINGS ? LK_OK : lk__json_refuse(&r->j, "too many in a list"));
        LK_TRY_TO(done, lk__grow(&items, &room, (*n + 1) * (int64_t)size, 1));
        memset(items + *n * (int64_t)size, 0, size);
        LK_TRY_TO(done, lk__json_open(&r->j, '{'));
        LK_TRY_TO(done, read(r, *n, items + *n * (int64_t)size));
        LK_TRY_TO(done, lk__json_more(&r->j, '}', &more));
        LK_TRY_TO(done, more ? lk__json_refuse(&r->j, "a member too many") : LK_OK);
    }
    LK_TRY_TO(done, lk_arena_alloc(r->c->arena, &kept, *n, size));
    if (*n > 0)
        memcpy(kept, items, (size_t)*n * size);
    memcpy(out, &kept, sizeof kept);
done:
    lk_free(items);
    return st;
}

/* ---- the whole ---- */

/* Tensors lie one behind the other to the end of their part, and each part has some. */
static lk_status places_check(reader *r)
{
    const lk_checkpoint *c = r->c;
    int64_t part = -1, at = 0;
    for (int64_t i = 0; i < c->n_tensors; i++) {
        const lk_checkpoint_tensor *t = &c->tensor[i];
        if (t->part != part) {
            if (t->part != part + 1 || t->part >= c->n_parts ||
                (part >= 0 && at != c->part[part].bytes))
                return lk__json_refuse(&r->j, "parts that tensors do not fill");
            part = t->part;
            at = t->offset;
        }
        if (t->offset != at || t->bytes > c->part[part].bytes - at)
            return lk__json_refuse(&r->j, "a tensor that is not at its place");
        at += t->bytes;
    }
    if (part + 1 != c->n_parts || (part >= 0 && at != c->part[part].bytes))
        return lk__json_refuse(&r->j, "parts that tensors do not fill");
    return LK_OK;
}

/* "hash" says how the state was hashed; what was written before hashes had a format has none. */
static lk_status format_read(reader *r, int *out)
{
    const char *name;
    int64_t format;
    *out = 1;
    LK_TRY(next(r, &name));
    if (strcmp(name, "hash") == 0) {
        LK_TRY(lk__json_int(&r->j, &format));
        LK_CHECK(format == LK_HASH_FORMAT, LK_ENOTSUP,
                 "%s: the hash of its state has format %lld, this program knows format %d; read it "
                 "with the version of lockstep that wrote it, or a newer one",
                 r->j.name, (long long)format, LK_HASH_FORMAT);
        *out = (int)format;
        LK_TRY(next(r, &name));
    }
    if (strcmp(name, "parts") != 0)
        return lk__json_refuse(&r->j, "a member that is not in its place");
    return LK_OK;
}

static lk_status read_all(reader *r)
{
    const char *format;
    lk_checkpoint *c = r->c;
    bool more;
    LK_TRY(lk__json_open(&r->j, '{'));
    LK_TRY(text(r, "format", &format));
    LK_CHECK(strcmp(format, "lockstep checkpoint 1") == 0, LK_ENOTSUP,
             "%s: the format is \"%.32s\", this program reads \"lockstep checkpoint 1\"", r->j.name,
             format);
    LK_TRY(integer(r, "step", &c->step));
    LK_TRY(hex(r, "identity", 16, &c->identity));
    LK_TRY(hex(r, "state", 16, &c->hash));
    LK_TRY(format_read(r, &c->hash_format));
    LK_TRY(list(r, sizeof *c->part, part_read, &c->part, &c->n_parts));
    LK_TRY(key(r, "tensors"));
    LK_TRY(list(r, sizeof *c->tensor, tensor_read, &c->tensor, &c->n_tensors));
    LK_TRY(key(r, "numbers"));
    LK_TRY(list(r, sizeof *c->number, number_read, &c->number, &c->n_numbers));
    LK_TRY(key(r, "facts"));
    LK_TRY(list(r, sizeof *c->metadata, fact_read, &c->metadata, &c->n_metadata));
    LK_TRY(key(r, "check"));
    LK_TRY(lk__json_text(&r->j, c->arena, &format));
    LK_TRY(lk__json_more(&r->j, '}', &more));
    if (more)
        return lk__json_refuse(&r->j, "a member too many");
    LK_TRY(lk__json_end(&r->j));
    return LK_TRACE(places_check(r));
}

/* The last line, and whether what it says is true of the rest. */
static lk_status checksum_check(const char *name, const char *bytes, int64_t n)
{
    uint64_t crc;
    const char *tail = n >= TAIL ? bytes + n - TAIL : NULL;
    LK_CHECK(tail && memcmp(tail, "\"check\":\"", 9) == 0 && hex_read(tail + 9, 8, &crc) &&
                 memcmp(tail + 17, "\"}\n", 3) == 0,
             LK_EIO, "%s: offset %lld: does not end as it must: it was cut off or changed", name,
             (long long)(tail ? n - TAIL : 0));
    uint32_t found = lk_crc32c(0, bytes, (size_t)(n - TAIL));
    LK_CHECK(found == (uint32_t)crc, LK_EIO,
             "%s: offset 0: its checksum is %08x, its last line says %08x", name, (unsigned)found,
             (unsigned)crc);
    return LK_OK;
}

lk_status lk__manifest_parse(const char *path, const char *bytes, int64_t n, lk_checkpoint **out)
{
    lk_status st;
    char name[LK_PATH_SIZE];
    lk_checkpoint *c = NULL;
    *out = NULL;
    LK_TRY(lk__path_join(path, "MANIFEST", name, sizeof name));
    LK_TRY(checksum_check(name, bytes, n));
    LK_TRY(lk_alloc_zero(&c, 1, sizeof *c));
    LK_TRY_TO(fail, lk_arena_new(&c->arena));
    LK_TRY_TO(fail, lk_arena_text(c->arena, path, strlen(path), &c->path));
    c->messages = "";
    reader r = {.j = {.name = name, .text = bytes, .n = n}, .c = c};
    LK_TRY_TO(fail, read_all(&r));
    *out = c;
    return LK_OK;
fail:
    lk_checkpoint_free(c);
    return st;
}

/* A folder that is named after a step holds the checkpoint of that step. */
static lk_status step_check(const char *path, int64_t step)
{
    char name[LK__STEP_NAME] = "";
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    if (end - begin < sizeof name)
        memcpy(name, path + begin, end - begin);
    int64_t named = lk__step_of_name(name);
    LK_CHECK(named < 0 || named == step, LK_EIO, "%s: its MANIFEST is that of step %lld", path,
             (long long)step);
    return LK_OK;
}

lk_status lk__manifest_read(const char *path, lk_checkpoint **out)
{
    lk_status st;
    char name[LK_PATH_SIZE], *bytes = NULL;
    int fd;
    int64_t n;
    *out = NULL;
    LK_TRY(lk__path_join(path, "MANIFEST", name, sizeof name));
    LK_TRY(lk__storage_open(name, &fd, &n));
    LK_TRY_TO(done, n <= MOST_BYTES ? LK_OK
                                    : LK_RAISE(LK_EIO, "%s: offset %d: %lld bytes are too many",
                                               name, MOST_BYTES, (long long)n));
    LK_TRY_TO(done, lk_alloc(&bytes, n, 1));
    LK_TRY_TO(done, lk__storage_read(fd, name, 0, bytes, n));
    LK_TRY_TO(done, lk__manifest_parse(path, bytes, n, out));
    LK_TRY_TO(done, step_check(path, (*out)->step));
done:
    if (st != LK_OK) {
        lk_checkpoint_free(*out);
        *out = NULL;
    }
    lk_free(bytes);
    lk__storage_release(fd);
    return st;
}
