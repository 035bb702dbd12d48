/* A world: one rank's end of the wires, shared by all communicators of a family.
 *
 *     lk_comm, lk_comm, ...   groups of world ranks, each with a context     comm.h
 *          lk__world          matching, waiting, faults                      here
 *          lk__transport      threads or MPI                                 transport.h
 *
 * Everything here belongs to the one thread that is the rank (and its progress thread, one at a time:
 * progress_thread.h), except `fault` and the board, which others read, and lk_request.done, which a receiver
 * may set.
 */
#ifndef LK_COMM_WORLD_H
#define LK_COMM_WORLD_H

#include "comm/faults/board.h"
#include "comm/transport.h"
#include "comm/wakeup.h"

enum { LK_FAULT_TEXT = 480 };

/* The end of the job: the first report wins. */
typedef struct lk__fault {
    _Atomic int state; /* 0: none, 1: being written, 2: there */
    lk_status status;
    int32_t rank; /* world rank that found it */
    char text[LK_FAULT_TEXT];
    _Atomic bool unreported; /* ranks of other nodes do not know it yet */
} lk__fault;

typedef struct lk__progress_thread lk__progress_thread;

typedef struct lk__host {
    char name[64];
} lk__host;

/* What this rank shows of its rest, and has asked the others: vain.h. */
typedef struct lk__resting {
    uint64_t epoch;    /* as shown */
    int64_t acts;      /* until it began */
    uint64_t question; /* 0: none */
    uint64_t n_questions;
    uint64_t epochs; /* the sum of all, when it asked */
    int64_t asked;   /* then, by the clock */
    int64_t looked;  /* at the others, last */
} lk__resting;

struct lk__world {
    const lk__transport *transport;
    void *wires; /* the transport's own */
    int rank, size;
    const int *node;           /* [size] the node of each rank, numbered by their lowest rank */
    lk__board_slot **board;    /* [size] slots that can be read from here; NULL for the others */
    lk__wakeup **wakeup;       /* [size] those of the ranks on this node; NULL for the others */
    lk__host *host;            /* [size] names of their hosts; NULL: all are here */
    const lk__shm_block *life; /* holds the locks of the processes on this node; NULL: threads */
    lk_shm *shared;            /* memory that this rank shares with others */
    lk__fault *fault;          /* one for all ranks where they can share it */
    int refs;                  /* communicators */
    lk_comm *comms;            /* all of them */
    bool begun;                /* a call since the last progress */
    int spins, yields;   /* polls before a nap: of a core of its own, and that offer the core */
    uint32_t n_contexts; /* contexts that any communicator of this rank has had */
    int64_t n_arrived;   /* packets so far: a sign of life */
    int64_t n_sent;      /* packets to the wires, counted before they go */
    int64_t n_taken;     /* packets from the wires */
    int64_t n_posts;     /* what others can see besides: flags, payloads taken */
    int64_t n_to_itself; /* packets that this rank has sent to itself and that have not arrived */
    lk__rank_status status; /* what this rank's slot says */
    uint32_t shown_comm;    /* the newest collective call there */
    int64_t shown_call;
    lk_request *posted, *posted_last;     /* receives without a packet, oldest first */
    lk__packet *early, **early_end;       /* packets without a receive, oldest first */
    lk_request *active;                   /* collectives under way */
    lk__progress_thread *progress_thread; /* makes progress while the rank computes; NULL: none */
    lk__resting rest;
    struct lk__abort_hook *hook; /* tells of fatal signals; NULL: not asked for */
};

/* How long a wait has not come any further, in ns that this rank ran; last 0: not yet looked at. */
typedef struct lk__watch {
    int64_t last;         /* look at the clock */
    int64_t moved;        /* the requests' sum then */
    int64_t waited, gone; /* so far; since who is waited for was seen to be gone */
    int64_t compared;     /* `waited` when the calls of the others were last looked at */
} lk__watch;

typedef enum lk__request_type {
    LK_REQUEST_SEND,
    LK_REQUEST_RECV,
    LK_REQUEST_COLLECTIVE,
} lk__request_type;

/* What belongs to a request besides, and is settled when the program ends it. */
typedef struct lk__after {
    /* The request is done: whether this is, too, or wait for it; its failure is the request's. */
    lk_status (*settle)(struct lk__after *after, bool wait, bool *done);
    void (*free)(struct lk__after *after);
} lk__after;

struct lk_request {
    lk_comm *comm;
    const lk__label *label; /* of a receive: what is expected, with h.source and h.tag as below */
    _Atomic uint32_t done;
    lk__request_type type;
    bool in_list; /* posted or active */
    bool heap;    /* lk_wait() releases it */
    bool claims;  /* keeps what comes, however large, for lk__claim_take(): user.h */
    bool prompt;  /* a payload that comes apart is fetched at once, if it claims */
    bool any;     /* of any dtype, if it claims */
    int peer;     /* world rank, or LK_ANY_RANK */
    int64_t tag;  /* or LK_ANY_TAG */
    void *data;
    int64_t bytes; /* to send; or room */
    lk_message info;
    int64_t moved;       /* how often it came further: starts the deadline of a wait for it anew */
    int64_t place;       /* of its note in the journal of a first run; 0: none */
    lk__packet *claimed; /* that lk__claim_take() takes; otherwise NULL */
    void *room;          /* of a claimed payload that came apart; otherwise NULL */
    lk__watch tested;    /* by lk_test() */
    lk__after *after;    /* NULL: nothing */
    void *offer;         /* the transport's, of a payload that goes apart */
    lk_request *next, *prev;
    lk_status (*advance)(
        lk_request *r);             /* collectives: do what can be done, set `done` at the end */
    void (*release)(lk_request *r); /* collectives: after done or a fault */
};

