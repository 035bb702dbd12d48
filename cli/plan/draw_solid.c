/* A volume of a layer seen from a corner: its tiles, and those of this rank among them.
 *
 * Planes go down, columns to the right and rows to the left, each by half of their length, so that a cube
 * is a hexagon.  Three faces of the volume are seen; this rank's tiles shine through them.
 */
#include "plan/draw.h"

typedef struct solid {
    const plan_view *v;
    svg_length x, y, unit; /* the corner nearest to the top, and the length of a unit */
    int64_t longest;
} solid;

/* Where a position is on the paper: the length of axis d is that share of the longest. */
static void corner_put(const solid *s, const int64_t at[3], svg_length out[2])
{
    svg_length p[3];
    for (int d = 0; d < 3; d++)
        p[d] = at[d] * s->unit / s->longest;
    out[0] = s->x + (p[2] - p[1]) * 866 / 1000;
    out[1] = s->y + (p[2] + p[1]) / 2 + p[0];
}

/* The face of a box at `at` along axis d. */
static void face_draw(const solid *s, svg *to, const char *kind, const lk_box *box, int d,
                      int64_t at)
{
    int a = d == 0 ? 1 : 0, b = d == 2 ? 1 : 2;
    svg_length corner[8];
    for (int i = 0; i < 4; i++) {
        int64_t p[3];
        p[d] = at;
        p[a] = box->first[a] + (i == 1 || i == 2 ? box->n[a] : 0);
        p[b] = box->first[b] + (i >= 2 ? box->n[b] : 0);
        corner_put(s, p, corner + 2 * (ptrdiff_t)i);
    }
    svg_polygon(to, kind, 4, corner);
}

/* The faces of a box that are seen: above, and the two in front. */
static void box_draw(const solid *s, svg *to, const char *kind, const lk_box *box)
{
    face_draw(s, to, kind, box, 0, box->first[0]);
    face_draw(s, to, kind, box, 1, box->first[1] + box->n[1]);
    face_draw(s, to, kind, box, 2, box->first[2] + box->n[2]);
}

/* The tiles of the volume on one of its faces. */
static void face_tiles_draw(const solid *s, svg *to, int d)
{
    const plan_view *v = s->v;
    const lk_tiling *t = v->plan->tiling;
    int a = d == 0 ? 1 : 0, b = d == 2 ? 1 : 2;
    int64_t n_a = a < t->ndim ? t->tiles[a] : 1, n_b = b < t->ndim ? t->tiles[b] : 1;
    for (int64_t i = 0; i < n_a; i++) {
        for (int64_t j = 0; j < n_b; j++) {
            lk_range p = lk_tile_range(v->n[a], i, n_a, t->step);
            lk_range q = lk_tile_range(v->n[b], j, n_b, t->step);
            lk_box box = {.ndim = 3};
            box.first[a] = p.first, box.n[a] = p.n;
            box.first[b] = q.first, box.n[b] = q.n;
            if (p.n > 0 && q.n > 0)
                face_draw(s, to, "tile", &box, d, d == 0 ? 0 : v->n[d]);
        }
    }
}

void plan_solid_draw(const plan_view *v, svg *to, svg_place square)
{
    solid s = {.v = v, .longest = 1};
    for (int d = 0; d < 3; d++)
        s.longest = v->n[d] > s.longest ? v->n[d] : s.longest;
    s.unit = (square.w < square.h ? square.w : square.h) / 2;
    s.x = square.x + square.w / 2;
    s.y = square.y;
    for (int d = 0; d < 3; d++)
        face_tiles_draw(&s, to, d);
    if (lk_box_count(&v->own) > 0)
        box_draw(&s, to, "solid own", &v->own);
    if (lk_box_count(&v->reads) > 0)
        box_draw(&s, to, "reads", &v->reads);
}
