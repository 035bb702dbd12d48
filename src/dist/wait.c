/* wait and waitany: a message is over; its value goes on.  isend.c says what backward does. */
#include "autograd/tape_access.h"
#include "comm/user.h"
#include "dist/common/pending.h"
#include "dist/common/sample_shapes.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* A handle that can be waited for. */
static lk_status pending_check(lk_var handle, const char *call, lk__pending **out)
{
    lk__pending *p = lk__pending_find(handle);
    *out = p;
    LK_CHECK(lk_is_var(handle), LK_EINVAL, "%s for LK_NO_VAR, which is no handle", call);
    LK_CHECK(p, LK_ESTATE,
             "%s for a value that is no handle of isend or irecv, or was waited for before", call);
    LK_CHECK(!p->waited, LK_ESTATE, "%s for %s, which was waited for before", call,
             lk__pending_text(p).s);
    LK_CHECK(p->segment == lk__tape_segment(handle.tape), LK_ESTATE,
             "%s for %s, which was begun in another segment of lk_recompute()", call,
             lk__pending_text(p).s);
    LK_CHECK(p->request, LK_ESTATE, "%s for %s, whose communicator was freed", call,
             lk__pending_text(p).s);
    return LK_OK;
}

/* Take what was claimed, to a value of its dtype and shape. */
static lk_status claim_end(lk_var handle, lk__pending *p, const lk_output_spec *received,
                           lk_var *value)
{
    lk_output_spec spec;
    memset(&spec, 0, sizeof spec); /* attributes are compared as bytes */
    spec.dtype = p->dtype = received->dtype;
    spec.shape = p->shape = received->shape;
    return LK_TRACE(lk_apply(handle.tape, &lk__dist_claimed, &handle, 1, &spec, value));
}

/* The request of `p` is over, or has claimed its message: record it. */
static lk_status pending_end(lk_var handle, lk_var *out)
{
    lk_status st;
    lk__pending *p = lk__pending_find(handle);
    lk_var value = LK_NO_VAR;
    lk_shape want = p->shape;
    lk_dtype dtype = p->dtype;
    lk_output_spec received = {.dtype = dtype, .shape = want};
    if (!p->sends)
        LK_TRY_TO(done, lk__dist_message_spec(&p->info, &received));
    if (p->claims)
        LK_TRY_TO(done, claim_end(handle, p, &received, &value));
    if (!p->sends && !lk__dist_fits(want, &p->info))
        LK_TRY_TO(done,
                  LK_RAISE(LK_ESHAPE, "%s of %s%s: it has sent %s%s", lk__pending_text(p).s,
                           dtype == LK_ANY_DTYPE ? "" : lk_dtype_name(dtype), lk_shape_text(want).s,
                           lk_dtype_name(received.dtype), lk_shape_text(received.shape).s));
    if (!p->claims)
        LK_TRY_TO(done, lk_apply(handle.tape, p->sends ? &lk__dist_sent : &lk__dist_received,
                                 (lk_var[]){handle, p->data}, p->sends ? 1 : 2, NULL, &value));
done:
    if (p->request)
        lk__request_drop(&p->request);
    lk__pending_done(handle);
    if (out)
        *out = value;
    return st;
}

lk_status lk_dist_wait(lk_var handle, lk_var *out)
{
    lk__pending *p;
    if (out)
        *out = LK_NO_VAR;
    LK_TRY(pending_check(handle, "wait", &p));
    LK_TRY(lk_wait(&p->request, &p->info));
    return LK_TRACE(pending_end(handle, out));
}

/* The communicator of the first message, NULL if there is none. */
static lk_comm *comm_of(const lk_var *handles, int n)
{
    const lk__pending *p = NULL;
    for (int i = 0; i < n && !p; i++)
        p = lk__pending_find(handles[i]);
    return p ? p->d.comm : NULL;
}

/* The requests of the handles. */
static lk_status collect(const lk_var *handles, int n, lk_request **request)
{
    const lk__pending *first = NULL;
    for (int i = 0; i < n; i++) {
        lk__pending *p;
        if (!lk_is_var(handles[i]))
            continue;
        LK_TRY(pending_check(handles[i], "waitany", &p));
        request[i] = p->request;
        first = first ? first : p;
        LK_CHECK(lk__comm_related(p->d.comm, first->d.comm), LK_EINVAL,
                 "waitany for %s and %s, whose communicators were not made from the same one",
                 lk__pending_text(first).s, lk__pending_text(p).s);
        for (int k = 0; k < i; k++)
            LK_CHECK(handles[k].serial != handles[i].serial, LK_EINVAL,
                     "waitany: handles %d and %d are the same", k, i);
    }
    return LK_OK;
}

