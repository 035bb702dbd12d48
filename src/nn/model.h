/* lk_model and lk_accumulator from inside, for the files of src/nn.
 *
 * A model is the list of configs that was asked for; lk_model_build() makes a *net* of it, in which
 * each layer is an instance with shapes and numbers; lk_model_hold() gives the net memory.
 */
#ifndef LK_NN_MODEL_H
#define LK_NN_MODEL_H

#include "base/memory/grow.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/loss.h>
#include <lockstep/op.h>

/* What a layer of a list and the one behind it are at once. */
typedef enum lk__fusion {
    LK__APART,
    LK__ACT_AFTER, /* the layer applies the activation behind it */
    LK__ACT_BEFORE /* the activation is applied by the layer behind it */
} lk__fusion;

/* A list of layers: the model's own, or one within a layer. */
typedef struct lk__list {
    int64_t n;
    int64_t *instance;  /* numbers of their instances; in the arena */
    lk__fusion *fusion; /* of each and the next one */
} lk__list;

/* What a layer works on, and so who holds which part of it. */
typedef struct lk__owned {
    int64_t layer; /* number in the model's list; of a layer within one, that one's */
    bool held;     /* a layer that uses it is held */
    lk_shape axes; /* the tensor with the axis of its cut on its own */
    int axis;      /* the one that is cut; -1: none */
} lk__owned;

/* How a parameter begins, and who uses it: the first one owns it. */
typedef struct lk__param_start {
    lk_config init;
    int64_t fan_in, fan_out;
    lk_cut unit; /* its rows have norm 1 behind each update; n 0: nothing is asked of it */
    lk__owned owned;
    int64_t n_uses, first_use, last_use;
    bool frozen; /* all its layers are */
} lk__param_start;

/* A parameter as a layer declares it: its own, or one that it shares. */
typedef struct lk__param_use {
    const char *name; /* "linear2.weight", also where the parameter has another's name */
    int64_t param;    /* number in the slab */
    int64_t extra;    /* number among the uses that own nothing; -1: it is the owner's */
    int64_t instance, layer;
    int64_t next;      /* the next use of the same parameter, in the order of layers; -1: none */
    bool by_tile;      /* its gradient is a sum over positions */
    bool per_position; /* each has its own part of it */
    lk_cut cut;        /* as this layer would cut it */
} lk__param_use;

/* How a state begins, and moves. */
typedef struct lk__moving {
    double start, rate;
    bool once; /* given once in a batch, not once in each piece */
    int64_t instance;
    lk__owned owned;
} lk__moving;

/* What a recurrent layer carries from one time to the next. */
typedef struct lk__carry {
    const char *name;
    lk_shape shape; /* of one sample */
} lk__carry;

/* A loss that a layer adds. */
typedef struct lk__term {
    int64_t instance, layer; /* and the one of the model's list that it is, or is within */
    const lk_loss *loss;     /* NULL: the sum of the elements */
    const void *options;
    lk_tensor_type of;
    double weight;
    int64_t parts;
    int lists; /* of its layer's, the last ones: they run only where the term counts */
} lk__term;

/* What building makes, shapes and names, and what holding makes of it, memory. */
typedef struct lk__net {
    lk_arena *arena; /* names, data of layers, lists */
    lk_model_spec spec;
    lk_tensor_type out;
    bool has_weight_reuse, needs_batch_sync;
    bool named; /* the message of a failure to build says which layer */
    int64_t n_instances, n_lists, n_params, n_state, n_uses, n_carries, n_terms;
    int64_t n_extra; /* uses that own nothing */
    /* room in the arrays */
    int64_t max_instances, max_lists, max_params, max_state, max_uses, max_carries, max_terms;
    lk_layer_instance *instance;
    lk__list *list; /* the model's is number 0 */
    lk__param_start *start;
    lk__param_use *use;
    lk__moving *moving;
    lk__carry *carry;
    lk__term *term; /* in the order of their layers */
    int64_t layer;  /* of the model's list: the one that is being built */
    lk_slab_layout *params_layout, *state_layout; /* of the whole model */
    lk_slab *params, *state;                      /* what is held; NULL: nothing */
    lk_tensor **param;                            /* the slices as tensors */
    lk_slab *own_params; /* not bound, while others are; NULL: `params` are the model's own */
    lk_tensor **own_param;
    lk_tensor **state_of;
    void *row_sums; /* of lk_model_constrain(); NULL until it is called */
} lk__net;

