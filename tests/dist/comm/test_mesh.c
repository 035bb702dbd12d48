/* Meshes: where each rank is, whom it reaches along each axis, and what is refused. */
#include "ranks.h"

#include <lockstep/coll.h>
#include <lockstep/parallel.h>

#include <stdlib.h>

/* The ranks of the world that a communicator reaches, one bit each. */
static int64_t members(lk_comm *comm, int rank)
{
    int64_t bits = INT64_C(1) << rank;
    ASSERT_OK(lk_allreduce(comm, NULL, &bits, 1, LK_I64, LK_REDUCE_SUM, "members"));
    return bits;
}

/* The rank at these coordinates, as the header says it. */
static int rank_at(const lk_mesh *m, const int at[LK_N_AXES])
{
    return ((at[LK_AXIS_STAGES] * m->n[LK_AXIS_DATA] + at[LK_AXIS_DATA]) * m->n[LK_AXIS_SPACE] +
            at[LK_AXIS_SPACE]) *
               m->n[LK_AXIS_FEATURES] +
           at[LK_AXIS_FEATURES];
}

/* The ranks that differ from this one along `axis` only, and perhaps along another. */
static int64_t line_of(const lk_mesh *m, lk_axis axis, lk_axis other)
{
    int64_t bits = 0;
    int at[LK_N_AXES];
    memcpy(at, m->at, sizeof at);
    for (int i = 0; i < m->n[axis]; i++)
        for (int k = 0; k < m->n[other]; k++) {
            at[axis] = i;
            at[other] = axis == other ? i : k;
            bits |= INT64_C(1) << rank_at(m, at);
        }
    return bits;
}

static void mesh_check(lk_comm *comm, const lk_mesh_shape *shape)
{
    lk_mesh *m = NULL, plain;
    ASSERT_OK(lk_mesh_new(comm, shape, &m));
    int rank = m->world ? lk_comm_rank(m->world) : 0;
    ASSERT_EQ(rank_at(m, m->at), rank);
    ASSERT_OK(lk_mesh_at(shape, lk_comm_size(comm), rank, &plain));
    ASSERT_TRUE(memcmp(plain.at, m->at, sizeof plain.at) == 0);
    ASSERT_TRUE(memcmp(plain.n, m->n, sizeof plain.n) == 0);
    ASSERT_TRUE((m->world == NULL) == (lk_comm_size(comm) == 1));
    for (int a = 0; a < LK_N_AXES; a++) {
        ASSERT_TRUE((m->along[a] == NULL) == (m->n[a] == 1));
        if (!m->along[a])
            continue;
        ASSERT_EQ(lk_comm_size(m->along[a]), m->n[a]);
        ASSERT_EQ(lk_comm_rank(m->along[a]), m->at[a]);
        ASSERT_EQ(members(m->along[a], rank), line_of(m, (lk_axis)a, (lk_axis)a));
    }
    int replicas = m->n[LK_AXIS_DATA] * m->n[LK_AXIS_SPACE];
    ASSERT_TRUE((m->replicas == NULL) == (replicas == 1));
    if (m->replicas) {
        ASSERT_EQ(lk_comm_size(m->replicas), replicas);
        ASSERT_EQ(lk_comm_rank(m->replicas),
                  m->at[LK_AXIS_DATA] * m->n[LK_AXIS_SPACE] + m->at[LK_AXIS_SPACE]);
        ASSERT_EQ(members(m->replicas, rank), line_of(m, LK_AXIS_DATA, LK_AXIS_SPACE));
    }
    lk_mesh_free(m);
}

/* Every product of data, space, features and stages that these ranks can be; space along one axis, or
 * two if it can. */
RANKS_TEST(every_product_has_its_lines)
{
    int size = lk_comm_size(comm);
    for (int data = 1; data <= size; data++)
        for (int space = 1; data * space <= size; space++)
            for (int features = 1; data * space * features <= size; features++) {
                if (size % (data * space * features) != 0)
                    continue;
                lk_mesh_shape shape = {.data = data,
                                       .ndim = 1,
                                       .space = {space},
                                       .features = features,
                                       .stages = size / (data * space * features)};
                if (space % 2 == 0) {
                    shape.ndim = 2;
                    shape.space[0] = 2;
                    shape.space[1] = space / 2;
                }
                mesh_check(comm, &shape);
            }
}

static lk_status products(lk_comm *comm, void *arg)
{
    (void)arg;
    every_product_has_its_lines(comm);
    return LK_OK;
}

/* All sizes up to 24 ranks; once, from the program on two threads. */
RANKS_TEST(many_ranks_have_their_lines)
{
    if (strcmp(lk_comm_transport(comm), "local") != 0 || lk_comm_size(comm) != 2 ||
        lk_comm_rank(comm) != 0)
        return;
    for (int size = ranks_brief() ? 24 : 6; size <= 24; size++)
        ASSERT_OK(lk_run_local(size, products, NULL));
}

