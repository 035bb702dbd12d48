/* What travels: a header of 64 bytes, the name of the call, the payload.  Behind the name of a message
 * may be a zero and its shape, the sizes of the axes in groups of 7 bits, the lowest first; the highest
 * bit of a byte says that more of the number follow.
 *
 *     offset  bytes
 *          0      4  magic        LK_WIRE_MAGIC; another value is another program or version
 *          4      1  kind         lk__kind: data, or one of the control messages
 *          5      1  call         lk_comm_call
 *          6      1  dtype        lk_dtype
 *          7      1  op           lk_reduce_op; LK_N_REDUCE_OPS where there is none; with LK_OP_OF_PAIRS a min or
 *                                 max that is sent as minloc or maxloc
 *          8      4  context      the communicator
 *         12      4  source       world rank of the sender
 *         16      8  tag          send/recv: the tag.  Collectives, in its place:
 *         16      4  pieces       of what is reduced; 0 where nothing is
 *         20      4  layout       28 bits: digest of the arrays that all ranks must give alike (counts by
 *                                 rank, runs of pieces; 0: even ones); 1: the call is started, not run;
 *                                 1: the rank does not compare its calls; 1: a segment is run again;
 *                                 1: a call that reduces, on a communicator that looks for numbers that are
 *                                 not finite
 *         24      8  sequence     send/recv: number of the message of the pair on the communicator;
 *                                 collectives: number of the call on the communicator, from 1
 *         32      8  count        elements: of the message, or of the collective call (of one rank's part
 *                                 where all are equal, else of all parts); -1 where each pair of ranks
 *                                 has its own
 *         40      8  bytes        payload of this message
 *         48      8  past         send/recv: 1 + number of the message of the pair that this one
 *                                 repeats, in a segment that is run again; 0: none;
 *                                 collectives: rolling hash of all calls before this one
 *         56      4  root         -1 where there is none
 *         60      1  text         bytes of the name behind the header and of the shape behind that, at
 *                                 most LK_WIRE_NAME
 *         61      1  algorithm    collectives: which algorithm of the call, from 1; 0: not yet chosen
 *         62      2  lane         0: the payload is behind the name; otherwise it comes apart, when
 *                                 the receiver asks for it by this number
 *
 * All numbers as the machine has them: ranks of one job have the same byte order.  The name is not
 * cut in the middle of what matters: of a longer one its end travels, where names differ most.
 */
#ifndef LK_COMM_WIRE_H
#define LK_COMM_WIRE_H

#include <lockstep/comm.h>

#include <string.h>

enum {
    LK_WIRE_MAGIC = 0x324b4c4c /* "LLK2" */,
    LK_WIRE_NAME = 96,
    LK_LAYOUT_MASK = (1 << 28) - 1,
    LK_OP_OF_PAIRS = 0x80
};

typedef enum lk__kind {
    LK_KIND_P2P,            /* payload of send/recv: matched by tag */
    LK_KIND_COLLECTIVE,     /* payload of a collective: matched by the number of the call */
    LK_KIND_CLEAR_TO_SEND,  /* the payload of `lane` may come, with MPI's tag `tag` */
    LK_KIND_STATUS_REQUEST, /* what are you doing? */
    LK_KIND_STATUS,         /* payload: lk__board_entry */
    LK_KIND_FAULT,          /* payload: text of the report; the job has ended */
} lk__kind;

typedef struct lk__header {
    uint32_t magic;
    uint8_t kind, call, dtype, op;
    uint32_t context;
    int32_t source;
    union {
        int64_t tag;
        struct {
            uint32_t pieces;
            union {
                struct {
                    uint32_t layout : 28, started : 1, unchecked : 1, repeated : 1, finite : 1;
                };
                uint32_t how; /* all of them */
            };
        };
    };
    int64_t sequence;
    int64_t count;
    int64_t bytes;
    uint64_t past;
    int32_t root;
    uint8_t text, algorithm;
    uint16_t lane;
} lk__header;

_Static_assert(sizeof(lk__header) == 64, "the header is 64 bytes");

/* A header with the name it carries, ended by a zero. */
typedef struct lk__label {
    lk__header h;
    char name[LK_WIRE_NAME + 8];
} lk__label;

/** Bytes of a label that say something: what is behind the name is never looked at, and not copied. */
static inline size_t lk__label_bytes(const lk__label *label)
{
    return sizeof label->h + ((size_t)label->h.text / 8 + 1) * 8;
}

static inline void lk__label_copy(lk__label *to, const lk__label *from)
{
    memcpy(to, from, lk__label_bytes(from));
}

/** Set the label's name (NULL: none) and h.text. */
void lk__label_name(lk__label *label, const char *name);

/** Put the sizes of `ndim` axes behind the label's name, whose front makes room for them. */
void lk__label_shape_add(lk__label *label, int ndim, const int64_t *dim);

/** Read them: `*ndim` is -1 where there are none.  False for what cannot be read. */
bool lk__label_shape(const lk__label *label, int *ndim, int64_t dim[LK_MESSAGE_AXES]);

enum { LK_CALL_TEXT = 192 };

/** `allreduce("fc1.bias.grad", f32 x 10, sum) #4`, as reports show it; returns `out`. */
const char *lk__label_text(const lk__label *label, char out[LK_CALL_TEXT]);

/** `allreduce("fc1.bias.grad") #4`, with or without the number; returns `out`. */
const char *lk__label_short(const lk__label *label, bool number, char out[LK_CALL_TEXT]);

/** `recv("in", tag 7)`, or as lk__label_short() with the number; returns `out`. */
const char *lk__label_brief(const lk__label *label, char out[LK_CALL_TEXT]);

/* What two labels of one call can differ in, in the order in which it is reported. */
typedef enum lk__difference {
    LK_SAME,
    LK_DIFFERS_FINITE, /* then one of the two is the vote of finite.c */
    LK_DIFFERS_CALL,
    LK_DIFFERS_NAME,
    LK_DIFFERS_DTYPE,
    LK_DIFFERS_COUNT,
    LK_DIFFERS_OP,
    LK_DIFFERS_ROOT,
    LK_DIFFERS_REPEATED, /* one is of a segment that is run again */
    LK_DIFFERS_PIECES,
    LK_DIFFERS_LAYOUT,
    LK_DIFFERS_STARTED,
    LK_DIFFERS_CHECKS,
    LK_DIFFERS_ALGORITHM, /* where both have chosen one */
    LK_DIFFERS_PAST,      /* an earlier call */
} lk__difference;

/** What two labels of the same call differ in first; LK_SAME (0) if they agree. */
lk__difference lk__label_difference(const lk__label *a, const lk__label *b);

/** The rolling hash after a call, from the one before it. */
uint64_t lk__label_roll(const lk__label *label);

#endif /* LK_COMM_WIRE_H */
