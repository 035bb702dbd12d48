/* Chain lists: a network whose components lie on several ranks.
 *
 * Each rank adds its own components, in the order in which it runs them, and says from which ranks each
 * takes its inputs and to which its output goes.  A perceptron on two ranks:
 *
 *     lk_chain_new(comm, &chain);                      x -> [front] - - -> [back] -> y
 *     if (rank == 0)                                        rank 0         rank 1
 *         lk_chain_add(chain, &front, NULL, 0, (int[]){1}, 1);
 *     else
 *         lk_chain_add(chain, &back, (int[]){0}, 1, NULL, 0);
 *     lk_chain_build(chain, &type_of_x, rank == 0);
 *
 *     lk_chain_forward(chain, &(lk_pass){.tape = tape}, &x, rank == 0, &y);
 *     lk_backward(tape, &(lk_seed){.of = loss}, rank == 1, 0);
 *
 * Between two ranks the k-th value that one sends is the k-th that the other takes; values that a rank
 * keeps for itself wait in a queue.  All of it is checked when the chain is built, before a value moves,
 * and refused on all ranks in the same words.
 *
 * Values and gradients have the bits of the same components on one rank: the gradient of a value that
 * goes to several is the sum of what comes back, in the reverse order of its list of ranks.
 *
 * A chain belongs to one thread at a time.  It is ChainerMN's MultiNodeChainList; docs/guide/model-parallel.md
 * is its guide.
 */
#ifndef LK_CHAIN_H
#define LK_CHAIN_H

#include <lockstep/dist.h>
#include <lockstep/nn.h>

LK_BEGIN_DECLS

/* LK_COMPONENT_NAME: bytes of a name with its end; LK_COMPONENT_VALUES: values that go from one component
 * to another at once. */
enum { LK_COMPONENT_NAME = 32, LK_COMPONENT_VALUES = 64 };

/**
 * A component that is a function of the host: *out = f(in[0], in[1], ...), recorded on pass->tape.
 *
 * in[i] is what came from the i-th of its in_ranks: a list, of one value if one was sent.  Without
 * in_ranks, in[i] is the i-th x of lk_chain_forward().  `out` has room for LK_COMPONENT_VALUES values,
 * which go to each of the out_ranks as one list.
 */
typedef lk_status lk_component_fn(const lk_pass *pass, void *arg, const lk_list *in, int n_in,
                                  lk_list *out);

/** A component: a model, which takes and gives one value, or a function. */
typedef struct lk_component {
    const char *name; /* for reports, shorter than LK_COMPONENT_NAME; NULL: none */
    lk_model *model;  /* borrowed, lives longer than the chain; NULL: `fn` */
    /* Of a model that is not built: it is built for what it gets, with this seed and so on; `in` is not
     * read. */
    lk_model_spec spec;
    lk_component_fn *fn;
    void *arg;
    /* Of a recurrent model: the rank that its carry comes from, behind the in_ranks, and the rank that it goes
     * to, behind the out_ranks, as lists of lk_model_carries() values; either may be this one.  NULL: it begins
     * as zeros, and goes nowhere.  lk_recurrent_forward() is the same without a chain. */
    const int *carry_in, *carry_out;
    bool
        carry_only; /* nothing but the carry goes on: there are no out_ranks, and it is no output */
} lk_component;

/** The components of this rank, and how they are connected to those of others.  The program makes one on each
 * rank and calls it on one thread at a time.  New, build and forward are collective, the others are not. */
typedef struct lk_chain lk_chain;

/**
 * Make a chain without components.  Collective.  The caller owns it, and frees it before `comm` and
 * after the tapes that it was run on are reset or freed.
 *
 * Errors: LK_EINVAL, LK_ENOMEM, those of communication.
 */
LK_API lk_status lk_chain_new(lk_comm *comm, lk_chain **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_chain_free(lk_chain *chain);

/**
 * Append a component of this rank, which is run behind those that it has.
 *
 * Its inputs come from the ranks `in_ranks`, in this order; n_in 0: it takes the x of lk_chain_forward().
 * Its output goes to the ranks `out_ranks`, in this order; n_out 0: it is what this rank's
 * lk_chain_forward() gives.  A rank may be named several times, and be this one.
 *
 * Not collective: what the ranks have said is compared by lk_chain_build().  Errors: LK_EINVAL for a
 * component that is not one, a carry of what is not recurrent, and a model that the chain has; LK_ESTATE once
 * the chain is built; LK_ENOMEM.
 */
LK_API lk_status lk_chain_add(lk_chain *chain, const lk_component *component, const int *in_ranks,
                              int n_in, const int *out_ranks, int n_out) LK_NODISCARD;

/**
 * Compare what all ranks have added, and make what they need.  Collective.
 *
 * Refused, with LK_EINVAL and the same words on all ranks: a rank that does not exist; two outputs on a
 * rank; a value that no rank takes, and one that no rank sends, naming both ends; a queue of the own rank
 * that is empty where a component takes from it, or not empty at the end; a model that would get several
 * values; values that are waited for in a circle, and sends that are: a send is not over before its
 * receive has begun.
 *
 * If a model anywhere is not built, all components of all ranks are run once, in order, without
 * recording, on zeros: x[i] is the dtype and the whole shape of the i-th x, for any number of samples.
 * Each such model is built for the samples that it gets.  Otherwise `x` is not read and may be NULL.
 * Models that hold nothing yet hold all of themselves.
 *
 * Errors: as above; those of models and functions, the same on all ranks; LK_ESTATE if it is built;
 * LK_ENOMEM, those of communication.  After a failure the chain can only be freed.
 */
LK_API lk_status lk_chain_build(lk_chain *chain, const lk_tensor_type *x, int n_x) LK_NODISCARD;

/**
 * Run this rank's components in order, with what comes from other ranks.  Collective.
 *
 * All is recorded on pass->tape, in the order of the program; lk_backward() then needs to be called by
 * all ranks, without a seed where there is no output.  It adds gradients to lk_chain_accumulator() of
 * each model, unless the tape does not record.  pass->accumulator is NULL.
 *
 * `out` is this rank's output, out->n 0 if it has none; it may be NULL on ranks without.
 *
 * Errors: those of models and functions, naming component and rank; such a failure is the end of the
 * job on all ranks, for others may wait for this one.  Before anything is sent, on this rank alone:
 * LK_EINVAL, and LK_ESTATE unless the chain is built.
 */
LK_API lk_status lk_chain_forward(lk_chain *chain, const lk_pass *pass, const lk_var *x, int n_x,
                                  lk_list *out) LK_NODISCARD;

/** How many components this rank has added; and the model of number `component`, NULL for a function and
 * for a number that does not exist. */
LK_API int64_t lk_chain_components(const lk_chain *chain);
LK_API lk_model *lk_chain_model(const lk_chain *chain, int64_t component);

/** What passes add up for the model of this rank's component number `component`; borrowed.  NULL for a
 * function, for a number that does not exist, and before the chain is built. */
LK_API lk_accumulator *lk_chain_accumulator(const lk_chain *chain, int64_t component);

/** Set all accumulators of this rank to zero: lk_accumulator_clear(). */
LK_API void lk_chain_clear(lk_chain *chain);

LK_END_DECLS

#endif /* LK_CHAIN_H */
