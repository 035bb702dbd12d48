/* Blocks of C whose op(A) is A itself, by the rows micro-kernel.
 *
 * A panel of B is used by all rows of the block.  It is packed first where B is transposed, several
 * at a time if k is short; otherwise the first tile packs it while it computes, or, when few rows would
 * use it, all tiles read it in place.  Rows of A are read in place.
 */
#include "kernel/gemm/gemm.h"

#include <lockstep/extra/alloc.h>

/* Panels between two applications of the activation, which likes long rows. */
enum { ACT_PANELS = 8 };

/* Tiles in a panel that leave time to fetch the next one. */
enum { FAR_TILES = 4 };

/* A tile of fewer rows waits for its own multiply-adds: those of a full one and it are two even ones. */
enum { FEW_ROWS = 4 };

/* Tiles in a panel for which a copy of B does not pay. */
enum { IN_PLACE_TILES = 5 };

/* Bytes of the panels that are packed together. */
enum { GROUP_ROOM = 16 * 1024 };

/* Rows whose lines the first-level cache holds if they share a set. */
enum { SET_ROWS = 8 };

struct lk__gemm_rows {
    const lk__gemm_job *job;
    const lk__gemm_run *run;
    const char *a;      /* the first row of the run */
    int64_t full, rest; /* full tiles in the run, and rows beyond them */
    bool strips;        /* strips suit the rows of A */
    bool spread;        /* a panel of B, in place, is short and spread over the sets of the cache */
    int64_t a_off[LK_MICRO_MR], c_off[LK_MICRO_MR];
    char *room; /* LK_GEMM_ROOM bytes */
};

/* All rows of n_panels packed panels, but those of the first full tile if they are done.  `next`:
 * what the next panel will read first of B, or NULL. */
static void run_strips(const struct lk__gemm_rows *b, const lk__rows_args *t, int64_t ldc,
                       int64_t n_panels, bool first_done, const char *next)
{
    const lk_gemm *g = &b->job->g;
    const lk__cross_type *cross = b->job->cross;
    const int64_t mr = cross->mr, elem = b->job->elem, skip = first_done ? mr : 0;
    int64_t tiles = b->full - first_done, rest = b->rest;
    if (rest > 0 && rest < FEW_ROWS && tiles > 0) {
        rest += mr;
        tiles--;
    }
    lk__strip_args strip = {.a = (const char *)t->a + skip * g->lda * elem,
                            .lda = g->lda,
                            .k = t->seg->len,
                            .w = t->w,
                            .start = t->start,
                            .bias = t->bias,
                            .c = (char *)t->c + skip * ldc * elem,
                            .ldc = ldc,
                            .n_tiles = tiles,
                            .n_panels = n_panels,
                            .next = tiles >= FAR_TILES ? next : NULL,
                            .next_step = g->ldb * elem};
    cross->strip[mr](&strip);
    strip.n_tiles = 1;
    for (int64_t parts = lk__parts(rest, mr); parts > 0; parts--) {
        const int64_t row = b->run->n_rows - rest, rows = lk__parts(rest, parts);
        strip.a = (const char *)t->a + row * g->lda * elem;
        strip.c = (char *)t->c + row * ldc * elem;
        cross->strip[rows](&strip);
        rest -= rows;
    }
}

/* Rows from `first` on, in tiles as even as they can be. */
static void run_tiles(const struct lk__gemm_rows *b, lk__rows_args *t, int64_t ldc, int width,
                      int64_t first)
{
    const lk_gemm *g = &b->job->g;
    const lk__rows_type *r = b->job->rows;
    const int64_t elem = b->job->elem;
    const int64_t mr = g->lda * elem % LK_GEMM_SET == 0 ? lk__min(r->mr[width], SET_ROWS)
                                                        : r->mr[width];
    const char *a = t->a;
    char *c = t->c;
    int64_t left = b->run->n_rows - first;
    for (int64_t tiles = lk__parts(left, mr); tiles > 0; tiles--) {
        const int64_t rows = lk__parts(left, tiles);
        t->a = a + first * g->lda * elem;
        t->c = c + first * ldc * elem;
        r->tile[width][rows](t);
        first += rows;
        left -= rows;
    }
}

/* Steps [k0, k0 + n_k) of the panel from column j on. */
static void run_panel(const struct lk__gemm_rows *b, int64_t j, int64_t k0, int64_t n_k,
                      const lk__gemm_target *to)
{
    const lk__gemm_job *job = b->job;
    const lk_gemm *g = &job->g;
    const lk__rows_type *r = job->rows;
    const int64_t elem = job->elem;
    const int width = lk__rows_pick(r, g->n - j), nr = r->width[width];
    const lk__segment seg = {.len = n_k};
    lk__rows_args t = {.seg = &seg,
                       .n_seg = n_k > 0,
                       .a = b->a + k0 * elem,
                       .a_off = b->a_off,
                       .w = b->run->b + (k0 * g->ldb + j) * elem,
                       .ldw = g->ldb,
                       .c = to->c,
                       .c_off = to->off,
                       .bias = job->bias ? job->bias + j * elem : NULL,
                       .start = to->start,
                       .n_valid = (int)lk__min(nr, g->n - j)};
    const bool usual = width == r->usual && t.n_valid == nr;
    const int64_t in_place = b->spread ? IN_PLACE_TILES : 1;
    const bool copy = !g->trans_b && n_k > 0 && b->run->n_rows > in_place * r->mr[width];
    if (copy) {
        t.w_copy = b->room;
        r->copy[width](&t);
    } else if (g->trans_b) {
        r->transpose(b->room, b->run->b + (j * g->ldb + k0) * elem, g->ldb, n_k, t.n_valid, nr);
    }
    if (copy || g->trans_b) {
        t.w = b->room;
        t.ldw = nr;
        t.w_packed = true;
        if (usual && b->strips) {
            const bool more = copy && job->n_chunks == 1 && j + nr < g->n;
            run_strips(b, &t, to->ldc, 1, copy, more ? b->run->b + (j + nr + nr - 1) * elem : NULL);
            return;
        }
    }
    run_tiles(b, &t, to->ldc, width, copy ? r->mr[width] : 0);
}

