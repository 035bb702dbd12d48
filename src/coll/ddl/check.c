/* DDL's check: the same sum another way, compared element by element.  lk_ddl_allreduce() calls it behind
 * a sum where an option asks for it, on all ranks.
 *
 * All ranks decide together: each tells how many of its elements are wrong and which are the first;
 * the indices of the lowest such rank are looked at on every rank, and rank 0 writes the file.
 */
#include "coll/ddl/ddl.h"

#include <lockstep/extra/alloc.h>

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN = 8, NAME_ROOM = 32 };

bool lk__ddl_right(double ours, double reference, double tolerance)
{
    if (ours != ours || reference != reference)
        return false;
    if (ours == reference)
        return true;
    double off = ours > reference ? ours - reference : reference - ours;
    double size = reference < 0 ? -reference : reference;
    return off <= DBL_MAX && off <= tolerance * (size > 0 ? size : 1);
}

static double value_of(lk_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case LK_F32: return (double)((const float *)data)[i];
    case LK_F64: return ((const double *)data)[i];
    case LK_I32: return ((const int32_t *)data)[i];
    case LK_I64: return (double)((const int64_t *)data)[i];
    default: return ((const uint8_t *)data)[i];
    }
}

/* What one rank found. */
struct wrong {
    int64_t n, index[SHOWN];
};

static struct wrong compare(const lk_collective *c, const void *reference, double tolerance)
{
    struct wrong w = {0, {0}};
    for (int64_t i = 0; i < c->count; i++) {
        double ours = value_of(c->dtype, c->out, i), want = value_of(c->dtype, reference, i);
        if (lk__ddl_right(ours, want, tolerance))
            continue;
        if (w.n < SHOWN)
            w.index[w.n] = i;
        w.n++;
    }
    return w;
}

/* Three values at an index, as one rank has them. */
struct values {
    double gave, got, reference;
};

struct dump {
    lk_ddl *d;
    const lk_collective *c;
    const struct wrong *wrong;   /* [size] */
    const struct values *values; /* [size][SHOWN] */
    int first;                   /* the lowest rank with wrong elements */
    bool by_mpi;
    double tolerance;
};

static void dump_write(const struct dump *x, FILE *f)
{
    const lk_ddl *d = x->d;
    char mode[LK_TIER_SPEC_TEXT];
    lk_tier_spec m = lk_ddl_mode(d);
    lk_tier_spec_text(&m, mode);
    fprintf(f, "allreduce of tensor \"%s\", %s x %lld, %s, mode %s, %d ranks\n",
            x->c->name ? x->c->name : "", lk_dtype_name(x->c->dtype), (long long)x->c->count,
            lk_reduce_op_name(x->c->op), mode, d->place.size);
    fprintf(f, "reference: %s, tolerance %g\n", x->by_mpi ? "MPI_Allreduce" : "the fixed tree",
            x->tolerance);
    for (int r = 0; r < d->place.size; r++)
        fprintf(f, "rank %d on %s: %lld elements wrong\n", r, d->topology->location[r].host,
                (long long)x->wrong[r].n);
    const struct wrong *w = &x->wrong[x->first];
    for (int i = 0; i < SHOWN && i < w->n; i++) {
        fprintf(f, "index %lld\n", (long long)w->index[i]);
        for (int r = 0; r < d->place.size; r++) {
            const struct values *v = &x->values[r * SHOWN + i];
            fprintf(f, "  rank %d: gave %.17g got %.17g reference %.17g\n", r, v->gave, v->got,
                    v->reference);
        }
    }
}

/* The file's name, or why there is none. */
static void dump_make(const struct dump *x, char name[NAME_ROOM])
{
    snprintf(name, NAME_ROOM, "ddl.dump.XXXXXX");
    int fd = mkstemp(name);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (f) {
        dump_write(x, f);
        if (fclose(f) == 0)
            return;
    } else if (fd >= 0)
        close(fd);
    snprintf(name, NAME_ROOM, "(none: errno %d)", errno);
}

/* What every rank has at the indices of the first one, written by rank 0; fails on all ranks. */
static lk_status disagree(struct dump *x, const void *given, const void *reference)
{
    lk_ddl *d = x->d;
    const lk_collective *c = x->c;
    const struct wrong *w = &x->wrong[x->first];
    struct values mine[SHOWN] = {{0, 0, 0}}, *all = NULL;
    char name[NAME_ROOM] = "";
    lk_status st;
    for (int i = 0; i < SHOWN && i < w->n; i++)
        mine[i] = (struct values){value_of(c->dtype, given, w->index[i]),
                                  value_of(c->dtype, c->out, w->index[i]),
                                  value_of(c->dtype, reference, w->index[i])};
    lk__call call = {
        .call = LK_CALL_SHARE, .name = "dump", .dtype = LK_U8, .op = LK_N_REDUCE_OPS, .root = -1};
    LK_TRY_COMM(d->comm->w, lk_alloc(&all, d->place.size, sizeof mine));
    LK_TRY_TO(done, lk__exchange(d->comm, &call, mine, sizeof mine, all));
    x->values = all;
    if (d->place.rank == 0)
        dump_make(x, name);
    LK_TRY_TO(done, lk_bcast(d->comm, name, NAME_ROOM, LK_U8, 0, "dump"));
    const struct values *v = &all[(int64_t)x->first * SHOWN];
    st = LK_RAISE(LK_ECOMM,
                  "check: tensor \"%s\" index %lld on rank %d: got %.9g, reference %.9g, tolerance "
                  "%g; %lld of %lld elements are wrong there; dump file %s",
                  c->name ? c->name : "", (long long)w->index[0], x->first, v->got, v->reference,
                  x->tolerance, (long long)w->n, (long long)c->count, name);
done:
    lk_free(all);
    return st;
}

static lk_status compare_all(struct dump *x, const void *given, const void *reference)
{
    lk_ddl *d = x->d;
    lk_status st;
    struct wrong mine = compare(x->c, reference, x->tolerance), *all = NULL;
    lk__call call = {
        .call = LK_CALL_SHARE, .name = "check", .dtype = LK_U8, .op = LK_N_REDUCE_OPS, .root = -1};
    LK_TRY_COMM(d->comm->w, lk_alloc(&all, d->place.size, sizeof *all));
    LK_TRY_TO(done, lk__exchange(d->comm, &call, &mine, sizeof mine, all));
    x->wrong = all;
    for (x->first = 0; x->first < d->place.size && all[x->first].n == 0;)
        x->first++;
    if (x->first < d->place.size)
        st = disagree(x, given, reference);
done:
    lk_free(all);
    return st;
}

lk_status lk__ddl_check(lk_ddl *d, const lk_collective *c, const void *given, bool mpi,
                        double tolerance)
{
    lk_status st;
    void *reference = NULL;
    struct dump x = {.d = d, .c = c, .tolerance = tolerance};
    x.by_mpi = !mpi && tolerance > 0 && strcmp(lk_comm_transport(d->comm), "mpi") == 0;
    LK_TRY_COMM(d->comm->w, lk_alloc(&reference, c->count, lk_dtype_size(c->dtype)));
    lk_collective again = *c;
    again.in = given;
    again.out = reference;
    again.algorithm = "tree";
    if (x.by_mpi)
        LK_TRY_TO(done, lk__ddl_reduce(d, &again, true));
    else
        LK_TRY_TO(done, lk_coll_run(d->comm, &again));
    LK_TRY_TO(done, compare_all(&x, given, reference));
done:
    lk_free(reference);
    return st;
}
