/* lk_jsonl: a file of JSON lines such as metrics.jsonl.  The run's output (train/run/output.c)
 * opens it on rank 0. */
#include "io/jsonl.h"

#include "data/source.h"
#include "io/append.h"
#include "io/kv.h"
#include "io/out.h"

#include <lockstep/extra/alloc.h>

struct lk_jsonl {
    lk__append *file;
    lk__out line;
};

/* Where the last whole line of the first `most` bytes of a file ends. */
static lk_status whole_lines(const char *path, int64_t most, int64_t *end)
{
    char piece[4096];
    lk__source *source = NULL;
    *end = 0;
    if (!lk__path_exists(path))
        return LK_OK;
    LK_TRY(lk__source_open(path, &source));
    lk_status st = LK_OK;
    int64_t last = lk__source_size(source) < most ? lk__source_size(source) : most;
    while (last > 0 && *end == 0 && st == LK_OK) {
        int64_t first = last > (int64_t)sizeof piece ? last - (int64_t)sizeof piece : 0;
        st = lk__source_read(source, first, piece, last - first, "the last line");
        for (int64_t i = last; st == LK_OK && i > first && *end == 0; i--)
            if (piece[i - 1 - first] == '\n')
                *end = i;
        last = first;
    }
    lk__source_free(source);
    return LK_TRACE(st);
}

static lk_status open_file(lk_jsonl *l, const char *path, int64_t most)
{
    int64_t end = 0;
    if (most > 0)
        LK_TRY(whole_lines(path, most, &end));
    return LK_TRACE(lk__append_open(path, end, &l->file));
}

lk_status lk__jsonl_open_at(const char *path, int64_t bytes, lk_jsonl **out)
{
    lk_jsonl *l = NULL;
    *out = NULL;
    LK_CHECK(path, LK_EINVAL, "path is NULL");
    LK_TRY(lk_alloc_zero(&l, 1, sizeof *l));
    lk_status st = open_file(l, path, bytes);
    if (st != LK_OK) {
        lk_free(l);
        LK_TRY(st);
    }
    *out = l;
    return LK_OK;
}

lk_status lk_jsonl_open(const char *path, bool append, lk_jsonl **out)
{
    return LK_TRACE(lk__jsonl_open_at(path, append ? INT64_MAX : 0, out));
}

int64_t lk__jsonl_bytes(const lk_jsonl *l)
{
    return lk__append_bytes(l->file);
}

lk_status lk__jsonl_sync(lk_jsonl *l)
{
    return LK_TRACE(lk__append_sync(l->file));
}

lk_status lk_jsonl_add(lk_jsonl *l, const lk_kv *kv, int64_t n)
{
    LK_CHECK(l, LK_EINVAL, "lines are NULL");
    LK_TRY(lk__kvs_check(kv, n));
    lk__out_clear(&l->line);
    lk__kvs_put(&l->line, kv, n);
    lk__out_put(&l->line, "\n");
    LK_TRY(l->line.st);
    return LK_TRACE(lk__append_write(l->file, l->line.text, l->line.n));
}

lk_status lk_jsonl_close(lk_jsonl *l)
{
    if (!l)
        return LK_OK;
    lk_status st = lk__append_close(l->file);
    lk_free(l->line.text);
    lk_free(l);
    return st;
}
