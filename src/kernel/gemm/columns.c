/* Blocks of C whose op(A) is the transpose of A, by the cross and tree micro-kernels.
 *
 * X is A as stored, by samples: a tile takes MR consecutive elements of each sample.  Y is B, or
 * panels of its transpose.  Panels of Y are packed for all tiles of the block.  With more than a
 * few samples X is packed by groups of tiles too, unless its rows lie close together: they would be
 * on more pages than the processor remembers.
 *
 * The tree joins the pieces of up to LK_CROSS_STEPS steps by itself.  A longer k is cut
 * into leaves: the largest power of two of pieces that is not longer, or one longer piece.  The
 * leaves of a few panels at a time go to slots, which are joined as gemm.h says: a tile joins its leaf
 * with those that wait before it stores the sum, and the last leaf goes to C.
 */
#include "kernel/gemm/gemm.h"

#include <lockstep/extra/alloc.h>

enum {
    GROUP = 512,       /* bytes of a row of the panels that are in slots together */
    ROOM = 290 * 1024, /* for X, and for the slots behind it */
    X_ROOM = 160 * 1024,
    Y_ROOM = LK_CROSS_STEPS * GROUP,
    Y_NEAR = LK_CROSS_STEPS * 128, /* bytes that are packed together, or a group of panels */
    LEVEL_ROOM = LK_CROSS_LEVELS * LK_MICRO_MR / 2 * 128,
    FEW_STEPS = 24,  /* for which X is read in place */
    CLOSE = 128,     /* bytes from one row of X to the next for which it is, too */
    FEW_TILES = 4,   /* below which Y is read in place */
    PACK_STEPS = 16, /* that are packed for all tiles or panels before the next: few pages */
    BAND_TILES = 16, /* in a band of rows */
    MANY_TILES = 64  /* enough for one packed panel of Y */
};

_Static_assert(LK_CROSS_STEPS *LK_CROSS_GROUP(1) * LK_MICRO_MR <= X_ROOM && X_ROOM <= ROOM,
               "there is room for a group");

struct block {
    const lk__gemm_job *job;
    const lk__gemm_run *run;
    int64_t k0, n_k; /* the steps of k at hand */
    bool tree;       /* they are several pieces */
    int mr;          /* of the tiles for them */
    bool x_packed;
    char *x_room, *y_room, *slots, *level;
    int64_t slot_size; /* elements */
};

/* Where panels go, and how: see lk__cross_args. */
struct target {
    char *c;
    int64_t ldc, panel; /* elements from one row, one panel to the next */
    lk__start start;
    bool to_slot; /* which has all columns of a panel */
    const char *partial;
    int64_t joins;
    int64_t in_slot; /* bytes to the panel in a slot */
};

/* What will be packed next, of Y and of X: tiles ask for it, line by line of all its rows. */
struct next {
    const char *from[2];
    int64_t step[2], lines[2]; /* bytes from one row to the next, lines of a row */
    int64_t done;              /* lines */
};

static int64_t group_panels(const lk__gemm_job *job)
{
    return GROUP / (job->panel * job->elem);
}

/* Rows in a group of tiles of `mr` rows. */
static int group_rows(const lk__gemm_job *job, int mr)
{
    return LK_CROSS_GROUP(job->elem) * mr;
}

static int64_t leaf_steps(const lk_gemm *g)
{
    int64_t leaf = g->piece;
    while (2 * leaf <= LK_CROSS_STEPS)
        leaf *= 2;
    return leaf;
}

static int64_t n_leaves(const lk_gemm *g)
{
    return lk__parts(g->k, leaf_steps(g));
}

static bool in_leaves(const lk_gemm *g)
{
    return g->piece > 0 && g->k > LK_CROSS_STEPS;
}

/* Bytes of a row of the panels in all slots. */
static int64_t slots_row(const lk_gemm *g)
{
    return lk__gemm_slots(n_leaves(g)) * GROUP;
}