/* Where building is. */
struct lk_build {
    lk__net *net;
    int64_t instance; /* number of the layer that is being built */
    const lk_config *config;
    lk_tensor_type list_in; /* what its list begins with */
    bool tied;              /* it has declared the parameter that it shares */
};

struct lk_model {
    lk_arena *arena; /* options of layers */
    int64_t n_layers, max_layers;
    lk_config *layer;
    lk__net *net;   /* NULL until it is built */
    lk_var *values; /* parameters of a pass without an accumulator, by use */
    int trainers;   /* that use the parameters where they are */
};

/* Which gradients accumulators keep by tile: of parameters that are declared so, in the layers that have a
 * tile in `parts` [lk_model_layers()]; `n` tiles of each.  n 0: none. */
typedef struct lk__leaves {
    const lk_layer_part *parts;
    int64_t n;
    bool loss; /* the loss is that of tiles, too */
} lk__leaves;

struct lk_accumulator {
    const lk_model *model;
    lk_slab *slab;
    lk_tensor **grad;  /* of each use of a parameter: that of the batch; NULL: of an observer */
    lk__leaves leaves; /* tiles whose gradients are kept apart, of uses that have such */
    lk_tensor **leaf;  /* of each use that has leaves: [leaves][...]; otherwise NULL */
    lk_tensor **each;  /* the parameter as each leaf sees it, [leaves][...]; made by passes */
    const lk_tensor **each_of; /* of which tensor */
    lk_tensor **batch_stats;   /* of each state */
    lk_tensor *loss;
    lk_tensor *terms;  /* the losses of all terms; NULL: the model has none */
    int64_t *term_at;  /* [terms] where those of each begin there */
    lk_tensor *flat;   /* all of it */
    int64_t gradients; /* bytes of all of them, from the start of the slab */
    bool overwrite;    /* the next pass sets the gradients */
    lk_var *values;    /* the parameters on the tape of the pass that fills this accumulator */
    void *scratch;     /* of lk_pass_batch_stat(): as large as the largest state */
};

/** What backward does of a layer once more where values are not kept. */
typedef enum lk__again { LK__NOT_AGAIN, LK__RUN_AGAIN, LK__JOINED_AGAIN } lk__again;

/* What lk_model_forward() adds to lk_pass for the layers.  A caller of this library may prepare one, by which
 * it says what a program cannot: its `model` is NULL then. */
struct lk__pass_run {
    lk_model *model;
    lk_var *
        param; /* [lk__model_uses()], of the accumulator if there is one; prepared, so that several threads
                      can run passes without one at once */
    int64_t samples;
    const lk_list *first; /* the carry that it begins with; NULL: zeros */
    lk_list *last;        /* where the carry goes that it ends with, or NULL */
    double most;          /* elements of a segment; 0: backward computes nothing again */
    lk__again *again;     /* by number: of a pass that only notes this of its layers; else NULL */
    lk_act act;           /* of lk_pass_fused_act() */
    bool asked;           /* the layer whose forward runs has called lk_pass_tile() */
    bool named;           /* the message of a failure says which layer */
    char *bad; /* where the name of the first layer goes whose output is not finite, or NULL */
    size_t bad_size;
};

/** Whether a caller of this library has prepared pass->run; otherwise it is NULL, or that of another model, whose
 * layer makes this pass. */
static inline bool lk__pass_is_prepared(const lk_pass *pass)
{
    return pass->run && !pass->run->model;
}

static inline bool lk__range_has(lk_range range, int64_t i)
{
    return i >= range.first && i < range.first + range.n;
}

/** What this rank does of a layer; NULL: all of it. */
static inline const lk_layer_part *lk__pass_part(const lk_pass *pass,
                                                 const lk_layer_instance *instance)
{
    if (!pass->parts)
        return NULL;
    return &pass->parts->layer[instance - pass->run->model->net->instance];
}

/** Whether its values are held boxes. */
static inline bool lk__pass_by_tile(const lk_pass *pass, const lk_layer_instance *instance)
{
    const lk_layer_part *part = lk__pass_part(pass, instance);
    return part && part->by_tile;
}

/** Let a value that a layer has made stay where it would go with it: in a pass that is not recorded. */
lk_status lk__pass_outlive(const lk_pass *pass, lk_var value) LK_NODISCARD;

/** [samples, ...] of a carry. */
lk_shape lk__carry_shape(const lk__carry *carry, int64_t samples);

