/* A host program with an MPI of its own: its communicator is used, and stays its own.
 *
 *     test_host funneled|multiple        the level at which the host initialises MPI
 *     test_host open                     says what lk_comm_from_mpi() does (tests/cli/run/test_launchers.sh)
 *
 * Compiled against each MPI; run on 4 ranks by tests/dist/run.sh.
 */
#include "harness.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/tiles.h>
#include <lockstep/train.h>

#include <mpi.h>

enum { N = 50000 };

/* Messages of the host and of Lockstep with the same tag, in opposite orders. */
static void messages_never_meet(MPI_Comm host, lk_comm *comm)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm), theirs = -1, ours = -1;
    int next = (rank + 1) % size, before = (rank + size - 1) % size, mine[2] = {rank, 100 + rank};
    MPI_Request r;
    lk_request *s;
    MPI_Isend(&mine[0], 1, MPI_INT, next, 1, host, &r);
    ASSERT_OK(lk_isend(comm, &mine[1], 1, LK_I32, next, 1, "ours", &s));
    ASSERT_OK(lk_recv(comm, &ours, 1, LK_I32, before, 1, "ours", NULL));
    MPI_Recv(&theirs, 1, MPI_INT, before, 1, host, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    ASSERT_OK(lk_wait(&s, NULL));
    ASSERT_EQ(theirs, before);
    ASSERT_EQ(ours, 100 + before);
}

/* The ranks in the order of the host's communicator, which may be freed. */
static void half_of_the_world_works(bool progress)
{
    int world, size, sum = 0;
    MPI_Comm half;
    lk_comm *comm;
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    MPI_Comm_split(MPI_COMM_WORLD, world % 2, -world, &half);
    ASSERT_OK(lk_comm_from_mpi(MPI_Comm_c2f(half), &comm));
    MPI_Comm_rank(half, &sum);
    MPI_Comm_size(half, &size);
    ASSERT_EQ(lk_comm_rank(comm), sum);
    ASSERT_EQ(lk_comm_size(comm), size);
    if (progress)
        ASSERT_OK(lk_comm_set_progress(comm, true));
    else
        ASSERT_FAILS(lk_comm_set_progress(comm, true), LK_ENOTSUP,
                     "by the host with less than MPI_THREAD_MULTIPLE");
    messages_never_meet(half, comm);
    MPI_Comm_free(&half);
    float *x;
    ASSERT_OK(lk_alloc(&x, N, sizeof *x));
    for (int i = 0; i < N; i++)
        x[i] = (float)world;
    lk_request *r = NULL;
    lk_collective c = {.call = LK_CALL_ALLREDUCE, .name = "x", .out = x, .count = N};
    ASSERT_OK(lk_coll_start(comm, &c, &r));
    for (int k = 0; k < 20; k++) /* the host talks meanwhile */
        MPI_Allreduce(&world, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    ASSERT_OK(lk_wait(&r, NULL));
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ASSERT_EQ(sum, size * (size - 1) / 2);
    int want = 0;
    for (int k = world % 2; k < size; k += 2)
        want += k;
    ASSERT_TRUE(x[0] == (float)want && x[N - 1] == (float)want);
    lk_free(x);
    lk_comm_close(comm);
}

static uint64_t state_after_steps(lk_experiment *e, lk_comm *comm)
{
    lk_job *job = NULL;
    ASSERT_OK(lk_job_new(e, comm, &job));
    for (int i = 0; i < 4; i++)
        ASSERT_OK(lk_trainer_step(lk_job_trainer(job), NULL));
    uint64_t state;
    ASSERT_OK(lk_trainer_hash(lk_job_trainer(job), &state));
    lk_job_free(job);
    return state;
}

/* The host's ranks, in its order, train a network to the bits of one of them. */
static void training_uses_the_hosts_ranks(int world)
{
    static const char text[] = "data: {type: glyphs, count: 64, batch: 16, shards: 8}\n"
                               "model: [flatten, {type: linear, units: 10}]\n"
                               "loss: softmax_cross_entropy\n"
                               "optimizer: {type: adam, rate: 0.01}\n";
    lk_experiment *e = NULL;
    lk_comm *comm;
    MPI_Comm turned;
    lk_status st = lk_experiment_parse("host", text, NULL, 0, &e);
    if (st == LK_ENOTSUP) /* a build without libyaml */
        return;
    ASSERT_OK(st);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world, &turned);
    ASSERT_OK(lk_comm_from_mpi(MPI_Comm_c2f(turned), &comm));
    ASSERT_TRUE(state_after_steps(e, comm) == state_after_steps(e, NULL));
    lk_comm_close(comm);
    MPI_Comm_free(&turned);
    lk_experiment_free(e);
}

/* A grid of MPI's, in whatever order it puts the ranks, with bounds of the host's own: each rank gets the cells
 * around its tiles from the ranks that MPI says have them. */
