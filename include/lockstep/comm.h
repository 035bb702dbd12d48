/* Communicators: groups of ranks that send each other messages.
 *
 * A rank is a thread or a process that runs the program; which of the two, the transport decides:
 *
 *     self     one rank, this one
 *     local    ranks are threads of this process: lk_run_local()
 *     mpi      ranks are processes that an MPI launcher started, or a host's MPI_Comm
 *
 * A program written for n ranks runs on any of them unchanged.  Collective functions (marked so
 * below; all of coll.h) must be called by every rank of the communicator, in the same order.
 *
 * **Errors, not hangs.**  Every message carries a header that says which call it belongs to.  Ranks
 * that make different calls get LK_EMISMATCH; a rank that waits longer than the deadline, and ranks of
 * one node that all wait with no message under way, get LK_ESTALL.  Both messages name the ranks and the
 * calls.  Such an error is the end of the job: it is sent to all ranks, each of which returns it from
 * the call it is in or from its next one, and so do all later calls.  An argument that is refused
 * (LK_EINVAL and the like) is refused before anything is sent; it concerns the calling rank alone.
 *
 * **Threads.**  A communicator, and those made from it, belong to one thread at a time.  Other
 * communicators may be in use in other threads.
 *
 * **Progress.**  Nonblocking calls progress inside any call of this header on a communicator of the
 * same family (made from the same one), not in between; in between only where lk_comm_set_progress()
 * or LK_PROGRESS=1 asks for it.
 */
#ifndef LK_COMM_H
#define LK_COMM_H

#include <lockstep/dtype.h>

LK_BEGIN_DECLS

/* What a rank can be doing in communication: enumerator, name as in reports. */
#define LK_CALL_MAP(X)                  \
    X(NONE, "nothing")                  \
    X(SEND, "send")                     \
    X(RECV, "recv")                     \
    X(SPLIT, "split")                   \
    X(DUP, "dup")                       \
    X(GRID, "grid")                     \
    X(BARRIER, "barrier")               \
    X(BCAST, "bcast")                   \
    X(REDUCE, "reduce")                 \
    X(ALLREDUCE, "allreduce")           \
    X(REDUCE_SCATTER, "reduce_scatter") \
    X(GATHER, "gather")                 \
    X(ALLGATHER, "allgather")           \
    X(SCATTER, "scatter")               \
    X(ALLTOALL, "alltoall")             \
    X(NEIGHBOUR, "neighbour")           \
    X(SHARE, "share")

typedef enum lk_comm_call {
#define X(code, name) LK_CALL_##code,
    LK_CALL_MAP(X)
#undef X
        LK_N_CALLS
} lk_comm_call;

/** "allreduce", ...; "?" for a value that is no call. */
LK_API const char *lk_comm_call_name(lk_comm_call call);

/* How values of several ranks become one: enumerator, name, formula. */
#define LK_REDUCE_OP_MAP(X)                                               \
    X(SUM, "sum", "x0 + x1 + ...")                                        \
    X(PROD, "prod", "x0 * x1 * ...")                                      \
    X(MIN, "min", "the smallest; NaN if one is NaN")                      \
    X(MAX, "max", "the largest; NaN if one is NaN")                       \
    X(AVG, "avg", "the sum, divided by the number of pieces")             \
    X(AND, "and", "bitwise, integers")                                    \
    X(OR, "or", "bitwise, integers")                                      \
    X(XOR, "xor", "bitwise, integers")                                    \
    X(MINLOC, "minloc", "the smallest, and the lowest index that has it") \
    X(MAXLOC, "maxloc", "the largest, and the lowest index that has it")

typedef enum lk_reduce_op {
#define X(code, name, formula) LK_REDUCE_##code,
    LK_REDUCE_OP_MAP(X)
#undef X
        LK_N_REDUCE_OPS
} lk_reduce_op;

/** "sum", ...; "?" for a value that is none. */
LK_API const char *lk_reduce_op_name(lk_reduce_op op);

/* ---- communicators ---- */

/**
 * A group of ranks, numbered from 0, and this process's or thread's place in it.
 *
 * Opened by the program, or given to it by lk_run_local() and lk_run_main(); trainers, collectives and
 * ops borrow it.  It and those made from it belong to one thread at a time.  What makes communicators is
 * collective, and so is what is marked.
 */
typedef struct lk_comm lk_comm;

