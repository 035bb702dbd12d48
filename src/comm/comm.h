/* struct lk_comm, for this room and coll: a group of world ranks with a context of its own, so that
 * its messages match no other communicator's.  One on each rank; only that rank's thread uses it,
 * and its progress thread.  All of a family share one lk__world (world.h). */
#ifndef LK_COMM_COMM_H
#define LK_COMM_COMM_H

#include "comm/user.h"
#include "comm/world.h"

enum { LK_RECENT = 4 };

struct lk_comm {
    lk__world *w; /* NULL: the program has freed it, and only its users know it */
    int rank, size;
    int *member; /* [size] world ranks */
    int intra_rank, intra_size, inter_rank, inter_size;
    uint32_t context;
    int64_t deadline_ns;         /* 0: none */
    bool finite;                 /* sums of what is not finite fail */
    int64_t n_calls;             /* collective calls so far */
    int64_t n_bytes;             /* that this rank gave to them; of alltoall nothing is counted */
    uint64_t past;               /* their rolling hash */
    int64_t *n_sent;             /* [size] messages of send so far, by receiver */
    lk__label recent[LK_RECENT]; /* of the last calls, by number */
    lk_comm *next;               /* of the world's */
    void *coll; /* what collective algorithms keep for this communicator, and its end */
    void (*coll_free)(void *coll);
    lk__comm_user *users;
};

/** A communicator of all ranks of `w`, with this context; takes over nothing on failure. */
lk_status lk__comm_world(lk__world *w, uint32_t context, lk_comm **out) LK_NODISCARD;

/** The communicators of the transports; the caller owns `*out`. */
lk_status lk__self_open(lk_comm **out) LK_NODISCARD;
lk_status lk__mpi_open(lk_comm **out) LK_NODISCARD;

/** Whether an MPI launcher started this process, as its environment tells. */
bool lk__mpi_launched(void);

/** LK_ENOTSUP if srun started several processes for no MPI, so that each would be a job of its own. */
lk_status lk__srun_check(void) LK_NODISCARD;

/** The rank in `comm` of a world rank; -1 if it is not in it. */
int lk__comm_rank_of(const lk_comm *comm, int world_rank);

/** Bytes of `count` >= 0 elements of `elem` bytes.  Errors: LK_EOVERFLOW for more than 2^48. */
lk_status lk__extent(const char *what, int64_t count, int64_t elem, int64_t *bytes) LK_NODISCARD;

/** What a collective call is made with; the rest of its label follows from the communicator. */
typedef struct lk__call {
    lk_comm_call call;
    const char *name;
    lk_dtype dtype;
    int op;          /* lk_reduce_op, LK_OP_OF_PAIRS besides; LK_N_REDUCE_OPS: none */
    int root;        /* -1: none */
    int64_t count;   /* -1: each pair of ranks has its own */
    uint32_t layout; /* as in the header */
    bool started, unchecked, finite;
    int64_t
        pieces;    /* 0: nothing is reduced; not beside `count`: compilers copy both as one, slow */
    int algorithm; /* 0: not yet chosen */
} lk__call;

/** Number the call and fill its label; show it on the board; or both.  Or number it only, with a
 * label that has no name and is not rolled into the past. */
void lk__call_number(lk_comm *comm, const lk__call *call, lk__label *label);
void lk__call_label(lk_comm *comm, const lk__call *call, lk__label *label);
void lk__call_show(lk_comm *comm, const lk__label *label);
void lk__call_begin(lk_comm *comm, const lk__call *call, lk__label *label);

/** Go back to where a communicator was: what it did since does not count as calls, and the next ones have
 * those numbers again. */
void lk__call_rewind(lk_comm *comm, int64_t n_calls, uint64_t past);

/** The call is over: the rank computes. */
void lk__call_end(lk_comm *comm);

/**
 * Every rank gives `bytes` bytes, every rank gets all of them, by rank.  Collective.
 *
 * For the room's own use (split, topology): messages up and down a binomial tree, and waits.
 */
lk_status lk__exchange(lk_comm *comm, const lk__call *call, const void *mine, int64_t bytes,
                       void *all) LK_NODISCARD;

/**
 * Let the processes of each node see each other: board, wakeups, fault, signs of life, hosts.
 *
 * Collective over all ranks of the world.  `*out` lives as long as the world; it is NULL where memory
 * cannot be shared, which is no error.
 */
lk_status lk__node_open(lk_comm *comm, lk_shm **out) LK_NODISCARD;

/** Let `size` ranks be on LK_LOCAL_NODES nodes, if that is set: node[r] for each. */
lk_status lk__nodes_pretend(int size, int *node) LK_NODISCARD;

/** lk_shm_open() whose block can still be opened and holds the locks of the ranks. */
lk_status lk__shared_make(lk_comm *comm, int64_t bytes, const char *name,
                          lk_shm **out) LK_NODISCARD;

#endif /* LK_COMM_COMM_H */