lk_status lk_dist_waitany(const lk_var *handles, int n, int *which, lk_var *out)
{
    lk_status st;
    int64_t one = -1;
    lk_message info;
    lk_request **request = NULL;
    LK_CHECK(which && n >= 0 && (handles || n == 0), LK_EINVAL, "waitany: %s",
             which ? "no handles" : "which is NULL");
    *which = -1;
    if (out)
        *out = LK_NO_VAR;
    LK_TRY_DIST(comm_of(handles, n), lk_alloc_zero(&request, n, sizeof(lk_request *)));
    LK_TRY_TO(done, collect(handles, n, request));
    st = lk_waitany(n, request, &one, &info);
    if (one < 0)
        goto done;
    lk__pending *p = lk__pending_find(handles[one]);
    p->request = request[one]; /* NULL, or what has claimed a message */
    LK_TRY_TO(done, st);
    p->info = info;
    *which = (int)one;
    LK_TRY_TO(done, pending_end(handles[one], out));
done:
    lk_free(request);
    return st;
}

/* ---- samples ---- */

/* Two messages of one tag, of which the second is waited for first; in variant 1 the
 * first is not used. */
static lk_status crossed_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                lk_var *out)
{
    lk_var received[2], sent[2], got[2], token[2];
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_irecv(in[0].tape, comm, left_of(comm), 7, lk_dtype_of(in[i]),
                             lk_shape_of(in[i]), "check", &received[i]));
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_isend(comm, in[i], right_of(comm), 7, "check", &sent[i]));
    for (int i = 1; i >= 0; i--)
        LK_TRY(lk_dist_wait(received[i], &got[i]));
    for (int i = 0; i < 2; i++)
        LK_TRY(lk_dist_wait(sent[i], &token[i]));
    LK_TRY(lk_sin(got[1], out));
    if (s->variant == 0)
        LK_TRY(lk_mul(out[0], got[0], out));
    LK_TRY(lk_mul(out[0], in[0], out));
    return LK_TRACE(lk_join(out[0], token, 2, out));
}

#define CROSSED(text, what, kind)                                                      \
    {                                                                                  \
        .name = (text), .n_in = 2, .n_out = 1, .shape = (what), .run = crossed_sample, \
        .variant = (kind)                                                              \
    }

const lk_dist_check lk__dist_check_wait = {
    .name = "wait",
    .summary =
        "y = the message of a handle; the gradient of a handle is that of its adjoint message",
    .samples = (const lk_dist_sample[]){CROSSED("out of order", shape_same, 0),
                                        CROSSED("out of order, one unused", shape_same, 1),
                                        CROSSED("more than is buffered", shape_long, 0),
                                        {0}}};

/* Both neighbours on the ring and this rank itself, in whatever order they come. */
static lk_status waitany_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                lk_var *out)
{
    const int to[3] = {right_of(comm), lk_comm_rank(comm), left_of(comm)};
    const int from[3] = {left_of(comm), lk_comm_rank(comm), right_of(comm)};
    lk_var handle[7], got[3], x;
    int which;
    (void)s;
    for (int i = 0; i < 3; i++) {
        LK_TRY(lk_dist_isend(comm, in[i], to[i], 20 + i, "check", &handle[i]));
        LK_TRY(lk_dist_irecv(in[0].tape, comm, from[i], 20 + i, lk_dtype_of(in[0]),
                             lk_shape_of(in[0]), "check", &handle[3 + i]));
    }
    handle[6] = LK_NO_VAR;
    for (int n = 0; n < 6; n++) {
        LK_TRY(lk_dist_waitany(handle, 7, &which, &x));
        handle[which] = LK_NO_VAR;
        if (which >= 3)
            got[which - 3] = x;
    }
    LK_TRY(lk_sin(got[1], &got[1]));
    LK_TRY(lk_mul(got[0], got[1], out));
    return LK_TRACE(lk_sub(out[0], got[2], out));
}

const lk_dist_check lk__dist_check_waitany = {
    .name = "waitany",
    .summary = "as wait, of the message that is there first",
    .samples = (const lk_dist_sample[]){{.name = "three messages",
                                         .n_in = 3,
                                         .n_out = 1,
                                         .shape = shape_same,
                                         .run = waitany_sample},
                                        {0}}};
