/* A simulation with its own MPI, communicator and stencil, differentiated with respect to its start.
 *
 * The field u, ROWS x COLUMNS cells with 0 around, follows u' = laplace(u) + u (1 - u) in explicit
 * steps; each rank has some rows.  The simulation's own code, the exchange of border rows and the
 * loop over cells, becomes one node of the tape, `laplace`.  The gradient of the energy at the end
 * with respect to every cell at the start then costs one backward pass.
 *
 * The derivative of a linear node is its transpose, and the Laplacian is symmetric: backward is the
 * node itself.  So each number of the gradient is computed from the same numbers in the same order on
 * any number of ranks, and has the same bits.
 *
 *     mpicc 14_host_heat.c $(pkg-config --cflags --libs lockstep) -lm && mpirun -n 4 ./a.out
 */
#include <lockstep/lockstep.h>

#include <math.h>
#include <mpi.h>
#include <string.h>

enum { ROWS = 24, COLUMNS = 16, STEPS = 50 };

static const double dt = 0.1;

/* ---- the simulation's own code, as a node ---- */

static lk_status laplace_infer(lk_call *c, lk_output_spec *out)
{
    out->dtype = lk_tensor_dtype(c->x[0]);
    out->shape = lk_tensor_shape(c->x[0]);
    LK_CHECK(out->dtype == LK_F64 && out->shape.ndim == 2 && out->shape.dim[1] == COLUMNS,
             LK_ESHAPE, "laplace of %s: f64, %d columns", lk_tensor_text(c->x[0]).s, COLUMNS);
    return LK_OK;
}

/* y = the sum of the four neighbours - 4 u, with the neighbours' border rows above and below. */
static lk_status laplace_forward(lk_call *c)
{
    lk_comm *comm = *(lk_comm *const *)c->attr;
    int rank = lk_comm_rank(comm), up = rank - 1, down = rank + 1; /* -1: none */
    int64_t rows = lk_tensor_shape(c->x[0]).dim[0];
    const double *u = lk_tensor_data(c->x[0]);
    double top[COLUMNS], bottom[COLUMNS], above[COLUMNS] = {0}, below[COLUMNS] = {0};
    void *data;
    if (down == lk_comm_size(comm))
        down = -1;
    LK_TRY(lk_tensor_writable_data(c->y[0], &data));
    memcpy(top, u, sizeof top);
    memcpy(bottom, u + (rows - 1) * COLUMNS, sizeof bottom);
    LK_TRY(lk_sendrecv(comm, LK_F64, &(lk_sendrecv_side){top, COLUMNS, up, 0},
                       &(lk_sendrecv_side){below, COLUMNS, down, 0}, "rows up", NULL));
    LK_TRY(lk_sendrecv(comm, LK_F64, &(lk_sendrecv_side){bottom, COLUMNS, down, 1},
                       &(lk_sendrecv_side){above, COLUMNS, up, 1}, "rows down", NULL));
    for (int64_t i = 0; i < rows; i++) {
        const double *here = u + i * COLUMNS;
        const double *n = i > 0 ? here - COLUMNS : above,
                     *s = i + 1 < rows ? here + COLUMNS : below;
        double *y = (double *)data + i * COLUMNS;
        for (int j = 0; j < COLUMNS; j++) {
            double w = j > 0 ? here[j - 1] : 0, e = j + 1 < COLUMNS ? here[j + 1] : 0;
            y[j] = fma(-4, here[j], (n[j] + s[j]) + (w + e));
        }
    }
    return LK_OK;
}

static lk_status laplace_backward(lk_call *c, const lk_var *dout, lk_var *din)
{
    return LK_TRACE(lk_apply(c->tape, c->op, dout, 1, c->attr, din));
}

static const lk_op laplace = {.name = "laplace",
                              .summary = "the sum of the four neighbours - 4 u",
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = 1,
                              .flags = LK_OP_COLLECTIVE |
                                       LK_OP_LINEAR, /* backward never skips it */
                              .attr_size = sizeof(lk_comm *),
                              .infer = laplace_infer,
                              .forward = laplace_forward,
                              .backward = laplace_backward};

/* ---- the program ---- */

/* The fields are the host's memory: this rank's rows lie in front. */
static double start[ROWS * COLUMNS], gradient[ROWS * COLUMNS], direction[ROWS * COLUMNS];

