/* A rank that runs out of memory in a call of iterator.h tells the others. */
#include "dist/known_sets.h"
#include "memory_ranks.h"

#include <lockstep/lockstep.h>

struct side {
    lk_comm *comm;
    int rank, size;
    known_set known;
    lk_dataset *ds;
};

static lk_status side_begin(lk_comm *comm, void *side)
{
    struct side *s = side;
    s->comm = comm;
    s->rank = lk_comm_rank(comm);
    s->size = lk_comm_size(comm);
    s->known.fails_at = -1;
    s->ds = known_new(&s->known, 10, 10);
    return LK_OK;
}

static void side_end(void *side)
{
    lk_dataset_free(((struct side *)side)->ds);
}

static const struct memory_sides sides = {sizeof(struct side), side_begin, side_end};

static lk_status scatter(void *side)
{
    struct side *s = side;
    lk_dataset *mine = NULL;
    lk_status st = lk_scatter_dataset(s->comm, s->rank == 1 ? s->ds : NULL, "root=1 shuffle=true",
                                      &mine);
    lk_dataset_free(mine);
    return st;
}

static void the_others_are_told(void)
{
    static const struct memory_work all[] = {{"scatter", scatter}};
    memory_runs_out_on_few(all, (int)(sizeof all / sizeof *all), &sides);
}

TEST_MAIN(TEST(the_others_are_told))
