/* Segments of lk_recompute() that communicate: messages that are sent again belong to the second run.
 *
 * Who comes first is arranged by plain messages with the tag SIGN, which only one of the runs sends.
 */
#include "ranks.h"

#include <lockstep/lockstep.h>

enum { TAG = 7, SIGN = 99, LARGE = 5000 /* elements, more than are buffered */ };
enum { MOST_RANKS = 16, MOST_DEEP = 3 };

/* How the messages are taken. */
enum how { RECV, RECV_ANY_TAG, IRECV, WAITANY, LIST, N_HOWS };

/* What a segment knows. */
struct side {
    lk_comm *comm;
    lk_tape *tape;
    lk_tensor *value, *grad;
    lk_var x;
    enum how how;
    int64_t n;
    int depth;
};

static void side_begin(lk_comm *comm, int64_t n, double value, struct side *s)
{
    *s = (struct side){.comm = comm, .n = n};
    ASSERT_OK(lk_comm_set_deadline(comm, 30 * TEST_SLOWNESS));
    ASSERT_OK(lk_tape_new(&s->tape));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(n), &s->value));
    ASSERT_OK(lk_tensor_new(LK_F64, LK_SHAPE(n), &s->grad));
    ASSERT_OK(lk_tensor_fill_f64(s->value, value));
    ASSERT_OK(lk_tensor_fill_f64(s->grad, 0));
    ASSERT_OK(lk_leaf(s->tape, s->value, s->grad, &s->x));
}

static void side_end(struct side *s)
{
    lk_tape_free(s->tape);
    lk_tensor_free(s->value);
    lk_tensor_free(s->grad);
}

static double first_of(const lk_tensor *t)
{
    double e;
    ASSERT_OK(lk_tensor_get_f64(t, LK_SHAPE(0), &e));
    return e;
}

static lk_status sign_to(lk_comm *comm, int rank)
{
    char sign = 1;
    if (rank < lk_comm_size(comm))
        LK_TRY(lk_send(comm, &sign, 1, LK_U8, rank, SIGN, "sign"));
    return LK_OK;
}

static lk_status sign_from(lk_comm *comm, int rank)
{
    char sign;
    return LK_TRACE(lk_recv(comm, &sign, 1, LK_U8, rank, SIGN, "sign", NULL));
}

/* Run `segment` with as many others around it as the side asks for. */
struct around {
    struct side *s;
    lk_segment_fn *segment;
    int depth;
};

static lk_status recompute(lk_tape *tape, void *arg, lk_var *out)
{
    struct around *a = arg;
    if (a->depth == 0)
        LK_TRY(a->segment(tape, a->s, out));
    else
        LK_TRY(lk_recompute(tape, recompute, a + 1, 1, out));
    return LK_OK;
}

static lk_status run_deep(struct side *s, lk_segment_fn *segment, lk_var *out)
{
    static _Thread_local struct around a[MOST_DEEP + 1];
    for (int i = 0; i <= s->depth; i++)
        a[i] = (struct around){s, segment, s->depth - i};
    return LK_TRACE(recompute(s->tape, a, out));
}

/* Differentiate the sum of y, which rank 0 has, so many times. */
static void differentiate(struct side *s, lk_var y, int passes)
{
    lk_var sum = LK_NO_VAR;
    bool has = lk_comm_rank(s->comm) == 0;
    if (has)
        ASSERT_OK(lk_sum(y, NULL, &sum));
    for (int i = 1; i <= passes; i++)
        ASSERT_OK(
            lk_backward(s->tape, &(lk_seed){.of = sum}, has, i < passes ? LK_RETAIN_GRAPH : 0));
}

static double value_of(lk_var y)
{
    const lk_tensor *t = NULL;
    ASSERT_OK(lk_value(y, &t));
    return first_of(t);
}

/* ---- one rank is in backward while another has not yet sent ---- */

/* Rank 2 tells rank 1 that it has sent its value again. */
static lk_status sends(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    lk_var handle;
    LK_TRY(lk_dist_isend(s->comm, s->x, 0, TAG, "x", &handle));
    if (lk_comm_rank(s->comm) == 2 && lk_tape_is_recomputing(tape))
        LK_TRY(sign_to(s->comm, 1));
    LK_TRY(lk_dist_wait(handle, NULL));
    return LK_TRACE(lk_affine(s->x, 2, 0, out));
}

