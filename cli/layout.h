/* The layout of an experiment as the command sees it: how many ranks there are along each axis. */
#ifndef LK_CLI_LAYOUT_H
#define LK_CLI_LAYOUT_H

#include <lockstep/config.h>
#include <lockstep/parallel.h>

/** What an experiment asks for; `data` is 0 where it says nothing. */
lk_mesh_shape layout_of(const lk_experiment *experiment);

/** How many ranks a layout needs, a `data` of 0 counting as 1; INT_MAX where there are more. */
int64_t layout_ranks(const lk_mesh_shape *shape);

enum { LAYOUT_GRID = 64 };

/** "2x2", "4"; without axes "1".  Returns `out`. */
const char *layout_grid_text(int ndim, const int64_t *n, char out[LAYOUT_GRID]);

#endif /* LK_CLI_LAYOUT_H */
