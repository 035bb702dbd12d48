/* Inputs for the checks of maps: special values and numbers of all magnitudes. */
#include "selfcheck/check_map.h"

#include <float.h>
#include <math.h>

lk_status check_map_input(check_case *c, int64_t n, int turn)
{
    static const double specials[] = {
        0.0,      -0.0,
        1.0,      -1.0,
        2.0,      -2.0,
        0.5,      (double)INFINITY,
        3.0,      (double)-INFINITY,
        10.0,     (double)NAN,
        -0.5,     88.0,
        -88.0,    1e-20,
        -1e-20,   1e-40,
        -1e-40,   1e20,
        -1e20,    710.0,
        -10.0,    -710.0,
        1e-310,   -1e-310,
        100.0,    4.0,
        0.999999, 1.000001,
        -4.0,     -100.0,
    };
    enum {
        N_SPECIALS = sizeof specials / sizeof specials[0],
        N_FIRST = 8 * N_SPECIALS,
        LONG = 2 * N_FIRST
    };
    LK_TRY(check_input(c, c->dtype, n, -8, 8));
    void *x = c->in[c->n_in - 1].data;
    for (int64_t i = 0; i < n; i++) {
        double v = check_get(c->dtype, x, i);
        if (n > LONG && i < N_FIRST)
            v = specials[(i + turn * (i / N_SPECIALS + turn)) % N_SPECIALS];
        else if (i % 4 == 0)
            v = ldexp(v, (int)(i / 4 % 48) - 32);
        check_set(c->dtype, x, i, v);
    }
    return LK_OK;
}
