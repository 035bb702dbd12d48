/* An algorithm of a collective call: one file, one descriptor.
 *
 * `src/coll/algorithms/<call>_<name>.c` ends with `const lk__coll lk__coll_<call>_<name>`; the build collects them
 * into lk__colls[].  Its opening comment draws the schedule and gives the cost.  It sees bytes, counts
 * and ranks; never a tensor, never a gradient.
 *
 * An algorithm is either a *schedule*, a short program of sends, receives, joins and copies that
 * schedule.c runs (see schedule.h), or brings its own `advance` (in shared memory).  Both never
 * block, so every algorithm is blocking and nonblocking at once.
 */
#ifndef LK_COLL_COLL_H
#define LK_COLL_COLL_H

#include "comm/comm.h"

#include <lockstep/coll.h>

#include <string.h>

enum { LK_FEW_RANKS = 16 };

/* The arguments of a call and what is derived from them: args.c.  Not to be copied: `first` may point to
 * `few`. */
typedef struct lk__coll_args {
    lk_comm *comm;
    lk_collective c; /* as given; pointers are valid during start() only */
    int rank, size;
    int64_t elem;  /* bytes of an element (of a pair for minloc, maxloc) */
    int64_t bytes; /* count * elem */

    /* Calls that reduce. */
    lk_dtype work;        /* what is joined: f32 for f16 and bf16 */
    int64_t work_elem;    /* bytes of such an element */
    int64_t pieces;       /* at least 1 */
    const int64_t *first; /* [size + 1] where the ranges begin */
    int64_t n_vectors;    /* of this rank's input: one for each subtree of its pieces */
    int64_t stride;       /* bytes from one vector to the next */

    /* Calls with a part for each rank, or in neighbour calls for each neighbour: its elements, and where
     * they begin.  NULL for the others. */
    const int64_t *counts, *offsets;
    const int64_t *in_counts, *in_offsets; /* alltoall and neighbour */
    int64_t extent;                        /* elements of `counts`, gaps included */

    /* What ranks compare, in the label of the call. */
    int64_t total;   /* elements: of one part if all are equal, else of all; -1: not compared */
    uint32_t layout; /* digest of counts that are not equal and of ranges of pieces; 0: neither */
    int shown_op;    /* lk_reduce_op as the program said it; min and max of pairs: pairs.h */

    bool wait;                     /* the call is blocking; set by who makes this */
    int64_t few[LK_FEW_RANKS + 1]; /* room for `first` of a few ranks */
    int64_t *memory;               /* room for more, and for counts */
} lk__coll_args;

/* The machine, as far as costs go: seconds for a message, for a byte of it, and for joining a byte.
 * Fixed numbers for each transport; between nodes they are measured by the first large call. */
typedef struct lk__rates {
    double alpha, beta, gamma;
} lk__rates;

/* What blocking calls make before an algorithm that uses it is chosen. */
enum {
    LK__COLL_RATES = 1, /* the links between nodes, measured */
    LK__COLL_WITHIN = 2 /* memory that the ranks of each node share, beside messages */
};

typedef struct lk__schedule lk__schedule;
typedef struct lk__tiers lk__tiers;

typedef struct lk__coll {
    lk_comm_call call;
    const char *name;    /* as the user says it: "tree" */
    const char *summary; /* one line */
    bool benchmark_only; /* never chosen by cost; need not give the bits of the tree */
    unsigned uses;       /* LK__COLL_RATES, LK__COLL_WITHIN */

    /* Whether it can do this call; if not, `*why` says what it needs.  NULL: any call.  `needs` is the
     * rule in words, for lists. */
    const char *needs;
    bool (*eligible)(const lk__coll_args *k, const char **why);

    /* Predicted seconds from start to end on the slowest rank. */
    double (*cost)(const lk__coll_args *k, const lk__rates *r);

    /* Write this rank's part of the schedule.  Must use the same algorithmic choices on all ranks:
     * whatever they depend on is in the label, or follows from the communicator. */
    lk_status (*schedule)(const lk__coll_args *k, lk__schedule *s);

    /* Instead of a schedule: how the call goes on in the shared area (shm/area.h). */
    lk_status (*advance)(lk_request *r);

    /* Or begin the call as a request of its own.  If k->wait, until it is complete; `*out` may then be
     * NULL. */
    lk_status (*start)(const lk__coll_args *k, int number, lk_request **out);
} lk__coll;

extern const lk__coll *const lk__colls[];

