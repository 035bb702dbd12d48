/* A convolutional surrogate, trained on the tiles of a 2-D solver, where they are: nothing is gathered.
 *
 * The solver has a field u of ROWS x COLUMNS cells with 0 around, and u' = laplace(u) in explicit steps.
 * It cuts the field in places of its own into tiles, and deals these to a grid of ranks; a rank's array is
 * its tiles and a border of one cell around them.  Fields APART steps apart are pairs of before and
 * after, from which a small network of convolutions learns the change.
 *
 * The tiles decide bits, not the ranks: losses and weights are the same on 1 to 4, 6 and 8 ranks, for one rank
 * computes the same tiles, and sums over cells are sums of each tile, joined by a fixed tree.
 *
 *     heat_tiles [RANKS]      on that many threads, 4 if it is not said; under mpirun on its processes
 *
 * A simulation that has MPI and a Cartesian communicator makes the ranks of it instead; the order of
 * MPI's grids, the last axis fastest, is that of ours:
 *
 *     MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){2, 2}, (int[]){0, 0}, 1, &cart);
 *     lk_comm_from_mpi(MPI_Comm_c2f(cart), &comm);
 *     lk_grid_make(comm, 2, (int[]){2, 2}, NULL, &grid);
 */
#include <lockstep/lockstep.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 24, COLUMNS = 20, CELLS = ROWS * COLUMNS, PAIRS = 6, APART = 4, LAYERS = 3 };
enum { DESCENTS = 300, MAX_RANKS = 8, WEIGHTS = 3 * 3 * (1 * 8 + 8 * 8 + 8 * 1) + 8 + 8 + 1 };

static const int64_t size[2] = {ROWS, COLUMNS}, tiles[2] = {4, 2}, channels[] = {1, 8, 8, 1};
static const int64_t row_bounds[] = {0, 5, 11, 16, ROWS}, column_bounds[] = {0, 12, COLUMNS};
static const lk_tile_bounds bounds = {{row_bounds, column_bounds}};
static const double rate = 0.2;

/* What a rank has: fields are [box rows][box columns], one behind the other. */
struct part {
    lk_tiling *tiling;
    lk_box own, box;   /* its tiles, and with the border, which ends where the field does */
    lk_fetch *borders; /* gets the border from the ranks whose cells it is */
    lk_tile *tile;     /* of a convolution 3x3: its values have this box too */
    double *fields;    /* [PAIRS + 1], APART steps apart */
    double weights[WEIGHTS], gradient[WEIGHTS]; /* the same on all ranks */
};

/* ---- the solver ---- */

static lk_box with_border(lk_box b)
{
    for (int d = 0; d < 2; d++) {
        int64_t end = b.first[d] + b.n[d];
        b.first[d] -= b.first[d] > 0;
        b.n[d] = end + (end < size[d]) - b.first[d];
    }
    return b;
}

/* Every rank knows what all of them have and want, so who sends what to whom is arithmetic. */
static lk_status part_make(lk_comm *comm, struct part *p)
{
    int ranks = lk_comm_size(comm), across = ranks > 2 && ranks % 2 == 0 ? 2 : 1;
    lk_box own[MAX_RANKS], want[MAX_RANKS];
    lk_grid grid;
    LK_CHECK(ranks <= MAX_RANKS, LK_EINVAL, "%d ranks, where there are 8 tiles", ranks);
    LK_TRY(lk_grid_make(comm, 2, (int[]){ranks / across, across}, NULL, &grid));
    LK_TRY(lk_tiling_new(comm, &grid, tiles, 1, &p->tiling));
    for (int r = 0; r < ranks; r++) {
        own[r] = lk_tiling_box(p->tiling, r, 2, size, &bounds);
        want[r] = with_border(own[r]);
    }
    LK_TRY(lk_fetch_new(p->tiling, own, want, &p->borders));
    p->own = own[lk_comm_rank(comm)];
    p->box = want[lk_comm_rank(comm)];
    lk_tile_spec conv = {
        .kind = LK_TILE_CONV,
        .window = {.ndim = 2, .kernel = {3, 3}, .pad_lo = {1, 1}, .pad_hi = {1, 1}},
        .in = {ROWS, COLUMNS},
        .out = {ROWS, COLUMNS},
        .in_bounds = bounds,
        .out_bounds = bounds,
        .x_box = p->box, /* it checks that the border is wide enough */
        .y_box = p->box};
    LK_TRY(lk_tile_new(p->tiling, &conv, &p->tile));
    p->fields = calloc((size_t)((PAIRS + 1) * lk_box_count(&p->box)), sizeof *p->fields);
    LK_CHECK(p->fields, LK_ENOMEM, "no memory for %d fields", PAIRS + 1);
    return LK_OK;
}

/* Where the cell at row i and column j of the whole is. */
static double *cell(const struct part *p, double *u, int64_t i, int64_t j)
{
    static double outside;
    bool is_in = i >= 0 && i < ROWS && j >= 0 && j < COLUMNS;
    return is_in ? u + (i - p->box.first[0]) * p->box.n[1] + (j - p->box.first[1]) : &outside;
}

/* One step: get the border, then each own cell of v from those of u around it. */
static lk_status heat_step(const struct part *p, double *u, double *v)
{
    LK_TRY(lk_fetch_begin(p->borders, LK_F64, 1, 1, &p->box, u, "borders"));
    LK_TRY(lk_fetch_end(p->borders));
    for (int64_t i = p->own.first[0]; i < p->own.first[0] + p->own.n[0]; i++)
        for (int64_t j = p->own.first[1]; j < p->own.first[1] + p->own.n[1]; j++) {
            double around = (*cell(p, u, i - 1, j) + *cell(p, u, i + 1, j)) +
                            (*cell(p, u, i, j - 1) + *cell(p, u, i, j + 1));
            double here = *cell(p, u, i, j);
            *cell(p, v, i, j) = fma(0.2, fma(-4, here, around), here);
        }
    return LK_OK;
}

