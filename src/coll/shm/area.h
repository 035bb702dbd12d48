/* The shared area: memory that the ranks of a node keep for their collectives.
 *
 *     area of rank 0    slots (two), arrivals (two), flags, stages
 *     area of rank 1    ...
 *
 * Made by the first blocking call that wants it; of a communicator on several nodes each has its own,
 * and the rank areas are those of its ranks there.  Calls in the shared area are numbered, alike on
 * all ranks, and a rank does them one after another.  It writes only its own rank area, except where an
 * algorithm says otherwise.
 *
 * Slots and arrivals come in twos: call t + 2 writes where call t did.  By then all ranks have begun
 * t + 1, hence ended t.  Each carries the digest of the call, the rolling hash of its label; ranks
 * that make different calls see it.
 */
#ifndef LK_COLL_SHM_AREA_H
#define LK_COLL_SHM_AREA_H

#include "coll/program.h"
#include "comm/segment.h"

enum {
    LK_SHM_AREA_RANKS = 16,
    LK_SLOT_SMALL = 48,
    LK_SLOT_BYTES = 16384,
    LK_STAGE_BYTES = 256 * 1024, /* of a rank area, for one of two stages */
};

/* The digest of a rank that does not compare its calls. */
static const uint64_t LK_UNCHECKED = 0;

typedef struct lk__slot_of_call {
    _Alignas(LK_LINES) _Atomic uint64_t call_number;
    uint64_t digest;
    unsigned char small[LK_SLOT_SMALL]; /* what fits into the line of the call_number */
    _Alignas(LK_LINES) unsigned char large[LK_SLOT_BYTES];
} lk__slot_of_call;

/* Where a buffer is, for other ranks: in the shared memory (context, number), or private. */
typedef struct lk__where {
    uint32_t shared, context;
    int64_t number, offset;
} lk__where;

/* One line, with all that the others need. */
typedef struct lk__arrival {
    _Alignas(LK_LINES) _Atomic uint64_t call_number;
    uint64_t digest;
    lk__where in;
    union {
        lk__where out;
        struct { /* reduce_scatter: of the vectors of the rank */
            int64_t stride;
            uint64_t layout; /* a hash of the offsets */
        };
    };
} lk__arrival;

typedef struct lk__rank_area {
    lk__slot_of_call slot[2];
    lk__arrival arrival[2];
    lk__flag done;     /* the call_number of the last call that this rank has ended */
    lk__flag put, got; /* stages that were filled, and that were joined */
    lk__flag arrived, last_arriver, joined; /* of rank 0, written by all: see last_arriver.h */
    _Alignas(LK_LINES) unsigned char stage[2 * LK_STAGE_BYTES];
} lk__rank_area;

typedef struct lk__shm_area {
    lk_shm *shared;
    int n, me; /* ranks of the node; this one */
    lk__rank_area *rank[LK_SHM_AREA_RANKS];
    uint64_t last_call, turn; /* of the last call that was begun; of the one that may run */
    uint64_t stages;          /* that all calls so far have used */
    lk__program program;      /* of even ranges of program.pieces */
} lk__shm_area;

/* What a rank posts: that its slot is filled, that it has arrived, that it is done. */
typedef enum lk__published { LK_PUT, LK_ARRIVED, LK_DONE } lk__published;

/* Pending wake-ups: none, all, or all if this rank is the last that publishes. */
typedef enum lk__wakes { LK_WAKES_NONE, LK_WAKES_ALL, LK_WAKES_IF_LAST } lk__wakes;

/* A call in the shared area, as a request. */
typedef struct lk__shm_call {
    lk_request request;
    lk__label label;
    lk__shm_area *area;
    uint64_t call_number, digest;
    lk_reduce_op op;
    lk_dtype work;
    int64_t elem, count, bytes, pieces; /* bytes of one vector */
    int64_t n_vectors, stride;          /* vectors of this rank, bytes from one to the next */
    int root;
    const unsigned char *in;
    unsigned char *out;
    bool alone;         /* no checks of other ranks: no name, no digest, nothing on the board */
    int step, next;     /* of the algorithm; the next rank to look at */
    int idle;           /* how often it was asked in vain */
    lk__wakes wakes;    /* whom to wake since the last post */
    lk__published last; /* what that was, if the last one wakes all */
    int64_t segment;
    int64_t counts[LK_SHM_AREA_RANKS], offsets[LK_SHM_AREA_RANKS]; /* of ragged calls */
    const lk__program *program;
    lk__program own;                      /* if it is not the shared area's */
    unsigned char *sum[LK_PROGRAM_DEPTH]; /* reduce_scatter: where the sums of the own part go */
} lk__shm_call;

/** Whether the call can run in a shared area: one node, few ranks and subtrees, and a shared area that
 * is there or can be made.  For a call that does not reduce no shared area is made, unless it is named. */
bool lk__shm_area_eligible(const lk__coll_args *k, const char **why);

/**
 * Begin a call whose steps are `advance`; if k->wait, do it, and `*out` stays as it is.
 *
 * Makes the shared area if there is none, which waits for all ranks; LK_ENOTSUP if that cannot be.
 */
lk_status lk__shm_area_start(const lk__coll_args *k, int number,
                             lk_status (*advance)(lk_request *r), lk_request **out) LK_NODISCARD;

/** Make the shared area of each node, if there is none, as part of the call, which all ranks make and block in.
 * LK_ENOTSUP if that cannot be. */
lk_status lk__shm_area_open(const lk__coll_args *k, int number) LK_NODISCARD;

/** Whether this failure says that there is no such memory, to all ranks alike: they can do without. */
static inline bool lk__shm_area_is_none(const lk__coll_args *k, lk_status st)
{
    return (st == LK_ENOTSUP || st == LK_ENOMEM) && !lk__fault_is_there(k->comm->w);
}

