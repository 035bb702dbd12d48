/* A rank whose backward fails in mid-pass, and which does not go away, is named to those that wait. */
#include "harness.h"
#include "tensor/tensor.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/lockstep.h>

#include <stdatomic.h>

enum { RANKS = 3, VICTIM = 1 };

/* ---- an op whose backward fails on one rank ---- */

static lk_status weak_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = c->x[0]->dtype;
    out->shape = c->x[0]->shape;
    return LK_OK;
}

static lk_status weak_forward(lk_call *c)
{
    return LK_TRACE(lk_tensor_copy(c->x[0], c->y[0]));
}

static lk_status weak_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    LK_CHECK(*(const int *)c->attr != VICTIM, LK_EINVAL, "the weak op has had enough");
    din[0] = dout[0];
    return LK_OK;
}

static const lk_op weak = {.name = "weak",
                           .min_in = 1,
                           .max_in = 1,
                           .n_out = 1,
                           .attr_size = sizeof(int),
                           .infer = weak_infer,
                           .forward = weak_forward,
                           .backward = weak_backward};

/* ---- programs: the others wait for what the victim's backward does not come to ---- */

struct side {
    lk_comm *comm;
    int rank;
    lk_tape *tape;
    double value, grad;
    lk_var x;
};

typedef lk_status program(struct side *s, lk_var *loss);

static lk_status collective(struct side *s, lk_var *loss)
{
    lk_var y;
    LK_TRY(lk_dist_allreduce(s->comm, s->x, LK_REDUCE_SUM, "y", &y));
    return LK_TRACE(lk_apply(s->tape, &weak, &y, 1, &s->rank, loss));
}

static lk_status messages(struct side *s, lk_var *loss)
{
    int size = lk_comm_size(s->comm);
    lk_var y;
    LK_TRY(lk_dist_sendrecv(
        s->tape, s->comm, &(lk_dist_send_arg){s->x, (s->rank + 1) % size, 1},
        &(lk_dist_recv_arg){(s->rank + size - 1) % size, 1, LK_ANY_DTYPE, LK_ANY_SHAPE}, "y", &y));
    return LK_TRACE(lk_apply(s->tape, &weak, &y, 1, &s->rank, loss));
}

static lk_status beside_a_freed_one(struct side *s, lk_var *loss)
{
    lk_comm *twin = NULL;
    LK_TRY(lk_comm_dup(s->comm, &twin));
    lk_status st = lk_dist_allreduce(twin, s->x, LK_REDUCE_SUM, "z", loss);
    lk_comm_close(twin); /* backward comes to the others first */
    LK_TRY(st);
    LK_TRY(lk_dist_allreduce(s->comm, *loss, LK_REDUCE_SUM, "y", loss));
    return LK_TRACE(lk_apply(s->tape, &weak, loss, 1, &s->rank, loss));
}

static lk_status whole(lk_tape *tape, void *arg, lk_var *out)
{
    (void)tape;
    return LK_TRACE(collective(arg, out));
}

static lk_status segment(struct side *s, lk_var *loss)
{
    return LK_TRACE(lk_recompute(s->tape, whole, s, 1, loss));
}

struct run {
    program *program;
    bool asks; /* by lk_grad() */
    atomic_int begun, returned;
};

static void meet(atomic_int *come)
{
    atomic_fetch_add(come, 1);
    while (atomic_load(come) < RANKS)
        usleep(100);
}

static lk_status rank_runs(lk_comm *comm, void *arg)
{
    struct run *run = arg;
    struct side s = {.comm = comm, .rank = lk_comm_rank(comm), .value = 2};
    lk_var loss, g;
    ASSERT_OK(lk_comm_set_deadline(comm, 20 * TEST_SLOWNESS));
    ASSERT_OK(lk_tape_new(&s.tape));
    ASSERT_OK(lk_leaf_data(s.tape, LK_F64, LK_SHAPE(1), &s.value, &s.grad, &s.x));
    ASSERT_OK(run->program(&s, &loss));
    meet(&run->begun);
    lk_status st = run->asks ? lk_grad(s.tape, &loss, NULL, 1, &s.x, 1, 0, &g)
                             : lk_backward(s.tape, &(lk_seed){.of = loss}, 1, 0);
    if (s.rank != VICTIM && st == LK_OK) /* it needed nothing of the victim */
        st = lk_barrier(comm, "next");
    if (s.rank == VICTIM)
        ASSERT_FAILS(st, LK_EINVAL, "the weak op has had enough");
    else
        ASSERT_FAILS(st, LK_ECOMM, "rank 1 failed: invalid argument: the weak op has had enough");
    meet(&run->returned); /* the victim is still there */
    lk_tape_free(s.tape);
    return LK_OK;
}

TEST(the_others_hear_of_it_at_once)
{
    static program *const all[] = {collective, messages, beside_a_freed_one, segment};
    for (int i = 0; i < 4; i++)
        for (int asks = 0; asks < 2; asks++) {
            struct run run = {.program = all[i], .asks = asks == 1};
            ASSERT_OK(lk_run_local(RANKS, rank_runs, &run));
        }
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* ---- what all ranks know ends nobody's job ---- */

static lk_status finds_nan(lk_comm *comm, void *arg)
{
    struct side s = {.comm = comm, .rank = lk_comm_rank(comm), .value = 2};
    lk_var y;
    (void)arg;
    ASSERT_OK(lk_comm_set_finite_check(comm, true));
    ASSERT_OK(lk_tape_new(&s.tape));
    ASSERT_OK(lk_leaf_data(s.tape, LK_F64, LK_SHAPE(1), &s.value, &s.grad, &s.x));
    ASSERT_OK(lk_dist_allreduce(comm, s.x, LK_REDUCE_SUM, "y", &y));
    double seed = s.rank == VICTIM ? (double)NAN : 1;
    lk_tensor *t = NULL;
    ASSERT_OK(lk_tensor_wrap(LK_F64, LK_SHAPE(1), &seed, NULL, NULL, &t));
    ASSERT_FAILS(lk_backward(s.tape, &(lk_seed){y, t}, 1, 0), LK_ENAN, "rank 1 gives nan");
    ASSERT_OK(lk_barrier(comm, "still there"));
    lk_tensor_free(t);
    lk_tape_free(s.tape);
    return LK_OK;
}

TEST(what_all_know_leaves_the_communicator_usable)
{
    for (int i = 0; i < 20; i++)
        ASSERT_OK(lk_run_local(RANKS, finds_nan, NULL));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}