/**
 * Open the ranks of this job.  `transport` is "self", "mpi", or NULL: mpi if an MPI launcher
 * started this process and the library has that MPI's module, self otherwise.
 *
 * Collective over all processes of the job.  "mpi" initialises MPI (MPI_THREAD_FUNNELED, or as
 * lk_comm_set_progress() says) if it was not yet; what it initialised it finalizes when the last
 * communicator made from `*out` is freed, and the process cannot open "mpi" again.  The caller owns
 * `*out`.
 *
 * Errors: LK_EINVAL for an unknown name, listing the known ones; LK_ENOTSUP when there is no module
 * for the MPI, saying where it was looked for, and, unless the transport is "self", when the launcher
 * of another MPI or srun without any started several processes, each of which would be alone;
 * LK_ECOMM, LK_ENOMEM.
 */
LK_API lk_status lk_comm_open(const char *transport, lk_comm **out) LK_NODISCARD;

/**
 * A communicator on the host's MPI communicator, given as its Fortran handle: MPI_Comm_c2f(comm) in
 * C, the communicator itself in Fortran.
 *
 * Collective over it.  MPI must be initialised.  The host's communicator is dup'ed: it may be freed, and
 * messages of one never match receives of the other.  MPI is never finalized; lk_comm_close() `*out` before
 * the host does. The caller owns `*out`.
 *
 * Errors: LK_EINVAL when MPI is not initialised or the handle is no communicator, the null one or an
 * intercommunicator; LK_ENOTSUP when there is no module for the host's MPI or LK_MPI names another one,
 * and when the launcher of another MPI, or srun without any, started several processes of which each is
 * alone; LK_ECOMM, LK_ENOMEM.
 */
LK_API lk_status lk_comm_from_mpi(int fortran_handle, lk_comm **out) LK_NODISCARD;

/** Whether there is a module for the MPI of this name, "openmpi" or "mpich"; it is not opened.  Not
 * collective. */
LK_API bool lk_mpi_has_module(const char *name);

/** What each rank of lk_run_local() and lk_run_main() runs.  `comm` is borrowed until it returns. */
typedef lk_status lk_rank_fn(lk_comm *comm, void *arg);

/**
 * Run `fn(comm, arg)` as `n` ranks, each on a thread of its own, and wait for all of them.
 *
 * Not collective; may be nested.  All ranks share `arg`.  Communicators that a rank made and did not
 * free are freed when it returns.  When a rank returns a failure, the job
 * ends: the others get LK_ECOMM from the call they are in or from their next one, with that rank and
 * its message.
 *
 * Errors: LK_EINVAL unless 1 <= n <= LK_MAX_LOCAL; LK_ENOMEM, also when a thread cannot be started;
 * otherwise the first failure that a rank returned, with its trace and "rank R: " before its message.
 */
LK_API lk_status lk_run_local(int n, lk_rank_fn *fn, void *arg) LK_NODISCARD;

enum { LK_MAX_LOCAL = 4096 };

/**
 * The whole of a main(): run `fn(comm, arg)` as the rank that an MPI launcher started here, or without
 * one as `n` ranks on threads, as lk_run_local() does.
 *
 *     int main(void)
 *     {
 *         return lk_run_main(4, program, NULL, stderr);
 *     }
 *
 * Returns the status of the process: 0, or 1 after a failure, as lk_comm_fail() prints it to `errors` (NULL:
 * not at all) and tells it to all ranks before MPI ends.  Collective over all processes of the job, and at
 * most once where MPI is used: see lk_comm_open().
 */
LK_API int lk_run_main(int n, lk_rank_fn *fn, void *arg, FILE *errors);

/**
 * End the job with this thread's last failure, one that the program does not handle: print the rank, its
 * host, message and trace to `errors` (NULL: not at all), and tell all ranks of the job, which get LK_ECOMM
 * with rank and message from the call that they are in or from their next one.  Returns 1, for main() to
 * return:
 *
 *     if (train(comm) != LK_OK)
 *         status = lk_comm_fail(comm, stderr);
 *     lk_comm_close(comm);
 *     return status;
 *
 * The first such report stands, and ranks that pass it on change nothing.  Not collective.  `comm` may be
 * NULL: no rank is notified.
 */
LK_API int lk_comm_fail(lk_comm *comm, FILE *errors);

