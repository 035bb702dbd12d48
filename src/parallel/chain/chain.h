/* Chain lists, inside: what ranks tell each other about their components, and the chain itself.
 *
 * A declaration is a list of rows: for each component one of kind LK__ROW_COMPONENT, then one for each of
 * its in_ranks and for its carry_in, then one for each of its out_ranks and for its carry_out.  This is the
 * order in which its rank acts, so the rows of all ranks are a program, which check.c runs through before
 * any rank does.  The program makes a chain on each rank, and calls it on one thread.
 */
#ifndef LK_PARALLEL_CHAIN_H
#define LK_PARALLEL_CHAIN_H

#include "parallel/plan/rank_rows.h"

#include <lockstep/chain.h>

#include <stdbool.h>

/* ---- declarations ---- */

typedef enum lk__row_kind {
    LK__ROW_COMPONENT,
    LK__ROW_IN,
    LK__ROW_OUT,
    LK__N_ROW_KINDS
} lk__row_kind;

/* LK__HAS_OUT: what it gives is no output; LK__IS_CARRY, of a row of kind in or out: a model's carry. */
enum { LK__IS_MODEL = 1, LK__IS_OPEN = 2, LK__HAS_OUT = 4, LK__IS_CARRY = 8 };

/* Travels as i64 numbers. */
typedef struct lk__chain_row {
    int64_t kind, component; /* number on its rank */
    int64_t peer;            /* in, out: the rank */
    int64_t flags;           /* of the component */
    char name[LK_COMPONENT_NAME];
} lk__chain_row;

enum { LK__ROW_WORDS = sizeof(lk__chain_row) / sizeof(int64_t) };

/* The rows of all ranks: those of rank r are row[first[r]] to row[first[r + 1] - 1]. */
typedef struct lk__chain_table {
    int ranks;
    const int64_t *first; /* [ranks + 1] */
    const lk__chain_row *row;
} lk__chain_table;

/**
 * Whether the chain can run: LK_EINVAL with one line that names what is wrong, the same on each rank, which
 * all have the same table.  Not collective.  Errors: also LK_ENOMEM.
 */
lk_status lk__chain_check(const lk__chain_table *t) LK_NODISCARD;

/** "component 1 (l2) of rank 0". */
typedef struct lk__component_text {
    char s[LK_COMPONENT_NAME + 64];
} lk__component_text;

lk__component_text lk__component_name(int rank, int64_t component, const char *name);

/* ---- chains ---- */

typedef struct lk__component {
    lk_component is; /* its name is `name` */
    char name[LK_COMPONENT_NAME];
    /* One block of memory; behind the in_ranks and the out_ranks are those of the carry. */
    int *in, *out;
    int n_in, n_out;
    bool takes_carry, gives_carry;
    lk_accumulator *accumulator; /* of a model */
} lk__component;

struct lk_chain {
    lk_comm *comm; /* the chain's own, so that its messages match no others */
    lk__component *component;
    int64_t n, room;
    bool closed, built; /* nothing can be added any more; it can run */
    /* For a pass: the arguments, the output and the carry of the component that is run, the x, and the queue of
     * the own rank, which has a place for each value that is put there in a pass. */
    lk_list *in, *x, *queue;
    lk_list out, carry;
    int n_x; /* places of x */
    lk_var *values;
    int64_t first, last; /* of the queue */
};

/** How many lists a component takes from ranks, and gives to them: its carry is the last. */
static inline int lk__component_takes(const lk__component *c)
{
    return c->n_in + c->takes_carry;
}

static inline int lk__component_gives(const lk__component *c)
{
    return c->n_out + c->gives_carry;
}

/** Whether what it gives is the output of its rank. */
static inline bool lk__component_is_output(const lk__component *c)
{
    return c->n_out == 0 && !c->is.carry_only;
}

/** Make room for a pass over n_x values. */
lk_status lk__chain_make_room(lk_chain *chain, int n_x) LK_NODISCARD;

/**
 * Run the components of this rank.  `trial`: before the chain is built; models that are not built are,
 * and a failure does not keep this rank from its messages, which then say that there is no value.
 */
lk_status lk__chain_run(lk_chain *chain, const lk_pass *pass, const lk_var *x, int n_x, bool trial,
                        lk_list *out) LK_NODISCARD;

/* ---- the tensors of all ranks ---- */

enum { LK__CHAIN_TENSOR_NAME = 256 };

/* A parameter or state of some rank's model.  Travels as i64 numbers. */
typedef struct lk__chain_tensor {
    int64_t component, is_state, dtype, ndim, dim[LK_MAX_NDIM];
    char name[LK__CHAIN_TENSOR_NAME]; /* "RANK.COMPONENT.linear1.weight" */
} lk__chain_tensor;

enum { LK__TENSOR_WORDS = sizeof(lk__chain_tensor) / sizeof(int64_t) };

/** What a trainer has of a chain that it trains.  It makes one on each rank and calls it on its thread. */
typedef struct lk__chain_state {
    lk_chain *chain;
    lk__rank_rows rows;             /* of lk__chain_tensor */
    const lk__chain_tensor *tensor; /* [n] of all ranks, in their order */
    int64_t n;
    lk_slab *params; /* of all ranks; of the others' nothing is in it */
    lk_slab *grads;  /* laid out alike */
    lk_slab **bound; /* by component: its part of `params`, which its model uses; NULL: none */
    bool has_weight_reuse; /* a model of some rank uses a weight more than once in a pass */
} lk__chain_state;

/**
 * Gather what the models of all ranks are made of, and bind those of this rank to one slab.
 *
 * Collective.  The chain is borrowed, and its models get their own memory back, with the values then,
 * when the state is freed.  Errors, on all ranks: LK_ESTATE unless the chain is built, and for a model that
 * holds a part of itself or is bound already; LK_ENOTSUP for a name that is too long; LK_ENOMEM; those of
 * communication.
 */
lk_status lk__chain_state_new(lk_chain *chain, lk__chain_state **out) LK_NODISCARD;

/** NULL is allowed. */
void lk__chain_state_free(lk__chain_state *s);

/** Where this rank has tensor number `i`; NULL: it is another rank's. */
lk_status lk__chain_state_data(const lk__chain_state *s, int64_t i, void **out) LK_NODISCARD;

/** Take what backward has added up for this rank's models into `grads`. */
lk_status lk__chain_state_take_gradients(lk__chain_state *s) LK_NODISCARD;

/** lk_optimizer_input.join_sums, its context being the state.  Collective. */
lk_status lk__chain_state_join_sums(void *state, double *sum, int64_t n) LK_NODISCARD;

/**
 * Run the components as lk_chain_forward() does, on a tape that need not record, and look for the first of
 * this rank whose inputs are finite and whose output is not: its name, with that of the layer if it is a
 * model, goes to `bad` (`size` bytes); "" if there is none.  Collective; a failure ends the job.
 */
lk_status lk__chain_find_nonfinite(lk_chain *chain, const lk_pass *pass, const lk_var *x, int n_x,
                                   char *bad, size_t size) LK_NODISCARD;

#endif /* LK_PARALLEL_CHAIN_H */
