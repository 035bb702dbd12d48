/* struct lk_tape and what it is made of, for the files of this room; its thread alone uses it.
 *
 * Values and nodes lie in pages that never move, so a pointer to one stays good while the tape
 * grows.  What a node needs besides (its inputs, its attributes) lies in `node_arena`, which is filled
 * from the front and forgotten at once.
 *
 * A value has owners, counted in `holds`: the program (until the reset), a scope, a value whose gradient
 * it is, or what lk_backward() leaves.  Without owners its slot and its block are free.  A scope owns
 * the values that are made while it is the innermost one: those of one node's backward, of a segment, or
 * of a layer in a pass that is not recorded.
 */
#ifndef LK_AUTOGRAD_TAPE_H
#define LK_AUTOGRAD_TAPE_H

#include "autograd/memory.h"
#include "autograd/tape_access.h"
#include "base/memory/grow.h"

#include <lockstep/op.h>

enum { LK_PAGE = 64, LK_NO_INDEX = -1 };

typedef struct lk__value {
    lk_tensor tensor;
    uint64_t serial;                /* as in the variable; 0: the slot is free */
    lk__block *block;               /* the elements; NULL if they are the program's */
    lk_tensor *outside, *leaf_grad; /* of a leaf or constant, retained */
    int64_t node;                   /* that made it, or LK_NO_INDEX */
    int64_t first_use;              /* the first node that read it, or LK_NO_INDEX */
    int64_t grad;                   /* its gradient in this pass, a value, or LK_NO_INDEX */
    int64_t next;                   /* in a scope, or in the list of free slots */
    int64_t holds;
    uint64_t reached, useful, captured; /* stamps of the pass or segment that set them */
    bool needs_grad;
    bool keep;      /* backward, and a pass without a record, leave the elements */
    bool released;  /* they took the elements */
    bool wanted;    /* lk_grad() wants its gradient */
    bool unset;     /* the elements of leaf_grad are not set yet */
    bool added;     /* an op has added all that there is to leaf_grad; no hook was called */
    bool postponed; /* a leaf whose gradient lk_backward() leaves to lk_backward_rest() */
    bool placed;    /* it is among the deposits that are left */
    struct lk__grad_part *parts; /* of its gradient that are left, the last one; NULL: none */
} lk__value;

/* An input of a node, and what its version was. */
typedef struct lk__use {
    int64_t value;
    uint64_t version;
} lk__use;

typedef struct lk__node {
    const lk_op *op;
    const void *attr;
    lk__use *in;
    int n_in;
    bool consumed;
    int64_t piece; /* lk_tape_shard_size() when it was recorded */
    int64_t out[LK_MAX_OUT];
} lk__node;

/* Bytes that are filled from the front, in pieces that never move. */
typedef struct lk__node_arena {
    struct lk__node_arena_page *first, *current;
} lk__node_arena;

typedef struct lk__node_arena_mark {
    struct lk__node_arena_page *page;
    int64_t used;
} lk__node_arena_mark;

typedef struct lk__scope {
    struct lk__scope *outer;
    int64_t first;  /* value */
    bool passes_on; /* what lk_retain_value() has named, to the scope around it */
} lk__scope;

/* Pages that do not move, in a list that may. */
typedef struct lk__pages {
    int64_t n, capacity;
    void **page;
} lk__pages;

/* The first run of a segment. */
typedef struct lk__capture {
    uint64_t first_serial; /* values with lower ones are from outside */
    uint64_t stamp;
    bool needs_grad; /* it has something to differentiate */
    bool collective; /* it communicates */
    int64_t n, capacity;
    int64_t *value; /* needs a gradient, from outside */
} lk__capture;

/* A pass of backward. */
typedef struct lk__pass {
    bool on;
    bool record, retain;
    bool deposit;   /* into the leaves' gradients: lk_backward() */
    bool postpones; /* the gradients of postponed leaves */
    int64_t lowest; /* number of a node that made a reached value */
    int64_t node;   /* that is being run */
    uint64_t stamp;
} lk__pass;

