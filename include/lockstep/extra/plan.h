/* Plans: what a rank does in a step, layer by layer, and what it sends.
 *
 * A plan is made by arithmetic before the first byte moves, from the mesh, the model and the pieces of
 * the run.  A trainer makes one and runs from it, on its thread; `lockstep plan` prints it.
 */
#ifndef LK_PLAN_H
#define LK_PLAN_H

#include <lockstep/extra/pipeline.h>
#include <lockstep/parallel.h>

LK_BEGIN_DECLS

/** Whose part of a value a rank has. */
typedef enum lk_domain {
    LK_BY_SAMPLE, /* whole samples */
    LK_BY_TILE    /* its tile of each sample */
} lk_domain;

typedef struct lk_layer_plan {
    const char *name, *type;
    int depth; /* of a layer within a layer: more than 0 */
    int stage; /* that has it */
    bool idle; /* no rank runs it, because no result needs it */
    lk_reach reach;
    lk_domain domain;
    bool tiled;       /* its sums are those of tiles: by model and pieces alone */
    lk_range samples; /* of the batch, that this rank runs the layer on */
    lk_box box;       /* of one sample's output, that it holds */
    /* By tile: the box without its margin, and how far the layer reads beyond its tile of the input, before
     * and behind it along each axis.  What of that comes from whom, before forward and before backward, as
     * lk_fetch_part() says; NULL: nothing, or it is right already.  Borrowed from the plan. */
    lk_box tile;
    int64_t margin[LK_TILE_AXES][2];
    const lk_fetch *get_x, *get_dy;
    int64_t get_x_bytes, get_dy_bytes; /* that this rank gets by them in a step */
    /* Of a local convolution, or its transpose, filters of positions of others are fetched, too, once a step:
     * bytes that this rank gets, and those of the array that it holds them in, with a copy of its own. */
    const lk_fetch *get_w;
    int64_t get_w_bytes, filter_bytes;
    bool can_tile;         /* what it adds up can be cut: */
    int64_t smallest_tile; /* the fewest positions of a tile of that */
    int64_t param_bytes;   /* of the layer's own parameters */
    int64_t value_bytes;   /* of its output in a pass */
} lk_layer_plan;

/** When in a step something is sent, in the order of these. */
typedef enum lk_step_phase {
    LK_IN_FORWARD,
    LK_IN_BACKWARD,
    LK_BEFORE_UPDATE,
    LK_AFTER_UPDATE
} lk_step_phase;

/** How something is sent. */
typedef enum lk_transfer_kind {
    LK_JOINED,  /* sums, by a collective call */
    LK_FETCHED, /* margins, of filters too, from those who have them */
    LK_CHANGED, /* tiles become whole samples, or these tiles: an alltoall */
    LK_SENT,    /* from a stage to the next one, or back */
    LK_GATHERED /* features of which ranks have some each */
} lk_transfer_kind;

/** Calls of one kind in a step. */
typedef struct lk_transfer {
    lk_step_phase when;
    lk_transfer_kind kind;
    const char *what;     /* the name of the layer, of filters, or "gradients", ... */
    int ranks;            /* that take part; of a fetch those that this one gets something from */
    int64_t calls, bytes; /* of all of them, what this rank gives */
} lk_transfer;

/** Bytes that a rank holds. */
typedef struct lk_plan_memory {
    int64_t parameters; /* of a copy that a node shares this rank's share, and its own */
    int64_t optimizer;  /* the same, without its own */
    int64_t gradients;  /* and what else passes add up */
    int64_t state;      /* running statistics */
    int64_t filters;    /* that positions have of their own, of others' that layers read */
    int64_t samples;    /* of loaders, those that they prepare ahead and read as well */
    int64_t exchange; /* that calls share with the other ranks of a node, a block a communicator */
    int64_t values;   /* of all layers in the largest pass; see lk_trainer_rehearse() */
    int64_t saving;   /* a copy of the state, to be written while steps go on; lk_job_plan() */
} lk_plan_memory;

