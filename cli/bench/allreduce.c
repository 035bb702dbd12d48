/* Rounds of a bench on ranks, in which each side has its turn. */
#include "bench/allreduce.h"

#include <lockstep/coll.h>

lk_status bench_rounds_run(lk_comm *comm, int sides, double seconds, bench_turn *turn, void *arg,
                           bench_rounds *out)
{
    double end = bench_now() + seconds;
    int32_t go = 1;
    out->n = 0;
    for (int warm = 0; go; warm++) {
        for (int k = 0; k < sides; k++) {
            int side = (k + warm) % sides;
            LK_TRY(turn(arg, side, &out->seconds[side][out->n]));
        }
        out->n += warm > 0;
        go = bench_goes_on(out->n, end);
        LK_TRY(lk_bcast(comm, &go, 1, LK_I32, 0, "go on"));
    }
    return LK_OK;
}