struct lk_tape {
    bool records; /* ops are recorded, or noted by a segment */
    bool silent; /* the first run of a segment: `capture` notes what is used, nothing is recorded */
    bool replays;
    bool canonical; /* the call that runs ops has found the floating-point environment to be so */
    int64_t piece;
    uint64_t serial, stamp; /* the last ones given */
    bool reset_inside;      /* lk_tape_reset() was called where it cannot be done */
    int64_t n_values, n_free_values, n_nodes, n_collective;
    lk__pages value_pages, node_pages;
    int64_t free_value; /* the first of a list, or LK_NO_INDEX */
    int64_t n_outside, outside_capacity;
    int64_t *outside; /* values with tensors of the program: leaves and constants */
    lk__memory memory;
    lk__node_arena node_arena;
    lk__scope *scope;
    lk__capture capture;
    int64_t n_touched, touched_capacity;
    int64_t *touched; /* leaves that a gradient has come to in this pass */
    lk__pass pass;
    int64_t n_postponed, n_deposits, deposits_capacity;
    int64_t *deposits; /* postponed leaves that lk_backward() has left, in the order of deposits */
    lk__node_arena parts;    /* of their gradients */
    struct lk__plan **plans; /* the one used last comes first */
    int n_plans;
    lk__tape_extension *extension; /* of the room dist; NULL: none yet */
    lk_grad_hook *on_leaf;
    void *on_leaf_arg;
};

static inline lk__value *lk__value_at(const lk_tape *t, int64_t i)
{
    return (lk__value *)t->value_pages.page[i / LK_PAGE] + i % LK_PAGE;
}

static inline lk__node *lk__node_at(const lk_tape *t, int64_t i)
{
    return (lk__node *)t->node_pages.page[i / LK_PAGE] + i % LK_PAGE;
}

static inline lk_var lk__var(lk_tape *t, int64_t i)
{
    return (lk_var){t, lk__value_at(t, i)->serial, i};
}

/** Say why lk__find() fails. */
void lk__find_raise(lk_var v);

/** The value of a variable, which must be valid and, unless `gone_too`, not released. */
static inline LK_NODISCARD lk_status lk__find(lk_var v, bool gone_too, lk__value **out)
{
    lk__value *x = v.tape && v.index < v.tape->n_values ? lk__value_at(v.tape, v.index) : NULL;
    *out = x;
    if (x && x->serial == v.serial && (gone_too || !x->released))
        return LK_OK;
    lk__find_raise(v);
    return v.tape ? LK_ESTATE : LK_EINVAL;
}

/** A value without elements yet, owned by the innermost scope or by the program. */
lk_status lk__value_new(lk_tape *t, int64_t *out) LK_NODISCARD;

void lk__value_hold(lk_tape *t, int64_t i);
void lk__value_release(lk_tape *t, int64_t i);

/** Give up the elements of a value. */
void lk__value_drop(lk_tape *t, lk__value *v);

/** Make `v` a contiguous tensor of a checked dtype and shape with elements of its own. */
lk_status lk__value_make(lk_tape *t, lk__value *v, lk_dtype dtype, lk_shape shape) LK_NODISCARD;

/** `v` becomes a view of `of`, whose fields are in `view`. */
void lk__value_view(lk__value *v, const lk__value *of, const lk_tensor *view);

void lk__scope_open(lk_tape *t, lk__scope *s);

/** Close the innermost scope: its values lose an owner, or are passed on. */
void lk__scope_close(lk_tape *t);

/** Let the innermost scope, if there is one, own a value that no scope owns. */
static inline void lk__scope_take(lk_tape *t, int64_t i)
{
    if (!t->scope)
        return;
    lk__value_at(t, i)->next = t->scope->first;
    t->scope->first = i;
}

lk_status lk__node_arena_take(lk__node_arena *n, int64_t bytes, void *out) LK_NODISCARD;
lk__node_arena_mark lk__node_arena_here(const lk__node_arena *n);
void lk__node_arena_back(lk__node_arena *n, lk__node_arena_mark mark);
void lk__node_arena_free(lk__node_arena *n);

void lk__pages_free(lk__pages *p);
void lk__plans_free(lk_tape *t);

/** The next node, not filled in. */
lk_status lk__node_new(lk_tape *t, lk__node **out) LK_NODISCARD;

/** Forget the nodes from `n` on. */
void lk__nodes_cut(lk_tape *t, int64_t n, lk__node_arena_mark mark);

/** Write an application to the tape: `out` are values that get a gradient where they are real. */
lk_status lk__record(lk_tape *t, const lk_call *call, const int64_t *in,
                     const int64_t *out) LK_NODISCARD;

