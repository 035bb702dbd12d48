/* A rank that runs out of memory in a call of comm.h, coll.h, ddl.h or parallel.h tells the others. */
#include "memory_ranks.h"
#include "parallel/groups.h"

#include <lockstep/extra/plan.h>
#include <lockstep/lockstep.h>

enum { LARGE = 6000 }; /* elements: more than are buffered */

struct side {
    lk_comm *comm;
    int rank, size, left, right; /* left, right: in the ring */
    lk_model *model;
    double x[MEMORY_RANKS * LARGE], y[MEMORY_RANKS * LARGE];
};

static lk_status side_begin(lk_comm *comm, void *side)
{
    struct side *s = side;
    s->comm = comm;
    s->rank = lk_comm_rank(comm);
    s->size = lk_comm_size(comm);
    s->left = (s->rank + s->size - 1) % s->size;
    s->right = (s->rank + 1) % s->size;
    LK_TRY(lk_model_new(&s->model));
    LK_TRY(lk_model_add(s->model, "linear", "units=3"));
    LK_TRY(lk_model_build(s->model, &(lk_model_spec){.in = {LK_F32, LK_SHAPE(2)}}));
    return LK_TRACE(lk_model_hold(s->model, NULL));
}

static void side_end(void *side)
{
    lk_model_free(((struct side *)side)->model);
}

/* Counts that differ between ranks. */
static void counts_fill(const struct side *s, int64_t *counts)
{
    for (int r = 0; r < s->size; r++)
        counts[r] = r + 1;
}

/* ---- collectives ---- */

static lk_status whole(void *side)
{
    struct side *s = side;
    LK_TRY(lk_barrier(s->comm, "b"));
    LK_TRY(lk_bcast(s->comm, s->y, 4, LK_F64, 0, "x"));
    LK_TRY(lk_reduce(s->comm, s->x, s->y, 4, LK_F64, LK_REDUCE_SUM, 0, "x"));
    LK_TRY(lk_allreduce(s->comm, s->x, s->y, 4, LK_F64, LK_REDUCE_SUM, "x"));
    LK_TRY(lk_allreduce(s->comm, s->x, s->y, LARGE, LK_F64, LK_REDUCE_SUM, "x"));
    return LK_TRACE(lk_allreduce(s->comm, s->x, s->y, 7, LK_F16, LK_REDUCE_SUM, "x"));
}

static lk_status parts(void *side)
{
    struct side *s = side;
    LK_TRY(lk_reduce_scatter(s->comm, s->x, s->y, 3, LK_F64, LK_REDUCE_SUM, "x"));
    LK_TRY(lk_gather(s->comm, s->x, s->y, 3, LK_F64, 0, "x"));
    LK_TRY(lk_allgather(s->comm, s->x, s->y, 3, LK_F64, "x"));
    LK_TRY(lk_scatter(s->comm, s->x, s->y, 3, LK_F64, 0, "x"));
    LK_TRY(lk_alltoall(s->comm, s->x, s->y, 3, LK_F64, "x"));
    return LK_TRACE(
        lk_neighbor_alltoall(s->comm, 2, (int[]){s->left, s->right}, s->x, s->y, 3, LK_F64, "x"));
}

static lk_status ragged(void *side)
{
    struct side *s = side;
    int64_t counts[MEMORY_RANKS], in[MEMORY_RANKS];
    counts_fill(s, counts);
    for (int r = 0; r < s->size; r++)
        in[r] = s->rank + 1;
    LK_TRY(lk_gatherv(s->comm, s->x, s->y, counts, LK_F64, 0, "x"));
    LK_TRY(lk_allgatherv(s->comm, s->x, s->y, counts, LK_F64, "x"));
    LK_TRY(lk_scatterv(s->comm, s->x, s->y, counts, LK_F64, 0, "x"));
    return LK_TRACE(lk_alltoallv(s->comm, s->x, in, s->y, counts, LK_F64, "x"));
}

/* Several nodes of the tree on each rank, and algorithms that are not chosen here by themselves. */
static lk_status algorithms(void *side)
{
    struct side *s = side;
    static const char *const names[] = {"tree",  "direct",       "ring",
                                        "tiers", "hierarchical", "halving"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        lk_status st = lk_coll_run(s->comm, &(lk_collective){.call = LK_CALL_ALLREDUCE,
                                                             .name = "x",
                                                             .algorithm = names[i],
                                                             .in = s->x,
                                                             .out = s->y,
                                                             .count = 64,
                                                             .dtype = LK_F64,
                                                             .pieces = i < 2 ? 11 : 0});
        if (st != LK_ENOTSUP)
            LK_TRY(st);
    }
    return LK_OK;
}

