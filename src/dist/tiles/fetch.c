/* lk_fetch: margins, filled from the ranks that own them.
 *
 * Made with a layer's tile; run by its ops just before they read x or dy, on the communicator's thread.
 * What is sent to whom follows from boxes alone, the same on both sides, so a message needs no header:
 * its elements are the box in row-major order, sample by sample.
 */
#include "base/memory/grow.h"
#include "comm/user.h"
#include "dist/common/tiles.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <stdio.h>
#include <string.h>

typedef struct part {
    int rank;
    lk_box box;
    int64_t count; /* positions */
} part;

struct lk_fetch {
    const lk_tiling *tiling; /* both are borrowed */
    lk_comm *comm;
    part *in, *out;
    int n_in, n_out;
    lk_request **request; /* [n_in + n_out]: receives first */
    char *room;           /* what comes, then what goes */
    int64_t max_room;
    /* between begin and end */
    bool busy;
    lk_box held;
    void *array;
    int64_t samples, channels, bytes; /* bytes of a position */
    char name[LK_DIST_NAME];
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
    f->tiling = t;
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

/* Of no message that a program sends or receives, not even with LK_ANY_TAG, but the adjoint of that with the
 * largest tag there is. */
#define TAG INT64_MAX

static int64_t elements_of(const lk_fetch *f, const part *p)
{
    return p->count * f->samples * f->channels;
}

static lk_status messages_post(lk_fetch *f, lk_dtype dtype)
{
    char *at = f->room;
    lk_request **r = f->request;
    for (const part *p = f->in; p < f->in + f->n_in; p++, r++) {
        LK_TRY(lk_irecv(f->comm, at, elements_of(f, p), dtype, p->rank, TAG, f->name, r));
        at += p->count * f->samples * f->bytes;
    }
    for (const part *p = f->out; p < f->out + f->n_out; p++, r++) {
        lk__tile_pack(f->array, &f->held, &p->box, f->samples, f->bytes, at);
        LK_TRY(lk_isend(f->comm, at, elements_of(f, p), dtype, p->rank, TAG, f->name, r));
        at += p->count * f->samples * f->bytes;
    }
    return LK_OK;
}

/* Others may send less than there is room for: then they have other samples or channels. */
static lk_status messages_wait(lk_fetch *f)
{
    for (int i = 0; i < f->n_in; i++) {
        lk_message m;
        LK_TRY(lk_wait(&f->request[i], &m));
        LK_CHECK(
            m.count == elements_of(f, &f->in[i]), LK_EMISMATCH,
            "fetch(\"%s\"): rank %d has sent %lld elements, where this rank, with %lld samples "
            "of %lld channels, waits for %lld",
            f->name, m.rank, (long long)m.count, (long long)f->samples, (long long)f->channels,
            (long long)elements_of(f, &f->in[i]));
    }
    return LK_TRACE(lk_waitall(f->n_out, f->request + f->n_in));
}

/* A rank that fails ends the job, since others wait for it, and what it has begun is given up. */
static void messages_drop(lk_fetch *f)
{
    lk__dist_end_job(f->comm);
    for (int i = 0; i < f->n_in + f->n_out; i++)
        if (f->request[i])
            lk__request_drop(&f->request[i]);
    f->busy = false;
}

/* Whether an array of this box has all that comes and goes. */
static bool holds_parts(const lk_fetch *f, const lk_box *box)
{
    bool holds = true;
    for (const part *p = f->in; p < f->in + f->n_in + f->n_out; p++)
        holds = holds && box->ndim == p->box.ndim && lk__box_has(box, &p->box);
    return holds;
}

lk_status lk_fetch_begin(lk_fetch *f, lk_dtype dtype, int64_t samples, int64_t channels,
                         const lk_box *box, void *array, const char *name)
{
    if (!f || samples == 0 || channels == 0)
        return LK_OK;
    LK_CHECK(f->comm || f->tiling->rehearses, LK_ESTATE,
             "a tiling without a communicator fetches nothing");
    LK_CHECK(!f->busy, LK_ESTATE, "the fetch has begun, and was not ended");
    LK_CHECK(box && array, LK_EINVAL, "%s is NULL", box ? "array" : "box");
    LK_CHECK(samples > 0 && channels > 0, LK_EINVAL, "%lld samples of %lld channels",
             (long long)samples, (long long)channels);
    LK_CHECK(holds_parts(f, box), LK_EINVAL,
             "the box of the array does not hold all that the fetch gets and gives");
    lk_fetch_size size = lk_fetch_size_of(f);
    int64_t room;
    LK_TRY(lk_mul_i64(size.gets + size.gives, samples, &room));
    LK_TRY(lk_mul_i64(room, channels, &room));
    LK_TRY(lk_mul_i64(room, (int64_t)lk_dtype_size(dtype), &room));
    LK_TRY_DIST(f->comm, lk__grow(&f->room, &f->max_room, room, 1));
    if (!f->comm) /* a rehearsal: the margin stays as it is */
        return LK_OK;
    f->busy = true;
    f->held = *box;
    f->array = array;
    f->samples = samples;
    f->channels = channels;
    f->bytes = channels * (int64_t)lk_dtype_size(dtype);
    snprintf(f->name, sizeof f->name, "%s", name ? name : "");
    memset(f->request, 0, (size_t)(f->n_in + f->n_out) * sizeof(lk_request *));
    lk_status st = messages_post(f, dtype);
    if (st != LK_OK)
        messages_drop(f);
    return LK_TRACE(st);
}

lk_status lk_fetch_end(lk_fetch *f)
{
    if (!f || !f->busy)
        return LK_OK;
    f->busy = false;
    lk_status st = messages_wait(f);
    if (st != LK_OK)
        messages_drop(f);
    LK_TRY(st);
    const char *at = f->room;
    for (int i = 0; i < f->n_in; i++) {
        lk__tile_unpack(f->array, &f->held, &f->in[i].box, f->samples, f->bytes, at);
        at += f->in[i].count * f->samples * f->bytes;
    }
    return LK_OK;
}
