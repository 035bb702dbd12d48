/* Layers and models.
 *
 * A layer is one constant descriptor in one file of src/nn/layers: its options, what parameters it
 * needs, and its formula in ops.  A model is a list of layers with its parameters:
 *
 *     lk_model_new(&model);
 *     lk_model_add(model, "linear", "units=100");
 *     lk_model_add(model, "relu", NULL);
 *     lk_model_add(model, "linear", "units=10");
 *     lk_model_build(model, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(784)}, .seed = 1});
 *     lk_model_hold(model, NULL);
 *     lk_model_forward(model, &(lk_pass){.tape = tape, .accumulator = accumulator}, x, &y);
 *
 * Building works out names and shapes and takes no memory for parameters, however many there are; holding
 * makes them, or the part of them that a rank works on.  Parameters lie in one slab, in the order of the
 * layers, and so do what passes over samples add up (gradients, statistics of the batch, the loss) and
 * the state that is no parameter (running means).  Initial values are drawn by (seed, the parameter's
 * name) at each element, so they depend on nothing else: a part has those of the whole.
 *
 * Nothing here knows a rank.  A pass handles a range of the batch's samples, which the caller chooses.
 * What several passes add up is joined by the fixed tree (extra/reduce.h), so the bits do not depend on
 * how the batch was cut into ranges of whole shards.
 *
 * Not collective.  A model belongs to one thread at a time; make_parallel.h has passes of one model on
 * several.
 */
#ifndef LK_NN_H
#define LK_NN_H

#include <lockstep/features.h>
#include <lockstep/ops.h>
#include <lockstep/option.h>
#include <lockstep/pieces.h>
#include <lockstep/slab.h>
#include <lockstep/tiles.h>

LK_BEGIN_DECLS

/** What one sample is, without the axis of the batch. */
typedef struct lk_tensor_type {
    lk_dtype dtype;
    lk_shape shape;
} lk_tensor_type;

/** What a layer needs of its input to give a part of its output. */
typedef enum lk_reach {
    LK_REACH_SAMPLE,   /* the whole sample: what a layer that says nothing has */
    LK_REACH_ELEMENT,  /* the same elements */
    LK_REACH_POSITION, /* all channels of the same positions */
    LK_REACH_WINDOW,   /* a window around each position */
    LK_REACH_BATCH     /* the same elements, and sums over the batch */
} lk_reach;

/** What a layer adds up over positions: its output, or the gradients of its parameters. */
typedef enum lk_summed {
    LK_SUMMED_NOTHING,
    LK_SUMMED_IN, /* over the positions of its input */
    LK_SUMMED_OUT /* over those of its output */
} lk_summed;

/** What a layer does with features, the last axis, of which ranks may have some each (features.h). */
typedef enum lk_layer_features {
    LK_FEATURES_WHOLE, /* needs all, and works alike on all ranks: what a layer that says nothing has */
    LK_FEATURES_EACH, /* each for itself: takes and gives those of a rank, and its parameters are cut so */
    LK_FEATURES_OUT, /* takes all, and gives those of a rank: its units are cut */
    LK_FEATURES_IN,  /* takes those of a rank, and gives all: a sum over blocks of what comes in */
    /* LK_FEATURES_OUT; or where a layer that shares its first parameter has cut the other axis of that, by
     * what comes in. */
    LK_FEATURES_EITHER
} lk_layer_features;

/** A list of layers, and once it is built and held their parameters.  Made by the program or a job, on
 * each rank its own, and used by trainers; one thread at a time.  Not collective. */
typedef struct lk_model lk_model;

/* ---- models ---- */