static lk_status started(void *side)
{
    struct side *s = side;
    lk_request *r[3] = {NULL, NULL, NULL};
    lk_status st;
    LK_TRY(lk_comm_set_finite_check(s->comm, true));
    for (int i = 0; i < 3; i++)
        LK_TRY_TO(done, lk_coll_start(s->comm,
                                      &(lk_collective){.call = i == 0   ? LK_CALL_ALLREDUCE
                                                               : i == 1 ? LK_CALL_BCAST
                                                                        : LK_CALL_ALLGATHER,
                                                       .name = "x",
                                                       .in = i == 1 ? NULL : s->x,
                                                       .out = s->y + i * LARGE,
                                                       .count = 5,
                                                       .dtype = LK_F64},
                                      &r[i]));
done:
    if (st == LK_OK)
        st = lk_waitall(3, r);
    else
        (void)!lk_waitall(3, r);
    return st;
}

/* ---- messages ---- */

static lk_status messages(void *side)
{
    struct side *s = side;
    void *bytes = NULL;
    int64_t n;
    for (int large = 0; large < 2; large++) {
        int64_t count = large ? LARGE : 3;
        if (s->rank == 0)
            LK_TRY(lk_send(s->comm, s->x, count, LK_F64, 1, 1, "x"));
        if (s->rank == 1)
            LK_TRY(lk_recv(s->comm, s->y, count, LK_F64, LK_ANY_RANK, 1, "x", NULL));
        LK_TRY(lk_sendrecv(s->comm, LK_F64, &(lk_sendrecv_side){s->x, count, s->right, 2},
                           &(lk_sendrecv_side){s->y, count, s->left, 2}, "x", NULL));
        if (s->rank == 0)
            LK_TRY(lk_send_bytes(s->comm, s->x, 8 * count, 1, 3, "x"));
        if (s->rank == 1)
            LK_TRY(lk_recv_bytes(s->comm, 0, 3, "x", &bytes, &n));
        lk_free(bytes);
        bytes = NULL;
    }
    return LK_OK;
}

static lk_status under_way(void *side)
{
    struct side *s = side;
    lk_request *r[2] = {NULL, NULL};
    int64_t which;
    lk_status st;
    LK_TRY(lk_isend(s->comm, s->x, LARGE, LK_F64, s->right, 1, "x", &r[0]));
    LK_TRY_TO(done, lk_irecv(s->comm, s->y, LARGE, LK_F64, s->left, 1, "x", &r[1]));
    LK_TRY_TO(done, lk_waitany(2, r, &which, NULL));
done:
    if (st == LK_OK)
        st = lk_waitall(2, r);
    else
        (void)!lk_waitall(2, r);
    return st;
}

/* ---- objects ---- */

static lk_status objects_join(void *context, const void *a, int64_t n_a, const void *b, int64_t n_b,
                              void **out, int64_t *n)
{
    (void)context, (void)a, (void)b;
    *n = n_a + n_b;
    return LK_TRACE(lk_alloc_zero(out, *n, 1));
}

static lk_status objects(void *side)
{
    struct side *s = side;
    void *got[4] = {NULL};
    int64_t n, first[MEMORY_RANKS + 1];
    lk_status st;
    LK_TRY_TO(done, lk_bcast_bytes(s->comm, s->x, LARGE, 1, "x", &got[0], &n));
    LK_TRY_TO(done, lk_gather_bytes(s->comm, s->x, 100 * s->rank, 1, "x", &got[1], first));
    LK_TRY_TO(done, lk_allgather_bytes(s->comm, s->x, 100 * s->rank, "x", &got[2], first));
    LK_TRY_TO(done, lk_allreduce_bytes(s->comm, s->x, 100 * s->rank, objects_join, NULL, "x",
                                       &got[3], &n));
done:
    for (int i = 0; i < 4; i++)
        lk_free(got[i]);
    return st;
}

/* ---- communicators, shared memory ---- */