static lk_status adds_two(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    lk_var a, b;
    LK_TRY(lk_dist_recv(tape, s->comm, LK_ANY_RANK, TAG, LK_F64, LK_SHAPE(s->n), "x", &a));
    LK_TRY(lk_dist_recv(tape, s->comm, LK_ANY_RANK, TAG, LK_F64, LK_SHAPE(s->n), "x", &b));
    return LK_TRACE(lk_add(a, b, out));
}

RANKS_TEST(a_first_run_takes_no_message_of_a_second)
{
    int rank = lk_comm_rank(comm);
    for (int64_t n = 1; lk_comm_size(comm) > 2 && n <= LARGE; n += LARGE - 1) {
        struct side s;
        lk_var y = LK_NO_VAR;
        side_begin(comm, n, rank == 1 ? 10 : 1, &s);
        if (rank == 1)
            ASSERT_OK(sign_from(comm, 2));
        if (rank <= 2)
            ASSERT_OK(lk_recompute(s.tape, rank == 0 ? adds_two : sends, &s, 1, &y));
        ASSERT_TRUE(rank > 0 || value_of(y) == 11);
        differentiate(&s, y, 1);
        ASSERT_TRUE(first_of(s.grad) == (rank == 1 || rank == 2));
        side_end(&s);
    }
}

/* ---- a plain receive is under way while the segment runs again ---- */

static lk_status receives(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    LK_TRY(lk_dist_recv(tape, s->comm, 1, TAG, LK_F64, LK_SHAPE(s->n), "x", out));
    return LK_TRACE(lk_affine(*out, 1, 0, out));
}

RANKS_TEST(a_plain_receive_takes_no_message_of_a_second_run)
{
    struct side s;
    lk_var y;
    lk_request *request = NULL;
    int rank = lk_comm_rank(comm);
    double next = rank == 1 ? 42 : 0;
    if (lk_comm_size(comm) < 2 || rank > 1)
        return;
    side_begin(comm, 1, 3, &s);
    ASSERT_OK(lk_recompute(s.tape, rank == 0 ? receives : sends, &s, 1, &y));
    if (rank == 0)
        ASSERT_OK(lk_irecv(comm, &next, 1, LK_F64, 1, TAG, "next", &request));
    differentiate(&s, y, 1);
    if (rank == 1)
        ASSERT_OK(lk_send(comm, &next, 1, LK_F64, 0, TAG, "next"));
    ASSERT_OK(lk_wait(&request, NULL));
    ASSERT_TRUE(next == 42);
    ASSERT_TRUE(first_of(s.grad) == rank);
    side_end(&s);
}

/* ---- what comes first in the first run comes last in the second ---- */

/* In the first run rank 0 says when to send; in the second, the next lower rank. */
static lk_status sends_in_turn(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    int rank = lk_comm_rank(s->comm);
    int64_t tag = s->how == RECV_ANY_TAG ? rank : TAG;
    bool again = lk_tape_is_recomputing(tape);
    lk_var handle = LK_NO_VAR;
    if (!again || rank > 1)
        LK_TRY(sign_from(s->comm, again ? rank - 1 : 0));
    if (s->how != LIST)
        LK_TRY(lk_dist_isend(s->comm, s->x, 0, tag, "x", &handle));
    if (again)
        LK_TRY(sign_to(s->comm, rank + 1));
    if (s->how == LIST)
        LK_TRY(lk_dist_send_list(s->comm, &s->x, 1, 0, tag, "x", NULL));
    else
        LK_TRY(lk_dist_wait(handle, NULL));
    return LK_TRACE(lk_affine(s->x, 2, 0, out));
}

/* Take one message, as the side says. */
static lk_status take(struct side *s, int k, lk_var *handle, lk_var *got)
{
    lk_list list = {got, 0, 1};
    int which;
    switch (s->how) {
    case IRECV: LK_TRY(lk_dist_wait(handle[k], got)); break;
    case WAITANY:
        LK_TRY(lk_dist_waitany(handle, lk_comm_size(s->comm), &which, got));
        handle[which] = LK_NO_VAR;
        break;
    case LIST:
        LK_TRY(lk_dist_recv_list(s->tape, s->comm, LK_ANY_RANK, LK_ANY_TAG, "x", &list));
        break;
    default:
        LK_TRY(lk_dist_recv(s->tape, s->comm, LK_ANY_RANK, s->how == RECV ? TAG : LK_ANY_TAG,
                            LK_F64, LK_SHAPE(s->n), "x", got));
        break;
    }
    return LK_OK;
}

