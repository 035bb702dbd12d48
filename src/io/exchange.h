/* An exchange: how the tensors of a checkpoint get from the files of some ranks to the memory of all (it
 * loads), or back (it saves).
 *
 *     box     the part of a tensor that one rank holds: ranges of its axes, one for each
 *     held    the boxes that a rank holds, one for each tensor, and where they lie in memory
 *     band    a range of a file, about a MiB, that is read or written at once
 *     flow    all that goes between the files of one rank and the boxes of another
 *
 * (boxes.h has them.)  checkpoint/fetch.c, checkpoint/save.c and safetensors/boxes.c make one on each rank,
 * on the thread that makes the calls on the communicator.
 *
 * Ranks go through their files band by band, all at the same time: a *round* is one band of each.  In a
 * round every rank meets every other once, in an order that follows from their numbers: in step k rank
 * r sends to r + k and receives from r - k, so that no two wait for each other and each has at most one
 * message under way in either direction.  Ranks tell each other their boxes before the first round; from
 * these each knows what it will send and receive, so that a round has no messages but the tensors.
 */
#ifndef LK_IO_EXCHANGE_H
#define LK_IO_EXCHANGE_H

#include "io/boxes.h"

#include <lockstep/comm.h>

/** Made by lk__exchange_open(), ended by lk__exchange_close(). */
typedef struct lk__exchange {
    lk_comm *comm; /* NULL: one rank, which saves */
    int rank, size;
    const lk_checkpoint *c;
    const int32_t
        *place;         /* [size] the number of each rank among those with files; -1: it has none */
    int files;          /* how many ranks have */
    bool saving;        /* from boxes to files, else back */
    bool whole;         /* all ranks hold all */
    lk__box_held *held; /* by tensor of `c` */
    int64_t room;       /* bytes of a band at most; more where all hold all and load */
    lk__flow *file;     /* [size] between own files and the boxes of each rank */
    lk__flow *box;      /* [size] between own boxes and the files of each rank */
    lk__bands *bands;   /* [size] */
    lk__band *band;     /* [size] of this round */
    bool *has;          /* [size] whether there is one */
    unsigned char *out, *in; /* for messages: a band each */
    lk_checkpoint seen;      /* `c` with the axes that all see its tensors with */
} lk__exchange;

/**
 * Let all ranks see tensors with the axes of those that hold a part of them: `held` [n] of all others, and
 * the shapes of `tensor` [n], become so.
 *
 * Collective over `comm`; NULL: one rank.  Errors: LK_ESHAPE when ranks see a tensor with different axes,
 * naming it and both; LK_ENOMEM; on all ranks the same; and those of communication.
 */
lk_status lk__axes_agree(lk_comm *comm, lk_checkpoint_tensor *tensor, lk__box_held *held,
                         int64_t n) LK_NODISCARD;

/**
 * Tell each other the boxes, and find what goes where.  The fields up to `room` are set, but `whole`; the
 * boxes lie within their tensors, which from then on are seen as lk__axes_agree() says.
 *
 * Collective.  Errors: LK_EINVAL when no rank holds an element that is to be saved, naming it; LK_ESHAPE
 * for different axes; LK_ENOMEM; on all ranks the same; and those of communication.
 */
lk_status lk__exchange_open(lk__exchange *x) LK_NODISCARD;

/** Free what it has; also after lk__exchange_open() failed, or where all is zero. */
void lk__exchange_close(lk__exchange *x);

/** Go back to before the first round.  The rounds are over all parts of the checkpoint, or, unless `skip` is
 * NULL, over those for which skip[part] is `skipped`. */
void lk__exchange_start(lk__exchange *x, const bool *skip, bool skipped);

/** Go to the next round; false: there is none, on all ranks. */
bool lk__exchange_next(lk__exchange *x);

/** This rank's band in this round; NULL: it has none. */
const lk__band *lk__exchange_band(const lk__exchange *x);

/** Where in its boxes this rank can read a band of its files directly, when it loads: if all ranks hold all
 * and the band lies there side by side.  Else NULL. */
unsigned char *lk__exchange_direct(const lk__exchange *x, const lk__band *band);

/** Do the round: `band` are the bytes of this rank's band, which are sent, or filled when it saves; may be
 * NULL if it has none.  Collective.  Errors: LK_EMISMATCH when a rank sends another number of bytes than
 * its boxes say; those of communication. */
lk_status lk__exchange_round(lk__exchange *x, unsigned char *band) LK_NODISCARD;

#endif /* LK_IO_EXCHANGE_H */
