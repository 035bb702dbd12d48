/* Random programs that communicate: made from a seed, legal by construction.
 *
 * A program is one list of instructions in an order in which they could be done one after the other.
 * Each rank does its own of them in this order; what a rank waits for comes earlier in the list, so
 * nothing waits for ever, and in the reverse order neither:
 *
 *   collective   done by all ranks of a communicator, at one place of the list
 *   message      up to four events: post and wait on both sides.  A receive ends after the send was
 *                posted.  A message too large to be buffered, or to the rank itself, is posted on the
 *                other side before its sender waits.
 *   segments     of lk_recompute(), one on each of several ranks, that communicate with each other
 *   local op     on values of one rank
 *
 * Values are vectors of f64 (or i64, which have no gradient) that belong to a rank.  What a program
 * means needs no ranks: program_reference() evaluates it on one tape, without communication.
 */
#ifndef LK_TEST_PROGRAMS_H
#define LK_TEST_PROGRAMS_H

#include <lockstep/dist.h>
#include <lockstep/op.h>

enum {
    MAX_RANKS = 8,
    MAX_VALUES = 1024,
    MAX_INSTRUCTIONS = 1024,
    MAX_MESSAGES = 128,
    MAX_LENGTH = 24,
    MAX_COMMS = 4,
    MAX_WAITS = 8,
    MAX_LOSSES = 16,
    LARGE_LENGTH = 2000 /* elements of a message that is not buffered */
};

#define INSTRUCTION_MAP(X)              \
    X(ADD, "add")                       \
    X(SUB, "sub")                       \
    X(MUL, "mul")                       \
    X(SIN, "sin")                       \
    X(AFFINE, "affine")                 \
    X(STOP, "stop_gradient")            \
    X(SLICE, "slice")                   \
    X(CONCAT, "concat")                 \
    X(WEIGH, "mul by integers")         \
    X(ALLREDUCE, "allreduce")           \
    X(REDUCE, "reduce")                 \
    X(BCAST, "bcast")                   \
    X(ALLGATHER, "allgather")           \
    X(GATHER, "gather")                 \
    X(REDUCE_SCATTER, "reduce_scatter") \
    X(SCATTER, "scatter")               \
    X(ALLTOALL, "alltoall")             \
    X(BARRIER, "barrier")               \
    X(SENDRECV, "sendrecv")             \
    X(SEND, "send")                     \
    X(RECV, "recv")                     \
    X(ISEND, "isend")                   \
    X(IRECV, "irecv")                   \
    X(WAIT_SEND, "wait for send")       \
    X(WAIT_RECV, "wait for recv")       \
    X(WAITANY, "waitany")               \
    X(RECV_ALL, "recv from any, add")   \
    X(SEGMENTS, "messages in segments")

enum kind {
#define X(code, name) code,
    INSTRUCTION_MAP(X)
#undef X
        N_KINDS
};

/* How the segments communicate: `root` gets from the others, from any; or all add up. */
enum way { WAY_RECV, WAY_IRECV, WAY_WAITANY, WAY_ALLREDUCE, N_WAYS };

/* Who made a value. */
enum source { COMPUTED, LEAF, CONSTANT };

struct value {
    int rank, length;
    enum source source;
    bool integer;
    double bound; /* its elements are not larger; 0: it is not to be used any more */
};

struct message {
    int comm, source, dest; /* ranks of the world */
    int64_t tag;
    int value, got;
    bool send_waits, recv_waits; /* nonblocking on that side */
    bool any_rank, any_tag, large;
    int pick; /* large: the element that is taken */
    int pool; /* the group of those that are received together, or -1 */
    int group;
    bool sent, received, send_done, recv_done, fenced; /* while the program is made */
};

/* A collective has in and out for each rank of the world, -1 where there is none; others have in[0],
 * in[1] and out[0] of `rank`. */
struct instruction {
    enum kind kind;
    int group; /* what is dropped together when a program is made smaller */
    int rank;  /* -1: all of the communicator */
    int comm;
    int in[MAX_RANKS], out[MAX_RANKS];
    lk_reduce_op fold;
    int root; /* rank of the communicator; SENDRECV: by how much to shift */
    bool periodic;
    double scale, shift;
    int start, stop; /* SLICE */
    int depth;       /* SEGMENTS: how many there are around each other */
    enum way way;
    int message;
    int n_waits,
        wait[MAX_WAITS]; /* WAITANY: 2 * message + (1 for its receiver); RECV_ALL: messages */
};