typedef struct lk_plan_spec {
    int64_t batch, shards;   /* samples and shards of a whole batch */
    int64_t shard_size;      /* samples of a shard */
    int64_t sample_bytes;    /* bytes that the loader holds for each sample of a rank */
    int64_t optimizer_slabs; /* as large as the parameters */
    bool clips;              /* a norm over all parameters is taken */
    int64_t rule_sums; /* the most sums over all parameters that the rule takes in a step besides */
    lk_pieces pieces;  /* tiles: zeros are 1 */
    bool fast;         /* ranks are the shards, joined in any order */
    lk_wire wire;      /* what gradients travel as; other than dtype: in fast mode */
    bool double_buffering; /* sums of a batch travel while the next one is computed */
    bool shared;           /* the ranks of a node share one copy of parameters and optimizer */
    int ranks_of_node;     /* that share it */
    /* Bytes of gradients that travel together while backward goes on; 0: after it, all at once. */
    int64_t bucket_bytes;
    /* Which terms count, [lk_model_terms()], read while the plan is made; NULL: all.  And that the loss of
     * what comes out does not: layers behind the last that has one of these then do not run. */
    const bool *terms;
    bool no_loss;
    /* Of a pipeline: its schedule, shards of a micro-batch (a power of two; 0: chosen), by how many
     * micro-batches gradients of weights may come later (-1: what costs about no memory), and whether forward
     * keeps nothing but what came in, and backward computes the rest again. */
    lk_pipeline_kind schedule;
    int64_t microbatch, lag;
    bool recompute_stages;
    int64_t recompute; /* segments of the model that backward runs again; 0, 1: none */
    bool splits_loss;  /* the loss takes features of which ranks have some each, */
    bool places;       /* and metrics the place of the label among them, */
    bool measures;     /* or all of them */
} lk_plan_spec;

/** What this rank does in a step: fields are to be read, on any thread.  A trainer makes one and runs from
 * it, `lockstep plan` prints it.  Not collective. */
typedef struct lk_plan {
    lk_plan_spec spec;
    int rank, ranks;
    lk_range shards, samples;  /* of a whole batch, that this rank's replica has */
    lk_range owned;            /* of the samples, this rank's where layers run by samples */
    int64_t microbatches;      /* passes over them; of a pipeline those of its schedule */
    int most_microbatches;     /* vectors that a rank gives to joins, of any batch */
    int64_t pass_samples;      /* of the largest pass */
    int stage, stages;         /* this rank's, and how many there are */
    lk_range layers;           /* of the model's list: those of the stage */
    lk_pipeline_spec pipeline; /* of several stages: what a whole batch of this replica is */
    int64_t microbatch_shards; /* of each micro-batch but perhaps the last */
    int64_t *lag;              /* [stages], of `pipeline` */
    bool one_subtree;          /* a rank has one, because ranks wait for each other during a pass */
    bool direct;               /* each rank joins just what it updates, in shared memory */
    int64_t *param_elements;   /* of each parameter, those that this rank has */
    int64_t n_layers;
    lk_layer_plan *layer; /* those within a layer behind it */
    bool *runs;           /* [n_layers] whether each runs, */
    bool *counts;         /* and each term counts */
    /* Where the run is cut into tiles, otherwise NULL: who has which, and what passes do of each layer. */
    lk_tiling *tiling;
    lk_layer_part *part; /* [n_layers] */
    lk_tile **tile;      /* that the parts point to */
    int64_t n_tiles;
    lk_domain in, out; /* whether x comes by tiles, and what the last layer gives */
    lk_held x;         /* by tile: what of x */
    bool tiles_fit;    /* there is something that runs by tiles, or would where ranks share space */
    bool loss_tiled;   /* the loss is that of tiles, by model and pieces alone: */
    lk_tile *loss;     /* of the last layer's output */
    /* Where the run is cut into blocks, otherwise NULL: who has which, and the nodes of all layers, as
     * lk_feature_tags_check() takes them; and whether ranks have some features each of what comes out. */
    lk_feature_split *split;
    lk_feature_step *node;
    int64_t n_nodes;
    bool out_cut;
    bool in_cut;          /* and of what comes from the stage before: */
    lk_range in_features; /* those of this rank */
    int64_t n_transfers;
    lk_transfer *transfer;
    /* Calls of one sum over all parameters, and the bytes that this rank gives to them.  Those of spec.rule_sums are
     * not among the transfers: how many there are differs from step to step. */
    int64_t sum_calls, sum_bytes;
    lk_plan_memory memory;
} lk_plan;

/**
 * Make the plan of the mesh's rank for a model that is built; its names are the model's.  The caller owns
 * `*out`, and frees it before the model.
 *
 * Not collective: it is arithmetic, also on a mesh of lk_mesh_at().  Errors: LK_ENOTSUP for what is not
 * there yet, and for a model that cannot be cut so; LK_EINVAL when there are more ranks than shards, or far
 * more tiles than a sample has elements; LK_ENOMEM.
 */
LK_API lk_status lk_plan_new(const lk_mesh *mesh, const lk_model *model, const lk_plan_spec *spec,
                             lk_plan **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_plan_free(lk_plan *plan);

/** The sum of all of it. */
LK_API int64_t lk_plan_memory_sum(const lk_plan_memory *memory);

/** The calls of a step, fetches among them, and the bytes that this rank gives to them. */
LK_API int64_t lk_plan_calls(const lk_plan *plan);
LK_API int64_t lk_plan_bytes(const lk_plan *plan);

LK_END_DECLS

#endif /* LK_PLAN_H */
