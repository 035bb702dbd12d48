/* Teams: ranks that train one model together.
 *
 * A batch is cut into pieces (shards) that belong to the run, not to the ranks.  Rank r of P has the
 * pieces lk_range_split(pieces, r, P), cut into the largest subtrees of the sum: its *blocks*.  Each
 * block is a pass of its own through the model and fills the sums (gradients, observed statistics,
 * the loss) of its subtree; the team joins those of all ranks by the tree:
 *
 *     lk_team_begin(team, pieces, samples);
 *     for (k = 0; k < lk_team_blocks(team, block); k++)
 *         ... a pass over block[k] into lk_team_sums(team, k) ...
 *     lk_team_join_begun(team);            what travelled during the passes
 *     lk_team_join(team);                  gradients and statistics: lk_team_total() has them everywhere
 *
 * So what comes out does not depend on the number of ranks.  The sums lie in memory that the ranks of
 * a node share, and are joined there without a copy.
 *
 * With one copy of the parameters for each node (lk_team_place()), each rank updates its share of
 * them, lk_team_share(), from the gradients that it takes by lk_team_take() after lk_team_join_share().
 *
 * Collective over the team's communicator are lk_team_new(), lk_team_place(), the joins and
 * lk_team_meet(); a team without a communicator is this rank alone.
 */
#ifndef LK_PARALLEL_H
#define LK_PARALLEL_H

#include <lockstep/coll.h>
#include <lockstep/nn.h>

LK_BEGIN_DECLS

typedef struct lk_team lk_team;

typedef struct lk_team_spec {
    lk_comm *comm; /* NULL: this rank alone.  Dup'ed */
    lk_model *model;
    int64_t pieces; /* of a whole batch */
    /* Free to reassociate: a rank's range is one block, and ranks are joined in any order.  The bits
     * then depend on the number of ranks. */
    bool fast;
    /* A rank has one block in each batch, so that the blocks of all ranks can meet during a pass; ranks
     * are less even then, unless the tree can be cut evenly.  See lk_team_batch(). */
    bool one_block;
    /* Let gradients travel while backward goes on, in buckets of at least so many bytes from the last
     * layer to the first; 0: after backward, all at once. */
    int64_t bucket;
} lk_team_spec;

/**
 * Make a team.  The caller owns `*out` and frees it before model and communicator.
 *
 * Errors: LK_EINVAL when there are more ranks than pieces, and unless `fast` when the environment of a
 * rank names an algorithm that may give other bits, such as LK_ALLREDUCE=chain; LK_ENOMEM; those of
 * communication.
 */
LK_API lk_status lk_team_new(const lk_team_spec *spec, lk_team **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_team_free(lk_team *team);

/** The team's own communicator; NULL if this rank is alone.  Borrowed. */
LK_API lk_comm *lk_team_comm(const lk_team *team);
LK_API int lk_team_rank(const lk_team *team);
LK_API int lk_team_size(const lk_team *team);

/** Begin a batch of so many pieces, at most those of a whole batch, and samples: the range of this rank.
 * Its sums are zero. */
LK_API lk_range lk_team_begin(lk_team *team, int64_t pieces, int64_t samples);

/** The blocks of this rank in the batch; returns how many, at most LK_MAX_SUBTREES. */
LK_API int lk_team_blocks(const lk_team *team, lk_range *out);

/** The sums that block `k` fills. */
LK_API lk_sums *lk_team_sums(const lk_team *team, int k);

/**
 * The batch as ranks share it, for layers that need sums over all of it; NULL: this rank is alone, or
 * spec.one_block is not set.  Borrowed, until the next batch.
 *
 * Ranks then wait for each other in a pass.  So every rank makes it, one without a piece over no samples,
 * and one that fails in it ends the job.
 */
LK_API const struct lk_dist_batch *lk_team_batch(const lk_team *team);

/**
 * Watch the backward of the last block on `tape`, if gradients travel meanwhile (spec.bucket);
 * lk_team_join_begun() ends it.
 */
LK_API void lk_team_watch(lk_team *team, lk_tape *tape);

/** Start what is left of the gradients that travel during backward, and wait for all; nothing if none
 * do. */
LK_API lk_status lk_team_join_begun(lk_team *team) LK_NODISCARD;

/** Join gradients and statistics of all blocks: lk_team_total() then has them, on all ranks.  The loss
 * stays that of each block. */
LK_API lk_status lk_team_join(lk_team *team) LK_NODISCARD;

/** The sums over the whole batch, as far as they were joined. */
LK_API lk_sums *lk_team_total(const lk_team *team);

/* ---- one copy of the parameters for each node ---- */

/**
 * A slab of `layout` that all ranks of a node share, with the values that `from` has on the first of
 * them.  The caller owns `*out`, and frees it before the team.
 *
 * Collective.  Errors: as lk_shared_new().
 */
LK_API lk_status lk_team_place(lk_team *team, const lk_slab *from, const char *name,
                               lk_slab **out) LK_NODISCARD;

/** Elements of the parameters' slab that this rank updates.  Those of a node share all of them. */
LK_API lk_range lk_team_share(const lk_team *team);

/** Join the gradients of lk_team_share(), or see to it that lk_team_take() can; statistics are in
 * lk_team_total() after lk_team_meet(). */
LK_API lk_status lk_team_join_share(lk_team *team) LK_NODISCARD;

/**
 * Gradients of elements [first, first + n) of the share, once each in any order and on any thread; not
 * collective.  They are gone then: what the sums have there is undefined.  For lk_optim_step.give.
 */
LK_API lk_status lk_team_take(void *team, int64_t first, int64_t n, void *out) LK_NODISCARD;

/** Nobody leaves before all have come: after the update of a shared copy. */
LK_API lk_status lk_team_meet(lk_team *team) LK_NODISCARD;

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

LK_END_DECLS

#endif /* LK_PARALLEL_H */