/**
 * The abort hook: from now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT in this process end all ranks of
 * the job, where without it the others would learn that this one has died, or nothing.
 *
 * The handler writes to the file of `errors` (NULL: nothing) which rank it was, on which host, the signal,
 * what the rank was doing in communication, and the stack, by module and offset; then all ranks get
 * LK_ECOMM with that and the place, from the call that they are in or from their next one; then the process
 * ends as it would have without it: handlers of the host are kept, and called behind this one.  A signal
 * that such a handler goes on from is the end of the job all the same.  Signals that the host ignores stay
 * so.
 *
 * Ranks of other nodes are notified by a rank of this one that is in a call, or makes one; where there is
 * none, the launcher ends them, or the deadline does.  Ranks that are threads end with their process, after
 * the report has named the one; each of them installs it on its thread.
 *
 * Not collective.  Of the family of `comm`, until lk_abort_hook_remove() or the end of its last communicator;
 * again: another `errors`, which must stay open.  Installed for all that are opened, with stderr, where
 * LK_ABORT_HOOK is 1 in the environment: CHAINERMN_FORCE_ABORT_ON_EXCEPTION.  Errors: LK_EINVAL, LK_ENOMEM.
 */
LK_API lk_status lk_abort_hook_install(lk_comm *comm, FILE *errors) LK_NODISCARD;

/** Give the signals back.  On the thread that installed it.  NULL, and without it, is allowed. */
LK_API void lk_abort_hook_remove(lk_comm *comm);

/** Release a communicator; its requests must be complete.  Not collective.  NULL is allowed.  With the
 * last one of a process MPI may be ended, which waits for the other ranks and whose launcher may end
 * the job: print the error of a failure before. */
LK_API void lk_comm_close(lk_comm *comm);

/** This rank's number and the number of ranks.  Not collective, like all in this paragraph. */
LK_API int lk_comm_rank(const lk_comm *comm);
LK_API int lk_comm_size(const lk_comm *comm);

/**
 * Where the rank is: its number among the communicator's ranks on its node (host) and how many
 * those are; the number of its node and how many there are.  Nodes are numbered by their lowest
 * rank.  On `local` all ranks are on one node; LK_LOCAL_NODES says on how many to pretend to be, on
 * any transport.
 */
LK_API int lk_comm_node_rank(const lk_comm *comm);
LK_API int lk_comm_node_size(const lk_comm *comm);
LK_API int lk_comm_node(const lk_comm *comm);
LK_API int lk_comm_nodes(const lk_comm *comm);

/** "self", "local" or "mpi". */
LK_API const char *lk_comm_transport(const lk_comm *comm);

/**
 * End the job when a rank waits longer than `seconds` for another; 0: wait for ever.  A rank on this
 * node that has left or ended is not waited for in either case, and no rank waits on if all ranks are on
 * one node, all wait, and no message is under way.
 *
 * The time counts from the beginning of a wait, and anew whenever what it waits for comes further: one
 * of its messages is matched or complete, another rank has done its part of the collective call.  Other
 * messages do not prolong it.
 *
 * Not collective, but ranks should agree.  The start value is LK_DEADLINE from the environment, 60
 * if there is none; communicators made from this one start with its value.
 *
 * Errors: LK_EINVAL unless 0 <= seconds <= 1e9.
 */
LK_API lk_status lk_comm_set_deadline(lk_comm *comm, double seconds) LK_NODISCARD;

/**
 * Let sums of f16, bf16, f32 and f64 over ranks (sum and avg of allreduce, reduce, reduce_scatter) fail
 * where a rank gives a NaN or an infinity, or do not: off at the start.
 *
 * Each rank looks at what it gives; then all agree, by a message up and down a tree, so that all fail
 * alike: LK_ENAN, naming the lowest such rank, the tensor, and the index of its first such element.
 * Nothing has been summed then; of a call that was begun lk_wait() or one of its kind fails, and what it
 * has summed is of no use.  The communicator stays usable.
 *
 * Not collective, but all ranks must do the same: others are a mismatch.  The start value is LK_FINITE
 * from the environment, 0 or 1; communicators made from this one start with its value.
 */
LK_API lk_status lk_comm_set_finite_check(lk_comm *comm, bool on) LK_NODISCARD;

/**
 * Let nonblocking calls progress without the caller's help, on a thread that the family of `comm` has
 * for itself: also while this rank computes, sleeps or waits for something else.  Off at the start,
 * unless LK_PROGRESS is 1 in the environment.
 *
 * Not collective: each rank chooses for itself.  No call on the family may be running.  The thread
 * sleeps while no request is under way, and until it is notified or, under MPI, for at most two
 * milliseconds; it blocks all signals.  A request it has completed still ends with lk_wait()
 * or one of its kind.  What goes wrong meanwhile is returned by the next call.
 *
 * Under MPI two threads make MPI calls, one at a time.  The library initialises MPI for that
 * (MPI_THREAD_SERIALIZED) only if LK_PROGRESS is 1; the program itself then makes no MPI calls.  A
 * host that does makes them with MPI_THREAD_MULTIPLE.
 *
 * Errors: LK_ENOTSUP where MPI was initialised for less, saying so; LK_ENOMEM.
 */