struct loss {
    int value;
    double weight;
};

struct program {
    uint64_t seed;
    int size, n_values, n_instructions, n_messages, n_comms, n_losses, n_groups;
    int color[MAX_COMMS][MAX_RANKS], key[MAX_COMMS][MAX_RANKS]; /* communicator 0 is the world */
    struct value value[MAX_VALUES];
    struct instruction instruction[MAX_INSTRUCTIONS];
    struct message message[MAX_MESSAGES];
    struct loss loss[MAX_LOSSES];
    bool second;                    /* differentiate the gradient as well */
    bool dropped[MAX_INSTRUCTIONS]; /* by group */
};

/* The values of a program, and the gradients of its leaves; `dgrad`: of the sum of
 * the squares of `grad`. */
struct outcome {
    double value[MAX_VALUES][MAX_LENGTH], grad[MAX_VALUES][MAX_LENGTH];
    double dgrad[MAX_VALUES][MAX_LENGTH];
};

/* The calls that planted faults replace. */
struct program_calls {
    lk_status (*allreduce)(lk_comm *comm, lk_var x, lk_reduce_op fold, const char *name,
                           lk_var *out);
    lk_status (*send)(lk_comm *comm, lk_var x, int dest, int64_t tag, const char *name,
                      lk_var *token);
    lk_status (*recv)(lk_tape *tape, lk_comm *comm, int source, int64_t tag, lk_dtype dtype,
                      lk_shape shape, const char *name, lk_var *out);
};

extern const struct program_calls program_calls;

/* Make the program of a seed for `size` ranks. */
void program_make(struct program *p, uint64_t seed, int size);

/* Add segments that communicate with each other. */
void program_segments(struct program *p, uint64_t *random);

/* Begin a message, or several; and one event of those that are under way, if there is any. */
void program_message(struct program *p, uint64_t *random);
bool program_event(struct program *p, uint64_t *random);

/* Parts of the generator. */
uint64_t program_random(uint64_t *random, uint64_t below);
double program_real(uint64_t *random);
int program_value(struct program *p, int rank, int length, enum source source, double bound);
int program_pick(struct program *p, uint64_t *random, int rank, int length, bool integer);
struct instruction *program_add(struct program *p, enum kind kind, int rank, int comm);

/* The ranks of the world that are in the communicator of `rank`, in its order; `*own` is its rank. */
int program_members(const struct program *p, int comm, int rank, int *member, int *own);

/* Which part of a vector of `length` member `i` of `n` has. */
int program_part(int length, int i, int n);

/* An element of a leaf or constant. */
double program_input(const struct program *p, int value, int element);

/* Evaluate on one tape, without communication. */
lk_status program_reference(const struct program *p, struct outcome *out) LK_NODISCARD;

/* What a rank does in its segment before it communicates. */
lk_status program_in_segment(lk_var x, lk_var *out) LK_NODISCARD;

/* Make the values that a rank has from the start, and do what is local; for both evaluations. */
lk_status program_inputs(const struct program *p, lk_tape *tape, int rank, lk_tensor **input,
                         lk_tensor **grad, lk_var *var) LK_NODISCARD;
lk_status program_local(const struct program *p, const struct instruction *n,
                        lk_var *var) LK_NODISCARD;

/* Differentiate the losses of `rank` (-1: of all) and read what `out` has; frees nothing. */
lk_status program_differentiate(const struct program *p, lk_tape *tape, int rank,
                                lk_tensor *const *grad, const lk_var *var,
                                struct outcome *out) LK_NODISCARD;

/* Run this rank's part, and compare with what `expected` has of it; `why` says the first difference,
 * or is empty. */
lk_status program_run(const struct program *p, lk_comm *comm, const struct program_calls *calls,
                      const struct outcome *expected, char *why, size_t n) LK_NODISCARD;

/* Run it on local ranks: whether it gives what it should, and says otherwise why not. */
bool program_is_right(const struct program *p, const struct program_calls *calls, double deadline,
                      char *why, size_t n);

/* Drop what can be dropped while the program still fails. */
void program_shrink(struct program *p, const struct program_calls *calls, double deadline);

void program_print(const struct program *p);

#endif /* LK_TEST_PROGRAMS_H */