/** Give `w` what every transport needs; the transport has set rank, size and its own. */
void lk__world_init(lk__world *w);

/** Free packets that were not taken; called by close(). */
void lk__world_clear(lk__world *w);

/* ---- faults ---- */

/** The fault as this thread's error, if there is one, after lk__fault_forward(); every public call begins with
 * it. */
lk_status lk__fault_check(lk__world *w) LK_NODISCARD;

/** Whether there is one; this thread's last error stays as it is. */
bool lk__fault_is_there(const lk__world *w);

/** The same, and other nodes are notified, if the rank that found it could not. */
bool lk__fault_forward(lk__world *w);

/**
 * End the job with this thread's last error, tell all ranks, and return it.
 *
 * An earlier fault stands, and is returned instead of a mismatch or a stall: often its consequence.
 */
lk_status lk__fault_raise(lk__world *w) LK_NODISCARD;

/** Keep a report if it is the first one: whether it is.  `reported`: the caller notifies other nodes, which a
 * signal handler cannot; then another rank of its node does. */
bool lk__fault_set(lk__fault *fault, lk_status status, int rank, const char *text, bool reported);

/** The name of this rank's host. */
void lk__world_host(const lk__world *w, lk__host *out);

/** lk_abort_hook_install() and its end; `fd` -1: nothing is written.  And the same if LK_ABORT_HOOK says so. */
lk_status lk__abort_hook_install(lk__world *w, int fd) LK_NODISCARD;
void lk__abort_hook_remove(lk__world *w);
lk_status lk__abort_hook_default(lk__world *w) LK_NODISCARD;

/** As LK_TRY(), for what goes wrong inside communication: the job ends. */
#define LK_TRY_COMM(w, expr)                                  \
    do {                                                      \
        lk_status try_st_ = (expr);                           \
        if (try_st_ != LK_OK) {                               \
            lk__trace(try_st_, __FILE__, __LINE__, __func__); \
            return lk__fault_raise(w);                        \
        }                                                     \
    } while (0)

/** Raise LK_ESTALL: `r` has waited `ns` for its peer; follows the chain of waits. */
lk_status lk__report_stall(const lk_request *r, int64_t ns) LK_NODISCARD;

/** Raise LK_EMISMATCH for two labels of the same call; `a` is this rank's. */
lk_status lk__report_mismatch(lk_comm *comm, const lk__label *a, const lk__label *b) LK_NODISCARD;

/** Whether a rank (of the world) is known to have left or ended. */
bool lk__rank_gone(lk__world *w, int rank);

/**
 * Compare the calls that the rank waited for shows with this rank's calls of the same numbers: two that
 * wait for each other in different calls would not see it from messages.  LK_EMISMATCH for the first
 * that differs.  A rank of another node is asked, and its answer compared when it comes.
 */
lk_status lk__compare_peer(const lk_request *r) LK_NODISCARD;

/** The same with what a rank has sent or shown. */
lk_status lk__compare_shown(lk__world *w, int rank, const lk__board_entry *shown) LK_NODISCARD;

/* ---- matching ---- */

/** Begin to send `r` (type, comm, label, peer, tag, data, bytes set). */
lk_status lk__pending_send(lk_request *r) LK_NODISCARD;

/** Begin to receive. */
lk_status lk__pending_recv(lk_request *r) LK_NODISCARD;

/**
 * After a collective call has begun: compare it with what others have already sent for it.
 *
 * A packet for a call that this rank has begun, or that is over, must carry the same label, even if
 * this rank never receives it: otherwise two roots of a bcast would both go on.
 */
lk_status lk__check_early(lk__world *w) LK_NODISCARD;

/** Whether a collective call of another rank is as this rank made it: LK_EMISMATCH if it is not.  Nothing
 * is known of calls to come and of those long past. */
lk_status lk__check_label(lk__world *w, const lk__label *label) LK_NODISCARD;

/** A transport's poll() has a packet. */
lk_status lk__arrive(lk__world *w, lk__packet *packet) LK_NODISCARD;

/* ---- waiting ---- */

/** Poll the wires and advance collectives, once; after a fault nothing goes on, and it is returned. */
lk_status lk__progress(lk__world *w) LK_NODISCARD;

/** How to wait where so many ranks share so many cores. */
void lk__wait_pace(lk__world *w, int64_t ranks, int64_t cores);

/** Wait until one of `n` requests (NULL: skipped) is done: `*which`.  Deadline of its communicator. */
lk_status lk__wait_any(int64_t n, lk_request *const *requests, int64_t *which) LK_NODISCARD;

/** Wait for this one. */
lk_status lk__wait_one(lk_request *r) LK_NODISCARD;

/** Report a stall if a request has been tested in vain until its deadline. */
lk_status lk__watch_test(lk_request *r) LK_NODISCARD;

/** Take a request out of lists and wires, and release what it holds. */
void lk__request_end(lk_request *r);

static inline bool lk__request_done(lk_request *r)
{
    return atomic_load_explicit(&r->done, memory_order_acquire) != 0;
}

/** Whether it has a message that is not received yet. */
static inline bool lk__request_claimed(const lk_request *r)
{
    return r->type == LK_REQUEST_RECV && (r->claimed || r->room);
}

/** Begin a collective: into the list of those that progress. */
void lk__activate(lk_request *r);

#endif /* LK_COMM_WORLD_H */