LK_API lk_status lk_comm_set_progress(lk_comm *comm, bool on) LK_NODISCARD;

/** A communicator of the same ranks, whose messages never match receives of `comm`.  Collective.  The
 * caller owns `*out`.  Errors: LK_ENOMEM and those of communication. */
LK_API lk_status lk_comm_dup(lk_comm *comm, lk_comm **out) LK_NODISCARD;

/**
 * Ranks that give the same `color` become a communicator, ordered by `key`, then by rank.
 *
 * Collective.  A negative color takes part but gets no communicator: `*out` is NULL.  The caller
 * owns `*out`.  Errors: LK_ENOMEM and those of communication.
 */
LK_API lk_status lk_comm_split(lk_comm *comm, int color, int key, lk_comm **out) LK_NODISCARD;

/* ---- memory that the ranks of a node share ----
 *
 * Each rank has a part of its own, which the others on its node can read and write.  Collectives whose
 * buffers lie in such parts need no copy.
 */

/** Shared memory of the ranks of a communicator that are on one node.  Trainers and collectives open
 * some, which is collective; the memory may be used on any thread. */
typedef struct lk_shm lk_shm;

/**
 * Make shared memory, `bytes` (may differ between ranks) of it this rank's part, filled with zeros
 * and aligned to a page.
 *
 * Collective.  The caller owns `*out`.  Between processes the memory has no name, belongs to the user
 * alone, and is gone with the processes, however they end.
 *
 * Errors: LK_EINVAL for negative `bytes`; LK_ENOMEM on all ranks when one cannot get its part;
 * LK_ENOTSUP on all ranks when one cannot open the memory of another (processes of several users or
 * containers); and those of communication.
 */
LK_API lk_status lk_shm_open(lk_comm *comm, int64_t bytes, const char *name,
                             lk_shm **out) LK_NODISCARD;

/** Release it, before the communicator; the parts of others stay until they do.  Not collective.
 * NULL is allowed. */
LK_API void lk_shm_close(lk_shm *shm);

/** The part of a rank of this node (lk_comm_node_rank()), and its size; NULL and 0 if there is no
 * such rank.  Not collective. */
LK_API void *lk_shm_data(const lk_shm *shm, int node_rank);
LK_API int64_t lk_shm_bytes(const lk_shm *shm, int node_rank);

/* ---- grids ---- */

enum { LK_MAX_GRID = 8 };

/** A process grid, by value: rank = (c[0] * dim[1] + c[1]) * dim[2] + ..., the last axis fastest. */
typedef struct lk_grid {
    int ndim;
    int dim[LK_MAX_GRID];
    bool periodic[LK_MAX_GRID];
    int at[LK_MAX_GRID]; /* this rank's coordinates */
} lk_grid;

/**
 * The grid of all ranks of `comm`.  `periodic` may be NULL: no axis is.
 *
 * Not collective: it is arithmetic.  Errors: LK_EINVAL unless 1 <= ndim <= LK_MAX_GRID and all
 * sizes are positive; LK_ESHAPE when they do not multiply to the number of ranks, showing both.
 */
LK_API lk_status lk_grid_make(const lk_comm *comm, int ndim, const int *dim, const bool *periodic,
                              lk_grid *out) LK_NODISCARD;

/** The rank at this rank's coordinates plus `step` [ndim]; -1 beyond a border. */
LK_API int lk_grid_rank(const lk_grid *grid, const int *step);

/** The ranks of this rank's line along `axis`, or with several axes kept, its plane: a split by the
 * coordinates of the axes not in `keep` [ndim].  Collective; errors as lk_comm_split(). */
LK_API lk_status lk_grid_split(lk_comm *comm, const lk_grid *grid, const bool *keep,
                               lk_comm **out) LK_NODISCARD;

/* ---- messages ----
 *
 * A message is `count` elements of one dtype, a tag (any number >= 0, 64 bits: it can be a unique
 * id), and a name for reports (may be NULL).  Messages between two ranks with the same tag arrive
 * in the order they were sent.  Small messages are buffered; a large one is complete when the
 * receiver has it.  None of these is collective.
 *
 * Errors of all: LK_EINVAL for a rank outside the communicator, a negative count or tag, a NULL
 * buffer with elements; LK_EDTYPE; LK_ENOMEM; LK_EMISMATCH for a message of another dtype or of more
 * elements than the receiver has room for, naming both sides; LK_ESTALL; LK_ECOMM.
 */