/* The sum of all messages, the k-th times k + 1; in the first run the highest rank is the first. */
static lk_status takes_in_turn(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    int size = lk_comm_size(s->comm);
    lk_var handle[MOST_RANKS], got;
    for (int r = 0; r < size; r++) {
        int source = s->how == WAITANY ? r : LK_ANY_RANK;
        handle[r] = LK_NO_VAR;
        if (r > 0 && (s->how == WAITANY || s->how == IRECV))
            LK_TRY(
                lk_dist_irecv(tape, s->comm, source, TAG, LK_F64, LK_SHAPE(s->n), "x", &handle[r]));
    }
    LK_TRY(lk_full(tape, LK_F64, LK_SHAPE(s->n), 0, out));
    for (int k = 1; k < size; k++) {
        if (!lk_tape_is_recomputing(tape))
            LK_TRY(sign_to(s->comm, size - k));
        LK_TRY(take(s, k, handle, &got));
        LK_TRY(lk_affine(got, k + 1, 0, &got));
        LK_TRY(lk_add(*out, got, out));
    }
    return LK_OK;
}

static void check_turns(lk_comm *comm, struct side want, int passes)
{
    struct side s;
    lk_var y;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    double sum = 0;
    side_begin(comm, want.n, rank + 1, &s);
    s.how = want.how;
    s.depth = want.depth;
    ASSERT_OK(run_deep(&s, rank == 0 ? takes_in_turn : sends_in_turn, &y));
    for (int k = 1; k < size; k++)
        sum += (k + 1) * (size - k + 1);
    ASSERT_TRUE(rank > 0 || value_of(y) == sum);
    differentiate(&s, y, passes);
    ASSERT_TRUE(first_of(s.grad) == (rank == 0 ? 0 : passes * (size - rank + 1)));
    side_end(&s);
}

/* ---- plain calls, on ranks of which one has no gradient ---- */

/* Who has `n` elements sends them to the next rank; without, all add up. */
static lk_status plain_calls(struct side *s, double *sum)
{
    static _Thread_local double data[LARGE];
    int rank = lk_comm_rank(s->comm), size = lk_comm_size(s->comm);
    data[0] = rank;
    if (s->n == 0)
        LK_TRY(lk_allreduce(s->comm, NULL, data, 1, LK_F64, LK_REDUCE_SUM, "plain"));
    else if (rank % 2 == 0 && rank + 1 < size)
        LK_TRY(lk_send(s->comm, data, s->n, LK_F64, rank + 1, TAG, "plain"));
    else if (rank % 2 == 1)
        LK_TRY(lk_recv(s->comm, data, s->n, LK_F64, LK_ANY_RANK, TAG, "plain", NULL));
    *sum = data[0];
    return LK_OK;
}

static lk_status calls_plainly(lk_tape *tape, void *arg, lk_var *out)
{
    struct side *s = arg;
    double sum;
    LK_TRY(plain_calls(s, &sum));
    if (lk_comm_rank(s->comm) % 2)
        LK_TRY(lk_full(tape, LK_F64, LK_SHAPE(1), sum, out));
    else
        LK_TRY(lk_affine(s->x, sum + 1, 0, out));
    return LK_OK;
}

RANKS_TEST(plain_calls_are_made_again_on_ranks_without_gradient)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    static const int64_t n[] = {0, 1, LARGE};
    for (int i = 0; i < 3; i++)
        for (int depth = 1; depth <= MOST_DEEP; depth++) {
            struct side s;
            lk_var y;
            double sum = n[i] == 0 ? size * (size - 1) / 2 : 0;
            side_begin(comm, 1, 1, &s);
            s.n = n[i];
            s.depth = depth;
            ASSERT_OK(run_deep(&s, calls_plainly, &y));
            differentiate(&s, y, 2);
            ASSERT_OK(lk_barrier(comm, "after"));
            ASSERT_TRUE(first_of(s.grad) == (rank == 0 ? 2 * (sum + 1) : 0));
            side_end(&s);
        }
}

RANKS_TEST(a_second_run_takes_what_the_first_took)
{
    for (int how = 0; lk_comm_size(comm) > 1 && how < N_HOWS; how++)
        for (int large = 0; large < 2; large++)
            for (int depth = 1; depth <= MOST_DEEP; depth++)
                for (int passes = 1; passes <= 2; passes++)
                    check_turns(
                        comm,
                        (struct side){.how = (enum how)how, .n = large ? LARGE : 2, .depth = depth},
                        passes);
}
