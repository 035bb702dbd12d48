/* Layouts of experiments: counting their ranks; steps shared by phases. */
#include "layout.h"

#include <limits.h>
#include <stdio.h>

lk_mesh_shape layout_of(const lk_experiment *e)
{
    lk_mesh_shape shape = {
        .data = e->parallel.data, .features = e->parallel.features, .stages = e->parallel.stages};
    for (; shape.ndim < e->parallel.spatial.n && shape.ndim < 3; shape.ndim++)
        shape.space[shape.ndim] = e->parallel.spatial.item[shape.ndim];
    return shape;
}

static int64_t times(int64_t a, int64_t b)
{
    if (b <= 1)
        return a;
    return a > INT_MAX / b ? INT_MAX : a * b;
}

int64_t layout_ranks(const lk_mesh_shape *s)
{
    int64_t n = times(1, s->data);
    for (int i = 0; i < s->ndim; i++)
        n = times(n, s->space[i]);
    return times(times(n, s->features), s->stages);
}

const char *layout_grid_text(int ndim, const int64_t *n, char out[LAYOUT_GRID])
{
    int at = snprintf(out, LAYOUT_GRID, "%lld", ndim > 0 ? (long long)n[0] : 1);
    for (int i = 1; i < ndim && at < LAYOUT_GRID; i++)
        at += snprintf(out + at, (size_t)(LAYOUT_GRID - at), "x%lld", (long long)n[i]);
    return out;
}

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