void lk__gemm_steps(const struct lk__gemm_rows *b, int64_t j, int64_t k0, int64_t k1,
                    lk__gemm_target to)
{
    int64_t left = lk__min(b->job->n_chunks, k1 - k0);
    do {
        const int64_t n_k = left > 1 ? lk__parts(k1 - k0, left) : k1 - k0;
        run_panel(b, j, k0, n_k, &to);
        to.start = LK_START_C;
        k0 += n_k;
    } while (--left > 0);
}

/* Panel p for all k. */
static void run_steps(const struct lk__gemm_rows *b, int64_t p)
{
    const lk__gemm_job *job = b->job;
    const int64_t j = p * job->panel;
    char *c = b->run->c + j * job->elem;
    if (job->g.piece > 0)
        lk__gemm_pieces(b, job, b->run, j);
    else
        lk__gemm_steps(b, j, 0, job->g.k, (lk__gemm_target){c, job->g.ldc, b->c_off, job->start});
}

/* How many panels from p on are worth packing together: those of a transposed B with a short k, as
 * long as they are of the usual width and stay in the first-level cache. */
static int64_t group_panels(const struct lk__gemm_rows *b, int64_t p, int64_t last)
{
    const lk__gemm_job *job = b->job;
    const int64_t bytes = job->g.k * job->panel * job->elem;
    if (!job->g.trans_b || job->g.piece > 0 || !b->strips || bytes == 0)
        return 1;
    const int64_t n = lk__min(GROUP_ROOM / bytes, lk__min(last, job->n_panels - 1) - p);
    return n > 1 ? n : 1;
}

/* Panels [p, p + n), packed together. */
static void run_group(const struct lk__gemm_rows *b, int64_t p, int64_t n)
{
    const lk__gemm_job *job = b->job;
    const lk_gemm *g = &job->g;
    const int64_t elem = job->elem, j = p * job->panel;
    const lk__segment seg = {.len = g->k};
    const lk__rows_args t = {.seg = &seg,
                             .a = b->a,
                             .w = b->room,
                             .c = b->run->c + j * elem,
                             .bias = job->bias ? job->bias + j * elem : NULL,
                             .start = job->start};
    for (int64_t i = 0; i < n; i++)
        job->rows->transpose(b->room + i * g->k * job->panel * elem,
                             b->run->b + (j + i * job->panel) * g->ldb * elem, g->ldb, g->k,
                             (int)job->panel, (int)job->panel);
    run_strips(b, &t, g->ldc, n, false, NULL);
}

static void take_run(struct lk__gemm_rows *b, const lk__gemm_run *run)
{
    const lk__gemm_job *job = b->job;
    b->run = run;
    b->a = run->a + run->row * job->g.lda * job->elem;
    b->full = run->n_rows / job->cross->mr;
    b->rest = run->n_rows % job->cross->mr;
}

void lk__gemm_by_rows(void *arg, int64_t first, int64_t last)
{
    const lk__gemm_job *job = arg;
    const lk_gemm *g = &job->g;
    _Alignas(LK_ALIGN) char room[LK_GEMM_ROOM];
    struct lk__gemm_rows b = {.job = job, .room = room};
    b.strips = job->rows->width[job->rows->usual] == job->cross->width[0] &&
               (g->lda * job->elem % LK_GEMM_SET != 0 || job->cross->mr <= SET_ROWS);
    b.spread = job->n_chunks == 1 && g->ldb * job->elem % (LK_GEMM_SET / 4) != 0;
    for (int m = 0; m < LK_MICRO_MR; m++) {
        b.a_off[m] = m * g->lda;
        b.c_off[m] = m * g->ldc;
    }
    while (first < last) {
        const lk__gemm_run run = lk__gemm_next(job, &first, last);
        int64_t done = run.first; /* panels with activation */
        take_run(&b, &run);
        for (int64_t p = run.first; p < run.last;) {
            const int64_t n = group_panels(&b, p, run.last);
            if (n > 1)
                run_group(&b, p, n);
            else
                run_steps(&b, p);
            p += n;
            if (p == run.last || p - done >= ACT_PANELS) {
                const int64_t end = p == job->n_panels ? g->n : p * job->panel;
                lk__gemm_act(job, &run, done * job->panel, end);
                done = p;
            }
        }
    }
}