/* What collectives keep for a communicator: comm->coll. */
typedef struct lk__coll_state {
    char *named[LK_N_CALLS]; /* algorithms that the environment names; NULL: none */
    struct {                 /* the last choice */
        const char *name;    /* as a table has it; NULL: by cost */
        lk_comm_call call;
        lk_dtype dtype;
        lk_reduce_op op;
        int64_t count, pieces;
        bool wait;
        int number; /* 0: none yet */
    } last;
    struct lk__shm_area *area;
    lk__tiers *tiers; /* with rates as measured; NULL: not yet */
    bool no_area;     /* it cannot be made */
    struct {
        int64_t pieces; /* in even ranges; 0: not looked at yet */
        bool fits;
    } within;                  /* whether the nodes' joins can be done in the shared area */
    struct lk__native *native; /* MPI's own collectives */
    bool unchecked;
} lk__coll_state;

/** What is kept for `comm`; made if there is none yet. */
lk_status lk__coll_state_get(lk_comm *comm, lk__coll_state **out) LK_NODISCARD;

enum { LK_COLL_VARIABLE = 48 };

/** The variable that names the algorithm of a call: LK_ALLREDUCE. */
void lk__coll_variable(lk_comm_call call, char out[LK_COLL_VARIABLE]);

/** The name of an algorithm as it is given; NULL where it stands for the cheapest one. */
static inline const char *lk__coll_named(lk_comm_call call, const char *name)
{
    return name && call == LK_CALL_ALLREDUCE && strcmp(name, "pure_nccl") == 0 ? NULL : name;
}

/** LK_EINVAL if the environment names an algorithm that need not give the bits of the tree, for any
 * call; says which, and what to do.  For calls that promise these bits. */
lk_status lk__coll_check_named(void) LK_NODISCARD;

/* ---- arguments ---- */

/** Check the arguments of a call and fill in all but out->wait, which the caller sets before or after.
 * Then, also after a failure, the caller ends it by lk__coll_args_free().  Errors: as lk_coll_run(). */
lk_status lk__coll_args_make(lk_comm *comm, const lk_collective *c,
                             lk__coll_args *out) LK_NODISCARD;

void lk__coll_args_free(lk__coll_args *k);

/** Whether the call reduces, and whether it has a root. */
bool lk__call_reduces(lk_comm_call call);
bool lk__call_rooted(lk_comm_call call);

/** What goes into the label; `algorithm` is its number, or 0 while none is chosen. */
lk__call lk__coll_args_call(const lk__coll_args *k, int algorithm);

/** The pieces of each vector that rank `r` gives: the first `capacity` of them to `out`, which may be NULL;
 * returns how many vectors there are. */
int64_t lk__coll_args_subtrees(const lk__coll_args *k, int r, lk_range *out, int64_t capacity);

/** Where the input is: `in`, or in place. */
static inline const unsigned char *lk__coll_args_in(const lk__coll_args *k)
{
    return k->c.in ? k->c.in : k->c.out;
}

/** The rank that holds a piece; ranks without pieces hold none. */
int lk__coll_args_holder(const lk__coll_args *k, int64_t piece);

/** ceil(log2 P): the rounds of whatever doubles. */
int lk__coll_args_rounds(const lk__coll_args *k);

/* ---- selection ---- */

/** What messages cost within a node, or between nodes. */
lk__rates lk__rates_of(const lk_comm *comm, bool near);

/** Whether the algorithm that a call names, or where none is named one for ranks of several nodes, has
 * these `uses`. */
bool lk__coll_wants(const lk__coll_args *k, unsigned uses);

/** The algorithm for a call: the named one, or the cheapest.  Returns its number from 1. */
lk_status lk__coll_select(const lk__coll_args *k, int *number) LK_NODISCARD;

/* ---- operators ---- */

/** dst[i] = dst[i] op src[i] (`second` is later in the tree), i < count; canonical arithmetic. */
lk_status lk__reduce_op_join(lk_reduce_op op, lk_dtype dtype, int64_t count, void *first,
                             const void *second) LK_NODISCARD;

/** The same for a part of the vectors, without LK_FP_GUARD() and the check of the environment: what loops
 * over parts has both once, around all of them. */
lk_status lk__reduce_op_join_part(lk_reduce_op op, lk_dtype dtype, int64_t count, void *first,
                                  const void *second) LK_NODISCARD;

/** Whether joining computes with rounding, and so needs the check. */
bool lk__reduce_op_rounds(lk_reduce_op op, lk_dtype dtype);

/** After the last join: what avg still has to do with the sum over `pieces`. */
lk_status lk__reduce_op_finish(lk_reduce_op op, lk_dtype dtype, int64_t count, int64_t pieces,
                               void *data) LK_NODISCARD;

/** Whether the operator is defined on the dtype. */
bool lk__reduce_op_takes(lk_reduce_op op, lk_dtype dtype);

/** f16 or bf16 to f32, and back. */
void lk__reduce_op_widen(lk_dtype dtype, int64_t count, const void *from, void *to);
void lk__reduce_op_narrow(lk_dtype dtype, int64_t count, const void *from, void *to);

#endif /* LK_COLL_COLL_H */
