/* Steps shared by phases. */
#include "phases.h"

int64_t phases_trained(const lk_experiment *e)
{
    int64_t n = 0;
    for (int64_t i = 0; i < e->n_phases; i++)
        n += e->phase[i].epochs > 0;
    return n > 0 ? n : 1;
}

int64_t phase_of_step(const lk_experiment *e, int64_t step, int64_t steps)
{
    int64_t k = step * phases_trained(e) / steps;
    for (int64_t i = 0; i < e->n_phases; i++)
        if (e->phase[i].epochs > 0 && k-- == 0)
            return i;
    return 0;
}
