/* lk_send(), lk_recv() and their nonblocking forms: check the arguments, write the label, make a
 * request and hand it to the transport or to the list of posted receives.  On the thread that is
 * the rank. */
#include "base/journal.h"
#include "comm/comm.h"
#include "comm/progress_thread.h"
#include "comm/user.h"

#include <lockstep/extra/alloc.h>

/* A request of send or recv has its label with it. */
struct p2p {
    lk_request r;
    lk__label label;
};

/* What the public functions are called with. */
struct args {
    lk_comm_call call;
    void *data;
    int64_t count;
    lk_dtype dtype;
    int rank;
    int64_t tag;
    const char *name;
    const lk__array *array; /* to send with its shape, or to claim; NULL: plain elements */
};

static lk_status check(const lk_comm *comm, const struct args *a, int64_t *bytes)
{
    const char *what = lk_comm_call_name(a->call), *name = a->name ? a->name : "";
    bool recv = a->call == LK_CALL_RECV;
    LK_CHECK(comm, LK_EINVAL, "%s(\"%s\"): comm is NULL", what, name);
    LK_CHECK(lk_dtype_size(a->dtype) > 0, LK_EDTYPE, "%s(\"%s\"): %d is no dtype", what, name,
             (int)a->dtype);
    LK_CHECK(a->count >= 0, LK_EINVAL, "%s(\"%s\"): %lld elements", what, name,
             (long long)a->count);
    LK_CHECK(a->data || a->count == 0, LK_EINVAL, "%s(\"%s\"): data of %lld elements is NULL", what,
             name, (long long)a->count);
    LK_CHECK(a->rank < comm->size && a->rank >= (recv ? LK_ANY_RANK : 0), LK_EINVAL,
             "%s(\"%s\"): rank %d of %d", what, name, a->rank, comm->size);
    LK_CHECK(a->tag >= (recv ? LK_ANY_TAG : 0), LK_EINVAL, "%s(\"%s\"): tag %lld", what, name,
             (long long)a->tag);
    return LK_TRACE(lk__extent(what, a->count, (int64_t)lk_dtype_size(a->dtype), bytes));
}

/* What a message of a first run is noted under.  Those with numbers as tags need none. */
static lk__journal_key key_of(const lk_comm *comm, const struct args *a)
{
    uint32_t peer = (uint32_t)(a->rank + 1) << 1 | (a->call == LK_CALL_SEND);
    return (lk__journal_key){{(uint64_t)comm->context << 32 | peer, (uint64_t)a->tag}};
}

/* A segment that is run again sends and receives the messages of its first run again, from and to the
 * ranks that those had: each carries the number of the one that it repeats, and is matched by it. */
static lk_status repeat(const lk_comm *comm, const struct args *a, struct p2p *q)
{
    int64_t first[2]; /* rank, number */
    lk__journal_count_comm();
    if (a->tag >= LK_ADJOINT_TAG_BASE)
        return LK_OK;
    if (lk__journal_take(key_of(comm, a), first)) {
        q->r.peer = comm->member[first[0]];
        q->label.h.past = 1 + (uint64_t)first[1];
    }
    LK_TRY(lk__journal_add(key_of(comm, a), &q->r.place));
    if (a->call == LK_CALL_SEND)
        lk__journal_write(q->r.place, a->rank, q->r.info.sequence);
    return LK_OK;
}

/* Fill in a request; it is not yet posted. */
static lk_status prepare(lk_comm *comm, const struct args *a, int64_t bytes, struct p2p *q)
{
    bool send = a->call == LK_CALL_SEND;
    *q = (struct p2p){.r = {.comm = comm,
                            .label = &q->label,
                            .peer = a->rank < 0 ? LK_ANY_RANK : comm->member[a->rank],
                            .tag = a->tag,
                            .data = a->data,
                            .bytes = bytes,
                            .info = {.rank = a->rank,
                                     .tag = a->tag,
                                     .count = a->count,
                                     .dtype = a->dtype,
                                     .sequence = send ? comm->n_sent[a->rank]++ : -1,
                                     .ndim = -1}},
                      .label = {.h = {.magic = LK_WIRE_MAGIC,
                                      .kind = LK_KIND_P2P,
                                      .call = (uint8_t)a->call,
                                      .dtype = (uint8_t)a->dtype,
                                      .op = LK_N_REDUCE_OPS,
                                      .context = comm->context,
                                      .source = comm->w->rank,
                                      .tag = a->tag,
                                      .count = a->count,
                                      .root = -1}}};
    q->label.h.sequence = q->r.info.sequence;
    lk__label_name(&q->label, a->name);
    if (a->array && send)
        lk__label_shape_add(&q->label, a->array->ndim, a->array->dim);
    q->r.claims = a->array && !send;
    q->r.any = q->r.claims && a->array->dtype == LK_N_DTYPES;
    q->r.prompt = q->r.claims && a->array->prompt;
    return LK_TRACE(repeat(comm, a, q));
}

static lk_status post(lk_comm *comm, const struct args *a, int64_t bytes, struct p2p *q)
{
    lk__world *w = comm->w;
    LK_TRY_COMM(w, prepare(comm, a, bytes, q));
    LK_TRY_COMM(w, q->label.h.call == LK_CALL_SEND ? lk__pending_send(&q->r)
                                                   : lk__pending_recv(&q->r));
    return LK_OK;
}