/**
 * A part of a call that is a schedule, in the shared area, which is there: a call of which `advance` is done
 * when the schedule comes to it.  The caller sets what that one needs beyond the case.
 */
lk_status lk__shm_area_part(const lk__coll_args *k, lk__schedule *s,
                            lk_status (*advance)(lk_request *r), lk__shm_call **out) LK_NODISCARD;

/** Whether the call has its turn; otherwise advance() returns. */
static inline bool lk__shm_area_turn(const lk__shm_call *c)
{
    return c->area->turn == c->call_number;
}

/**
 * Whether rank `i` has posted `value`; otherwise the request says whom it waits for.  A rank that is
 * waited for longer, and before this one sleeps, is looked up on the board: LK_EMISMATCH if it is in
 * another call.
 */
lk_status lk__shm_area_reached(lk__shm_call *c, int i, _Atomic uint64_t *flag, uint64_t value,
                               bool *reached) LK_NODISCARD;

/**
 * Post a flag of this rank.  Others that sleep are woken when this rank has to wait or ends the call:
 * usually none sleeps, and finding that out needs a fence, which now would wait for the post.
 */
static inline void lk__shm_area_publish(lk__shm_call *c, _Atomic uint64_t *flag, uint64_t value)
{
    atomic_store_explicit(flag, value, memory_order_release);
    c->wakes = LK_WAKES_ALL;
}

/** Post what every rank posts and waits for: only the last one wakes those who sleep.  If it has not done
 * so after an earlier post, it wakes all: they may still sleep for that one. */
static inline void lk__shm_area_publish_last(lk__shm_call *c, lk__published what,
                                             _Atomic uint64_t *flag)
{
    atomic_store_explicit(flag, c->call_number, memory_order_release);
    c->wakes = c->wakes ? LK_WAKES_ALL : LK_WAKES_IF_LAST;
    c->last = what;
}

/** Post that the slot of this call is filled. */
static inline void lk__shm_area_put(lk__shm_call *c)
{
    lk__slot_of_call *slot = &c->area->rank[c->area->me]->slot[c->call_number % 2];
    slot->digest = c->digest;
    lk__shm_area_publish_last(c, LK_PUT, &slot->call_number);
}

/** What is done of a stage that the area has room for; c->next says how far it has gone. */
typedef lk_status lk__stage_fn(lk__shm_call *c, int64_t stage, bool *done);

/** Go on with n segments by way of stages: segment t + 1 is put, c->next from 0 to the number of ranks, before
 * t is got, c->next from there to twice that.  c->segment is the time t, from -1 on. */
lk_status lk__shm_area_stages(lk__shm_call *c, int64_t n, lk__stage_fn *put, lk__stage_fn *get,
                              bool *end) LK_NODISCARD;

/** Wake who may sleep. */
void lk__shm_area_wake(lk__shm_call *c);

/** All have posted, and this rank has something to do before it waits again: wake those who sleep now,
 * so that they do their part meanwhile.  Where ranks do not share cores a relaxed load suffices. */
static inline void lk__shm_area_wake_early(lk__shm_call *c)
{
    const lk__shm_area *a = c->area;
    bool waits = c->request.comm->w->spins == 0;
    for (int i = 0; i < a->n && c->wakes && !waits; i++) {
        const lk__wakeup *wakeup = a->shared->w->wakeup[a->shared->part[i].world_rank];
        waits = i != a->me && wakeup && lk__wakeup_is_waiting(wakeup);
    }
    if (c->wakes && waits)
        lk__shm_area_wake(c);
}

/** Go on while the ranks from c->next on have posted; `*all`: all have, and c->next is 0 again. */
lk_status lk__shm_area_all(lk__shm_call *c, lk__published what, bool *all) LK_NODISCARD;

/** Where [data, data + bytes) is. */
lk__where lk__where_is(lk__world *w, const void *data, int64_t bytes);

/** Say where the buffers of the call are, and that this rank has arrived. */
void lk__where_arrive(lk__shm_call *c);

/** All have arrived: whether all buffers lie in the same memory, so that every rank sees all of them.
 * Then a buffer of rank `i` as seen from here. */
bool lk__where_shared(const lk__shm_call *c);
unsigned char *lk__where_see(const lk__shm_call *c, int i, const lk__where *where);

/** LK_EMISMATCH: rank `i` gave another digest. */
lk_status lk__shm_area_disagree(lk__shm_call *c, int i, uint64_t digest) LK_NODISCARD;

static inline lk_status lk__shm_area_agree(lk__shm_call *c, int i, uint64_t digest)
{
    return digest == c->digest || c->alone ? LK_OK : lk__shm_area_disagree(c, i, digest);
}

/** Show the call on the board: after its first post, while that travels.  A part of a schedule has been
 * shown with it. */
static inline void lk__shm_area_show(lk__shm_call *c)
{
    if (!c->alone && c->request.label == &c->label)
        lk__call_show(c->request.comm, &c->label);
}

/** What is to be joined, but for the leaves and where the sum goes: the caller sets those. */
static inline void lk__shm_area_eval(const lk__shm_call *c, int n_out, bool over, lk__eval *e)
{
    e->program = c->program;
    e->op = c->op;
    e->work = c->work;
    e->elem = c->elem;
    e->pieces = c->pieces;
    e->over = over;
    e->apart = false;
    e->n_out = n_out;
}

/** The call is complete: the next one has its turn. */
static inline void lk__shm_area_end(lk__shm_call *c)
{
    c->area->turn++;
    if (c->wakes)
        lk__shm_area_wake(c);
    atomic_store_explicit(&c->request.done, 1, memory_order_relaxed);
}

#endif /* LK_COLL_SHM_AREA_H */