static lk_status simulate(const struct part *p)
{
    int64_t n = lk_box_count(&p->box);
    double *u = p->fields, *room = calloc((size_t)(2 * n), sizeof *room);
    LK_CHECK(room, LK_ENOMEM, "no memory for 2 fields");
    lk_status st = LK_OK;
    for (int64_t i = p->own.first[0]; i < p->own.first[0] + p->own.n[0] && st == LK_OK; i++)
        st = lk_rng_uniform_f64(lk_rng_start(1, "heat", "start"), /* by cell, whoever draws */
                                (lk_rng_at){.element = i * COLUMNS + p->own.first[1]}, p->own.n[1],
                                cell(p, u, i, p->own.first[1]));
    for (int k = 0; k < PAIRS && st == LK_OK; k++, u += n)
        for (int s = 0; s < APART && st == LK_OK; s++)
            st = heat_step(p, s == 0 ? u : room + s % 2 * n,
                           s + 1 == APART ? u + n : room + (s + 1) % 2 * n);
    free(room);
    return st;
}

/* ---- the network ---- */

/* after = before + conv(relu(conv(relu(conv(before))))).  Each convolution fetches the border of what it
 * reads; gradients of weights are complete on every rank.  Both sides are the solver's own arrays. */
static lk_status loss_of(struct part *p, lk_tape *tape, double *value)
{
    int64_t n = lk_box_count(&p->box), at = 0;
    lk_shape shape = LK_SHAPE(PAIRS, p->box.n[0], p->box.n[1], 1);
    lk_var before, after, x, w, b;
    lk_tape_reset(tape);
    LK_TRY(lk_constant_data(tape, LK_F64, shape, p->fields, &before));
    LK_TRY(lk_constant_data(tape, LK_F64, shape, p->fields + n, &after));
    x = before;
    for (int k = 0; k < LAYERS; k++) {
        int64_t in = channels[k], out = channels[k + 1];
        LK_TRY(lk_leaf_data(tape, LK_F64, LK_SHAPE(3, 3, in, out), p->weights + at,
                            p->gradient + at, &w));
        at += 9 * in * out;
        LK_TRY(lk_leaf_data(tape, LK_F64, LK_SHAPE(out), p->weights + at, p->gradient + at, &b));
        at += out;
        LK_TRY(lk_dist_tile_conv(p->tile, x, w, b, NULL, k + 1 < LAYERS ? LK_ACT_RELU : LK_ACT_NONE,
                                 "conv", &x));
    }
    LK_TRY(lk_add(before, x, &x)); /* what is in borders here is never counted */
    LK_TRY(lk_sub(x, after, &x));
    LK_TRY(lk_square(x, &x));
    LK_TRY(lk_dist_tile_sums(p->tile, x, "errors", &x));   /* of each tile */
    LK_TRY(lk_dist_sum_tiles(p->tiling, x, "errors", &x)); /* of all ranks' tiles */
    LK_TRY(lk_sum(x, NULL, &x));                           /* and over pairs */
    LK_TRY(lk_affine(x, 1.0 / (PAIRS * CELLS), 0, &x));
    LK_TRY(lk_item(x, value));
    memset(p->gradient, 0, sizeof p->gradient);
    return LK_TRACE(lk_backward(tape, &(lk_seed){.of = x}, 1, 0));
}

static lk_status train(struct part *p, lk_tape *tape, bool prints)
{
    char text[LK_HASH_TEXT];
    double loss;
    LK_TRY(loss_of(p, tape, &loss)); /* all weights are 0 */
    if (prints)
        printf("if nothing changed:  %.9f\n", loss);
    LK_TRY(lk_rng_uniform_f64(lk_rng_start(1, "heat", "weights"), (lk_rng_at){0}, WEIGHTS,
                              p->weights));
    for (int i = 0; i < WEIGHTS; i++)
        p->weights[i] = 0.4 * (p->weights[i] - 0.5);
    for (int k = 0; k <= DESCENTS; k++) {
        LK_TRY(loss_of(p, tape, &loss));
        if (prints && k % 100 == 0)
            printf("after %3d descents:  %.9f\n", k, loss);
        for (int i = 0; i < WEIGHTS; i++)
            p->weights[i] = fma(-rate, p->gradient[i], p->weights[i]);
    }
    lk_hash hash = lk_hash_start();
    lk_hash_add_bytes(&hash, p->weights, sizeof p->weights);
    if (prints)
        printf("the bits of the weights: %s\n", lk_hash_text(lk_hash_value(&hash), text));
    return LK_OK;
}

static lk_status surrogate(lk_comm *comm, void *arg)
{
    lk_status st;
    lk_tape *tape = NULL;
    struct part p = {.tiling = NULL};
    (void)arg;
    LK_TRY_TO(done, part_make(comm, &p));
    LK_TRY_TO(done, simulate(&p));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, train(&p, tape, lk_comm_rank(comm) == 0));
done:
    lk_tape_free(tape);
    lk_tile_free(p.tile);
    lk_fetch_free(p.borders);
    lk_tiling_free(p.tiling);
    free(p.fields);
    return st;
}

int main(int argc, char **argv)
{
    return lk_run_main(argc > 1 ? atoi(argv[1]) : 4, surrogate, NULL, stderr);
}
