/* Values that are gone, memory that has run out, and results that count for nothing. */
#include "faults.h"
#include "sides.h"

/* Every rank has a loss of the result, which counts on the root alone. */
static lk_status seeds_a_result_elsewhere(struct side *s, int other)
{
    lk_var y, loss, gradient;
    double each;
    LK_TRY(lk_dist_reduce(s->comm, s->x, LK_REDUCE_AVG, 0, "mean", &y));
    LK_TRY(lk_sum(y, NULL, &loss));
    LK_TRY(lk_grad(s->tape, &loss, NULL, 1, &s->x, 1, 0, &gradient));
    LK_TRY(lk_item(gradient, &each));
    LK_CHECK(each == 0.5 && other >= 0, LK_ESTATE, "gradient %g", each);
    LK_CHECK(lk_dist_allreduce(s->comm, s->x, LK_REDUCE_SUM, "none", NULL) == LK_EINVAL, LK_ESTATE,
             "out was not refused");
    return LK_OK;
}

TEST(results_of_others_count_for_nothing)
{
    ASSERT_OK(both(seeds_a_result_elsewhere, 1));
    lk_error_clear();
}

/* A value from before the reset is refused by each call, before it communicates. */
static lk_status uses_old_values(struct side *s, int other)
{
    lk_var old, y, z, list[2], norm[3];
    lk_comm *c = s->comm;
    const int64_t one = 1;
    lk_grid g;
    lk_list values = {list, 2, 2};
    LK_TRY(lk_reshape(s->x, LK_SHAPE(1, 1), &old));
    lk_tape_reset(s->tape);
    LK_TRY(lk_full(s->tape, LK_F64, LK_SHAPE(1), 1, &y)); /* takes its place */
    list[0] = y;
    list[1] = old;
    LK_TRY(lk_grid_make(c, 1, (int[]){2}, NULL, &g));
    const lk_dist_batch batch = {.comm = c, .samples = 2};
    const lk_dist_send_arg to = {old, other, 1};
    const lk_dist_recv_arg from = {other, 1, LK_F64, LK_SHAPE(1)};
#define REFUSES(call) ASSERT_FAILS(call, LK_ESTATE, "used after lk_tape_reset()")
    REFUSES(lk_dist_allreduce(c, old, LK_REDUCE_SUM, "old", &z));
    REFUSES(lk_dist_allreduce(c, old, LK_REDUCE_MAX, "old", &z));
    REFUSES(lk_dist_reduce(c, old, LK_REDUCE_SUM, 0, "old", &z));
    REFUSES(lk_dist_allreduce_loc(c, old, LK_NO_VAR, LK_REDUCE_MAXLOC, "old", &z, &z));
    REFUSES(lk_dist_reduce_loc(c, old, LK_NO_VAR, LK_REDUCE_MAXLOC, 0, "old", &z, &z));
    REFUSES(lk_dist_bcast(c, old, 0, "old", &z));
    REFUSES(lk_dist_allgather(c, old, 1, "old", &z));
    REFUSES(lk_dist_reduce_scatter(c, old, 1, 1, "old", &z));
    REFUSES(lk_dist_gather(c, old, 1, 0, "old", &z));
    REFUSES(lk_dist_scatter(c, old, 1, 1, 0, "old", &z));
    REFUSES(lk_dist_alltoall(c, old, 1, 0, 1, "old", &z));
    REFUSES(lk_dist_batch_norm(&batch, old, y, y, NULL, "old", norm));
    REFUSES(lk_dist_neighbor_alltoall(c, old, 1, &(lk_neighbours){1, &other, &one, &one, NULL},
                                      "old", &z));
    REFUSES(lk_dist_halo(c, &g, old, (lk_halo[]){{1, 0, 1, 1, false}}, 1, "old", &z));
    REFUSES(lk_dist_halo_add(c, &g, old, (lk_halo[]){{1, 0, 1, 1, false}}, 1, "old", &z));
    REFUSES(lk_dist_send(c, old, other, 1, "old", NULL));
    REFUSES(lk_dist_isend(c, old, other, 1, "old", &z));
    REFUSES(lk_dist_sendrecv(s->tape, c, &to, &from, "old", &z));
    REFUSES(lk_dist_send_list(c, list, 2, other, 1, "old", NULL));
    REFUSES(lk_dist_allreduce_list(c, list, 2, LK_REDUCE_SUM, "old", norm));
    REFUSES(lk_dist_allgather_list(c, old, "old", norm));
    REFUSES(lk_dist_gather_list(c, old, 0, "old", norm));
    REFUSES(lk_dist_alltoall_list(c, list, "old", norm));
    REFUSES(lk_join(old, &y, 1, &z));
    REFUSES(lk_join_handle(old, &y, 1, &z));
    REFUSES(lk_pseudo_connect(y, &old, 1, &z));
    if (other == 1) {
        REFUSES(lk_dist_bcast_list(s->tape, c, 0, "old", &values));
        REFUSES(lk_dist_scatter_list(s->tape, c, list, 0, "old", &z));
    }
#undef REFUSES
    ASSERT_EQ(lk_dist_wait(old, NULL), LK_ESTATE);
    LK_TRY(lk_dist_barrier(s->tape, c, "still there"));
    return LK_TRACE(lk_backward(s->tape, NULL, 0, 0));
}

