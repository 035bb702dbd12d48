/* What other rooms (dist, coll, train) need of communicators and requests besides
 * <lockstep/comm.h>: hold one so that its early close is noticed, end the job for all ranks, and
 * requests of tensors.  On the rank's thread. */
#ifndef LK_COMM_USER_H
#define LK_COMM_USER_H

#include <lockstep/comm.h>

/* Code that keeps a pointer to a communicator, and is called when the program frees it. */
typedef struct lk__comm_user {
    struct lk__comm_user *next;
    void (*freed)(struct lk__comm_user *user);
} lk__comm_user;

/** Keep the address of a communicator valid, also when it is freed, until lk__comm_leave(). */
void lk__comm_use(lk_comm *comm, lk__comm_user *user);
void lk__comm_leave(lk_comm *comm, lk__comm_user *user);

/** Whether the program has freed it; of one that is in use nothing else may then be asked. */
bool lk__comm_is_freed(const lk_comm *comm);

/** Whether two were made from the same one, so that their requests can be waited for together. */
bool lk__comm_related(const lk_comm *a, const lk_comm *b);

/** End the job on all ranks with this report, unless it has ended.  For what cannot return an error:
 * this thread's last one stays as it is. */
void lk__comm_end_job(lk_comm *comm, lk_status status, const char *report);

/** LK_OK while the job goes on, or if this rank has ended it; otherwise what another did, as this
 * thread's last error. */
lk_status lk__comm_ended_elsewhere(lk_comm *comm) LK_NODISCARD;

/**
 * Whether a blocking message of this rank to itself could end: whether a receive that a send with this
 * tag would meet has begun, or (`receives`) a message has been sent that a receive with this tag, or
 * LK_ANY_TAG, would take.  Waits for messages to itself that are still on the wires.
 */
lk_status lk__comm_matches_itself(lk_comm *comm, bool receives, int64_t tag,
                                  bool *out) LK_NODISCARD;

/* ---- arrays: messages that carry their shape, and receives of whatever comes ---- */

typedef struct lk__array {
    const void *data;
    int64_t count;
    lk_dtype dtype;
    int ndim; /* at most LK_MESSAGE_AXES */
    const int64_t *dim;
    bool prompt; /* to claim: lk__irecv_claim() */
} lk__array;

/** As lk_isend(), with the shape. */
lk_status lk__isend_array(lk_comm *comm, const lk__array *x, int dest, int64_t tag,
                          const char *name, lk_request **out) LK_NODISCARD;

/**
 * Begin to receive a message of any number of elements, of `dtype` or of any (LK_N_DTYPES).
 *
 * lk_wait() and lk_waitany(), with an `info`, wait until it is there and say what it is; the request
 * stays, for lk__claim_take().  Its turn among receives is that of the call here.  `prompt`: a large
 * message comes without lk__claim_take(), to memory of the request, so that its sender need not wait for
 * that; otherwise it comes straight to its place.
 */
lk_status lk__irecv_claim(lk_comm *comm, lk_dtype dtype, int source, int64_t tag, const char *name,
                          bool prompt, lk_request **out) LK_NODISCARD;

/** Receive what was claimed to `data`, which has room for it, and release the request, also on
 * failure. */
lk_status lk__claim_take(lk_request **request, void *data) LK_NODISCARD;

/** Whether a request is over; and give it up: after lk__comm_end_job(), unless it is over. */
bool lk__request_is_over(lk_request *request);
void lk__request_drop(lk_request **request);

#endif /* LK_COMM_USER_H */
