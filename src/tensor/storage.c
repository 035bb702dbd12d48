/* Counted memory: the library's own, or the host's with a call when it is no longer needed. */
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>

static char nothing; /* where the elements of a tensor without elements are */

lk_status lk__storage_wrap(void *data, lk_release_fn *release, void *context,
                           struct lk__storage **out)
{
    LK_TRY(lk_alloc(out, 1, sizeof **out));
    struct lk__storage *s = *out;
    atomic_init(&s->holders, 1);
    atomic_init(&s->version, 0);
    s->parts = NULL;
    s->data = data ? data : &nothing;
    s->owned = false;
    s->release = release;
    s->context = context;
    return LK_OK;
}

lk_status lk__storage_new(int64_t bytes, bool zero, struct lk__storage **out)
{
    lk_status st;
    LK_TRY(lk__storage_wrap(NULL, NULL, NULL, out));
    struct lk__storage *s = *out;
    s->owned = true;
    LK_TRY_TO(fail, zero ? lk_alloc_zero(&s->data, bytes, 1) : lk_alloc(&s->data, bytes, 1));
    return LK_OK;
fail:
    lk__storage_free(s);
    *out = NULL;
    return st;
}

void lk__storage_retain(struct lk__storage *s)
{
    atomic_fetch_add_explicit(&s->holders, 1, memory_order_relaxed);
}

void lk__storage_free(struct lk__storage *s)
{
    /* What other holders did to the memory happens before it is given back. */
    if (!s || atomic_fetch_sub_explicit(&s->holders, 1, memory_order_acq_rel) > 1)
        return;
    if (s->owned)
        lk_free(s->data);
    else if (s->release)
        s->release(s->context);
    lk_free(s->parts);
    lk_free(s);
}
