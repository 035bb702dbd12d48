/* The way of a state between the files of some ranks and the boxes of all.
 *
 * Ranks go through their files band by band, all at the same time: a *round* is one band of each.  In a
 * round every rank meets every other once, in an order that follows from their numbers: in step k rank
 * r sends to r + k and receives from r - k, so that no two wait for each other and each has at most one
 * message under way in either direction.  Who has what follows from boxes that were told before the
 * first round; nothing is asked in a round.
 */
#ifndef LK_IO_EXCHANGE_H
#define LK_IO_EXCHANGE_H

#include "io/boxes.h"

#include <lockstep/comm.h>

/** Made by lk__exchange_open(), ended by lk__exchange_close(). */
typedef struct lk__exchange {
    lk_comm *comm; /* NULL: one rank */
    int rank, size;
    const lk_checkpoint *c;
    const int32_t *place;     /* [size] of each rank among those with files; -1: it has none */
    int files;                /* how many have */
    bool saving;              /* from boxes to files, else back */
    bool whole;               /* all ranks hold all */
    const lk__box_held *held; /* by tensor of `c` */
    int64_t room;             /* bytes of a band at most; more where all hold all and load */
    lk__flow *file,
        *box; /* [size] between own files and boxes of others, own boxes and files of others */
    lk__bands *bands;        /* [size] */
    lk__band *band;          /* [size] of this round */
    bool *has;               /* [size] whether there is one */
    unsigned char *out, *in; /* for messages: a band each */
} lk__exchange;

/**
 * Tell each other the boxes, and find what goes where.  The fields up to `room` are set, but `whole`; the
 * boxes lie within their tensors.
 *
 * Collective.  Errors: LK_EINVAL when nobody holds an element that is to be saved, naming it; LK_ENOMEM;
 * on all ranks the same; and those of communication.
 */
lk_status lk__exchange_open(lk__exchange *x) LK_NODISCARD;

/** Also after a failure, and of zeros. */
void lk__exchange_close(lk__exchange *x);

/** Begin before the first round, of all parts or those for which skip[part] is `skipped`. */
void lk__exchange_start(lk__exchange *x, const bool *skip, bool skipped);

/** Go to the next round; false: there is none, on all ranks. */
bool lk__exchange_next(lk__exchange *x);

/** This rank's band in this round; NULL: it has none. */
const lk__band *lk__exchange_band(const lk__exchange *x);

/** Do the round: `band` are the bytes of this rank's band, which are read or written; may be NULL if it
 * has none.  Collective.  Errors: those of communication. */
lk_status lk__exchange_round(lk__exchange *x, unsigned char *band) LK_NODISCARD;

#endif /* LK_IO_EXCHANGE_H */