/** Make a model without layers.  The caller owns it.  Errors: LK_ENOMEM. */
LK_API lk_status lk_model_new(lk_model **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_model_free(lk_model *model);

/**
 * Append a layer: its type, and its options as lk_config_parse() reads them.
 *
 * Errors: those of lk_config_parse(); LK_ESTATE once the model is built.
 */
LK_API lk_status lk_model_add(lk_model *model, const char *type, const char *options) LK_NODISCARD;

/** Append a layer; the options are borrowed until the model is freed. */
LK_API lk_status lk_model_add_config(lk_model *model, const lk_config *layer) LK_NODISCARD;

typedef struct lk_model_spec {
    lk_tensor_type in; /* one sample */
    lk_dtype dtype;    /* of the parameters: f32 (0) or f64 */
    int64_t seed;
    /* How finely parameters may be cut: `blocks` (0: 1) and `least_block` (0: 32), and `tile`, of which a
     * trainer knows its own. */
    lk_pieces pieces;
} lk_model_spec;

/**
 * Work out all names and shapes.  Parameters are not made: lk_model_hold() does that.
 *
 * Errors: those of the layers, naming the layer: LK_ESHAPE, LK_EDTYPE, LK_EINVAL; LK_ESTATE if it
 * is built; LK_ENOMEM.  After a failure the model is as it was.
 */
LK_API lk_status lk_model_build(lk_model *model, const lk_model_spec *spec) LK_NODISCARD;

/** What of a model is held: ranges of its layers (those of the list, not within one), of the blocks of
 * lk_model_spec.pieces, and of its tiles along each of three axes.  NULL: all of them; a range may be
 * empty, as lk_range_split() gives it to a rank for which nothing is left. */
typedef struct lk_holding {
    const lk_range *layers, *blocks, *tiles;
} lk_holding;

/**
 * Make parameters and state of a model that is built, and draw their initial values; `holding` NULL:
 * all of them.
 *
 * The box of each tensor follows: of a layer that is not held nothing, of a tensor that is cut into
 * blocks (lk_param.cut) those that are held, of one of which each position has its own (of local_conv, and
 * of layer_norm over all of a sample where it runs by tiles) the positions of the tiles that are held
 * (lk_tile_range()), of others all.  The slices of the slabs say so.  Values are those that the whole has
 * there, bit for bit, and no more memory is taken than the boxes need.  A pass needs a model that holds all
 * of itself, or of the layers that it runs (lk_pass.layers), or where these run by tiles (lk_pass.parts) all
 * of the tiles.
 *
 * Errors: LK_ESTATE when the model is not built, or holds something; LK_EINVAL for ranges that reach
 * out; those of the initial values; LK_ENOMEM.  After a failure the model is as it was.
 */
LK_API lk_status lk_model_hold(lk_model *model, const lk_holding *holding) LK_NODISCARD;

/**
 * Make a model of another in which every batch_norm, at any depth, has `statistics: batch`: mean and variance
 * over the batch of all ranks (lk_pass.batch), where they were those of a shard.  ChainerMN's
 * create_mnbn_model.
 *
 * Names, spec, parameters, state and what is frozen are those of `model`, which stays as it is and may be
 * freed before: all is copied, but for what structs of a program's own layers point to besides the options
 * that their tables describe.  Such layers are kept, and lists of layers among their options are looked
 * through.  A model that is not built, or holds nothing, gives one that is not, or does not.  The caller owns
 * `*out`.
 *
 * Errors: LK_ENOTSUP for a batch_norm that a layer of a program makes without an option that lists it, naming
 * it; those of lk_model_build(); LK_ENOMEM.
 */
LK_API lk_status lk_model_new_multi_node_batch_norm(const lk_model *model,
                                                    lk_model **out) LK_NODISCARD;

/** Whole numbers that the model takes, from 0 on below this; 0: it takes real numbers.  Its first layer
 * says so, behind those that only reshape; it need not be built. */
LK_API int64_t lk_model_index_limit(const lk_model *model);

/** What comes out for one sample; of a model that is built, as all below. */
LK_API lk_tensor_type lk_model_out(const lk_model *model);

/** Names and shapes of all parameters, "conv1.weight", ..., whatever is held of them; borrowed. */
LK_API const lk_slab_layout *lk_model_layout(const lk_model *model);

/** The parameters; borrowed; NULL until the model holds them.  Its layout has the slices of
 * lk_model_layout(), with the boxes that are held. */
LK_API lk_slab *lk_model_params(const lk_model *model);

/** What is neither parameter nor option, such as running means; borrowed; NULL until the model holds it.
 * May have no slice. */
LK_API lk_slab *lk_model_state(const lk_model *model);

/** Whether a parameter is used more than once in a pass: then each shard of the batch must be a pass
 * of its own, for only so are its contributions added shard by shard. */
LK_API bool lk_model_has_weight_reuse(const lk_model *model);

/** Whether layers share a parameter, as `tie` says: gradients of its uses are then added up apart, and
 * after all sums of a batch are joined, call lk_accumulator_join_uses(). */
LK_API bool lk_model_has_shared_params(const lk_model *model);

/** Whether some layer reduces over the whole batch during a pass (batch norm with statistics: batch).
 * Ranks that each have a part of the batch must then give lk_pass.batch. */
LK_API bool lk_model_needs_batch_sync(const lk_model *model);

/**
 * Let only the parameters of some layers move, by the layers' names: of all layers within one that is named,
 * and of a shared parameter if one of its layers is.  n 0: all move, as of a model that was just built.
 *
 * The others are frozen: passes take their parameters as constants, so that backward ends above them, and
 * trainers leave them as they are.  What a frozen layer keeps besides (running means) stays too, and
 * batch_norm then normalises with it in training.  No pass may be under way.
 *
 * Errors: LK_EINVAL for a name that no layer has; the model is then as it was.
 */
LK_API lk_status lk_model_train_layers(lk_model *model, const char *const *name,
                                       int n) LK_NODISCARD;

/** Whether parameter `i` of lk_model_layout() moves. */
LK_API bool lk_model_param_moves(const lk_model *model, int64_t i);

/** Sums over the batch that a layer joins with the ranks that have other parts of it: how many calls, and
 * elements in all. */
typedef struct lk_joins {
    int64_t calls, elements;
} lk_joins;

/** A layer of a model, to look at. */
typedef struct lk_layer_info {
    const char *name, *type;
    int depth;              /* 0, or more for a layer within a layer */
    lk_tensor_type in, out; /* one sample */
    int64_t params;         /* elements of its own parameters, held or not */
    lk_reach reach;
    lk_joins forward, backward; /* sums over the batch that ranks join in each */
} lk_layer_info;

/** Layer number i, those within a layer behind it.  Errors: LK_EINVAL when there is no such. */
LK_API lk_status lk_model_layer(const lk_model *model, int64_t i, lk_layer_info *out) LK_NODISCARD;
LK_API int64_t lk_model_layers(const lk_model *model);

/** What a recurrent layer carries from one time to the next: of rnn and gru "gru1.h", of lstm "lstm1.h"
 * and "lstm1.c". */
typedef struct lk_carry_info {
    const char *name;
    lk_tensor_type type; /* of one sample */
} lk_carry_info;

/** How many values the layers of a model carry, in the order of the layers, those of a layer in the order
 * above; 0: none is recurrent. */
LK_API int64_t lk_model_carries(const lk_model *model);

/** Carry number i.  Errors: LK_EINVAL when there is no such. */
LK_API lk_status lk_model_carry(const lk_model *model, int64_t i, lk_carry_info *out) LK_NODISCARD;

/** A loss that a layer adds to that of what comes out (lk_build_term()): its term, named after it. */
typedef struct lk_term_info {
    const char *name;
    int64_t layer; /* number of its layer */
    double weight; /* that its loss is taken by, */
    int64_t parts; /* and the parts that a sample's loss is the mean of */
} lk_term_info;

/** How many terms the layers of a model add, in the order of the layers. */
LK_API int64_t lk_model_terms(const lk_model *model);

/** Term number i.  Errors: LK_EINVAL when there is no such. */
LK_API lk_status lk_model_term(const lk_model *model, int64_t i, lk_term_info *out) LK_NODISCARD;

/* ---- what passes add up ---- */

/** Gradients of all parameters, statistics of the batch, and the loss.  A trainer makes one for each
 * micro-batch; passes fill it.  One thread at a time.  Not collective. */
typedef struct lk_accumulator lk_accumulator;

/** Make an accumulator of zeros for what a model holds; free it before the model.  Errors: LK_ESTATE when
 * it holds nothing, LK_ENOMEM. */
LK_API lk_status lk_accumulator_new(const lk_model *model, lk_accumulator **out) LK_NODISCARD;

/** Bytes of the slab of a model's accumulator; 0 if it holds nothing.  The gradients, laid out as the
 * parameters, are the first lk_slab_layout_bytes() of the parameters' layout; what is behind is small,
 * but for further uses of shared parameters. */
LK_API int64_t lk_accumulator_bytes(const lk_model *model);

/** As lk_accumulator_new(), on `memory` of lk_accumulator_bytes() bytes, aligned to LK_ALIGN, which is
 * borrowed and must live longer than it.  Its contents stay.  Errors: as lk_slab_wrap(). */
LK_API lk_status lk_accumulator_wrap(const lk_model *model, void *memory,
                                     lk_accumulator **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_accumulator_free(lk_accumulator *accumulator);

/** Set all to zero. */
LK_API void lk_accumulator_clear(lk_accumulator *accumulator);

/** As lk_accumulator_clear() before a pass with backward: the gradients are left to it, which sets them. 
 * It is the only pass of its tape with this accumulator until then. */
LK_API void lk_accumulator_begin(lk_accumulator *accumulator);

/**
 * The slab, borrowed: first the slices of the parameters at the same offsets as in their slab, then
 * one for each further use of a shared parameter ("linear2.weight"), those of the state
 * ("batch_stats.bn1.mean"), then "loss" [1], and of a model with terms "terms", their losses.
 */
LK_API lk_slab *lk_accumulator_slab(const lk_accumulator *accumulator);

/** a = a + b, element by element: the join of the tree, `a` being the earlier samples. */
LK_API lk_status lk_accumulator_add(lk_accumulator *a, const lk_accumulator *b) LK_NODISCARD;

/**
 * Add the gradients of the further uses of shared parameters to those of the parameters: the tree over
 * the uses, in the order of the layers, of what the passes and joins of each have added up.
 *
 * Call it when all samples of a batch are joined, before the gradients are used.  The further uses are
 * zeros afterwards.  Does nothing where no parameter is shared.
 */
LK_API lk_status lk_accumulator_join_uses(lk_accumulator *accumulator) LK_NODISCARD;

/** Add a value of one element, such as the sum of the losses, to "loss".  Errors: as lk_item(). */
LK_API lk_status lk_accumulator_add_loss(lk_accumulator *accumulator, lk_var loss) LK_NODISCARD;

/** What "loss" is. */
LK_API double lk_accumulator_loss(const lk_accumulator *accumulator);

/** Whether a layer asks that its parameters be brought back behind each update: local_conv with unit_norm. */
LK_API bool lk_model_has_constraints(const lk_model *model);

/**
 * Bring parameters back to what their layers have declared (lk_param.unit), behind an update and before the
 * next pass, as a trainer does in each step; a parameter that layers share, once, and a frozen one
 * (lk_model_train_layers()) not at all.
 *
 * A row whose sum of squares is 0 or not finite stays as it is.  Not collective: no rank has a part of a row.
 * Does nothing where nothing is declared.  Errors: LK_ESTATE, LK_ENOMEM, LK_ENOTSUP where a part of a row
 * is held (lk_holding.blocks).
 */
LK_API lk_status lk_model_constrain(lk_model *model) LK_NODISCARD;

/** Move running statistics towards those of a batch of `shards` shards.  Errors: LK_EINVAL. */
LK_API lk_status lk_model_update_running_stats(lk_model *model, const lk_accumulator *accumulator,
                                               int64_t shards) LK_NODISCARD;

/* ---- a pass ----
 *
 * Where ranks share samples by tiles (tiles.h), or the run is cut into tiles, a pass has parts: for each
 * layer whether it works on tiles or on whole samples, and where the value changes from one to the other.
 * A trainer makes them from its plan.
 */

/** How a value gets from one layer to the next. */
typedef enum lk_change {
    LK_STAY,
    LK_TO_SAMPLES, /* from tiles of all samples to whole samples of some */
    LK_TO_TILES
} lk_change;

/** How features get from one layer to the next, where ranks have some each. */
typedef enum lk_feature_change {
    LK_FEATURES_STAY,
    LK_FEATURES_GATHER,     /* lk_dist_feature_gather() */
    LK_FEATURES_GATHER_SUM, /* lk_dist_feature_gather_sum() */
    LK_FEATURES_COPY,       /* lk_dist_feature_copy() */
    LK_FEATURES_TAKE        /* lk_dist_feature_take() */
} lk_feature_change;

/** What a rank does of a layer along features; nothing is cut where `split` is NULL. */
typedef struct lk_feature_part {
    const lk_feature_split *split;
    lk_layer_features kind;          /* whole, each, out or in, by what is cut of its parameters */
    bool x, y;                       /* varying: what its forward gets, and what it gives */
    lk_feature_sum sum;              /* what becomes of its sum over blocks */
    lk_feature_change before, after; /* of its input; of its output, at the end of a list */
} lk_feature_part;

/** What a rank does of a layer. */
typedef struct lk_layer_part {
    bool by_tile;            /* its values are held boxes; otherwise whole samples */
    const lk_tile *tile;     /* not NULL by tiles, and where its sums are those of tiles */
    lk_change before, after; /* of its input; of its output, at the end of a list */
    const lk_tile *before_at, *after_at; /* the tile of the value that changes */
    const lk_tile *term; /* of what its term is taken of, where that is one of tiles; NULL */
    lk_feature_part features;
} lk_layer_part;

/** The parts of a pass. */
typedef struct lk_pass_parts {
    const lk_layer_part *layer;  /* by number, as of lk_model_layer() */
    const lk_held *in;           /* what x is of a sample; NULL: all of it */
    const lk_range *in_features; /* along its last axis; NULL: all */
    /* Samples of the pass that each rank of the tiling has where layers work on whole ones, [ranks + 1],
     * and which rank this is; NULL: this one has all. */
    const int64_t *samples;
    int rank;
    /* lk_pass.batch of layers that work on tiles. */
    const lk_dist_batch *batch;
} lk_pass_parts;

/**
 * The terms of a pass: what layers add to the loss of what comes out.
 *
 * A term that is not wanted costs nothing: an autoencoder then runs its `encode` alone.  Each is a sum over
 * the samples of the pass and their parts; the code that adds losses up takes it times `weight` of
 * lk_term_info, over `parts` and over the samples of the batch.  Where it is one of tiles
 * (lk_layer_part.term), there is a sum for each tile of the rank.
 */
typedef struct lk_pass_terms {
    const bool *counts; /* [lk_model_terms()]: which are wanted */
    bool only;          /* nothing else is: the pass ends behind the last layer that has one */
    int64_t leaves;     /* room for each below: 1, or where the run is cut the rank's tiles */
    lk_var *value;      /* [lk_model_terms()][leaves]: what forward makes; LK_NO_VAR: nothing */
} lk_pass_terms;

/** One pass of some samples through the model, and what for. */
typedef struct lk_pass {
    lk_tape *tape;
    lk_accumulator *accumulator; /* where gradients go; NULL: none are wanted */
    bool training;               /* dropout drops, batch norm uses the batch's statistics */
    int64_t step;                /* of the training, for random draws */
    int64_t first;               /* the first sample's number in the whole batch */
    bool part;                   /* the samples are not the whole batch */
    /* The ranks that have the rest of this batch, which run the same pass now; NULL: this one has all. */
    const lk_dist_batch *batch;
    /* Not 0 or 1: backward computes the values within segments again, instead of keeping them.  Segments are
     * consecutive layers of one list that make at most so much of the model's values, 1/recompute; the lists
     * of a layer that makes more, and has a `join`, are cut in turn. */
    int64_t recompute;
    const lk_pass_parts *parts; /* NULL: all layers work on whole samples, and nothing is cut */
    const lk_pass_terms *terms; /* NULL: none is wanted */
    /* Layers of the model's list that it runs, a stage of a pipeline: x is what the first of them takes, and
     * *out what the last gives.  n 0: all of them. */
    lk_range layers;
    struct lk__pass_run *run; /* what lk_model_forward() adds for the layers; NULL */
} lk_pass;

/**
 * *out = the model of x [samples, ...].
 *
 * Records on pass->tape; lk_backward() then adds to the gradients of pass->accumulator.  On a tape that does
 * not record (lk_tape_set_recording()) the values within the model go as soon as the next layer has run, so
 * that it takes the memory of a few layers; x stays, and so do *out, terms and carries.
 *
 * Errors: LK_ESHAPE unless x's samples are what the first layer takes; LK_EINVAL for layers that there are
 * not; LK_ESTATE unless the model holds all that the pass needs, naming what it lacks, and for a term that is
 * wanted of a layer that does not run; LK_ENOTSUP for terms of a pass in segments; those of the layers,
 * naming the layer.
 */
LK_API lk_status lk_model_forward(lk_model *model, const lk_pass *pass, lk_var x,
                                  lk_var *out) LK_NODISCARD;

/**
 * As lk_model_forward() of a recurrent model, from a carry on: `first` has the values that its layers begin
 * with, [samples, ...] each, as many as lk_model_carries() says, instead of zeros (NULL); `last` gets those
 * that they end with, of a layer with `reverse` those behind the first time; NULL: they are not wanted.
 * It is another list than `first`.
 *
 * So times that are cut into parts, on one rank or on several (lk_recurrent_forward()), give the bits of all
 * times at once: the `last` of a part is the `first` of the next.  Both are values of the tape, and
 * gradients go back through them.  A part may have no times; it passes the carry on.
 *
 * Errors: as lk_model_forward(); LK_EINVAL for a model that carries nothing, another number of values and
 * a list without room; LK_ESHAPE for a value of another dtype or shape, by its name.
 */
LK_API lk_status lk_model_forward_carry(lk_model *model, const lk_pass *pass, lk_var x,
                                        const lk_list *first, lk_list *last,
                                        lk_var *out) LK_NODISCARD;

/** As lk_model_forward(), and say which layer's output is the first that is not finite: its name in
 * `layer` of `size` bytes, "" if there is none.  Reads all outputs: for finding faults. */
LK_API lk_status lk_model_find_nonfinite(lk_model *model, const lk_pass *pass, lk_var x,
                                         char *layer, size_t size, lk_var *out) LK_NODISCARD;

/* ---- writing a layer ---- */

/** A type of layers: a constant, which any thread may read. */
typedef struct lk_layer lk_layer;

/** A layer that is being built: lk_model_build() gives it to the layer's `build`, on its own thread,
 * until that returns.  Not collective. */
typedef struct lk_build lk_build;

enum { LK_MAX_LISTS = 4 };

/** A layer in a model.  Fields are to be read. */
typedef struct lk_layer_instance {
    const lk_layer *layer;
    const char *name; /* "block1.conv2" */
    const void *options;
    void *data; /* lk_build_data(); passes only read it, for several may be under way at once */
    lk_tensor_type in, out;
    int64_t param; /* number of its first parameter among all that layers declare, shared or not */
    int64_t state; /* number of its first state in the slab */
    int64_t carry; /* number of its first carry in the model */
    int n_params, n_state, n_carries;
    int64_t list[LK_MAX_LISTS]; /* numbers of its lists of layers */
    int n_lists;
    int depth;
    bool frozen; /* its parameters and state stay: lk_model_train_layers() */
    lk_reach reach;
    lk_tile_kind kind; /* of lk_build_window() */
    lk_window window;  /* ndim 0: it has not said */
    lk_summed summed;
    lk_layer_features features;
    lk_joins forward, backward;
} lk_layer_instance;

/** A set of options and an input, on which a layer is checked.  A table ends with ndim < 0. */
typedef struct lk_layer_sample {
    const char *options; /* as lk_config_parse() reads them */
    lk_shape shape;      /* of one sample */
    int64_t below;       /* not 0: the input is i64, drawn from 0 on below this */
} lk_layer_sample;

enum {
    LK_LAYER_WEIGHT_REUSE = 1, /* uses a parameter more than once in a pass */
    LK_LAYER_RANDOM = 2,       /* draws random numbers in training */
    LK_LAYER_FUSES_RELU_AFTER =
        4, /* can apply a relu behind it as well: lk_pass_has_fused_relu() says whether */
    LK_LAYER_FUSES_RELU_BEFORE = 8, /* the same for a relu before it */
    LK_LAYER_RESHAPES = 16,         /* passes its values on, of any dtype, under another shape */
    LK_LAYER_LISTS_FOLLOW = 32, /* each of its lists takes what the one before it gives; not x */
    LK_LAYER_FUSES_ACT_AFTER =
        64, /* can apply an activation behind it as well: lk_pass_fused_act() says which */
    LK_LAYER_SCATTERS = 128 /* of cut units: it can gather x itself, and deal dx out */
};

struct lk_layer {
    lk_descriptor descriptor;
    unsigned flags;
    lk_reach reach;

    /** Check the options against the input, declare parameters, state and children, in this order
     * of numbers from 0, and say what comes out. */
    lk_status (*build)(lk_build *build, const void *options, lk_tensor_type in,
                       lk_tensor_type *out);

    /** *out = the layer of x [samples, ...], in ops.  In a pass that is not recorded, what else it makes goes
     * at its end, and x when it is over: what is to be read later is named to lk_retain_value(). */
    lk_status (*forward)(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                         lk_var *out);

    const lk_layer_sample *samples;

    /** Not NULL: the input is whole numbers, from 0 on below what this returns. */
    int64_t (*indices)(const void *options);

    /** Not NULL: `forward` applies each list of layers to x, by their numbers, and then does this with what
     * they give, of [n_lists].  Backward can then compute values within the lists again: lk_pass.recompute. */
    lk_status (*join)(const lk_layer_instance *layer, const lk_var *of, lk_var *out);

    /** Not LK_ACT_NONE: the layer is this activation and nothing else, so that one before it that can may
     * apply it: none, relu, sigmoid or tanh. */
    lk_act act;
};

/** Which axis of a tensor is cut into blocks: row-major, the tensor is [...][n][inner].  It may be a
 * part of one, such as the units of each gate.  n 0: none. */
typedef struct lk_cut {
    int64_t n, inner;
} lk_cut;

/** A parameter to be declared. */
typedef struct lk_param {
    const char *name;        /* "weight" */
    lk_shape shape;          /* at least one axis */
    const lk_config *init;   /* how it is drawn */
    int64_t fan_in, fan_out; /* what the scale of some initial values depends on */
    lk_cut cut; /* its units, filters, channels; {0}: a rank that has some of it has all */
    /* Each position of the output has its own, its first axes.  A layer of kind LK_TILE_LOCAL_CONV or
     * LK_TILE_SAMPLE gets that of its tile, and so does one of LK_TILE_LOCAL_CONV_TRANSPOSE, of its
     * input; others work on whole samples, and all of it is held. */
    bool per_position;
    /* Its gradient is a sum over positions, so with a tile the layer gets it by tile, [leaves][shape...],
     * as the ops of tiles.h take it. */
    bool by_tile;
    /* Behind each update its rows have the norm 1 (lk_model_constrain()): row-major the tensor is
     * [...][n][inner], and a row is the n elements at one place of the other axes.  n 0: nothing is asked
     * of it.  If layers share the parameter, one of them need say so. */
    lk_cut unit;
} lk_param;

/** Declare the next parameter of the layer.  If the layer's `tie` ends with this name, that is the one of
 * the layer before; its cut is then that of the last declaration.  Errors: as lk_slab_layout_add();
 * LK_ESHAPE for a shape without axes, for a cut that is not one of it, and for another shape than that of
 * the parameter it is tied to; LK_EINVAL when there is no such. */
LK_API lk_status lk_build_param(lk_build *build, const lk_param *param) LK_NODISCARD;

/** Declare the next state: an array that begins with `start`, and per step moves by `rate` towards
 * the mean over shards of what lk_pass_batch_stat() was given.  It is cut as a parameter is.  Errors: as
 * lk_build_param(). */
LK_API lk_status lk_build_state(lk_build *build, const char *name, lk_shape shape, lk_cut cut,
                                double start, double rate) LK_NODISCARD;

/** Declare the next carry of the layer, of this shape for one sample: what it begins a pass with and hands to
 * the times that follow.  Errors: LK_EINVAL for a name that is too long, LK_ENOMEM. */
LK_API lk_status lk_build_carry(lk_build *build, const char *name, lk_shape shape) LK_NODISCARD;

/** How finely parameters may be cut: the spec's, defaults filled in. */
LK_API lk_pieces lk_build_pieces(const lk_build *build);

/** The layer needs sums over the whole batch, from all who have a part of it:
 * lk_model_needs_batch_sync().  Its state, which is declared, gets statistics once in a batch, and moves
 * towards these. */
LK_API void lk_build_batch_sync(lk_build *build, lk_joins forward, lk_joins backward);

/** With its options the layer reaches something else than its descriptor says. */
LK_API void lk_build_reach(lk_build *build, lk_reach reach);

/** The layer goes over windows, and its forward asks lk_pass_tile() and works on tiles.  Its reach is
 * LK_REACH_WINDOW.  One that takes all positions together (LK_TILE_SAMPLE) has windows of one.  A forward
 * that does not ask is refused where the layer runs by tiles. */
LK_API void lk_build_window(lk_build *build, lk_tile_kind kind, const lk_window *window);

/** The layer adds something up over positions, and its forward does so by tile where lk_pass_tile() gives
 * one.  A layer with parameters that does not say so works on whole samples. */
LK_API void lk_build_summed(lk_build *build, lk_summed summed);

/** What the layer does with features of which ranks may have some each.  Its forward then asks
 * lk_pass_features().  One that has not said so needs all of them, unless its reach is an element and it has
 * neither parameters nor random draws. */
LK_API void lk_build_features(lk_build *build, lk_layer_features features);

/** Build the next list of layers within the layer, at most LK_MAX_LISTS; *out is what comes out of
 * it.  `name` is put before theirs; "" if there is one list. */
LK_API lk_status lk_build_layers(lk_build *build, const char *name, const lk_configs *layers,
                                 lk_tensor_type in, lk_tensor_type *out) LK_NODISCARD;

/** A term to be declared: a loss that the layer adds to that of the run. */
typedef struct lk_term {
    const lk_config *loss; /* of lk_registry_loss; NULL: the sum of the elements */
    lk_tensor_type of;     /* what it is taken of, and its target: one sample of each */
    double weight;
    int lists; /* so many of the layer's lists, its last ones, run only where the term counts */
} lk_term;

/** Declare the layer's term; it is named after the layer.  Its forward asks lk_pass_counts() and gives it by
 * lk_pass_term().  Errors: those of the loss, which does not fit; LK_EINVAL for a second term, for a
 * weight that is not finite, and for a layer called "loss"; LK_ENOMEM. */
LK_API lk_status lk_build_term(lk_build *build, const lk_term *term) LK_NODISCARD;

/** `bytes` zeroed bytes for the layer, as layer->data.  Errors: LK_ENOMEM. */
LK_API lk_status lk_build_data(lk_build *build, size_t bytes, void *out) LK_NODISCARD;

/** The dtype of parameters. */
LK_API lk_dtype lk_build_dtype(const lk_build *build);

/** What the list of layers that this one is in begins with: the input of the model, or of `layers` of a
 * block.  A layer behind others finds there the sizes that they have changed. */
LK_API lk_tensor_type lk_build_list_in(const lk_build *build);

/** The tile that the layer works on, or whose sums it takes; NULL: whole samples, added up at once. */
LK_API const lk_tile *lk_pass_tile(const lk_pass *pass, const lk_layer_instance *layer);

/** What the layer has of its features; NULL: all of them, and nothing is cut into blocks. */
LK_API const lk_feature_part *lk_pass_features(const lk_pass *pass, const lk_layer_instance *layer);

/** The number in the whole batch of the first sample that the layer works on. */
LK_API int64_t lk_pass_first(const lk_pass *pass, const lk_layer_instance *layer);

/** The ranks that have the rest of the batch, where the layer works; NULL: there are none. */
LK_API const lk_dist_batch *lk_pass_batch(const lk_pass *pass, const lk_layer_instance *layer);

/** Parameter `i` of the layer as a value. */
LK_API lk_var lk_pass_param(const lk_pass *pass, const lk_layer_instance *layer, int i);

/** State `i` of the layer as a value without gradient.  Errors: LK_ENOMEM. */
LK_API lk_status lk_pass_state(const lk_pass *pass, const lk_layer_instance *layer, int i,
                               lk_var *out) LK_NODISCARD;

/** Carry `i` of the layer as the pass begins with it, [samples, ...]: what lk_model_forward_carry() was
 * given, otherwise zeros.  Errors: LK_ENOMEM. */
LK_API lk_status lk_pass_carry(const lk_pass *pass, const lk_layer_instance *layer, int i,
                               lk_var *out) LK_NODISCARD;

/** What carry `i` of the layer is behind the last time of the pass.  To be called once for each carry. */
LK_API void lk_pass_set_carry(const lk_pass *pass, const lk_layer_instance *layer, int i,
                              lk_var value);

/** Add statistics of the batch for state `i`, [shards][its shape], to the accumulator.  Does nothing
 * without one and in the second run of a segment.  Errors: LK_ESHAPE, LK_ENOMEM. */
LK_API lk_status lk_pass_batch_stat(const lk_pass *pass, const lk_layer_instance *layer, int i,
                                    lk_var stat) LK_NODISCARD;

/** Run list number `list` of the layer's layers.  Errors: theirs. */
LK_API lk_status lk_pass_layers(const lk_pass *pass, const lk_layer_instance *layer, int list,
                                lk_var x, lk_var *out) LK_NODISCARD;

/** Whether the layer's term is wanted. */
LK_API bool lk_pass_counts(const lk_pass *pass, const lk_layer_instance *layer);

/**
 * The layer's term: its loss of `value` [samples, ...] against `target`, which is like it; without a loss
 * the sum of the value, and `target` is LK_NO_VAR.  Gradients go to both: a target that is a part of the
 * model goes through lk_stop_gradient() if it is to stay.
 *
 * Where the layer works by tiles, both are held boxes, and the loss is taken tile by tile.  Does nothing if
 * the term is not wanted.  To be called once in a pass.  Errors: those of the loss.
 */
LK_API lk_status lk_pass_term(const lk_pass *pass, const lk_layer_instance *layer, lk_var value,
                              lk_var target) LK_NODISCARD;

/**
 * The activation that a layer with LK_LAYER_FUSES_ACT_AFTER is to apply to what it gives; LK_ACT_NONE: none.
 *
 * Which layers go together is said when the model is built, by their descriptors and places in a list alone.
 * A pass takes them one by one nevertheless where the values between them are observed
 * (lk_model_find_nonfinite()), or it changes between tiles and samples.
 */
LK_API lk_act lk_pass_fused_act(const lk_pass *pass);

/** Whether a layer with LK_LAYER_FUSES_RELU_AFTER or LK_LAYER_FUSES_RELU_BEFORE is to apply its neighbour, too. */
LK_API bool lk_pass_has_fused_relu(const lk_pass *pass);

/** The layer's stream of random numbers for `purpose`. */
LK_API lk_rng lk_pass_rng(const lk_pass *pass, const lk_layer_instance *layer, const char *purpose);

/** The layers that are built in, sorted by name, then NULL. */
LK_API extern const lk_layer *const lk_layers[];
LK_API extern const lk_registry lk_registry_layer;

/* ---- initial values ---- */

/** What is to be filled. */
typedef struct lk_init_call {
    const void *options;
    lk_rng stream; /* of (seed, the parameter's name, "init") */
    int64_t fan_in, fan_out;
    lk_range elements; /* of the parameter, row-major: which are to be filled */
    double *out;       /* [elements.n] in f64; rounded to the parameter's dtype by the caller */
} lk_init_call;

typedef struct lk_init {
    lk_descriptor descriptor;

    /** Fill any range of elements: what one gets depends on its number alone, not on the range. */
    lk_status (*fill)(const lk_init_call *call);
} lk_init;

LK_API extern const lk_init *const lk_inits[];
LK_API extern const lk_registry lk_registry_init;

LK_END_DECLS

#endif /* LK_NN_H */