/* This rank's part of the energy, the sum of u^2 / 2 after all steps, and if wanted the gradient. */
static lk_status simulate(lk_comm *comm, lk_tape *tape, int64_t rows, bool differentiate,
                          double *out)
{
    lk_var u, change, growth, energy;
    lk_tape_reset(tape);
    LK_TRY(lk_leaf_data(tape, LK_F64, LK_SHAPE(rows, COLUMNS), start, gradient, &u));
    for (int n = 0; n < STEPS; n++) {
        LK_TRY(lk_apply(tape, &laplace, &u, 1, &comm, &change));
        LK_TRY(lk_square(u, &growth));
        LK_TRY(lk_sub(u, growth, &growth));
        LK_TRY(lk_add(change, growth, &change));
        LK_TRY(lk_affine(change, dt, 0, &change));
        LK_TRY(lk_add(u, change, &u));
    }
    LK_TRY(lk_square(u, &u));
    LK_TRY(lk_sum(u, NULL, &energy));
    LK_TRY(lk_affine(energy, 0.5, 0, &energy));
    LK_TRY(lk_item(energy, out));
    if (differentiate) /* the sum of all ranks' parts: nothing need be added up */
        LK_TRY(lk_backward(tape, &(lk_seed){.of = energy}, 1, 0));
    return LK_OK;
}

static lk_status heat(MPI_Comm host, lk_comm *comm, lk_tape *tape)
{
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm), counts[ROWS], offsets[ROWS];
    lk_range rows = lk_range_split(ROWS, rank, size);
    int64_t n = rows.n * COLUMNS;
    double all[ROWS * COLUMNS], part[4] = {0}, sum[4];
    const double h = 1e-5;
    LK_CHECK(size <= ROWS, LK_EINVAL, "%d rows for %d ranks", ROWS, size);
    lk_rng_at first = {.element = rows.first * COLUMNS}; /* a cell has one number, whoever draws */
    LK_TRY(lk_rng_uniform_f64(lk_rng_start(1, "heat", "start"), first, n, start));
    LK_TRY(lk_rng_uniform_f64(lk_rng_start(1, "heat", "direction"), first, n, direction));
    LK_TRY(simulate(comm, tape, rows.n, true, &part[0]));

    /* The derivative along a direction, by the gradient and by differences. */
    for (int64_t i = 0; i < n; i++) {
        part[1] += gradient[i] * direction[i];
        start[i] += h * direction[i];
    }
    LK_TRY(simulate(comm, tape, rows.n, false, &part[2]));
    for (int64_t i = 0; i < n; i++)
        start[i] -= 2 * h * direction[i];
    LK_TRY(simulate(comm, tape, rows.n, false, &part[3]));
    MPI_Allreduce(part, sum, 4, MPI_DOUBLE, MPI_SUM, host);
    bool agree = fabs((sum[2] - sum[3]) / (2 * h) - sum[1]) <= 1e-8 * fabs(sum[1]);

    for (int r = 0; r < size; r++) {
        counts[r] = (int)lk_range_split(ROWS, r, size).n * COLUMNS;
        offsets[r] = (int)lk_range_split(ROWS, r, size).first * COLUMNS;
    }
    MPI_Gatherv(gradient, (int)n, MPI_DOUBLE, all, counts, offsets, MPI_DOUBLE, 0, host);
    if (rank == 0) {
        char text[LK_HASH_TEXT];
        lk_hash hash = lk_hash_start();
        lk_hash_add_bytes(&hash, all, sizeof all);
        printf("energy after %d steps: %.9f\n", STEPS, sum[0]);
        printf("the bits of its gradient: %s\n", lk_hash_text(lk_hash_value(&hash), text));
        printf("by differences: %s\n", agree ? "the same to 8 digits" : "another");
    }
    return LK_OK;
}

int main(int argc, char **argv)
{
    MPI_Comm host;
    lk_comm *comm = NULL;
    lk_tape *tape = NULL;
    lk_status st;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &host);
    LK_TRY_TO(done, lk_comm_from_mpi(MPI_Comm_c2f(host), &comm));
    LK_TRY_TO(done, lk_tape_new(&tape));
    LK_TRY_TO(done, heat(host, comm, tape));
done:
    if (st != LK_OK) {
        lk_error_print(stderr);
        MPI_Abort(host, 1);
    }
    lk_tape_free(tape);
    lk_comm_close(comm);
    MPI_Comm_free(&host);
    MPI_Finalize();
    return 0;
}
