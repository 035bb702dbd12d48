/* Programs between ranks against differences of the sum of all ranks' losses: see dist_check.h. */
#ifndef LK_TEST_ADJOINTS_H
#define LK_TEST_ADJOINTS_H

#include "ranks.h"

#include <lockstep/extra/dist_check.h>
#include <lockstep/lockstep.h>

/* A program of one value on each rank: shape of its input, and what it does with it. */
struct program {
    const char *name;
    lk_shape (*shape)(int rank, int size);
    lk_status (*run)(lk_comm *comm, lk_var x, lk_var *y);
};

static lk_shape sample_shape(const lk_dist_sample *s, int rank, int size, int i)
{
    (void)i;
    return ((const struct program *)s->attr)->shape(rank, size);
}

static lk_status sample_run(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    return ((const struct program *)s->attr)->run(comm, in[0], out);
}

static void check_programs(lk_comm *comm, const struct program *programs, size_t n)
{
    for (size_t i = 0; i < n && (TEST_SLOWNESS == 1 || lk_comm_size(comm) <= 4); i++) {
        const lk_dist_sample samples[2] = {{.name = programs[i].name,
                                            .n_in = 1,
                                            .n_out = 1,
                                            .shape = sample_shape,
                                            .run = sample_run,
                                            .lo = 0.4,
                                            .hi = 1.5,
                                            .attr = &programs[i]}};
        const lk_dist_check check = {.name = programs[i].name, .samples = samples};
        lk_gradcheck_result r;
        ASSERT_OK(lk_gradcheck_dist(comm, &check, 1, 1e-7, &r));
        if (!r.pass)
            TEST_FAIL("%d ranks: %s", lk_comm_size(comm), r.worst);
    }
}

#endif /* LK_TEST_ADJOINTS_H */