static void a_cartesian_communicator_has_tiles(void)
{
    const int64_t size[] = {7, 5}, tiles[] = {3, 2}, rows[] = {0, 1, 5, 7}, columns[] = {0, 3, 5};
    const lk_tile_bounds bounds = {{rows, columns}};
    int at[2], rank, world;
    double field[35];
    MPI_Comm cart;
    lk_comm *comm;
    lk_grid grid;
    lk_tiling *tiling;
    lk_fetch *fetch;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    ASSERT_EQ(world, 4);
    MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){2, 2}, (int[]){0, 0}, 1, &cart);
    MPI_Comm_rank(cart, &rank);
    MPI_Cart_coords(cart, rank, 2, at);
    ASSERT_OK(lk_comm_from_mpi(MPI_Comm_c2f(cart), &comm));
    ASSERT_OK(lk_grid_make(comm, 2, (int[]){2, 2}, NULL, &grid));
    ASSERT_TRUE(grid.at[0] == at[0] && grid.at[1] == at[1]);
    ASSERT_OK(lk_tiling_new(comm, &grid, tiles, 0, &tiling));
    lk_box own[4], all[4];
    for (int r = 0; r < 4; r++) { /* as MPI says, tile rows 0 and 1-2, columns 0 and 1 */
        const int64_t first[2][2] = {{0, 1}, {0, 3}}, n[2][2] = {{1, 6}, {3, 2}};
        MPI_Cart_coords(cart, r, 2, at);
        own[r] = lk_tiling_box(tiling, r, 2, size, &bounds);
        const lk_box want = {2, {first[0][at[0]], first[1][at[1]]}, {n[0][at[0]], n[1][at[1]]}};
        ASSERT_TRUE(lk_box_is_equal(&own[r], &want));
        all[r] = lk_box_whole(2, size);
    }
    for (int i = 0; i < 35; i++) {
        lk_box cell = {2, {i / 5, i % 5}, {1, 1}};
        cell = lk_box_intersect(&cell, &own[rank]);
        field[i] = lk_box_count(&cell) == 1 ? i : -1;
    }
    ASSERT_OK(lk_fetch_new(tiling, own, all, &fetch));
    ASSERT_OK(lk_fetch_begin(fetch, LK_F64, 1, 1, &all[rank], field, "field"));
    ASSERT_OK(lk_fetch_end(fetch));
    for (int i = 0; i < 35; i++)
        ASSERT_TRUE(field[i] == i);
    lk_fetch_free(fetch);
    lk_tiling_free(tiling);
    lk_comm_close(comm);
    MPI_Comm_free(&cart);
}

static void intercommunicators_are_refused(int rank)
{
    MPI_Comm half, inter;
    lk_comm *comm;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &inter);
    ASSERT_FAILS(lk_comm_from_mpi(MPI_Comm_c2f(inter), &comm), LK_EINVAL, "merge it first");
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* As a program of somebody else: status 2 and the message where it is refused. */
static int only_open(void)
{
    lk_comm *comm;
    MPI_Init(NULL, NULL);
    lk_status st = lk_comm_from_mpi(MPI_Comm_c2f(MPI_COMM_WORLD), &comm);
    if (st != LK_OK)
        fprintf(stderr, "%s\n", lk_error_message());
    else
        printf("%d ranks\n", lk_comm_size(comm));
    lk_comm_close(comm);
    MPI_Finalize();
    return st == LK_OK ? 0 : 2;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "open") == 0)
        return only_open();
    bool multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
    int level, finalized, rank;
    lk_comm *comm;
    signal(SIGALRM, test_on_alarm);
    alarm(2 * TEST_TIMEOUT_S);
    ASSERT_FAILS(lk_comm_from_mpi(0, &comm), LK_EINVAL, "MPI is not initialised");
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level);
    if (multiple && level != MPI_THREAD_MULTIPLE) {
        puts("SKIPPED: this MPI has no MPI_THREAD_MULTIPLE");
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ASSERT_FAILS(lk_comm_from_mpi(MPI_Comm_c2f(MPI_COMM_NULL), &comm), LK_EINVAL,
                 "is no communicator of MPI");
    ASSERT_FAILS(lk_comm_from_mpi(123456789, &comm), LK_EINVAL, "handle 123456789 is no");
    intercommunicators_are_refused(rank);
    for (int again = 0; again < 3; again++)
        half_of_the_world_works(multiple);
    a_cartesian_communicator_has_tiles();
    training_uses_the_hosts_ranks(rank);
    ASSERT_OK(lk_comm_open("mpi", &comm)); /* MPI is there: it is used, and not finalized */
    ASSERT_OK(lk_barrier(comm, "all"));
    lk_comm_close(comm);
    MPI_Finalized(&finalized);
    ASSERT_EQ(finalized, 0);
    MPI_Finalize();
    ASSERT_FAILS(lk_comm_open("mpi", &comm), LK_EINVAL, "MPI has been finalized");
    ASSERT_FAILS(lk_comm_from_mpi(0, &comm), LK_EINVAL, "finalized");
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
    if (rank == 0)
        printf("ok a_host_keeps_its_mpi (%s)\n", multiple ? "multiple" : "funneled");
    return 0;
}
