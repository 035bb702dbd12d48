/* Boxes of tensors on their way between files and the ranks that hold them: arithmetic, no messages.
 *
 * The parts of a checkpoint belong to ranks that have files, which go through them in *bands*: ranges
 * of the tensors of a part, about a MiB.  A *piece* is a box of a tensor that one such rank and one
 * holder exchange, and a *flow* all pieces between two ranks, in the order of the tensors.  Both endpoints
 * have the same flow, so each knows for any band how many bytes go, and in which order:
 *
 *     tensor       0 ........ 1 ............ 2 ...      one behind the other, as in the file
 *     bands        |    0    |    1    |    2    |
 *     a flow           xxxx     x  x  x  x  xx          what of them one holder has
 *     its message 1             xxxx                    dense
 */
#ifndef LK_IO_BOXES_H
#define LK_IO_BOXES_H

#include <lockstep/checkpoint.h>

/** What a rank holds of a tensor: the dense array of a box, of the tensor seen with the axes `of`. */
typedef struct lk__box_held {
    unsigned char *data;
    lk_box box;
    lk_shape of;
} lk__box_held;

/** A box of tensor number `tensor` of a checkpoint; it is not empty. */
typedef struct lk__piece {
    int64_t tensor;
    lk_box box;
} lk__piece;

/** What goes between two ranks: the tensors ascend.  Begin with zeros; end with lk_free(piece). */
typedef struct lk__flow {
    lk__piece *piece;
    int64_t n, room;
} lk__flow;

/** Add a piece at the end. */
lk_status lk__flow_add(lk__flow *flow, int64_t tensor, const lk_box *box) LK_NODISCARD;

/** Elements of tensor `i`. */
int64_t lk__tensor_count(const lk_checkpoint *c, int64_t i);

/* ---- bands ---- */

/** Elements of the tensors [tensor, end): from `first` of the first one, up to `last` of the last. */
typedef struct lk__band {
    int64_t part;
    int64_t tensor, end;
    int64_t first, last;
    int64_t offset, bytes; /* where they lie in the file of the part */
} lk__band;

/** The bands of the parts first, first + step, ...: of those for which skip[part] is `skipped` only,
 * unless `skip` is NULL. */
typedef struct lk__bands {
    const lk_checkpoint *c;
    const bool *skip;
    bool skipped;
    int64_t part, step; /* part -1: none */
    int64_t room;       /* bytes of a band at most */
    int64_t tensor, element;
} lk__bands;

/** Begin before the first band; place -1: there are none. */
lk__bands lk__bands_start(const lk_checkpoint *c, int64_t place, int64_t step, int64_t room);

/** The next one, which is not empty; false: there is none. */
bool lk__bands_next(lk__bands *b, lk__band *band);

/** Where in the bytes of a band those of tensor `i` are, tensor <= i < end. */
lk_range lk__band_bytes(const lk_checkpoint *c, const lk__band *band, int64_t i);

/* ---- endpoints of a flow ---- */

/** The bytes of a flow in a band; `band` NULL: nothing. */
int64_t lk__flow_bytes(const lk_checkpoint *c, const lk__flow *flow, const lk__band *band);

/** What of a flow lies in a band, at one of its two endpoints: in the bytes of the band, or in boxes. */
typedef struct lk__endpoint {
    const lk_checkpoint *c;
    const lk__flow *flow;
    const lk__band *band;
    unsigned char *base;      /* the bytes of the band; NULL: in boxes */
    const lk__box_held *held; /* then these, by tensor */
    /* where a walk over it is */
    int64_t piece, left, used;
    lk_box_walk walk;
} lk__endpoint;

/** Where the bytes of the message are, if they lie side by side at this endpoint; else NULL. */
unsigned char *lk__endpoint_direct(lk__endpoint *end, int64_t bytes);

/** Copy between this endpoint and a message, one way or the other. */
void lk__endpoint_pack(lk__endpoint *end, unsigned char *message);
void lk__endpoint_unpack(lk__endpoint *end, const unsigned char *message);

/** Copy from one endpoint of a flow to the other, where both are here. */
void lk__endpoint_copy(lk__endpoint *from, lk__endpoint *to);

/* ---- who gives what ---- */

enum { LK__LOWEST = -1 };

/**
 * Cut the tensor `tensor` of a checkpoint among those who hold it: box [n], by rank, empty ones too.
 * Each element is given by one rank: by the lowest whose box has it, and of ranks that have equal boxes
 * by `self` if it is one of them, else by another for each tensor; self LK__LOWEST: by the lowest of
 * them.  Adds to flow [n].
 *
 * Errors: LK_EINVAL naming the first element that no rank holds; LK_ENOMEM.
 */
lk_status lk__givers_find(const lk_checkpoint *c, int64_t tensor, const lk_box *box, int n,
                          int self, lk__flow *flow) LK_NODISCARD;

#endif /* LK_IO_BOXES_H */
