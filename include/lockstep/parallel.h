/* Ranks that train one model together: where each is along the axes that work can be cut along, and how
 * they fail together.
 *
 * What ranks do in a step (who computes which shards, how gradients are joined) belongs to the trainer,
 * train.h.
 */
#ifndef LK_PARALLEL_H
#define LK_PARALLEL_H

#include <lockstep/coll.h>
#include <lockstep/nn.h>

LK_BEGIN_DECLS

/* ---- meshes ----
 *
 * A mesh says where each rank is along the axes that work can be cut along: data (whose samples), space
 * (whose tiles of a sample), features (whose part of a layer) and stages (whose layers).
 *
 *     rank = ((stage * data + d) * space + s) * features + f
 *
 * A trainer makes one; its fields are to be read, on the trainer's thread.
 */

typedef enum lk_axis {
    LK_AXIS_DATA,
    LK_AXIS_SPACE,
    LK_AXIS_FEATURES,
    LK_AXIS_STAGES,
    LK_N_AXES
} lk_axis;

/** How many ranks there are along each axis: a layout.  0 is 1, but of `data`: as many as are left. */
typedef struct lk_mesh_shape {
    int64_t data;
    int ndim; /* of the spatial grid; 0: samples are not cut */
    int64_t space[3];
    int64_t features, stages;
} lk_mesh_shape;

enum { LK_MESH_WORD = 96 };

/**
 * Read a layout that is written as a word: "1", "data2", "2x2", "2x2x2", "spatial4" (a grid of one axis),
 * "features2", "stages3", or several of them joined by dots, "data2.2x2.features2.stages2".
 *
 * Errors: LK_EINVAL naming the part that is none.
 */
LK_API lk_status lk_mesh_shape_read(const char *word, lk_mesh_shape *out) LK_NODISCARD;

/** The word of a layout, which is written to `out`. */
LK_API const char *lk_mesh_shape_text(const lk_mesh_shape *shape, char out[LK_MESH_WORD]);

typedef struct lk_mesh {
    int n[LK_N_AXES], at[LK_N_AXES]; /* ranks along each axis, and which of them this one is */
    lk_grid space;                   /* the ranks along space as a grid */
    lk_comm *along[LK_N_AXES]; /* the ranks that differ along one axis only; NULL where n is 1 */
    lk_comm *replicas;         /* those that differ along data and space; NULL: none */
    lk_comm *world;            /* all; NULL: this rank is alone */
} lk_mesh;

/**
 * Make a mesh of all ranks of `comm`; NULL: of this rank alone.  The caller owns `*out`, and frees it
 * before `comm`.
 *
 * Collective.  Where several axes are cut and the ranks of `comm` are not in the order of their nodes,
 * those of `world` are numbered so that the ranks of a node are together; rank 0 stays.
 *
 * Errors: LK_EINVAL unless the numbers multiply to that of the ranks, naming all; LK_ENOMEM; those of
 * communication.
 */
LK_API lk_status lk_mesh_new(lk_comm *comm, const lk_mesh_shape *shape, lk_mesh **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_mesh_free(lk_mesh *mesh);

/** Where rank `rank` of `size` would be: a mesh without communicators, to look at.  Errors: LK_EINVAL as
 * above. */
LK_API lk_status lk_mesh_at(const lk_mesh_shape *shape, int size, int rank,
                            lk_mesh *out) LK_NODISCARD;

/* ---- plans ----
 *
 * What a rank does in a step, layer by layer, and what it sends: made by arithmetic before the first
 * byte moves, from the mesh, the model and the pieces of the run.  A trainer runs from one.
 */

/** Whose part of a value a rank has. */
typedef enum lk_domain {
    LK_BY_SAMPLE, /* whole samples */
    LK_BY_TILE    /* its tile of each sample */
} lk_domain;

typedef struct lk_layer_plan {
    const char *name, *type;
    int depth; /* of a layer within a layer: more than 0 */
    lk_reach reach;
    lk_domain domain;
    lk_range samples;   /* of the batch, that this rank runs the layer on */
    lk_box box;         /* of one sample's output, that it holds */
    int64_t parameters; /* bytes of the layer's own */
    int64_t values;     /* bytes of its output in a pass */
} lk_layer_plan;

/** When in a step something is sent, in the order of these. */
typedef enum lk_step_phase {
    LK_IN_FORWARD,
    LK_IN_BACKWARD,
    LK_BEFORE_UPDATE,
    LK_AFTER_UPDATE
} lk_step_phase;

/** Collective calls of one kind in a step. */
typedef struct lk_transfer {
    lk_step_phase when;
    const char *what;     /* the name of the layer, or "gradients", ... */
    int ranks;            /* that take part */
    int64_t calls, bytes; /* of all of them, what this rank gives */
} lk_transfer;

/** Bytes that a rank holds. */
typedef struct lk_plan_memory {
    int64_t parameters; /* of a copy that a node shares this rank's share, and its own */
    int64_t optimizer;  /* the same, without its own */
    int64_t gradients;  /* and what else passes add up */
    int64_t state;      /* running statistics */
    int64_t samples;    /* of the loader, those that it prepares ahead as well */
    int64_t values;     /* of all layers in the largest pass of a step; see lk_trainer_rehearse() */
} lk_plan_memory;

typedef struct lk_plan_spec {
    int64_t batch, pieces;   /* samples and shards of a whole batch */
    int64_t piece;           /* samples of a shard */
    int64_t sample;          /* bytes that the loader holds for each sample of a rank */
    int64_t optimizer_slabs; /* as large as the parameters */
    bool fast;               /* ranks are the shards, joined in any order */
    bool shared;             /* the ranks of a node share one copy of parameters and optimizer */
    int ranks_of_node;       /* that share it */
    /* Bytes of gradients that travel together while backward goes on; 0: after it, all at once. */
    int64_t bucket;
} lk_plan_spec;

typedef struct lk_plan {
    lk_plan_spec spec;
    int rank, ranks;
    lk_range pieces, samples; /* of a whole batch, that this rank has */
    int blocks, most_blocks;  /* passes over them, and of any batch */
    int64_t pass_samples;     /* of the largest of them */
    bool one_block;           /* a rank has one subtree, because ranks meet during a pass */
    bool direct;              /* each rank joins just what it updates, in shared memory */
    int64_t n_layers;
    lk_layer_plan *layer; /* those within a layer behind it */
    int64_t n_transfers;
    lk_transfer *transfer;
    lk_plan_memory memory;
} lk_plan;

/**
 * Make the plan of the mesh's rank for a model that is built; its names are the model's.  The caller owns
 * `*out`, and frees it before the model.
 *
 * Not collective: it is arithmetic, also on a mesh of lk_mesh_at().  Errors: LK_ENOTSUP for what is not
 * there yet, and for a model that cannot be cut so; LK_EINVAL when there are more ranks than shards;
 * LK_ENOMEM.
 */
LK_API lk_status lk_plan_new(const lk_mesh *mesh, const lk_model *model, const lk_plan_spec *spec,
                             lk_plan **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_plan_free(lk_plan *plan);

/** The collective calls of a step, and the bytes that this rank gives to them. */
LK_API int64_t lk_plan_calls(const lk_plan *plan);
LK_API int64_t lk_plan_bytes(const lk_plan *plan);

LK_END_DECLS

#endif /* LK_PARALLEL_H */