/**
 * Use `slab`, of the layout of lk_model_params(), as the storage of the parameters, such as memory that
 * ranks share; their values are those in the slab.  It is borrowed until lk__model_unbind_params().
 *
 * No pass may be under way, and optimizers must be made afterwards.  Errors: LK_EINVAL for another
 * layout, LK_ESTATE if other storage is bound already, LK_ENOMEM; the model is then as it was.
 */
lk_status lk__model_bind_params(lk_model *model, lk_slab *slab) LK_NODISCARD;

/** Copy the values of the parameters back to the model's own storage, and use that again. */
void lk__model_unbind_params(lk_model *model);

/** lk_accumulator_new(), lk_accumulator_wrap() and lk_accumulator_bytes() with leaves; `memory` NULL: its
 * own. */
lk_status lk__accumulator_new(const lk_model *model, const lk__leaves *leaves, void *memory,
                              lk_accumulator **out) LK_NODISCARD;
int64_t lk__accumulator_bytes(const lk_model *model, const lk__leaves *leaves);

/** Bytes of a slice of so many elements of the model's dtype. */
static inline int64_t lk__slice_bytes(const lk__net *net, int64_t elements)
{
    int64_t bytes = elements * (int64_t)lk_dtype_size(net->spec.dtype);
    return (bytes + LK_ALIGN - 1) / LK_ALIGN * LK_ALIGN;
}

/** Add slices as those of `slab`, with what it holds of each, to a layout. */
lk_status lk__slices_like(const lk_slab *slab, const char *prefix,
                          lk_slab_layout *layout) LK_NODISCARD;

/** Add what forward adds up, statistics, the loss and terms, to the layout of an accumulator; and the tensors
 * of these, from slice number `first` on, to the accumulator. */
lk_status lk__observed_layout(const lk__net *net, const lk__leaves *leaves,
                              lk_slab_layout *layout) LK_NODISCARD;
lk_status lk__observed_make(const lk__net *net, const lk__leaves *leaves, int64_t first,
                            lk_accumulator *accumulator) LK_NODISCARD;

/**
 * Make an observer: an accumulator of what forward adds up, statistics and losses, without gradients.  Where
 * several passes are under way, each has one, and lk__observer_give() says before backward where gradients go.
 */
lk_status lk__observer_new(const lk_model *model, const lk__leaves *leaves,
                           lk_accumulator **out) LK_NODISCARD;

/** Let the gradients of the pass that has filled an observer go to `to`, an accumulator that lk_accumulator_begin()
 * or passes have left, and add to it what was observed. */
lk_status lk__observer_give(lk_accumulator *observer, lk_accumulator *to) LK_NODISCARD;

/** Leave the gradients of that pass to lk_backward_rest(). */
lk_status lk__observer_postpone(const lk_accumulator *observer) LK_NODISCARD;

/** Those of them, at the end of the slab, that losses have: each micro-batch keeps its own. */
int64_t lk__accumulator_loss_bytes(const lk_model *model, const lk__leaves *leaves);

/** The layout of its slab: parameters, further uses of them, those of tiles, statistics of the batch, the
 * loss.  The caller owns `*out`. */
lk_status lk__accumulator_layout(const lk_model *model, const lk__leaves *leaves,
                                 lk_slab_layout **out) LK_NODISCARD;

/** Tiles whose gradients a use keeps apart; 0: none. */
int64_t lk__use_leaves(const lk_model *model, const lk__leaves *leaves, int64_t use);

/** The parameter as each leaf of a use sees it, [leaves][...]; borrowed. */
lk_status lk__accumulator_each(lk_accumulator *accumulator, int64_t use,
                               lk_tensor **out) LK_NODISCARD;

/** Add a loss to that of leaf `leaf`, of term number `term` or, with -1, of the loss itself; and what it
 * is. */
lk_status lk__accumulator_add_term(lk_accumulator *accumulator, int64_t term, int64_t leaf,
                                   lk_var loss) LK_NODISCARD;
double lk__accumulator_term(const lk_accumulator *accumulator, int64_t term, int64_t leaf);

/** The gradients of the tiles of a use, [leaves][...]; NULL: it has none.  And that of the batch. */
lk_tensor *lk__accumulator_leaves(const lk_accumulator *accumulator, int64_t use);
lk_tensor *lk__accumulator_total(const lk_accumulator *accumulator, int64_t use);

/** Put the parameters on pass->tape as lk_model_forward() does, each use for itself, and say where they
 * are: [lk__model_uses()], borrowed until the next pass with the same accumulator. */