int64_t lk__gemm_columns_rows(const lk__gemm_job *job)
{
    const int64_t steps = lk__min(job->g.k, LK_CROSS_STEPS) + 1,
                  group = group_rows(job, job->cross->mr);
    int64_t rows = lk__min(X_ROOM / (steps * job->elem), (int64_t)MANY_TILES * job->cross->mr);
    if (in_leaves(&job->g)) {
        const int64_t x = steps * job->elem, slots = slots_row(&job->g);
        rows = lk__min(rows, ROOM / (x + slots));
        if (rows < group) /* X is packed by whole groups */
            rows = lk__min(rows, (ROOM - group * x) / slots);
    }
    const int64_t unit = rows > group ? group : lk__min(rows, job->cross->mr);
    return rows / unit * unit;
}

/* Packs X: group by group, the elements of each sample next to each other. */
static void pack_x(const struct block *b)
{
    const lk_gemm *g = &b->job->g;
    const int group = group_rows(b->job, b->mr);
    const int64_t elem = b->job->elem;
    for (int64_t k = 0; k < b->n_k; k += PACK_STEPS)
        for (int64_t row = 0; row < b->run->n_rows; row += group)
            b->job->cross->pack(b->x_room + (row * b->n_k + k * group) * elem,
                                b->run->a + ((b->k0 + k) * g->lda + b->run->row + row) * elem,
                                g->lda, lk__min(PACK_STEPS, b->n_k - k),
                                (int)lk__min(group, b->run->n_rows - row), group);
}

/* Whether a panel of Y with `n` columns is read where it is. */
static bool y_in_place(const struct block *b, int64_t n)
{
    return !b->job->g.trans_b && n >= b->job->panel && b->run->n_rows < (int64_t)FEW_TILES * b->mr;
}

/* Packs steps [k, k + n_k) of Y, columns from j on, unless it is read in place. */
static void pack_y(const struct block *b, int64_t j, int64_t k, int64_t n_k, char *to)
{
    const lk_gemm *g = &b->job->g;
    const lk__cross_type *cross = b->job->cross;
    const int64_t elem = b->job->elem, left = g->n - j, row = b->k0 + k;
    const int nr = cross->width[left <= cross->width[1]], n = (int)lk__min(nr, left);
    to += k * nr * elem;
    if (g->trans_b)
        b->job->rows->transpose(to, b->run->b + (j * g->ldb + row) * elem, g->ldb, n_k, n, nr);
    else if (!y_in_place(b, left))
        cross->pack(to, b->run->b + (row * g->ldb + j) * elem, g->ldb, n_k, n, nr);
}

/* Panels [p, end) of Y, steps from k on, and X if those are other steps than the ones at hand. */
static struct next next_steps(const struct block *b, int64_t p, int64_t end, int64_t k)
{
    const lk__gemm_job *job = b->job;
    const lk_gemm *g = &job->g;
    const int64_t elem = job->elem, j = p * job->panel;
    const int64_t columns = lk__min(g->n, end * job->panel) - j;
    struct next n = {.step = {g->ldb * elem, g->lda * elem}};
    if (k >= g->k)
        return n;
    if (!g->trans_b) {
        n.from[0] = b->run->b + (k * g->ldb + j) * elem;
        n.lines[0] = lk__parts(columns * elem, LK_CROSS_LINE);
    }
    if (k > b->k0 && b->x_packed) {
        n.from[1] = b->run->a + (k * g->lda + b->run->row) * elem;
        n.lines[1] = lk__parts(b->run->n_rows * elem, LK_CROSS_LINE);
    }
    return n;
}

/* Gives the tiles of a call as many lines as they can ask for. */
static void take_next(struct next *n, int64_t n_tiles, lk__cross_part *part)
{
    const int of = n->done >= n->lines[0];
    const int64_t at = of ? n->done - n->lines[0] : n->done;
    part->n_next = lk__min(n_tiles, n->lines[of] - at);
    if (part->n_next <= 0)
        return;
    part->next = n->from[of] + at * LK_CROSS_LINE;
    part->next_step = n->step[of];
    n->done += part->n_next;
}

/* The slots from a row of a panel on. */
static lk__cross_part part_at(const struct block *b, const struct target *to, int64_t row)
{
    const int64_t panel = b->job->panel, in_slot = to->in_slot + row * panel * b->job->elem;
    return (lk__cross_part){.slots = b->slots + in_slot,
                            .slot_size = b->slot_size,
                            .ld_slot = panel,
                            .partial = to->partial ? to->partial + in_slot : NULL,
                            .joins = to->joins};
}