enum { LK_ANY_RANK = -1, LK_ANY_TAG = -1 };

/* Tags from here on are for adjoint messages, which dist.h sends in backward: LK_ANY_TAG is none of them. */
#define LK_ADJOINT_TAG_BASE (INT64_C(1) << 62)

enum { LK_MESSAGE_AXES = 8 };

/** What was received, or sent. */
typedef struct lk_message {
    int rank; /* the other side */
    int64_t tag;
    int64_t count; /* elements */
    lk_dtype dtype;
    int64_t sequence; /* index of this message among those from this sender to this receiver on
                         the communicator: with the pair and the communicator a unique id */
    int ndim;         /* received: the shape of the value, if dist.h sent it; -1: plain elements */
    int64_t dim[LK_MESSAGE_AXES];
} lk_message;

/** A call that is under way: made by lk_isend(), lk_irecv() and lk_coll_start(), ended by lk_wait(),
 * lk_test() or one of their kind, on the thread that has the communicator.  Waiting is not collective,
 * but each rank must end its requests. */
typedef struct lk_request lk_request;

/** Send and wait until `data` may be changed. */
LK_API lk_status lk_send(lk_comm *comm, const void *data, int64_t count, lk_dtype dtype, int dest,
                         int64_t tag, const char *name) LK_NODISCARD;

/** Receive up to `count` elements.  `source` may be LK_ANY_RANK, `tag` LK_ANY_TAG, `info` NULL. */
LK_API lk_status lk_recv(lk_comm *comm, void *data, int64_t count, lk_dtype dtype, int source,
                         int64_t tag, const char *name, lk_message *info) LK_NODISCARD;

/** Begin to send.  `data` must not change until the request is complete.  The caller owns `*out`. */
LK_API lk_status lk_isend(lk_comm *comm, const void *data, int64_t count, lk_dtype dtype, int dest,
                          int64_t tag, const char *name, lk_request **out) LK_NODISCARD;

/** Begin to receive.  `data` must not be used until the request is complete. */
LK_API lk_status lk_irecv(lk_comm *comm, void *data, int64_t count, lk_dtype dtype, int source,
                          int64_t tag, const char *name, lk_request **out) LK_NODISCARD;

/** One of two things to exchange with lk_sendrecv(). */
typedef struct lk_sendrecv_side {
    void *data;
    int64_t count;
    int rank; /* negative: nothing to do on this side (a border of a grid) */
    int64_t tag;
} lk_sendrecv_side;

/** Send one and receive the other, in whatever order the partners do it. */
LK_API lk_status lk_sendrecv(lk_comm *comm, lk_dtype dtype, const lk_sendrecv_side *send,
                             const lk_sendrecv_side *recv, const char *name,
                             lk_message *info) LK_NODISCARD;

/**
 * Wait for a request and release it: `*request` becomes NULL, also on failure.  NULL in `*request`
 * is complete.  `info` may be NULL; of a collective it is not written.
 */
LK_API lk_status lk_wait(lk_request **request, lk_message *info) LK_NODISCARD;

/** As lk_wait() if the request is complete (`*done` true); otherwise nothing but progress. */
LK_API lk_status lk_test(lk_request **request, bool *done, lk_message *info) LK_NODISCARD;

/** Wait for all; the first failure is returned, and all are released. */
LK_API lk_status lk_waitall(int64_t n, lk_request **requests) LK_NODISCARD;

/**
 * Wait for one of them, release it, and say which: `*which` is -1 when all are NULL.  Among several
 * complete ones the lowest index.
 */
LK_API lk_status lk_waitany(int64_t n, lk_request **requests, int64_t *which,
                            lk_message *info) LK_NODISCARD;

/** What a request will send; of a receive only once it is complete.  Not collective. */
LK_API lk_message lk_request_message(const lk_request *request);

/* ---- plain C objects: bytes whose number the receiver does not know ---- */

/** Send `n` bytes as an object. */
LK_API lk_status lk_send_bytes(lk_comm *comm, const void *bytes, int64_t n, int dest, int64_t tag,
                               const char *name) LK_NODISCARD;

/** Receive an object into a new block `*out` of `*n` bytes; the caller releases it with lk_free().
 * Errors: LK_EMISMATCH for what lk_send_bytes() has not sent. */
LK_API lk_status lk_recv_bytes(lk_comm *comm, int source, int64_t tag, const char *name, void **out,
                               int64_t *n) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_COMM_H */