lk_status lk__model_enter_params(lk_model *model, const lk_pass *pass,
                                 const lk_var **out) LK_NODISCARD;

/** A trainer begins, and ends, to use the parameters where they are.  Errors: LK_ESTATE while others are bound:
 * they are another trainer's, and go with it. */
lk_status lk__model_begin_training(lk_model *model) LK_NODISCARD;
void lk__model_end_training(lk_model *model);

/** Build all layers of the model into `net`. */
lk_status lk__net_build(const lk_model *model, lk__net *net) LK_NODISCARD;

/** Make the slabs of what is held of a net whose layers are built, and fill them. */
lk_status lk__net_hold(lk__net *net, const lk_holding *holding) LK_NODISCARD;

/** What a model holds, kept while it pretends to hold something else. */
typedef struct lk__kept {
    lk_slab *params, *state;
    lk_tensor **param, **state_of;
} lk__kept;

/** Let a model that holds all of itself hold other boxes in a rehearsal (base/memory/rehearsal.h), without values; and
 * what it had again. */
lk_status lk__model_pretend(lk_model *model, const lk_holding *holding,
                            lk__kept *kept) LK_NODISCARD;
void lk__model_recover(lk_model *model, lk__kept *kept);

/** How many of the first axes of a parameter are positions that tiles cut: each has its own part of it, and
 * a rank that has a tile holds that of its positions.  0: all of it is held. */
int lk__net_positions(const lk__net *net, int64_t param);

/** The same with so many tiles [3] along each axis, whatever the model's spec says. */
int lk__net_positions_in(const lk__net *net, int64_t param, const int64_t *tiles);

/** Layers of a net that is built, which share such a parameter with one that needs all of it, need all of
 * theirs, too. */
void lk__net_settle_positions(lk__net *net);

/** Of a net that is built: parameters are cut into blocks only where all layers that use them can have a part. */
void lk__net_settle_features(lk__net *net);

/** Whether a parameter is cut into several blocks, on any ranks. */
bool lk__net_is_cut(const lk__net *net, const lk__owned *owned);

/** What a layer does with features, by what is cut of its parameters: whole, each, out or in. */
lk_layer_features lk__layer_features_of(const lk__net *net, const lk_layer_instance *instance);

/** Whether a layer has such parameters: it then runs by tiles where these are cut over ranks. */
bool lk__layer_is_by_position(const lk_layer_instance *instance);

/** The fewest positions that one of `tiles` [3] has of a value [position...][channels]. */
int64_t lk__smallest_tile(lk_tensor_type type, const int64_t *tiles, int64_t step);

/** Cut a model that is built into so many tiles [3] along each axis, of at least so many positions where
 * layers add up over them, whatever its spec says. */
void lk__model_set_tiles(lk_model *model, const int64_t *tiles, int64_t least);

/** Tiles are cut at multiples of this: 4 where a layer is Winograd's. */
int64_t lk__net_tile_step(const lk__net *net);

/** Elements that `tiles` [3] of n_tiles [3] and `blocks`, NULL: all, have of a parameter of a model that
 * holds something. */
int64_t lk__model_part_count(const lk_model *model, int64_t param, const int64_t *n_tiles,
                             const lk_range *tiles, const lk_range *blocks);

/** Fail unless the model, which holds something, holds these layers of its list, and no others. */
lk_status lk__model_check_layers(const lk_model *model, lk_range layers) LK_NODISCARD;

/** Fail unless the model, which holds something, holds what `blocks` and `tiles` [3] have, and all of what is cut
 * into neither. */
lk_status lk__model_check_boxes(const lk_model *model, const lk_range *blocks,
                                const lk_range *tiles) LK_NODISCARD;

/** Fail unless the model holds what a pass over these layers of its list needs. */
lk_status lk__model_check_pass(const lk_model *model, const lk_pass *pass,
                               lk_range layers) LK_NODISCARD;

/** A use of a parameter declares it; which rows of it have norm 1 is what any of its uses says.  Errors:
 * LK_ESHAPE for rows that it does not have. */
lk_status lk__unit_declare(const lk_param *param, const char *name,
                           lk__param_start *start) LK_NODISCARD;

/** Free what is held. */
void lk__net_drop(lk__net *net);

/** Fail unless the model is built and holds something. */
lk_status lk__model_check_held(const lk_model *model) LK_NODISCARD;

/** Fail unless the model is built and holds all of itself. */
lk_status lk__model_check_whole(const lk_model *model) LK_NODISCARD;