static lk_status start(lk_comm *comm, const struct args *a, lk_request **out)
{
    int64_t bytes;
    struct p2p *q;
    LK_CHECK(out, LK_EINVAL, "%s: out is NULL", lk_comm_call_name(a->call));
    *out = NULL;
    LK_TRY(check(comm, a, &bytes));
    LK_INSIDE(comm->w);
    LK_TRY(lk__fault_check(comm->w));
    LK_TRY_COMM(comm->w, lk_alloc(&q, 1, sizeof *q));
    lk_status st = post(comm, a, bytes, q);
    q->r.heap = true;
    if (st != LK_OK) {
        lk__request_end(&q->r);
        lk_free(q);
        LK_TRY(st);
    }
    *out = &q->r;
    return LK_OK;
}

static lk_status finish(lk_status st, struct p2p *q, lk_message *info)
{
    if (st == LK_OK)
        st = lk__wait_one(&q->r);
    if (st == LK_OK && info)
        *info = q->r.info;
    lk__call_end(q->r.comm);
    lk__request_end(&q->r);
    return st;
}

static lk_status blocking(lk_comm *comm, const struct args *a, lk_message *info)
{
    int64_t bytes;
    struct p2p q;
    LK_TRY(check(comm, a, &bytes));
    LK_INSIDE(comm->w);
    LK_TRY(lk__fault_check(comm->w));
    return LK_TRACE(finish(post(comm, a, bytes, &q), &q, info));
}

lk_status lk_send(lk_comm *comm, const void *data, int64_t count, lk_dtype dtype, int dest,
                  int64_t tag, const char *name)
{
    void *bytes = (void *)(uintptr_t)data;
    return LK_TRACE(blocking(
        comm, &(struct args){LK_CALL_SEND, bytes, count, dtype, dest, tag, name, NULL}, NULL));
}

lk_status lk_recv(lk_comm *comm, void *data, int64_t count, lk_dtype dtype, int source, int64_t tag,
                  const char *name, lk_message *info)
{
    return LK_TRACE(blocking(
        comm, &(struct args){LK_CALL_RECV, data, count, dtype, source, tag, name, NULL}, info));
}

lk_status lk_isend(lk_comm *comm, const void *data, int64_t count, lk_dtype dtype, int dest,
                   int64_t tag, const char *name, lk_request **out)
{
    void *bytes = (void *)(uintptr_t)data;
    return LK_TRACE(
        start(comm, &(struct args){LK_CALL_SEND, bytes, count, dtype, dest, tag, name, NULL}, out));
}

lk_status lk_irecv(lk_comm *comm, void *data, int64_t count, lk_dtype dtype, int source,
                   int64_t tag, const char *name, lk_request **out)
{
    return LK_TRACE(start(
        comm, &(struct args){LK_CALL_RECV, data, count, dtype, source, tag, name, NULL}, out));
}

lk_status lk__isend_array(lk_comm *comm, const lk__array *x, int dest, int64_t tag,
                          const char *name, lk_request **out)
{
    void *bytes = (void *)(uintptr_t)x->data;
    return LK_TRACE(start(
        comm, &(struct args){LK_CALL_SEND, bytes, x->count, x->dtype, dest, tag, name, x}, out));
}

lk_status lk__irecv_claim(lk_comm *comm, lk_dtype dtype, int source, int64_t tag, const char *name,
                          bool prompt, lk_request **out)
{
    lk__array what = {.dtype = dtype, .prompt = prompt};
    lk_dtype shown = dtype == LK_N_DTYPES ? LK_U8 : dtype;
    return LK_TRACE(
        start(comm, &(struct args){LK_CALL_RECV, NULL, 0, shown, source, tag, name, &what}, out));
}

lk_status lk_sendrecv(lk_comm *comm, lk_dtype dtype, const lk_sendrecv_side *send,
                      const lk_sendrecv_side *recv, const char *name, lk_message *info)
{
    LK_CHECK(send && recv, LK_EINVAL, "%s is NULL", send ? "recv" : "send");
    struct args s = {LK_CALL_SEND, send->data, send->count, dtype,
                     send->rank,   send->tag,  name,        NULL};
    struct args v = {LK_CALL_RECV, recv->data, recv->count, dtype,
                     recv->rank,   recv->tag,  name,        NULL};
    bool to = send->rank >= 0, from = recv->rank >= 0;
    int64_t n_send = 0, n_recv = 0;
    struct p2p out, in;
    if (to)
        LK_TRY(check(comm, &s, &n_send));
    if (from)
        LK_TRY(check(comm, &v, &n_recv));
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    LK_INSIDE(comm->w);
    LK_TRY(lk__fault_check(comm->w));
    lk_status st = LK_OK;
    if (from)
        st = post(comm, &v, n_recv, &in);
    if (to && st == LK_OK)
        st = finish(post(comm, &s, n_send, &out), &out, NULL);
    if (from)
        st = finish(st, &in, info);
    return LK_TRACE(st);
}