/* Rows [row, row + n_rows) of one panel, from the beginning of a group on, Y from column j on, packed
 * at `y` if so; `ahead`: see lk__cross_args. */
static void run_tiles(const struct block *b, int64_t row, int64_t n_rows, int64_t j, const char *y,
                      const struct target *to, int64_t ahead, struct next *next)
{
    const lk__gemm_job *job = b->job;
    const lk_gemm *g = &job->g;
    const int64_t elem = job->elem, left = g->n - j, mr = b->mr;
    const int width = left <= job->cross->width[1], nr = job->cross->width[width];
    const bool in_place = y_in_place(b, left);
    const int kind = b->n_k < g->k ? LK_CROSS_PART : LK_CROSS_WHOLE;
    const int64_t tiles = n_rows / mr, rest = n_rows % mr, group = LK_CROSS_GROUP(elem);
    lk__cross_fn *const *tile = b->tree ? job->cross->tree[kind][width]
                                        : job->cross->tile[kind][width];
    lk__cross_args t = {.x = b->x_packed ? b->x_room + row * b->n_k * elem
                                         : b->run->a + (b->k0 * g->lda + b->run->row + row) * elem,
                        .x_group = b->x_packed ? group * mr * b->n_k : group * mr,
                        .x_tile = mr,
                        .x_step = b->x_packed ? group * mr : g->lda,
                        .y = in_place ? b->run->b + (b->k0 * g->ldb + j) * elem : y,
                        .y_step = in_place ? g->ldb : nr,
                        .n_tiles = tiles,
                        .k = b->n_k,
                        .piece = g->piece,
                        .start = to->start,
                        .bias = job->bias ? job->bias + j * elem : NULL,
                        .c = to->c + row * to->ldc * elem,
                        .ldc = to->ldc,
                        .ahead = ahead,
                        .n_valid = to->to_slot ? nr : (int)lk__min(nr, left),
                        .level = b->level};
    lk__cross_part part;
    if (kind == LK_CROSS_PART) {
        part = part_at(b, to, row);
        take_next(next, tiles, &part);
        t.part = &part;
    }
    tile[mr](&t);
    if (rest > 0) {
        t.x = (const char *)t.x + (tiles / group * t.x_group + tiles % group * mr) * elem;
        t.c = (char *)t.c + tiles * mr * to->ldc * elem;
        t.n_tiles = 1;
        if (kind == LK_CROSS_PART)
            part = part_at(b, to, row + tiles * mr);
        tile[rest](&t);
    }
}

/* Panels [p, end) of the run, as many at a time as Y has room for, and those by bands of rows: C is
 * then written in long runs, and a tile can ask for the memory that will be written next.
 * `to` is the first panel's target. */
static void run_panels(const struct block *b, int64_t p, int64_t end, struct target to)
{
    const lk__gemm_job *job = b->job;
    const int64_t bytes = b->n_k * job->panel * job->elem,
                  band = (int64_t)BAND_TILES * job->cross->mr;
    const int64_t near = bytes > 0 ? Y_NEAR / bytes : end - p, group = group_panels(job);
    const int64_t together = near > group ? near : group;
    const int64_t slot_panel = b->run->n_rows * job->panel * job->elem;
    const int64_t steps = y_in_place(b, job->panel) ? b->n_k : PACK_STEPS, first = p;
    for (int64_t last; p < end; p = last) {
        last = lk__min(end, p + together);
        for (int64_t k = 0; k < b->n_k; k += steps)
            for (int64_t i = p; i < last; i++)
                pack_y(b, i * job->panel, k, lk__min(steps, b->n_k - k),
                       b->y_room + (i - p) * bytes);
        const int64_t back = (last - 1 - p) * to.panel; /* to the first of these panels */
        struct next next = {0};
        if (b->n_k < job->g.k)
            next = last < end
                       ? next_steps(b, last, lk__min(end, last + together), b->k0)
                       : next_steps(b, first, lk__min(end, first + together), b->k0 + b->n_k);
        for (int64_t row = 0; row < b->run->n_rows; row += band)
            for (int64_t i = p; i < last; i++) {
                const bool more = row + band < b->run->n_rows;
                const int64_t ahead = i + 1 < last ? to.panel
                                      : more       ? band * to.ldc - back
                                      : last < end ? to.panel - row * to.ldc
                                                   : 0;
                struct target here = to;
                here.c += (i - p) * to.panel * job->elem;
                here.in_slot += (i - p) * slot_panel;
                run_tiles(b, row, lk__min(band, b->run->n_rows - row), i * job->panel,
                          b->y_room + (i - p) * bytes, &here, ahead, &next);
            }
        to.c += (last - p) * to.panel * job->elem;
        to.in_slot += (last - p) * slot_panel;
    }
}