static lk_status communicators(void *side)
{
    struct side *s = side;
    lk_comm *twin = NULL, *half = NULL, *line = NULL;
    lk_shm *shared = NULL;
    lk_grid grid;
    lk_status st;
    LK_TRY_TO(done, lk_comm_dup(s->comm, &twin));
    LK_TRY_TO(done, lk_comm_split(s->comm, s->rank % 2, 0, &half));
    LK_TRY_TO(done, lk_grid_make(s->comm, 1, (int[]){s->size}, NULL, &grid));
    LK_TRY_TO(done, lk_grid_split(s->comm, &grid, (bool[]){true}, &line));
    LK_TRY_TO(done, lk_shm_open(s->comm, 64, "shared", &shared));
done:
    lk_shm_close(shared);
    lk_comm_close(line);
    lk_comm_close(half);
    lk_comm_close(twin);
    return st;
}

/* ---- ddl.h and parallel.h ---- */

static lk_status ddl(void *side)
{
    struct side *s = side;
    lk_ddl *d = NULL;
    lk_status st;
    lk_ddl_tensor t[2] = {{"x", s->x, s->y, 5, LK_F64}, {"y", NULL, s->y + LARGE, 7, LK_F64}};
    LK_TRY(lk_ddl_init(s->comm, 0, "-mode n", &d));
    LK_TRY_TO(done, lk_ddl_bcast(d, &t[0]));
    LK_TRY_TO(done, lk_ddl_allreduce(d, &t[0], &(lk_ddl_allreduce_options){.check = true}));
    LK_TRY_TO(done, lk_ddl_allreduce_n(d, 2, t, &(lk_ddl_allreduce_options){.op = LK_REDUCE_AVG}));
done:
    lk_ddl_free(d);
    return st;
}

static lk_status agreement(void *side)
{
    struct side *s = side;
    void *memory = NULL;
    lk_status st = lk_agree(s->comm, lk_alloc(&memory, 8, 1));
    lk_free(memory);
    return st;
}

static lk_status groups_run(struct side *s, lk_plan_spec spec)
{
    lk_mesh *mesh = NULL;
    lk_plan *plan = NULL;
    lk__groups *g = NULL;
    lk_slab *slab = NULL;
    lk_status st;
    LK_TRY_TO(done, lk_mesh_new(s->comm, &(lk_mesh_shape){.data = 0}, &mesh));
    LK_TRY_TO(done, lk_agree(s->comm, lk_plan_new(mesh, s->model, &spec, &plan)));
    LK_TRY_TO(done, lk__groups_new(plan, mesh, s->model, &g));
    LK_TRY_TO(done, lk__groups_share_slab(g, lk_model_params(s->model), "parameters", &slab));
    (void)lk__groups_begin(g, 8, 8);
    LK_TRY_TO(done, lk__groups_finish_overlap(g));
    LK_TRY_TO(done, spec.double_buffering ? lk__groups_start_pending(g) : lk__groups_allreduce(g));
done:
    lk_slab_free(slab);
    lk__groups_free(g);
    lk_plan_free(plan);
    lk_mesh_free(mesh);
    return st;
}

static lk_status groups(void *side)
{
    return groups_run(side,
                      (lk_plan_spec){.batch = 8, .shards = 8, .shard_size = 1, .bucket_bytes = 64});
}

static lk_status late_groups(void *side)
{
    return groups_run(side, (lk_plan_spec){.batch = 8,
                                           .shards = 4,
                                           .shard_size = 2,
                                           .fast = true,
                                           .wire = LK_WIRE_F16,
                                           .double_buffering = true});
}

static const struct memory_sides sides = {sizeof(struct side), side_begin, side_end};

TEST(the_others_are_told_of_messages_and_collectives)
{
    static const struct memory_work all[] = {
        {"whole", whole},         {"parts", parts},
        {"ragged", ragged},       {"algorithms", algorithms},
        {"started", started},     {"messages", messages},
        {"under_way", under_way}, {"communicators", communicators},
        {"objects", objects}};
    memory_runs_out_on_few(all, (int)(sizeof all / sizeof *all), &sides);
}

TEST(the_others_are_told_of_ddl_and_groups)
{
    static const struct memory_work all[] = {
        {"ddl", ddl}, {"agreement", agreement}, {"groups", groups}, {"late groups", late_groups}};
    memory_runs_out_on_few(all, (int)(sizeof all / sizeof *all), &sides);
}