TEST(values_from_before_a_reset_are_refused)
{
    ASSERT_OK(both(uses_old_values, 1));
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* Rank 0 has no memory for what it is to receive, and comes to the next call all the same. */
static lk_status has_no_memory(struct side *s, int other)
{
    lk_var y;
    if (other == 0) {
        return LK_TRACE(lk_dist_send(s->comm, s->x, 0, 1, "much", NULL));
    }
    ASSERT_FAILS(
        lk_dist_recv(s->tape, s->comm, 1, 1, LK_F64, LK_SHAPE(INT64_C(1) << 58), "much", &y),
        LK_ENOMEM, "no memory for");
    ASSERT_FAILS(lk_dist_barrier(s->tape, s->comm, "next"), LK_ECOMM,
                 "rank 0 failed: out of memory: no memory for");
    return LK_OK;
}

TEST(memory_that_has_run_out_is_told_to_all)
{
    ASSERT_FAILS(both(has_no_memory, LARGE), LK_ECOMM,
                 "rank 1: rank 0 failed: out of memory: no memory for");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static lk_status exchanges(lk_tape *tape, void *arg, lk_var *y)
{
    struct side *s = arg;
    lk_var out, in;
    (void)tape;
    LK_TRY(begin(s, 1 - lk_comm_rank(s->comm), &out, &in));
    LK_TRY(lk_dist_wait(in, y));
    LK_TRY(lk_dist_wait(out, NULL));
    return LK_TRACE(lk_square(*y, y));
}

static lk_status works(struct side *s, int other)
{
    lk_var y, z, g, sum;
    double one = 1, two;
    lk_request *request = NULL;
    (void)other;
    LK_TRY(lk_comm_set_finite_check(s->comm, true));
    LK_TRY(lk_coll_start(
        s->comm,
        &(lk_collective){
            .call = LK_CALL_ALLREDUCE, .in = &one, .out = &two, .count = 1, .dtype = LK_F64},
        &request));
    LK_TRY(lk_wait(&request, NULL));
    LK_TRY(exchanges(s->tape, s, &z));
    LK_TRY(lk_recompute(s->tape, exchanges, s, 1, &y));
    LK_TRY(lk_add(y, z, &y));
    LK_TRY(lk_sum(y, NULL, &sum));
    LK_TRY(lk_grad(s->tape, &sum, NULL, 1, &s->x, 1, LK_RECORD, &g));
    LK_TRY(lk_mul(g, s->x, &z));
    LK_TRY(lk_sum(z, NULL, &sum));
    lk_var pair[2] = {s->x, sum}, all[2];
    lk_list list = {all, 0, 2};
    LK_TRY(lk_dist_allreduce_list(s->comm, pair, 2, LK_REDUCE_SUM, "pair", pair));
    LK_TRY(lk_dist_allgather_list(s->comm, pair[1], "all", all));
    list.n = 1;
    LK_TRY(lk_dist_bcast_list(s->tape, s->comm, 1, "list", &list));
    return LK_TRACE(lk_backward(s->tape, &(lk_seed){all[0], NULL}, 1, 0));
}

static lk_status two_ranks_work(void)
{
    return both(works, LARGE);
}

TEST(every_allocation_may_fail)
{
    ASSERT_OK(two_ranks_work());
    ASSERT_TRUE(test_allocations_fail_but(two_ranks_work, 8) > 30);
}
