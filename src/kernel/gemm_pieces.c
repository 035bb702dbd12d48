/* Blocks of C whose op(A) is A itself, k cut into pieces.
 *
 * Each piece of a tile is a chain of the rows micro-kernel into a slot of its own; slots are joined
 * by the tree of reduce.h like a binary counter: the piece with index p goes to the slot of the
 * lowest zero bit of p, and joins the slots of the one bits below.
 */
#include "kernel/gemm.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* A slot holds a tile; f64 tiles have half the columns. */
enum { SLOT_BYTES = LK_MICRO_MR * 128 };

/* Slots for as many pieces as memory can hold. */
enum { LEVELS = 48 };

struct panel {
    const lk__gemm_job *job;
    const lk__gemm_run *run;
    int64_t j;
    int width, nr, n_valid;
    int64_t chunk, held; /* rows of B in the room, and which of those it holds */
    char *room, *slots;  /* of LK_GEMM_ROOM bytes, of LEVELS slots */
    int64_t a_off[LK_MICRO_MR], c_off[LK_MICRO_MR];
};

/* Rows of B from k on, as many as `len` at most: in place, or packed from the transpose. */
static int64_t find_rows(struct panel *p, lk__rows_args *t, int64_t k, int64_t len)
{
    const lk_gemm *g = &p->job->g;
    const int64_t elem = p->job->elem;
    if (!g->trans_b) {
        t->w = p->run->b + (k * g->ldb + p->j) * elem;
        t->ldw = g->ldb;
        return len;
    }
    const int64_t first = k / p->chunk * p->chunk, rows = lk__min(p->chunk, g->k - first);
    if (p->held != first)
        p->job->rows->transpose(p->room, p->run->b + (p->j * g->ldb + first) * elem, g->ldb, rows,
                                p->n_valid, p->nr);
    p->held = first;
    t->w = p->room + (k - first) * p->nr * elem;
    t->ldw = p->nr;
    t->w_packed = true;
    return lk__min(len, first + rows - k);
}

/* The chain of one piece, k in [first, last), of `rows` rows from `row` of the run on. */
static void run_piece(struct panel *p, int64_t row, int64_t rows, int64_t first, int64_t last,
                      void *slot)
{
    const lk_gemm *g = &p->job->g;
    lk__segment seg = {0};
    lk__rows_args t = {.seg = &seg,
                       .n_seg = 1,
                       .a_off = p->a_off,
                       .c = slot,
                       .c_off = p->c_off,
                       .start = LK_START_ZERO,
                       .n_valid = p->n_valid};
    while (first < last) {
        seg.len = find_rows(p, &t, first, last - first);
        t.a = p->run->a + ((p->run->row + row) * g->lda + first) * p->job->elem;
        p->job->rows->tile[p->width][rows](&t);
        first += seg.len;
        t.start = LK_START_C;
    }
}

/* All pieces of one tile; returns the slot with their sum. */
static char *run_tree(struct panel *p, int64_t row, int64_t rows)
{
    const lk_gemm *g = &p->job->g;
    const int64_t n = lk__parts(g->k, g->piece);
    char *slot = p->slots;
    for (int64_t i = 0; i < n; i++) {
        int64_t level = 0;
        while (i >> level & 1)
            level++;
        slot = p->slots + level * SLOT_BYTES;
        run_piece(p, row, rows, i * g->piece, lk__min(g->k, (i + 1) * g->piece), slot);
        for (int64_t l = 0; i >> l && (l < level || i == n - 1); l++)
            if (i >> l & 1)
                lk__gemm_add(g->dtype, slot, p->slots + l * SLOT_BYTES, rows * p->nr);
    }
    return slot;
}

/* C = start + sum. */
static void write_tile(const struct panel *p, int64_t row, int64_t rows, char *sum)
{
    const lk__gemm_job *job = p->job;
    for (int64_t m = 0; m < rows; m++) {
        char *from = sum + m * p->nr * job->elem;
        char *c = p->run->c + ((row + m) * job->g.ldc + p->j) * job->elem;
        const char *start = job->start == LK_START_BIAS ? job->bias + p->j * job->elem : c;
        if (job->start != LK_START_ZERO)
            lk__gemm_add(job->g.dtype, from, start, p->n_valid);
        memcpy(c, from, (size_t)(p->n_valid * job->elem));
    }
}

void lk__gemm_pieces(const lk__gemm_job *job, const lk__gemm_run *run, int64_t j)
{
    _Alignas(LK_ALIGN) char room[LK_GEMM_ROOM], slots[LEVELS * SLOT_BYTES];
    const int width = lk__rows_pick(job->rows, job->g.n - j), nr = job->rows->width[width];
    struct panel p = {.job = job,
                      .run = run,
                      .j = j,
                      .width = width,
                      .nr = nr,
                      .n_valid = (int)lk__min(nr, job->g.n - j),
                      .chunk = LK_GEMM_ROOM / (nr * job->elem),
                      .held = -1,
                      .room = room,
                      .slots = slots};
    for (int m = 0; m < LK_MICRO_MR; m++) {
        p.a_off[m] = m * job->g.lda;
        p.c_off[m] = (int64_t)m * nr;
    }
    /* Tiles write n_valid columns of a slot, the tree adds whole rows. */
    memset(slots, 0, sizeof slots);
    for (int64_t row = 0; row < run->n_rows;) {
        const int64_t rows = lk__min(job->rows->mr[width], run->n_rows - row);
        write_tile(&p, row, rows, run_tree(&p, row, rows));
        row += rows;
    }
}