/* Ranks of two hosts take turns in the communicator: along features they are together again. */
static lk_status take_turns(lk_comm *comm, void *arg)
{
    lk_comm *mixed = NULL;
    lk_mesh *m = NULL;
    (void)arg;
    ASSERT_EQ(lk_comm_nodes(comm), 2);
    ASSERT_OK(lk_comm_split(comm, 0, lk_comm_node_rank(comm), &mixed));
    ASSERT_TRUE(lk_comm_node(mixed) == lk_comm_rank(mixed) % 2);
    ASSERT_OK(lk_mesh_new(mixed, &(lk_mesh_shape){.data = 2, .features = 4}, &m));
    ASSERT_EQ(lk_comm_nodes(m->along[LK_AXIS_FEATURES]), 1);
    ASSERT_EQ(lk_comm_nodes(m->along[LK_AXIS_DATA]), 2);
    int64_t first = lk_comm_rank(mixed) == 0;
    ASSERT_TRUE(!first || lk_comm_rank(m->world) == 0);
    lk_mesh_free(m);
    /* Along one axis nobody is nearer than others, and numbers stay. */
    ASSERT_OK(lk_mesh_new(mixed, &(lk_mesh_shape){.data = 0}, &m));
    ASSERT_EQ(lk_comm_rank(m->world), lk_comm_rank(mixed));
    ASSERT_EQ(m->n[LK_AXIS_DATA], 8);
    ASSERT_TRUE(m->along[LK_AXIS_DATA] == m->world && m->replicas == m->world);
    lk_mesh_free(m);
    lk_comm_close(mixed);
    return LK_OK;
}

RANKS_TEST(ranks_of_a_node_stay_together)
{
    if (strcmp(lk_comm_transport(comm), "self") != 0 && lk_comm_size(comm) > 1)
        return;
    ASSERT_EQ(setenv("LK_LOCAL_NODES", "2", 1), 0);
    ASSERT_OK(lk_run_local(8, take_turns, NULL));
    ASSERT_EQ(unsetenv("LK_LOCAL_NODES"), 0);
}

RANKS_TEST(what_does_not_multiply_is_refused)
{
    lk_mesh *m = NULL;
    int size = lk_comm_size(comm);
    char text[120];
    snprintf(text, sizeof text,
             "data 3 x spatial 2x2 x features 5 x stages 2 need 120 ranks, but there %s %d",
             size == 1 ? "is" : "are", size);
    ASSERT_FAILS(lk_mesh_new(comm,
                             &(lk_mesh_shape){
                                 .data = 3, .ndim = 2, .space = {2, 2}, .features = 5, .stages = 2},
                             &m),
                 LK_EINVAL, text);
    ASSERT_TRUE(!m);
    ASSERT_FAILS(lk_mesh_new(comm, &(lk_mesh_shape){.stages = 1000}, &m), LK_EINVAL,
                 "stages 1000 need 1000 ranks");
    ASSERT_FAILS(lk_mesh_new(comm, &(lk_mesh_shape){.data = INT64_MAX, .features = INT64_MAX}, &m),
                 LK_EINVAL, "ranks, but there");
}

RANKS_TEST(words_say_what_they_mean)
{
    static const char *const words[] = {"1",
                                        "data2",
                                        "2x2",
                                        "2x2x2",
                                        "3x1",
                                        "spatial4",
                                        "stages3",
                                        "features2",
                                        "data16",
                                        "data2.2x2",
                                        "data2.2x2.features2.stages2"};
    static const char *const wrong[] = {"",        "2",          "data",
                                        "data0",   "data2.",     "2x",
                                        "2x2x2x2", "stages3a",   "data2.data3",
                                        ".data2",  "spatial2x2", "2x2.spatial3",
                                        "banana2", "data-1",     "data99999999999999999999"};
    lk_mesh_shape s;
    char text[LK_MESH_WORD];
    (void)comm;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        ASSERT_OK(lk_mesh_shape_read(words[i], &s));
        ASSERT_TRUE(strcmp(lk_mesh_shape_text(&s, text), words[i]) == 0);
    }
    ASSERT_TRUE(s.data == 2 && s.ndim == 2 && s.space[0] == 2 && s.space[1] == 2 &&
                s.features == 2 && s.stages == 2);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(lk_mesh_shape_read(wrong[i], &s), LK_EINVAL, "layout \"");
    ASSERT_FAILS(lk_mesh_shape_read("data2.banana2", &s), LK_EINVAL,
                 "layout \"data2.banana2\": \"banana2\" is none of 1, dataN, AxB");
    ASSERT_OK(lk_mesh_shape_read("stages2.data3", &s));
    ASSERT_TRUE(strcmp(lk_mesh_shape_text(&s, text), "data3.stages2") == 0);
}
