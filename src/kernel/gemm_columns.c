/* Blocks of C whose op(A) is the transpose of A, by the cross and tree micro-kernels.
 *
 * X is A as stored, by samples: a tile takes MR consecutive elements of each sample.  Y is B, or
 * panels of its transpose.  Panels of Y are packed for all tiles of the block.  With more than a
 * few samples X is packed by groups of tiles too, unless its rows lie close together: they would be
 * on more pages than the processor remembers.
 *
 * The tree joins the pieces of up to LK_CROSS_STEPS steps by itself.  A longer k is cut
 * into leaves: the largest power of two of pieces that is not longer, or one longer piece.  The
 * leaves of a few panels at a time go to slots, which are joined like a binary counter, as in
 * gemm_pieces.c.
 */
#include "kernel/gemm.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum {
    X_ROOM = 160 * 1024,   /* bytes, for X alone or */
    SLOT_ROOM = 64 * 1024, /* first for slots */
    Y_ROOM = LK_CROSS_STEPS * 128,
    LEVEL_ROOM = LK_CROSS_LEVELS * LK_MICRO_MR / 2 * 128,
    GROUP = 256,     /* bytes of a row of the panels that are in slots together */
    FEW_STEPS = 24,  /* for which X is read in place */
    CLOSE = 128,     /* bytes from one row of X to the next for which it is, too */
    FEW_TILES = 4,   /* below which Y is read in place */
    PACK_STEPS = 16, /* that are packed for all tiles or panels before the next: few pages */
    BAND_TILES = 16, /* in a band of rows */
    MANY_TILES = 64  /* enough for one packed panel of Y */
};

_Static_assert(LK_CROSS_STEPS *LK_CROSS_GROUP(1) * LK_MICRO_MR <= X_ROOM - SLOT_ROOM,
               "there is room for a group");

struct block {
    const lk__gemm_job *job;
    const lk__gemm_run *run;
    int64_t k0, n_k; /* the steps of k at hand */
    bool tree;       /* they are several pieces */
    int mr;          /* of the tiles for them */
    bool x_packed;
    char *x_room, *y_room, *slots, *level;
};

