/* The rounds of an exchange between files and boxes; exchange_open.c has what comes before them.  They run
 * on the thread that makes the calls on the communicator, which no other thread uses meanwhile.
 */
#include "io/exchange.h"

#include <lockstep/coll.h>

#include <string.h>

void lk__exchange_start(lk__exchange *x, const bool *skip, bool skipped)
{
    for (int i = 0; i < x->size; i++) {
        x->bands[i] = lk__bands_start(x->c, x->place[i], x->files, x->room);
        x->bands[i].skip = skip;
        x->bands[i].skipped = skipped;
    }
}

bool lk__exchange_next(lk__exchange *x)
{
    bool some = false;
    for (int i = 0; i < x->size; i++) {
        x->has[i] = lk__bands_next(&x->bands[i], &x->band[i]);
        some = some || x->has[i];
    }
    return some;
}

const lk__band *lk__exchange_band(const lk__exchange *x)
{
    return x->has[x->rank] ? &x->band[x->rank] : NULL;
}

/* This rank's endpoint of what goes between it and another: `files`: at its own files, whose band of this
 * round is `band`; else at its boxes, for a band of the other's files. */
static lk__endpoint endpoint_of(const lk__exchange *x, bool files, int other, unsigned char *band)
{
    int owner = files ? x->rank : other;
    return (lk__endpoint){.c = x->c,
                          .flow = files ? &x->file[other] : &x->box[other],
                          .band = x->has[owner] ? &x->band[owner] : NULL,
                          .base = files ? band : NULL,
                          .held = x->held};
}

/* Send to one rank what is its, and receive from another; to this rank itself, copy. */
static lk_status send_and_receive(lk__exchange *x, int to, int from, unsigned char *band)
{
    lk__endpoint out = endpoint_of(x, !x->saving, to, band);
    lk__endpoint in = endpoint_of(x, x->saving, from, band);
    int64_t out_bytes = lk__flow_bytes(x->c, out.flow, out.band);
    int64_t in_bytes = lk__flow_bytes(x->c, in.flow, in.band);
    unsigned char *sent = NULL, *got = NULL;
    if (to == x->rank) {
        if (out_bytes > 0)
            lk__endpoint_copy(&out, &in);
        return LK_OK;
    }
    if (out_bytes > 0 && !(sent = lk__endpoint_direct(&out, out_bytes))) {
        sent = x->out;
        lk__endpoint_pack(&out, sent);
    }
    bool direct = in_bytes > 0 && (got = lk__endpoint_direct(&in, in_bytes));
    if (!direct)
        got = x->in;
    if (out_bytes > 0 || in_bytes > 0) {
        lk_sendrecv_side send = {.data = sent, .count = out_bytes, .rank = out_bytes > 0 ? to : -1};
        lk_sendrecv_side recv = {.data = got, .count = in_bytes, .rank = in_bytes > 0 ? from : -1};
        lk_message info = {.count = in_bytes};
        LK_TRY(lk_sendrecv(x->comm, LK_U8, &send, &recv, "checkpoint", &info));
        LK_CHECK(in_bytes == 0 || info.count == in_bytes, LK_EMISMATCH,
                 "rank %d sends %lld bytes of a checkpoint's tensors, %lld were to come", from,
                 (long long)info.count, (long long)in_bytes);
    }
    if (in_bytes > 0 && !direct)
        lk__endpoint_unpack(&in, got);
    return LK_OK;
}

unsigned char *lk__exchange_direct(const lk__exchange *x, const lk__band *band)
{
    lk__endpoint end = {.c = x->c, .flow = &x->box[x->rank], .band = band, .held = x->held};
    return x->whole && !x->saving ? lk__endpoint_direct(&end, band->bytes) : NULL;
}

/* All ranks hold all: each band goes to every rank.  There is a communicator, as in all that loads: one rank
 * alone reads its boxes without an exchange. */
static lk_status spread(lk__exchange *x, unsigned char *band)
{
    for (int i = 0; i < x->size; i++) {
        if (!x->has[i])
            continue;
        lk__endpoint end = endpoint_of(x, false, i, NULL);
        unsigned char *direct = lk__endpoint_direct(&end, x->band[i].bytes);
        unsigned char *bytes = i == x->rank ? band : direct ? direct : x->in;
        LK_TRY(lk_bcast(x->comm, bytes, x->band[i].bytes, LK_U8, i, "checkpoint"));
        if (bytes != direct)
            lk__endpoint_unpack(&end, bytes);
    }
    return LK_OK;
}

lk_status lk__exchange_round(lk__exchange *x, unsigned char *band)
{
    if (x->whole && !x->saving)
        return spread(x, band);
    for (int k = 0; k < x->size; k++)
        LK_TRY(
            send_and_receive(x, (x->rank + k) % x->size, (x->rank - k + x->size) % x->size, band));
    return LK_OK;
}