/** Fail unless a layer of the model, which is built, carries something from one time to the next. */
lk_status lk__model_check_recurrent(const lk_model *model) LK_NODISCARD;

/** NULL is allowed. */
void lk__net_free(lk__net *net);

/** All slices of a slab as tensors, `*out` being an array of `n`. */
lk_status lk__slab_tensors(const lk_slab *slab, int64_t first, int64_t n,
                           lk_tensor ***out) LK_NODISCARD;
void lk__tensors_free(lk_tensor **tensor, int64_t n);

/** Say which layers of a list whose instances are built go together. */
void lk__list_fuse(const lk__net *net, lk__list *list);

/** Run some layers of a list. */
lk_status lk__list_run(const lk_pass *pass, const lk__list *list, lk_range layers, lk_var x,
                       lk_var *out) LK_NODISCARD;

/** How many of a list's layers from `i` on, and before `end`, are applied at once; the bits are the same.
 * `*instance` is the layer that does it, with the activation `*act` of its neighbour.  An observer sees
 * the layers one by one. */
int64_t lk__layers_at_once(const lk_pass *pass, const lk__list *list, int64_t i, int64_t end,
                           const lk_layer_instance **instance, lk_act *act);

/** The two halves of a layer that joins its lists: what these make of x, out [n_lists], and the rest. */
lk_status lk__layer_run_lists(const lk_pass *pass, const lk_layer_instance *instance, lk_var x,
                              lk_var *out) LK_NODISCARD;
lk_status lk__layer_join(const lk_pass *pass, const lk_layer_instance *instance, const lk_var *of,
                         lk_var *out) LK_NODISCARD;

/** Elements of a sample that the values of a segment may have, of `n` segments of the net. */
double lk__segments_size(const lk__net *net, int64_t n);

/** Run some layers of a list in segments, which backward runs again. */
lk_status lk__segments_run(const lk_pass *pass, const lk__list *list, lk_range layers, lk_var x,
                           lk_var *out) LK_NODISCARD;

/** Which layers of the model's list, and of lists within them, backward runs again in a pass of `n` segments; of a
 * layer that is joined again its lists are not, unless they say so.  `part`: what this rank does of each, or NULL;
 * `again` [layers of the net] is LK__NOT_AGAIN before. */
lk_status lk__segments_note(const lk_model *model, int64_t n, const lk_layer_part *part,
                            lk_range layers, lk__again *again) LK_NODISCARD;

/* ---- terms ---- */

/** The number of a layer's term; -1: it has none. */
int64_t lk__net_term(const lk__net *net, int64_t instance);

/**
 * Say of each layer, [lk_model_layers()], whether it runs where the terms of `counts` [lk_model_terms()] are
 * wanted, and what comes out only if `loss` says so: without it the list ends behind the last layer with
 * such a term, and lists that serve a term alone run only for it.
 */
void lk__model_runs(const lk_model *model, const bool *counts, bool loss, bool *runs);

/** Freeze the layers that do not run, too; `runs` as of lk__model_runs(). */
void lk__model_freeze_idle(lk_model *model, const bool *runs);

/** How many layers of the model's list, from the first on, have nothing within them that moves. */
int64_t lk__model_still(const lk_model *model);

/** What is frozen, as so many flags, to be brought back later. */
int64_t lk__model_marks(const lk_model *model);
void lk__model_get_marks(const lk_model *model, bool *out);
void lk__model_set_marks(lk_model *model, const bool *marks);

/** Which layers of the model's list a pass runs; what becomes of its terms is nothing yet. */
lk_status lk__terms_begin(const lk_model *model, const lk_pass *pass,
                          lk_range *layers) LK_NODISCARD;

/** Fail unless layers have given all terms that are wanted. */
lk_status lk__terms_end(const lk_model *model, const lk_pass *pass) LK_NODISCARD;

/** Box `part` of a value [samples][box...][...]. */
lk_status lk__box_take(lk_var x, const lk_box *box, const lk_box *part, lk_var *out) LK_NODISCARD;

/** Uses of parameters, shared or not. */
static inline int64_t lk__model_uses(const lk_model *model)
{
    return model->net->n_uses;
}

/** Uses of parameters that other layers own: their gradients are accumulator of their own until all are
 * joined. */
static inline int64_t lk__model_further_uses(const lk_model *model)
{
    return model->net->n_extra;
}

#endif /* LK_NN_MODEL_H */
