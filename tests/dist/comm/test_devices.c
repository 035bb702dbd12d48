/* Ranks that take the device of their number on their node: who gets which, with which bits, and who is
 * refused. */
#include "base/processors.h"
#include "ranks.h"

#include <lockstep/lockstep.h>

enum { MOST = 16 };

/* `n` devices of one processor each, by turns of those that there are. */
static void list_fill(lk_device *list, int n)
{
    lk__processors all;
    ASSERT_TRUE(lk__processors_unbound(&all));
    int p = 0;
    for (int i = 0; i < n; i++) {
        while (!lk__processors_have(&all, p))
            p = (p + 1) % LK_MAX_PROCESSORS;
        char text[32];
        snprintf(text, sizeof text, "cpu:%d", p);
        ASSERT_OK(lk_device_parse(text, &list[i]));
        p = (p + 1) % LK_MAX_PROCESSORS;
    }
}

static void expect_bound(const lk_device *d)
{
    lk__processors mask;
    int threads;
    ASSERT_TRUE(lk__processors_allowed(&mask));
    ASSERT_SAME_BITS(&mask, d->processors, sizeof mask);
    ASSERT_OK(lk_threads_now(&threads));
    ASSERT_EQ(threads, lk_device_n_processors(d));
}

RANKS_TEST(each_rank_takes_its_entry)
{
    lk_device list[MOST], own;
    int rank = lk_comm_node_rank(comm), n = lk_comm_node_size(comm);
    ASSERT_TRUE(n <= MOST);
    list_fill(list, MOST);
    ASSERT_OK(lk_device_use(comm, list, n, &own));
    ASSERT_SAME_BITS(&own, &list[rank], sizeof own);
    expect_bound(&list[rank]);
    ASSERT_OK(lk_device_use(comm, list + 1, MOST - 1, NULL));
    expect_bound(&list[rank + 1]);
    ASSERT_OK(lk_device_use(comm, list, MOST, &list[0])); /* the entry may lie in the list */
    expect_bound(&own);
    ASSERT_OK(lk_device_bind(NULL));
}

RANKS_TEST(a_list_by_names_is_counted_the_same_way)
{
    int rank = lk_comm_node_rank(comm), ranks = lk_comm_node_size(comm), n;
    lk_device list[MOST], own;
    ASSERT_OK(lk_devices_available(list, MOST, &n));
    if (ranks > n) {
        ASSERT_FAILS(lk_device_use(comm, NULL, 0, &own), LK_EINVAL, "ranks on this node, but ");
        ASSERT_FAILS(lk_device_use_named(comm, NULL, &own), LK_EINVAL, "ranks on this node, but ");
        if (lk_comm_rank(comm) == 0 && ranks == 2)
            printf("not tested: two ranks and the list of a process, for want of a second core\n");
        return;
    }
    ASSERT_OK(lk_device_use(comm, NULL, 0, &own));
    ASSERT_SAME_BITS(&own, &list[rank], sizeof own);
    expect_bound(&own);
    char text[MOST * LK_DEVICE_NAME];
    int used = 0;
    for (int i = 0; i < ranks; i++) /* the last one first */
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", i ? "," : "",
                         list[ranks - 1 - i].name);
    ASSERT_OK(lk_device_use_named(comm, text, &own));
    ASSERT_SAME_BITS(&own, &list[ranks - 1 - rank], sizeof own);
    expect_bound(&own);
    ASSERT_OK(lk_device_use_named(comm, NULL, NULL));
    expect_bound(&list[rank]);
    ASSERT_OK(lk_device_bind(NULL));
}

RANKS_TEST(too_few_devices_are_refused_on_all_ranks_of_the_node)
{
    lk_device list[MOST], own = {.name = "before"};
    lk__processors before, after;
    int n = lk_comm_node_size(comm);
    list_fill(list, MOST);
    ASSERT_TRUE(lk__processors_allowed(&before));
    char said[96];
    snprintf(said, sizeof said, "%d ranks on this node, but %d device%s for them", n, n - 1,
             n == 2 ? "" : "s");
    ASSERT_FAILS(lk_device_use(comm, list, n - 1, &own), LK_EINVAL, said);
    ASSERT_FAILS(lk_device_use(comm, NULL, 3, &own), LK_EINVAL, "list is NULL, but has 3 devices");
    ASSERT_FAILS(lk_device_use(NULL, list, n, &own), LK_EINVAL, "comm is NULL");
    ASSERT_FAILS(lk_device_use_named(NULL, "0", &own), LK_EINVAL, "comm is NULL");
    ASSERT_FAILS(lk_device_use_named(comm, "gpu:0", &own), LK_EINVAL, "no kind of device \"gpu\"");
    ASSERT_EQ(strcmp(own.name, "before"), 0);
    ASSERT_TRUE(lk__processors_allowed(&after));
    ASSERT_SAME_BITS(&after, &before, sizeof after);
}

enum { ROWS = 64, DEPTH = 300 };

/* A product on each rank, on its device; all must have the bits of the first. */
RANKS_TEST(bound_ranks_compute_the_same_bits)
{
    lk_device list[MOST];
    lk_tape *tape;
    lk_var x, y;
    float *value = NULL, *result = NULL, *first = NULL;
    list_fill(list, MOST);
    ASSERT_OK(lk_device_use(comm, list, MOST, NULL));
    ASSERT_OK(lk_tape_new(&tape));
    ASSERT_OK(lk_alloc(&value, ROWS * DEPTH, sizeof *value));
    ASSERT_OK(lk_alloc(&result, ROWS * ROWS, sizeof *result));
    ASSERT_OK(lk_alloc(&first, ROWS * ROWS, sizeof *first));
    for (int i = 0; i < ROWS * DEPTH; i++)
        value[i] = (float)(i * 7919 % 1009) * 0.37F - 3;
    for (int round = 0; round < 20; round++) {
        ASSERT_OK(lk_constant_data(tape, LK_F32, LK_SHAPE(ROWS, DEPTH), value, &x));
        ASSERT_OK(lk_transpose(x, 0, 1, &y));
        ASSERT_OK(lk_matmul(x, y, &y));
        ASSERT_OK(lk_read(y, LK_F32, ROWS * ROWS, result));
        memcpy(first, result, ROWS * ROWS * sizeof *first);
        ASSERT_OK(lk_bcast(comm, first, ROWS * ROWS, LK_F32, 0, "first"));
        ASSERT_SAME_BITS(result, first, ROWS * ROWS * sizeof *first);
        lk_tape_reset(tape);
    }
    lk_free(value);
    lk_free(result);
    lk_free(first);
    lk_tape_free(tape);
    ASSERT_OK(lk_device_bind(NULL));
}
