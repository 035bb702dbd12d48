/* lk__pending: a message under way, of isend or irecv, found by its handle.  The tape keeps them, as
 * its extension; calls of dist.h and backward add and end them, on the tape's thread.
 *
 * A handle is a value without elements.  Its message has the request, the value that is sent or the
 * buffer, and what backward needs: the other rank, the number of the message, and the handle of the
 * adjoint message in this pass.  Those of recorded calls stay until the reset.
 *
 * The tape also remembers the communicators it has seen, so that one that is freed too early is an
 * error and not a wild pointer.
 */
#ifndef LK_DIST_COMMON_PENDING_H
#define LK_DIST_COMMON_PENDING_H

#include "dist/common/dist.h"

typedef struct lk__pending {
    lk__dist d;
    lk_request *request; /* NULL: not under way */
    bool sends, recorded, waited;
    bool claims;   /* a receive that is left open: there is no buffer before the message has come */
    bool blocking; /* that is what a recv is made of */
    const void *segment; /* of lk_recompute() that it was made in */
    lk_var handle, data; /* `data`: what is sent, or the buffer */
    lk_var adjoint;      /* handle of the adjoint message; LK_NO_VAR: none yet */
    lk_message info;     /* of a receive: once it has been waited for */
    lk_dtype dtype;      /* of a receive that claims: as the program says, then of the message */
    lk_shape shape;
} lk__pending;

/** The tape will use `comm` until its reset: errors if it was freed.  Cheap when said again. */
lk_status lk__dist_uses(lk_tape *tape, lk_comm *comm, const char *call) LK_NODISCARD;

/** Begin to send `x` to, or to receive from, a rank whose number and tag are checked; `like` may be
 * open. */
lk_status lk__dist_post_send(lk__dist d, lk_var x, int rank, int64_t tag,
                             lk_var *handle) LK_NODISCARD;
lk_status lk__dist_post_recv(lk_tape *tape, lk__dist d, int rank, int64_t tag, lk_output_spec like,
                             lk_var *handle) LK_NODISCARD;

/** The same for what is open; `blocking`: the wait for it comes next. */
lk_status lk__dist_post_claim(lk_tape *tape, lk__dist d, int rank, int64_t tag, lk_output_spec like,
                              bool blocking, lk_var *handle) LK_NODISCARD;

/** Room for one more pending, so that lk__pending_add() cannot fail. */
lk_status lk__pending_room(lk_tape *tape) LK_NODISCARD;

/** Keep a pending; its handle must be newer than all others. */
void lk__pending_add(lk_tape *tape, const lk__pending *pending);

/** The pending of a handle, valid until the next is added; NULL: there is none. */
lk__pending *lk__pending_find(lk_var handle);

/** It has been waited for: the values are free again, and so is the pending if nothing needs it. */
void lk__pending_done(lk_var handle);

/** isend("x") to rank 1, for messages. */
lk_short_string lk__pending_text(const lk__pending *pending);

#endif /* LK_DIST_COMMON_PENDING_H */