/* Where panels go, and how. */
struct target {
    char *c;
    int64_t ldc, panel; /* elements from one row, one panel to the next */
    int64_t piece;
    lk__start start;
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

static bool in_leaves(const lk_gemm *g)
{
    return g->piece > 0 && g->k > LK_CROSS_STEPS;
}

int64_t lk__gemm_columns_rows(const lk__gemm_job *job)
{
    const int64_t steps = lk__min(job->g.k, LK_CROSS_STEPS) + 1,
                  group = group_rows(job, job->cross->mr);
    const int64_t room = in_leaves(&job->g) ? X_ROOM - SLOT_ROOM : X_ROOM;
    int64_t rows = lk__min(room / (steps * job->elem), (int64_t)MANY_TILES * job->cross->mr);
    if (in_leaves(&job->g)) {
        int64_t levels = 1;
        while (job->g.k / leaf_steps(&job->g) >> levels)
            levels++;
        rows = lk__min(rows, SLOT_ROOM / ((levels + 1) * GROUP));
    }
    return rows > group ? rows / group * group : rows;
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

/* Rows [row, row + n_rows) of one panel, from the beginning of a group on, Y from column j on, packed
 * at `y` if so; `ahead`: see lk__cross_args. */
static void run_tiles(const struct block *b, int64_t row, int64_t n_rows, int64_t j, const char *y,
                      const struct target *to, int64_t ahead)
{
    const lk__gemm_job *job = b->job;
    const lk_gemm *g = &job->g;
    const int64_t elem = job->elem, left = g->n - j, mr = b->mr;
    const int width = left <= job->cross->width[1], nr = job->cross->width[width];
    const bool in_place = y_in_place(b, left);
    const int64_t tiles = n_rows / mr, rest = n_rows % mr, group = LK_CROSS_GROUP(elem);
    lk__cross_fn *const *tile = b->tree ? job->cross->tree[width] : job->cross->tile[width];
    lk__cross_args t = {.x = b->x_packed ? b->x_room + row * b->n_k * elem
                                         : b->run->a + (b->k0 * g->lda + b->run->row + row) * elem,
                        .x_group = b->x_packed ? group * mr * b->n_k : group * mr,
                        .x_tile = mr,
                        .x_step = b->x_packed ? group * mr : g->lda,
                        .y = in_place ? b->run->b + (b->k0 * g->ldb + j) * elem : y,
                        .y_step = in_place ? g->ldb : nr,
                        .n_tiles = tiles,
                        .k = b->n_k,
                        .piece = to->piece,
                        .start = to->start,
                        .bias = job->bias ? job->bias + j * elem : NULL,
                        .c = to->c + row * to->ldc * elem,
                        .ldc = to->ldc,
                        .ahead = ahead,
                        .n_valid = (int)lk__min(nr, left),
                        .level = b->level};
    tile[mr](&t);
    if (rest > 0) {
        t.x = (const char *)t.x + (tiles / group * t.x_group + tiles % group * mr) * elem;
        t.c = (char *)t.c + tiles * mr * to->ldc * elem;
        t.n_tiles = 1;
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
    const int64_t together = bytes > 0 ? Y_ROOM / bytes : end - p;
    const int64_t steps = y_in_place(b, job->panel) ? b->n_k : PACK_STEPS;
    for (int64_t last; p < end; p = last) {
        last = lk__min(end, p + together);
        for (int64_t k = 0; k < b->n_k; k += steps)
            for (int64_t i = p; i < last; i++)
                pack_y(b, i * job->panel, k, lk__min(steps, b->n_k - k),
                       b->y_room + (i - p) * bytes);
        const int64_t back = (last - 1 - p) * to.panel; /* to the first of these panels */
        for (int64_t row = 0; row < b->run->n_rows; row += band)
            for (int64_t i = p; i < last; i++) {
                const bool more = row + band < b->run->n_rows;
                const int64_t ahead = i + 1 < last ? to.panel
                                      : more       ? band * to.ldc - back
                                      : last < end ? to.panel - row * to.ldc
                                                   : 0;
                struct target here = to;
                here.c += (i - p) * to.panel * job->elem;
                run_tiles(b, row, lk__min(band, b->run->n_rows - row), i * job->panel,
                          b->y_room + (i - p) * bytes, &here, ahead);
            }
        to.c += (last - p) * to.panel * job->elem;
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
                                  .piece = g->piece,
                                  .start = k0 > 0 ? LK_START_C : job->start};
        run_panels(b, b->run->first, b->run->last, to);
        k0 += b->n_k;
    } while (k0 < g->k);
}

/* The leaf of steps [first, last) for panels [p, end) to their slot. */
static void run_leaf(struct block *b, int64_t first, int64_t last, int64_t p, int64_t end,
                     char *slot)
{
    const lk__gemm_job *job = b->job;
    for (int64_t k0 = first; k0 < last; k0 += b->n_k) {
        take_steps(b, k0, lk__min(LK_CROSS_STEPS, last - k0), end - p);
        const struct target to = {.c = slot,
                                  .ldc = job->panel,
                                  .panel = b->run->n_rows * job->panel,
                                  .piece = job->g.piece > LK_CROSS_STEPS ? 0 : job->g.piece,
                                  .start = k0 > first ? LK_START_C : LK_START_ZERO};
        run_panels(b, p, end, to);
    }
}

/* C = start + sum for one panel, whose sum has rows of job->panel elements. */
static void write_panel(const struct block *b, int64_t j, char *sum)
{
    const lk__gemm_job *job = b->job;
    const int64_t n = lk__min(job->panel, job->g.n - j);
    for (int64_t i = 0; i < b->run->n_rows; i++) {
        char *from = sum + i * job->panel * job->elem;
        char *c = b->run->c + (i * job->g.ldc + j) * job->elem;
        const char *start = job->start == LK_START_BIAS ? job->bias + j * job->elem : c;
        if (job->start != LK_START_ZERO)
            lk__gemm_add(job->g.dtype, from, start, n);
        memcpy(c, from, (size_t)(n * job->elem));
    }
}

/* Panels [p, end), which are a group, by way of slots. */
static void run_group(struct block *b, int64_t p, int64_t end)
{
    const lk__gemm_job *job = b->job;
    const lk_gemm *g = &job->g;
    const int64_t leaf = leaf_steps(g), n = lk__parts(g->k, leaf);
    const int64_t count = (end - p) * b->run->n_rows * job->panel, bytes = count * job->elem;
    char *slot = b->slots;
    for (int64_t i = 0; i < n; i++) {
        int64_t level = 0;
        while (i >> level & 1)
            level++;
        slot = b->slots + level * bytes;
        run_leaf(b, i * leaf, lk__min(g->k, (i + 1) * leaf), p, end, slot);
        for (int64_t l = 0; i >> l && (l < level || i == n - 1); l++)
            if (i >> l & 1)
                lk__gemm_add(g->dtype, slot, b->slots + l * bytes, count);
    }
    for (int64_t i = 0; i < end - p; i++)
        write_panel(b, (p + i) * job->panel, slot + i * (bytes / (end - p)));
}

void lk__gemm_by_columns(void *arg, int64_t first, int64_t last)
{
    const lk__gemm_job *job = arg;
    _Alignas(LK_ALIGN) char room[X_ROOM], y_room[Y_ROOM], level[LEVEL_ROOM];
    struct block b = {.job = job, .x_room = room, .y_room = y_room, .slots = room, .level = level};
    if (in_leaves(&job->g)) {
        b.x_room = room + SLOT_ROOM;
        memset(room, 0, SLOT_ROOM); /* the tree also adds columns that no tile writes */
    }
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
