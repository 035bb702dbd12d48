/* The status board: what each rank is doing, for reports.
 *
 * Each rank writes its own slot; anybody on the node reads all, without a lock: `version` is odd
 * while the owner writes.  A report follows the chain of waits to its end:
 *
 *     rank 0 waits for rank 2, which waits for rank 1, which left after allreduce("warmup") #3
 */
#ifndef LK_COMM_BOARD_H
#define LK_COMM_BOARD_H

#include "comm/wire.h"

#include <stdatomic.h>

typedef enum lk__state {
    LK_STATE_UNKNOWN,   /* on another node, or not yet there */
    LK_STATE_COMPUTING, /* in no call; `call` is the last one */
    LK_STATE_CALLING,   /* in `call`, waiting for `peer` if that is a rank */
    LK_STATE_LEFT,      /* has closed its end; `call` is the last one */
} lk__state;

/* What a slot says. */
typedef struct lk__doing {
    int32_t state; /* lk__state */
    int32_t peer;  /* world rank; -1: nobody in particular */
    int32_t pid;   /* 0 if the rank is a thread */
    lk__label call;
} lk__doing;

enum { LK_DOING_WORDS = sizeof(lk__doing) / 8, LK_DOING_CALL = 2 };

/* One rank's slot, lines of its own. */
typedef struct lk__slot {
    _Alignas(64) _Atomic uint32_t version;
    _Atomic uint64_t word[LK_DOING_WORDS];
} lk__slot;

/**
 * Write the whole slot; only its owner may.  Or its first word: state and peer.  Or all with a call
 * that has just been copied to `doing`: loads that wait for fresh stores would wait for what was
 * posted before those, too.
 */
void lk__slot_write(lk__slot *slot, const lk__doing *doing);
void lk__slot_write_call(lk__slot *slot, const lk__doing *doing, const lk__label *call);
void lk__slot_write_state(lk__slot *slot, const lk__doing *doing);

/** A consistent copy; state UNKNOWN if the slot is NULL or its owner does not finish writing. */
lk__doing lk__slot_read(lk__slot *slot);

#endif /* LK_COMM_BOARD_H */
