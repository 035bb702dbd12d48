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

/** What gradients travel as between ranks: as they are, or of f32 as 16 bits, which are added in f32. */
typedef enum lk_wire { LK_WIRE_DTYPE, LK_WIRE_F16, LK_WIRE_BF16 } lk_wire;

/** Their names, in this order, for options of type LK_OPTION_CHOICE. */
#define LK_WIRE_CHOICES "dtype f16 bf16"

/** "dtype", "f16" or "bf16"; "?" for a value that is none. */
LK_API const char *lk_wire_name(lk_wire wire);

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

/** Where this rank is in a layout, and its communicators: fields are to be read, on the thread that has
 * the communicator.  A trainer makes one; making it is collective. */
typedef struct lk_mesh {
    int n[LK_N_AXES], at[LK_N_AXES]; /* ranks along each axis, and which of them this one is */
    lk_grid space;                   /* the ranks along space as a grid */
    lk_comm *along[LK_N_AXES]; /* the ranks that differ along one axis only; NULL where n is 1 */
    lk_comm
        *space_along[3]; /* of the grid of space: along one of its axes; NULL where there is one */
    lk_comm *replicas;   /* those that differ along data and space; NULL: none */
    lk_comm *world;      /* all; NULL: this rank is alone */
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

/** Of so many tiles along each axis (0 is 1), those of this rank: lk_holding.tiles of a model whose spec has
 * these tiles. */
LK_API void lk_mesh_tiles(const lk_mesh *mesh, const int64_t tiles[3], lk_range out[3]);

LK_END_DECLS

#endif /* LK_PARALLEL_H */