/* Makes [k0, k0 + n_k) the steps at hand, for `panels` panels. */
static void take_steps(struct block *b, int64_t k0, int64_t n_k, int64_t panels)
{
    b->k0 = k0;
    b->n_k = n_k;
    b->tree = b->job->g.piece > 0 && b->job->g.piece < n_k;
    b->mr = b->tree ? b->job->cross->tree_mr : b->job->cross->mr;
    b->x_packed = n_k > FEW_STEPS && panels > 2 && b->job->g.lda * b->job->elem > CLOSE;
    if (b->x_packed)
        pack_x(b);
}

/* All panels of the run straight to C. */
static void run_direct(struct block *b)
{
    const lk__gemm_job *job = b->job;
    const lk_gemm *g = &job->g;
    int64_t k0 = 0;
    do {
        take_steps(b, k0, lk__min(LK_CROSS_STEPS, g->k - k0), b->run->last - b->run->first);
        const struct target to = {.c = b->run->c + b->run->first * job->panel * job->elem,
                                  .ldc = g->ldc,
                                  .panel = job->panel,
                                  .start = k0 > 0 ? LK_START_C : job->start};
        run_panels(b, b->run->first, b->run->last, to);
        k0 += b->n_k;
    } while (k0 < g->k);
}

/* Leaf i for panels [p, end), joined with those that wait for it: to a slot, the last one to C. */
static void run_leaf(struct block *b, int64_t i, int64_t p, int64_t end)
{
    const lk__gemm_job *job = b->job;
    const lk_gemm *g = &job->g;
    const int64_t leaf = leaf_steps(g), first = i * leaf, last = lk__min(g->k, first + leaf);
    const int64_t joins = lk__gemm_joins(i, n_leaves(g));
    char *slot = b->slots + lk__gemm_level(i, n_leaves(g)) * b->slot_size * job->elem;
    for (int64_t k0 = first; k0 < last; k0 += b->n_k) {
        take_steps(b, k0, lk__min(LK_CROSS_STEPS, last - k0), end - p);
        struct target to = {.c = slot,
                            .ldc = job->panel,
                            .panel = b->run->n_rows * job->panel,
                            .to_slot = true,
                            .partial = k0 > first ? slot : NULL,
                            .joins = k0 + b->n_k == last ? joins : 0};
        if (k0 + b->n_k == g->k) {
            to.c = b->run->c + p * job->panel * job->elem;
            to.ldc = g->ldc;
            to.panel = job->panel;
            to.to_slot = false;
            to.start = job->start;
        }
        run_panels(b, p, end, to);
    }
}

/* Panels [p, end), which are a group, by way of slots. */
static void run_group(struct block *b, int64_t p, int64_t end)
{
    const lk_gemm *g = &b->job->g;
    b->slot_size = (end - p) * b->run->n_rows * b->job->panel;
    for (int64_t i = 0; i < n_leaves(g); i++)
        run_leaf(b, i, p, end);
}

void lk__gemm_by_columns(void *arg, int64_t first, int64_t last)
{
    const lk__gemm_job *job = arg;
    _Alignas(LK_ALIGN) char room[ROOM], y_room[Y_ROOM], level[LEVEL_ROOM];
    struct block b = {.job = job, .x_room = room, .y_room = y_room, .slots = room, .level = level};
    if (in_leaves(&job->g))
        b.slots += ROOM - job->block_rows * slots_row(&job->g);
    while (first < last) {
        const lk__gemm_run run = lk__gemm_next(job, &first, last);
        b.run = &run;
        if (!in_leaves(&job->g))
            run_direct(&b);
        else
            for (int64_t p = run.first; p < run.last; p += group_panels(job))
                run_group(&b, p, lk__min(run.last, p + group_panels(job)));
        lk__gemm_act(job, &run, run.first * job->panel, lk__min(job->g.n, run.last * job->panel));
    }
}
