/* The status board: what each rank is doing, for reports, and what it did last, for comparison.
 *
 * Each rank writes its own slot; every rank of the node reads all, without a lock: `version` is odd
 * while the owner writes.  A report follows the chain of waits to its end:
 *
 *     rank 0 waits for rank 2, which waits for rank 1, which left after allreduce("warmup") #3
 *
 * The last collective calls stay on the board, in turn.  So a rank that waits in one of them sees
 * whether the other made the same call, also when that one has sent what it had to and gone on.
 * Behind them is what tells whether all ranks wait in vain: vain.h.
 */
#ifndef LK_COMM_BOARD_H
#define LK_COMM_BOARD_H

#include "comm/wire.h"

#include <stdatomic.h>

typedef enum lk__state {
    LK_STATE_UNKNOWN,   /* on another node, or not yet there */
    LK_STATE_COMPUTING, /* in no call */
    LK_STATE_CALLING,   /* in a call, waiting for `peer` if that is a rank */
    LK_STATE_LEFT,      /* has closed its end */
} lk__state;

enum { LK_BOARD_CALLS = 4 /* collective calls; a power of two */, LK_ASIDE = LK_BOARD_CALLS };

/* What a rank is doing. */
typedef struct lk__rank_status {
    int32_t state; /* lk__state */
    int32_t peer;  /* world rank; -1: none in particular */
    int32_t pid;   /* 0 if the rank is a thread */
    int32_t at; /* in which of its calls it is, or was last: the newest collective, + LK_ASIDE if it
                      is another call, which is shown aside */
} lk__rank_status;

/* What a slot says. */
typedef struct lk__board_entry {
    lk__rank_status status;
    lk__label call[LK_BOARD_CALLS +
                   1]; /* collectives, in turn; then send, recv, or an older collective */
} lk__board_entry;

/** The call that a rank is in, or was last in. */
static inline const lk__label *lk__board_entry_call(const lk__board_entry *s)
{
    return &s->call[s->status.at & LK_ASIDE ? LK_ASIDE : s->status.at];
}

/** Collective `i` of those shown, from 0, the newest, to LK_BOARD_CALLS - 1; NULL: there is none, or it does
 * not count any more (see lk__shm_area_open()). */
const lk__label *lk__board_entry_collective(const lk__board_entry *s, int i);

/** The collective call of this communicator and number; NULL: it is not shown. */
const lk__label *lk__board_entry_find(const lk__board_entry *s, uint32_t context, int64_t sequence);

enum {
    LK_STATUS_WORDS = sizeof(lk__rank_status) / 8,
    LK_LABEL_WORDS = sizeof(lk__label) / 8,
    LK_SLOT_WORDS = sizeof(lk__board_entry) / 8
};

/* That a rank rests: it waits, and has done nothing since.  Written by its owner, but for `asked`. */
typedef struct lk__rest {
    _Alignas(64) _Atomic uint64_t epoch;    /* odd: it rests; raised with every change */
    _Atomic uint64_t answered;              /* the question before its last look at everything */
    _Atomic int64_t sent, taken;            /* packets, before the rest */
    _Atomic uint64_t spare[LK_LABEL_WORDS]; /* a message that no receive takes, or nothing */
    _Alignas(64) _Atomic uint64_t asked;    /* by the rank that looks whether all rest */
} lk__rest;

/* One rank's slot, lines of its own. */
typedef struct lk__board_slot {
    _Alignas(64) _Atomic uint32_t version;
    _Atomic uint64_t word[LK_SLOT_WORDS];
    lk__rest rest;
} lk__board_slot;

/**
 * Write what the rank is doing; only the owner of the slot may.  With a call, that goes to where
 * status->at says.  Or write the first word only: state and peer.
 */
void lk__slot_write(lk__board_slot *slot, const lk__rank_status *status);
void lk__slot_write_call(lk__board_slot *slot, const lk__rank_status *status,
                         const lk__label *call);
void lk__slot_write_state(lk__board_slot *slot, const lk__rank_status *status);

/** A consistent copy; state UNKNOWN if the slot is NULL or its owner does not finish writing. */
void lk__slot_read(lk__board_slot *slot, lk__board_entry *out);

/** The state alone. */
lk__state lk__slot_state(const lk__board_slot *slot);

#endif /* LK_COMM_BOARD_H */
