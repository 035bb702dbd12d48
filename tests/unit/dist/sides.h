/* Ranks that misuse communication on a tape: a tape with one leaf for each of two ranks. */
#ifndef LK_TEST_DIST_SIDES_H
#define LK_TEST_DIST_SIDES_H

#include "harness.h"

#include <lockstep/lockstep.h>

enum { LARGE = 5000 }; /* more elements than are buffered */

/* A tape and a leaf of `n` elements on it. */
struct side {
    lk_comm *comm;
    lk_tape *tape;
    lk_tensor *t;
    lk_var x;
};

static inline lk_status side_begin(lk_comm *comm, int64_t n, struct side *s)
{
    *s = (struct side){.comm = comm};
    LK_TRY(lk_comm_set_deadline(comm, 5));
    LK_TRY(lk_tape_new(&s->tape));
    LK_TRY(lk_tensor_new(LK_F64, LK_SHAPE(n), &s->t));
    LK_TRY(lk_tensor_fill_f64(s->t, 1));
    return LK_TRACE(lk_leaf(s->tape, s->t, NULL, &s->x));
}

static inline void side_end(struct side *s)
{
    lk_tape_free(s->tape);
    lk_tensor_free(s->t);
}

typedef lk_status misuse(struct side *s, int other);

struct task {
    misuse *run;
    int64_t n;
};

static inline lk_status rank_runs(lk_comm *comm, void *arg)
{
    const struct task *task = arg;
    struct side s = {0};
    lk_status st;
    LK_TRY_TO(done, side_begin(comm, task->n, &s));
    LK_TRY_TO(done, task->run(&s, 1 - lk_comm_rank(comm)));
done:
    side_end(&s);
    return st;
}

/* Two ranks that both do this. */
static inline lk_status both(misuse *run, int64_t n)
{
    struct task task = {run, n};
    return lk_run_local(2, rank_runs, &task);
}

/* isend and irecv with the other rank. */
static inline lk_status begin(struct side *s, int other, lk_var *out, lk_var *in)
{
    LK_TRY(lk_dist_isend(s->comm, s->x, other, 1, "parcel", out));
    return LK_TRACE(
        lk_dist_irecv(s->tape, s->comm, other, 1, LK_F64, lk_shape_of(s->x), "parcel", in));
}

#endif /* LK_TEST_DIST_SIDES_H */
