/* Make and find memory that the ranks of a node share.
 *
 *     1. every rank tells how many bytes its part has
 *     2. the lowest rank of each node makes the block, and tells its key
 *     3. the others open it; every rank tells how that went, and all return the same
 */
#include "comm/segment.h"

#include "comm/progress_thread.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

/* What a rank tells the others, in turn. */
struct want {
    int64_t bytes;
};

struct made {
    lk__key key;
    int64_t status;
};

static int64_t pages(int64_t bytes)
{
    return (bytes + LK_PAGE - 1) / LK_PAGE * LK_PAGE;
}

/* The ranks of the node with their parts, still as offsets; returns the size of the block. */
static lk_status layout(const lk_comm *comm, const struct want *want, lk_shm *s, int64_t *total)
{
    const int *node = comm->w->node;
    *total = LK_PAGE;
    for (int r = 0; r < comm->size; r++) {
        if (node[comm->member[r]] != node[comm->w->rank])
            continue;
        lk__part *p = &s->part[s->n++];
        *p = (lk__part){NULL, want[r].bytes, comm->member[r]};
        LK_TRY(lk_add_i64(*total, LK_STAGGER + LK_PAGE, total));
        LK_TRY(lk_add_i64(*total, want[r].bytes, total));
        *total = pages(*total);
    }
    return LK_OK;
}

/* Where the parts begin in the block, once it is there. */
static void place(lk_shm *s)
{
    int64_t at = LK_PAGE;
    for (int i = 0; i < s->n; i++) {
        s->part[i].data = (unsigned char *)s->block.base + at;
        at += pages(s->part[i].bytes) + LK_STAGGER;
    }
}

static lk_status exchange(lk_comm *comm, const char *name, const void *mine, int64_t bytes,
                          void *all)
{
    lk__call call = {
        .call = LK_CALL_SHARE, .name = name, .dtype = LK_U8, .op = LK_N_REDUCE_OPS, .root = -1};
    return lk__exchange(comm, &call, mine, bytes, all);
}

/* The first status that is not LK_OK, as the error of every rank. */
static lk_status agree(const lk_comm *comm, const struct made *made, const char *name)
{
    for (int r = 0; r < comm->size; r++) {
        lk_status st = (lk_status)made[r].status;
        if (st != LK_OK && r == comm->rank)
            return st; /* with the message of what failed */
        LK_CHECK(st == LK_OK, st, "share(\"%s\"): rank %d could not get the memory",
                 name ? name : "", r);
    }
    return LK_OK;
}

/* Steps 2 and 3; on failure nothing is kept. */
static lk_status share(lk_comm *comm, const char *name, int64_t total, lk_shm *s, struct made *made)
{
    lk__world *w = comm->w;
    const lk__transport *t = w->transport;
    struct made mine = {.status = LK_OK};
    if (s->me == 0)
        mine.status = t->block_make(w, total, &mine.key, &s->block);
    LK_TRY(exchange(comm, name, &mine, sizeof mine, made));
    if (agree(comm, made, name) != LK_OK)
        return lk_error_status();
    const lk__key *key = &made[lk__comm_rank_of(comm, s->part[0].world_rank)].key;
    if (s->me > 0)
        mine.status = t->block_open(w, total, key, &s->block);
    if (mine.status == LK_OK) {
        place(s);
        const lk__part *own = &s->part[s->me];
        mine.status = t->block_touch(w, &s->block, own->data, own->bytes);
    }
    LK_TRY(exchange(comm, name, &mine, sizeof mine, made));
    return agree(comm, made, name);
}

lk_status lk__shared_make(lk_comm *comm, int64_t bytes, const char *name, lk_shm **out)
{
    lk_status st;
    lk__world *w = comm->w;
    struct want mine = {bytes}, *want = NULL;
    struct made *made = NULL;
    lk_shm *s = NULL;
    int64_t total;
    LK_TRY_TO(fault, lk_alloc(&want, comm->size, sizeof *want));
    LK_TRY_TO(fault, lk_alloc(&made, comm->size, sizeof *made));
    LK_TRY_TO(
        fault,
        lk_alloc_zero(&s, (int64_t)sizeof *s + comm->intra_size * (int64_t)sizeof s->part[0], 1));
    LK_TRY_TO(fail, exchange(comm, name, &mine, sizeof mine, want));
    s->w = w;
    s->context = comm->context;
    s->number = comm->n_calls;
    s->me = comm->intra_rank;
    s->block.fd = -1;
    LK_TRY_TO(fault, layout(comm, want, s, &total));
    LK_TRY_TO(fail, share(comm, name, total, s, made));
    s->next = w->shared;
    w->shared = s;
    *out = s;
    s = NULL;
    goto fail;
fault:
    st = lk__fault_raise(w);
fail:
    if (s)
        w->transport->block_free(w, &s->block);
    lk_free(s);
    lk_free(made);
    lk_free(want);
    return st;
}

lk_status lk_shm_open(lk_comm *comm, int64_t bytes, const char *name, lk_shm **out)
{
    LK_CHECK(comm && out, LK_EINVAL, "%s is NULL", comm ? "out" : "comm");
    *out = NULL;
    LK_CHECK(bytes >= 0, LK_EINVAL, "share(\"%s\"): %lld bytes", name ? name : "",
             (long long)bytes);
    LK_TRY(lk__extent("share", bytes, 1, &bytes));
    LK_INSIDE(comm->w);
    LK_TRY(lk__fault_check(comm->w));
    LK_TRY(lk__shared_make(comm, bytes, name, out));
    comm->w->transport->block_seal(comm->w, &(*out)->block);
    return LK_OK;
}

void lk_shm_close(lk_shm *s)
{
    if (!s)
        return;
    LK_INSIDE(s->w);
    lk_shm **at = &s->w->shared;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->w->transport->block_free(s->w, &s->block);
    lk_free(s);
}

void *lk_shm_data(const lk_shm *s, int intra_rank)
{
    return intra_rank >= 0 && intra_rank < s->n ? s->part[intra_rank].data : NULL;
}

int64_t lk_shm_bytes(const lk_shm *s, int intra_rank)
{
    return intra_rank >= 0 && intra_rank < s->n ? s->part[intra_rank].bytes : 0;
}

lk_shm *lk__shared_find(lk__world *w, const void *data, int64_t bytes)
{
    for (lk_shm *s = w->shared; s; s = s->next) {
        const lk__part *p = &s->part[s->me];
        uintptr_t from = (uintptr_t)p->data, at = (uintptr_t)data;
        if (at >= from && at - from <= (uintptr_t)p->bytes &&
            bytes <= p->bytes - (int64_t)(at - from))
            return s;
    }
    return NULL;
}

lk_shm *lk__shared_get(lk__world *w, uint32_t context, int64_t number)
{
    lk_shm *s = w->shared;
    while (s && (s->context != context || s->number != number))
        s = s->next;
    return s;
}

lk_status lk__shared_disagree(lk_comm *comm, const lk__label *label, int world_rank)
{
    lk__board_entry s;
    lk__slot_read(comm->w->board[world_rank], &s);
    const lk__label *other = lk__board_entry_find(&s, label->h.context, label->h.sequence);
    lk__label theirs = other ? *other : *lk__board_entry_call(&s);
    theirs.h.source = world_rank;
    return lk__report_mismatch(comm, label, &theirs);
}
