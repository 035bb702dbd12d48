/* Whether an experiment's pieces allow its layout.  experiment.c asks when it has read both sections; what
 * depends on the data and the model is found when a plan is made of them.
 */
#include "config/node.h"
#include "config/sections.h"

#include <stdio.h>

/* The line of a file that allows what it has and what the layout wants. */
static const char *pieces_line(const int64_t tile[3], int64_t blocks, char *buf, size_t size)
{
    char tiles[64] = "", wide[32] = "";
    if (tile[2] > 1)
        snprintf(tiles, sizeof tiles, "tiles: %lldx%lldx%lld", (long long)tile[0],
                 (long long)tile[1], (long long)tile[2]);
    else if (tile[1] > 1)
        snprintf(tiles, sizeof tiles, "tiles: %lldx%lld", (long long)tile[0], (long long)tile[1]);
    else if (tile[0] > 1)
        snprintf(tiles, sizeof tiles, "tiles: %lld", (long long)tile[0]);
    if (blocks > 1)
        snprintf(wide, sizeof wide, "%sblocks: %lld", *tiles ? ", " : "", (long long)blocks);
    snprintf(buf, size, "pieces: {%s%s}", tiles, wide);
    return buf;
}

/* Axes of a sample before its channels, if the data section says its shape; otherwise -1. */
static int sample_axes(const lk_experiment *e)
{
    const lk_option *o = lk_option_find(e->data.descriptor->options, "shape");
    if (!o || o->type != LK_OPTION_INTS)
        return -1;
    const lk_option_ints *shape = (const void *)((const char *)e->data.options + o->offset);
    return shape->n - 1;
}

/* "2x2" of the first axes. */
static const char *grid_text(int axes, const int64_t *n, char out[72])
{
    int at = 0;
    for (int i = 0; i < axes && i < 3; i++)
        at += snprintf(out + at, 72 - (size_t)at, "%s%lld", i ? "x" : "", (long long)n[i]);
    return out;
}

/* There are the tiles for the grid; otherwise say which lines would do.  Whether a sample of a format without
 * `shape` is a volume is known when the data is there, and said by the plan. */
static lk_status check_tiles(const lk_experiment *e, const lk__yaml_pos *at, const char *line,
                             const int64_t *tile)
{
    const lk_parallel_options *p = &e->parallel;
    int64_t parts[3] = {1, 1, 1};
    int axes = sample_axes(e), cut = 0;
    char grid[72], tiles[72];
    bool enough = true;
    for (int i = 0; i < 3; i++) {
        parts[i] = i < p->spatial.n ? p->spatial.item[i] : 1;
        enough = enough && parts[i] <= e->pieces.cut.tile[i];
        cut = tile[i] > 1 ? i + 1 : cut;
    }
    if (enough || (axes < 0 && cut == 3))
        return LK_OK;
    LK_CHECK_AT(axes != 0, at,
                "spatial of parallel: %s, but a sample has nothing before its channels to be cut: "
                "leave it out (parallel.data shares the samples out), or give data.shape axes",
                p->spatial_text);
    LK_CHECK_AT(
        axes < 0 || cut <= axes, at,
        "spatial of parallel: %s and the tiles of pieces, %s, cut %d axes, but a sample has "
        "%d before its channels: take `parallel: {spatial: %s}` and `pieces: {tiles: %s}`",
        p->spatial_text, e->pieces.tiles_text, cut, axes, grid_text(axes, parts, grid),
        grid_text(axes, tile, tiles));
    return LK_RAISE_AT(
        at,
        "spatial of parallel: %s is more than the tiles of pieces, %s; the line `%s` "
        "allows it, as another run with other bits",
        p->spatial_text, e->pieces.tiles_text, line);
}

lk_status lk__layout_check(const lk_experiment *e, const lk__yaml_pos *spatial,
                           const lk__yaml_pos *features)
{
    const lk_parallel_options *p = &e->parallel;
    const lk_pieces *cut = &e->pieces.cut;
    int64_t tile[3], blocks = p->features > cut->blocks ? p->features : cut->blocks;
    char line[128];
    for (int i = 0; i < 3; i++) {
        int64_t parts = i < p->spatial.n ? p->spatial.item[i] : 1;
        tile[i] = parts > cut->tile[i] ? parts : cut->tile[i];
    }
    pieces_line(tile, blocks, line, sizeof line);
    LK_TRY(check_tiles(e, spatial, line, tile));
    LK_CHECK_AT(p->features <= cut->blocks, features,
                "features of parallel: %lld is more than the blocks of pieces, %lld; the line `%s` "
                "allows it, as another run with other bits",
                (long long)p->features, (long long)cut->blocks, line);
    return LK_OK;
}
