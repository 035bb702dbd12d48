/* lk_fetch: margins, filled from the ranks that own them.
 *
 * Made with a layer's tile; run by its ops just before they read x or dy, on the communicator's thread.
 * What is sent to whom follows from boxes alone, the same on both sides, so a message needs no header:
 * its elements are the box in row-major order, sample by sample.
 */
#include "base/grow.h"
#include "dist/common/tiles.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <string.h>

typedef struct part {
    int rank;
    lk_box box;
    int64_t count; /* positions */
} part;

struct lk_fetch {
    lk_comm *comm; /* borrowed */
    part *in, *out;
    int n_in, n_out;
    lk_request **request; /* [n_in + n_out]: receives first */
    char *room;           /* what comes, then what goes */
    int64_t max_room;
    /* between begin and end */
    bool busy;
    lk_box held;
    void *array;
    int64_t samples, bytes;
};

/* The parts of `mine` that other ranks have in `of` [ranks]; returns how many, `out` may be NULL. */
static int parts_of(const lk_tiling *t, const lk_box *mine, const lk_box *of, part *out)
{
    int n = 0;
    for (int r = 0; r < t->size; r++) {
        lk_box common = lk_box_intersect(mine, &of[r]);
        if (r == t->rank || lk__box_is_empty(&common))
            continue;
        if (out)
            out[n] = (part){r, common, lk_box_count(&common)};
        n++;
    }
    return n;
}

lk_status lk_fetch_new(const lk_tiling *t, const lk_box *own, const lk_box *want, lk_fetch **out)
{
    lk_fetch *f = NULL;
    LK_CHECK(t && own && want && out, LK_EINVAL, "tiling, own, want or out is NULL");
    *out = NULL;
    int n_in = parts_of(t, &want[t->rank], own, NULL);
    int n_out = parts_of(t, &own[t->rank], want, NULL);
    if (n_in + n_out == 0)
        return LK_OK;
    LK_TRY(lk_alloc_zero(&f, 1, sizeof *f));
    f->comm = t->comm;
    f->n_in = n_in;
    f->n_out = n_out;
    lk_status st = lk_alloc_zero(&f->in, n_in + n_out, sizeof *f->in);
    if (st == LK_OK)
        st = lk_alloc_zero(&f->request, n_in + n_out, sizeof(lk_request *));
    if (st != LK_OK) {
        lk_fetch_free(f);
        LK_TRY(st);
    }
    f->out = f->in + n_in;
    (void)parts_of(t, &want[t->rank], own, f->in);
    (void)parts_of(t, &own[t->rank], want, f->out);
    *out = f;
    return LK_OK;
}

void lk_fetch_free(lk_fetch *f)
{
    if (!f)
        return;
    if (f->busy)
        (void)!lk_waitall(f->n_in + f->n_out, f->request);
    lk_free(f->in);
    lk_free(f->request);
    lk_free(f->room);
    lk_free(f);
}

lk_fetch_size lk_fetch_size_of(const lk_fetch *f)
{
    lk_fetch_size s = {0};
    if (!f)
        return s;
    s.from = f->n_in;
    s.to = f->n_out;
    for (int i = 0; i < f->n_in; i++)
        s.gets += f->in[i].count;
    for (int i = 0; i < f->n_out; i++)
        s.gives += f->out[i].count;
    return s;
}

bool lk_fetch_part(const lk_fetch *f, int i, int *rank, lk_box *box)
{
    if (!f || i < 0 || i >= f->n_in)
        return false;
    *rank = f->in[i].rank;
    *box = f->in[i].box;
    return true;
}

enum { TAG = 0 };

static lk_status messages_post(lk_fetch *f, lk_dtype dtype, int64_t channels, const char *name)
{
    char *at = f->room;
    int n = 0;
    for (int i = 0; i < f->n_in; i++, n++) {
        int64_t count = f->in[i].count * f->samples * channels;
        LK_TRY(lk_irecv(f->comm, at, count, dtype, f->in[i].rank, TAG, name, &f->request[n]));
        at += f->in[i].count * f->samples * f->bytes;
    }
    for (int i = 0; i < f->n_out; i++, n++) {
        int64_t count = f->out[i].count * f->samples * channels;
        lk__tile_pack(f->array, &f->held, &f->out[i].box, f->samples, f->bytes, at);
        LK_TRY(lk_isend(f->comm, at, count, dtype, f->out[i].rank, TAG, name, &f->request[n]));
        at += f->out[i].count * f->samples * f->bytes;
    }
    return LK_OK;
}

lk_status lk_fetch_begin(lk_fetch *f, lk_dtype dtype, int64_t samples, int64_t channels,
                         const lk_box *box, void *array, const char *name)
{
    if (!f || samples == 0 || channels == 0)
        return LK_OK;
    LK_CHECK(f->comm, LK_ESTATE, "a tiling without a communicator fetches nothing");
    LK_CHECK(!f->busy, LK_ESTATE, "the fetch has begun, and was not ended");
    LK_CHECK(box && array, LK_EINVAL, "%s is NULL", box ? "array" : "box");
    lk_fetch_size size = lk_fetch_size_of(f);
    int64_t room;
    LK_TRY(lk_mul_i64(size.gets + size.gives, samples, &room));
    LK_TRY(lk_mul_i64(room, channels * (int64_t)lk_dtype_size(dtype), &room));
    LK_TRY(lk__grow(&f->room, &f->max_room, room, 1));
    f->busy = true;
    f->held = *box;
    f->array = array;
    f->samples = samples;
    f->bytes = channels * (int64_t)lk_dtype_size(dtype);
    memset(f->request, 0, (size_t)(f->n_in + f->n_out) * sizeof(lk_request *));
    LK_TRY(messages_post(f, dtype, channels, name));
    return LK_OK;
}

lk_status lk_fetch_end(lk_fetch *f)
{
    if (!f || !f->busy)
        return LK_OK;
    f->busy = false;
    LK_TRY(lk_waitall(f->n_in + f->n_out, f->request));
    const char *at = f->room;
    for (int i = 0; i < f->n_in; i++) {
        lk__tile_unpack(f->array, &f->held, &f->in[i].box, f->samples, f->bytes, at);
        at += f->in[i].count * f->samples * f->bytes;
    }
    return LK_OK;
}