/** Check what the program gives with a call; the value of an input; the result for the gradient of a leaf. */
lk_status lk__call_check(const lk_call *call) LK_NODISCARD;
lk_status lk__input_find(const lk_call *call, int i, lk__value **out) LK_NODISCARD;
lk_status lk__gradient_check(const lk_op *op, const lk_tensor *leaf, lk_dtype dtype,
                             lk_shape shape) LK_NODISCARD;

/** Add the first output of a call to the `grad` of `leaf`, in place; out[0] is LK_NO_VAR. */
lk_status lk__apply_to_leaf(const lk_call *call, int64_t leaf, lk_var *out) LK_NODISCARD;

/** Add the output of a call to the gradient of `leaf`; if there is nothing else to be added, in place where
 * the op can. */
lk_status lk__apply_part(const lk_call *call, int64_t leaf, bool alone) LK_NODISCARD;

/** Whether this pass leaves the gradient of a leaf for later. */
static inline bool lk__is_postponed(const lk_tape *t, const lk__value *v)
{
    return v->postponed && t->pass.postpones;
}

/** Leave a call of an op, whose result is a part of the gradient of `leaf`; or `g`, which is one. */
lk_status lk__postpone_op(const lk_call *call, int64_t leaf) LK_NODISCARD;
lk_status lk__postpone_value(lk_tape *t, int64_t leaf, int64_t g) LK_NODISCARD;

/** Leave the deposit of a leaf's gradient. */
lk_status lk__postpone_deposit(lk_tape *t, int64_t leaf) LK_NODISCARD;

/** Forget what is left. */
void lk__postponed_forget(lk_tape *t);

/** A first part of the gradient of leaf `i` has come. */
lk_status lk__grad_touch(lk_tape *t, int64_t i) LK_NODISCARD;

/** Add `g` to the gradient of value `i`. */
lk_status lk__grad_add(lk_tape *t, int64_t i, int64_t g) LK_NODISCARD;

/** A value with a copy of the elements of `x`. */
lk_status lk__value_copy(lk_tape *t, const lk_tensor *x, lk_var *out) LK_NODISCARD;

/** Fail if lk_tape_reset() was called in between. */
lk_status lk__reset_check(lk_tape *t) LK_NODISCARD;

/** This rank fails, which others do not know: tell who knows them. */
static inline void lk__failed_alone(const lk_tape *t, lk_status st)
{
    if (t && t->extension)
        t->extension->failed(t->extension, st);
}

/** Set the gradient of a leaf to zeros, if its elements are not set. */
lk_status lk__grad_set(lk__value *leaf) LK_NODISCARD;

/** Add the gradient of leaf `i`, if it has one, to the program's tensor, unless an op has, and forget
 * it; tell who wants to know.  Or leave that, if the leaf is postponed. */
lk_status lk__grad_deposit(lk_tape *t, int64_t i) LK_NODISCARD;

void lk__grad_forget(lk_tape *t, lk__value *v);

/** Check and mark what nodes [first, last) pass on, from values that are marked as reached. */
lk_status lk__pass_mark(lk_tape *t, int64_t first, int64_t last) LK_NODISCARD;

/** Mark what nodes from `first` on make of values that lk_grad() wants. */
void lk__pass_mark_useful(lk_tape *t, int64_t first);

/** A gradient will come to v. */
void lk__pass_reach(lk_tape *t, lk__value *v);

/** Check a seed, whose gradient may be NULL, and mark it. */
lk_status lk__seed_check(lk_tape *t, lk_var of, const lk_tensor *grad) LK_NODISCARD;

/** Let the values of n seeds have their gradients; or, where `seeds` is NULL, the values `of` those of
 * `grad`, where LK_NO_VAR is 1. */
lk_status lk__seeds_set(lk_tape *t, const lk_seed *seeds, const lk_var *of, const lk_var *grad,
                        int n) LK_NODISCARD;

/** Whether this pass wants the gradient of a value. */
static inline bool lk__is_wanted(const lk_tape *t, const lk__value *v)
{
    return v->needs_grad && (t->pass.deposit || v->useful == t->pass.stamp);
}

/** Run backward through nodes [first, last), which are marked. */
lk_status lk__pass_run(lk_tape *t, int64_t first, int64_t last) LK_NODISCARD;

#endif /* LK_AUTOGRAD_TAPE_H */
