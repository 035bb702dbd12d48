/* lk_parallel_model from inside: who has which samples, and what a pass leaves until backward.
 *
 * A *run* is what one forward needs until the program's tape is reset: for each replica the tapes of its
 * parts, and the sums of its micro-batches.  A micro-batch is a subtree of the shards that a replica has;
 * a part is one pass through the model: a micro-batch, or of a model with weight reuse one shard of it.
 *
 * The calling thread fills in a run and looks at what came of it (pass.c, node.c); in
 * between each replica works on its own entry, on its own thread (replicas.c).  join.c adds.
 */
#ifndef LK_PARALLEL_REPLICAS_H
#define LK_PARALLEL_REPLICAS_H

#include "base/partials.h"
#include "parallel/devices/crew.h"

#include <lockstep/make_parallel.h>
#include <lockstep/op.h>

#include <sys/types.h>

/* What a micro-batch adds up: the accumulator of a model, or the gradients of shared values. */
typedef struct lk__gradients {
    lk_range shards;
    lk_accumulator *accumulator; /* NULL: of a function */
    lk_slab *slab;               /* the accumulator's, or its own; NULL: nothing is wanted */
    lk_tensor **grad;            /* [n_shared] of a function */
} lk__gradients;

/* One pass through the model. */
typedef struct lk__passage {
    int64_t first, n; /* samples */
    lk_tape *tape;
    lk_tensor **dx; /* [n_x]; NULL where no gradient is wanted */
    lk_var out[LK_MAX_OUT];
    int n_out;
} lk__passage;

typedef struct lk__replica {
    lk_dist_batch batch;
    int64_t n_passages, max_passages;
    lk__passage *passage;
    int n_sums; /* micro-batches */
    int64_t max_sums;
    lk__gradients *sums;
    /* With weight reuse: passages fill `work` one after the other, `partials` adds up its gradients,
     * `summed` elements, and `tails` has the statistics of the shards. */
    lk__gradients work;
    lk__partials partials;
    int64_t summed;
    char *tails;
    int64_t max_tails;
    lk_var *in;     /* [n_x + n_shared] */
    int64_t max_in; /* room there */
    lk_var *values; /* of a model without an accumulator */
} lk__replica;

/* What of a slab is joined, in elements of its dtype. */
typedef struct lk__gradients_shape {
    lk_dtype dtype;
    int64_t tail, n_tail; /* behind the gradients: statistics */
} lk__gradients_shape;

typedef struct lk__parallel_run {
    lk_parallel_model *of;
    struct lk__parallel_run *next;
    lk_tensor *token;         /* the program's tape retains it while it has the node */
    lk_pass pass;             /* the program's */
    int n_x, n_shared;        /* values of x; those of a function that all replicas get whole */
    const lk_tensor **x;      /* [n_x] during forward, and behind them */
    const lk_tensor **shared; /* [n_shared] */
    bool *wants;              /* [n_x + n_shared] whether gradients of these are wanted */
    bool records, passed;     /* backward will come; has been there */
    bool sums;                /* micro-batches add up gradients */
    bool communicates;        /* replicas communicate in it */
    int64_t samples, shard_size, shards;
    int64_t *first; /* [replicas + 1] shards */
    lk__gradients_shape shape;
    lk_slab_layout *layout; /* of the gradients of shared values */
    lk__replica *replica;   /* [replicas] */
    int n_out;
    const lk_tensor *dy[LK_MAX_OUT]; /* during backward; NULL: none has come */
    bool retains;
} lk__parallel_run;

struct lk_parallel_model {
    lk_arena *arena;
    lk_model *model; /* borrowed; NULL: `fn` */
    lk_parallel_function fn;
    lk_parallel_model_options options;
    lk_device *device;
    int n_devices, n; /* n: replicas, at least 1 */
    bool reuse, sync;
    bool warned;    /* of a tape without shards */
    int64_t *first; /* [n + 1] room of lk_parallel_model_slice() */
    const char *notes;
    lk__crew *crew; /* NULL: the calling thread is the one replica */
    lk__crew *ps;   /* of ps_device; NULL: the calling thread */
    lk_tape *tape;  /* of lk_parallel_model_predict() */
    pid_t process;  /* that has the threads */
    lk__parallel_run *runs;
};

/** A run that no tape needs, of so many values, made if there is none. */
lk_status lk__parallel_run_take(lk_parallel_model *p, int n_x, int n_shared,
                                lk__parallel_run **out) LK_NODISCARD;

/** Forget values that the replicas have of the last pass. */
void lk__parallel_run_reset(lk__parallel_run *run);

void lk__parallel_run_free(lk__parallel_run *run);

/** What replica `i` does of a run, forward and backward: for lk__crew_run(). */
lk_status lk__replica_forward(void *run, int i, lk_comm *comm) LK_NODISCARD;
lk_status lk__replica_backward(void *run, int i, lk_comm *comm) LK_NODISCARD;

void lk__replica_free(lk__replica *r, const lk__parallel_run *run);

/** a = a + b, n elements. */
lk_status lk__gradients_add(lk_dtype dtype, int64_t n, void *a, const void *b) LK_NODISCARD;

/** Join n arrays of `count` elements, `stride` bytes apart, by the tree over them, into the first. */
lk_status lk__gradients_fold(lk_dtype dtype, int64_t count, char *array, int64_t stride,
                             int64_t n) LK_NODISCARD;

/**
 * Elements [from, from + n) of the slabs of all micro-batches, joined by the tree over the shards, in `out`
 * [n]; `add`: added to what is there; `zeros`: to zeros, whatever is there.
 */
typedef struct lk__join {
    const lk__parallel_run *run;
    int64_t from, n;
    void *out;
    bool add, zeros;
} lk__join;

lk_status lk__join_run(const lk__join *join) LK_NODISCARD;

/** The same by whom it is fastest: this thread, that of ps_device, or of much all replicas. */
lk_status lk__join_anywhere(lk__join *join) LK_NODISCARD;

/** Put the node of a run on the program's tape: out [run->n_out] of x and the n values behind it. */
lk_status lk__parallel_apply(lk__parallel_run *run, const lk_list *x, const lk_var *further,
                             int64_t n, lk_var *out) LK_NODISCARD;

#endif /* LK_PARALLEL_REPLICAS_H */
