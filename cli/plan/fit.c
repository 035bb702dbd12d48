/* lockstep plan, where a rank has less memory than it would take: what takes less, found by plans of that.
 *
 * A candidate is the experiment with some more assignments, planned as it would be with these.  A plan takes
 * neither memory nor time to speak of (src/train/rehearse.c), so candidates are tried one after the other:
 * grids that are finer along the longest axis each time, batches of half as many samples, twice as many
 * segments, and no copy of a set of files; where the model is most of it, twice as many stages and ranks along
 * features.  Of each kind the first that fits is printed.
 */
#include "plan/fit.h"

#include "layout.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/trainer_plan.h>
#include <lockstep/log.h>
#include <lockstep/op.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

lk_status plan_make(lk_experiment *e, const lk_job *like, const lk_mesh_shape *shape, int ranks,
                    int rank, lk_job **job, lk_plan **out)
{
    lk_job_spec spec = {.experiment = e};
    for (int split = 0; split < LK_N_SPLITS; split++) {
        const lk_loader *loader = like ? lk_job_loader(like, (lk_split)split) : NULL;
        spec.set[split] = loader ? lk_loader_dataset(loader) : NULL;
    }
    e->parallel.data = 0; /* this process is alone, whatever is planned */
    e->parallel.spatial.n = 0;
    e->parallel.features = e->parallel.stages = 1;
    LK_TRY(lk_job_new_spec(&spec, job));
    return LK_TRACE(lk_job_plan(*job, shape, ranks, rank, out));
}

/* ---- what there is ---- */

bool plan_size_read(const char *text, int64_t *out)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    long long v = strtoll(text, &end, 10);
    if (end == text || v <= 0 || text[0] == '+' || text[0] == ' ')
        return false;
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (const char *u = units; unit && u <= unit; u++)
        if (__builtin_mul_overflow(v, 1024LL, &v))
            return false;
    *out = v;
    return end[unit ? 1 : 0] == 0;
}

/* What one of `ranks` on this machine may take, and who says so; INT64_MAX: not known. */
static int64_t memory_here(int ranks, const char **who)
{
    int64_t least = INT64_MAX;
    struct rlimit limit;
    char line[128];
    long long kib;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) {
            least = kib * 1024 / (ranks > 0 ? ranks : 1);
            *who = "of this machine's available memory for each rank";
        }
    }
    if (f)
        fclose(f);
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < (rlim_t)least) {
        least = (int64_t)limit.rlim_cur;
        *who = "of the limit of data memory (ulimit -d)";
    }
    return least;
}

/* ---- candidates ---- */

enum { MORE = 3, ASSIGNMENT = 64, TRIES = 12 };

typedef struct candidate {
    int n;
    char more[MORE][ASSIGNMENT]; /* assignments besides those that are there */
    bool by_tiles;               /* something must run by tiles */
    lk_mesh_shape shape;
} candidate;

static void candidate_set(candidate *c, const char *key, const char *value)
{
    snprintf(c->more[c->n++], ASSIGNMENT, "%s=%s", key, value);
}

static void candidate_set_int(candidate *c, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    candidate_set(c, key, text);
}

/* The rank in the middle of the grid, which has a margin on all sides. */
static int middle_rank(const lk_mesh_shape *s)
{
    int64_t rank = 0;
    for (int d = 0; d < s->ndim; d++)
        rank = rank * s->space[d] + s->space[d] / 2;
    return (int)(s->features > 1 ? rank * s->features : rank);
}

/* The most bytes of a rank of each stage of a candidate, with the data of the first job; 0: it cannot be had,
 * -1: nor can one with finer tiles, by which nothing runs. */
static int64_t candidate_bytes(const plan_asked *a, const lk_job *first, const candidate *c)
{
    const char **given = NULL;
    lk_experiment *e = NULL;
    lk_job *job = NULL;
    lk_plan *plan = NULL;
    int64_t bytes = 0, ranks = layout_ranks(&c->shape);
    int stages = (int)c->shape.stages, middle = middle_rank(&c->shape);
    lk_status st = lk_alloc((void *)&given, a->n + MORE, sizeof *given);
    if (st == LK_OK) {
        for (int i = 1; i < a->n; i++)
            given[i - 1] = a->operand[i];
        for (int i = 0; i < c->n; i++)
            given[a->n - 1 + i] = c->more[i];
        st = lk_experiment_read(a->operand[0], given, a->n - 1 + c->n, &e);
    }
    if (st == LK_OK)
        st = plan_make(e, first, &c->shape, (int)ranks, middle, &job, &plan);
    for (int s = 1; st == LK_OK; s++) {
        int64_t own = lk_plan_memory_sum(&plan->memory);
        bytes = c->by_tiles && !plan->tiles_fit ? -1 : own > bytes ? own : bytes;
        if (s >= stages || bytes < 0)
            break;
        lk_plan_free(plan);
        st = lk_job_plan(job, &c->shape, (int)ranks, s * (int)ranks / stages + middle, &plan);
    }
    if (st != LK_OK)
        bytes = 0;
    lk_plan_free(plan);
    lk_job_free(job);
    lk_experiment_free(e);
    lk_free(given);
    lk_error_clear();
    return bytes;
}

/* Candidate number `i` of a kind; false: there is none. */
typedef bool next_fn(const plan_asked *a, const lk_job *job, int i, candidate *c);

/* Twice as many ranks as number i - 1 along the axis with the longest tiles, and tiles for them. */
static bool next_grid(const plan_asked *a, const lk_job *job, int i, candidate *c)
{
    const lk_experiment *e = lk_job_experiment(job);
    const lk_loader *loader = lk_job_loader(job, LK_TRAIN);
    int field = lk_dataset_find(lk_loader_dataset(loader), "x"), axis = -1;
    int64_t tiles[3] = {1, 1, 1};
    char text[LAYOUT_GRID];
    lk_shape x = field >= 0 ? lk_loader_field(loader, field).shape : (lk_shape){0};
    bool finer = false;
    c->by_tiles = true;
    for (c->shape = a->shape; c->shape.ndim < 3 && c->shape.ndim < x.ndim - 1; c->shape.ndim++)
        c->shape.space[c->shape.ndim] = 1;
    for (int k = 0; k <= i; k++, axis = -1) {
        for (int d = 0; d < c->shape.ndim; d++)
            if (axis < 0 || x.dim[d] / c->shape.space[d] > x.dim[axis] / c->shape.space[axis])
                axis = d;
        if (axis < 0 || x.dim[axis] / c->shape.space[axis] < 2)
            return false;
        c->shape.space[axis] *= 2;
    }
    for (int d = 0; d < c->shape.ndim; d++) {
        finer = finer || c->shape.space[d] > e->pieces.cut.tile[d];
        tiles[d] = finer && c->shape.space[d] > e->pieces.cut.tile[d] ? c->shape.space[d]
                                                                      : e->pieces.cut.tile[d];
        tiles[d] = tiles[d] > 0 ? tiles[d] : 1;
    }
    if (finer)
        candidate_set(c, "pieces.tiles", layout_grid_text(c->shape.ndim, tiles, text));
    int64_t dim[3];
    for (int d = 0; d < c->shape.ndim; d++)
        dim[d] = c->shape.space[d];
    candidate_set(c, "parallel.spatial", layout_grid_text(c->shape.ndim, dim, text));
    return layout_ranks(&c->shape) <= LK_MAX_LOCAL;
}

static bool next_batch(const plan_asked *a, const lk_job *job, int i, candidate *c)
{
    const lk_experiment *e = lk_job_experiment(job);
    int64_t batch = e->loader.batch >> (i + 1), shards = e->loader.shards;
    c->shape = a->shape;
    if (batch < 1)
        return false;
    candidate_set_int(c, "data.batch", batch);
    if (shards > batch)
        candidate_set_int(c, "data.shards", batch);
    return true;
}

static bool next_recompute(const plan_asked *a, const lk_job *job, int i, candidate *c)
{
    const lk_experiment *e = lk_job_experiment(job);
    int64_t segments = (int64_t)2 << i;
    c->shape = a->shape;
    if (segments <= e->train.recompute || segments > 32)
        return segments <= 32; /* to be tried, and found to be no better */
    candidate_set_int(c, "train.recompute", segments);
    return true;
}

/* Stages that compute values again. */
static bool next_recompute_stages(const plan_asked *a, const lk_job *job, int i, candidate *c)
{
    c->shape = a->shape;
    candidate_set(c, "parallel.recompute", "true");
    return i == 0 && a->shape.stages > 1 && !lk_job_experiment(job)->parallel.recompute;
}

/* Twice as many stages as number i - 1. */
static bool next_stages(const plan_asked *a, const lk_job *job, int i, candidate *c)
{
    (void)job;
    c->shape = a->shape;
    c->shape.stages = (a->shape.stages > 1 ? a->shape.stages : 1) << (i + 1);
    candidate_set_int(c, "parallel.stages", c->shape.stages);
    return layout_ranks(&c->shape) <= LK_MAX_LOCAL;
}

/* Twice as many ranks along features as number i - 1, and blocks for them. */
static bool next_features(const plan_asked *a, const lk_job *job, int i, candidate *c)
{
    c->shape = a->shape;
    c->shape.features = (a->shape.features > 1 ? a->shape.features : 1) << (i + 1);
    if (c->shape.features > lk_job_experiment(job)->pieces.cut.blocks)
        candidate_set_int(c, "pieces.blocks", c->shape.features);
    candidate_set_int(c, "parallel.features", c->shape.features);
    return layout_ranks(&c->shape) <= LK_MAX_LOCAL;
}

/* Without the copy of a set of files. */
static bool next_keep(const plan_asked *a, const lk_job *job, int i, candidate *c)
{
    c->shape = a->shape;
    candidate_set_int(c, "data.keep", 0);
    return i == 0 && lk_job_experiment(job)->loader.keep > 0;
}

/* What takes less, and what is said of it: of more ranks it is what each of them takes. */
typedef struct kind {
    next_fn *next;
    bool ranks, of_model; /* of_model: it has less of the model, and is tried where that is most */
    const char *pieces;   /* that it may need other ones of, which are another run */
} kind;

static const kind kinds[] = {
    {.next = next_grid, .ranks = true, .pieces = "tiles"},
    {.next = next_batch},
    {.next = next_stages, .ranks = true, .of_model = true},
    {.next = next_features, .ranks = true, .of_model = true, .pieces = "blocks"},
    {.next = next_recompute_stages},
    {.next = next_recompute},
    {.next = next_keep},
};

/* The first candidate of a kind that takes at most `limit`, in words. */
static bool candidate_find(const plan_asked *a, const lk_job *job, int64_t limit, const kind *k,
                           char note[PLAN_NOTE])
{
    for (int i = 0; i < TRIES; i++) {
        candidate c = {0};
        size_t n = 0;
        if (!k->next(a, job, i, &c))
            return false;
        int64_t bytes = candidate_bytes(a, job, &c);
        if (bytes < 0)
            return false;
        if (bytes == 0 || bytes > limit)
            continue;
        note[0] = 0;
        for (int m = 0; m < c.n && n < PLAN_NOTE; m++)
            n += (size_t)snprintf(note + n, PLAN_NOTE - n, "%s ", c.more[m]);
        if (n < PLAN_NOTE)
            snprintf(note + n, PLAN_NOTE - n, "fits: %lld bytes%s", (long long)bytes,
                     k->ranks ? " a rank" : "");
        if (c.n > 1 && k->pieces)
            snprintf(note + strlen(note), PLAN_NOTE - strlen(note), "; other %s are another run",
                     k->pieces);
        return true;
    }
    return false;
}

/* Whether what is held of the model is most of what a rank takes. */
static bool model_is_most(const lk_plan_memory *m)
{
    int64_t model = m->parameters + m->optimizer + m->gradients + m->state + m->saving;
    return 2 * model > lk_plan_memory_sum(m);
}

int plan_fit_notes(const plan_asked *a, const lk_job *job, const lk_plan *plan,
                   char note[PLAN_FIT_NOTES][PLAN_NOTE])
{
    const char *who = "of --memory";
    lk_log_level level = lk_log_level_now();
    int64_t limit = a->memory > 0 ? a->memory : memory_here(plan_ranks(plan), &who);
    int64_t bytes = lk_plan_memory_sum(&plan->memory);
    bool model = model_is_most(&plan->memory);
    int n = 1;
    if (bytes <= limit)
        return 0;
    snprintf(note[0], PLAN_NOTE, "it does not fit: a rank takes %lld bytes, more than the %lld %s",
             (long long)bytes, (long long)limit, who);
    lk_log_set_level(LK_LOG_ERROR); /* warnings about candidates are of no use */
    for (int k = 0; k < LK_COUNT(kinds); k++)
        if (model || !kinds[k].of_model)
            n += candidate_find(a, job, limit, &kinds[k], note[n]);
    lk_log_set_level(level);
    if (n == 1)
        snprintf(note[n++], PLAN_NOTE,
                 "no finer grid alone fits, %sno smaller batch and no %strain.recompute",
                 model ? "no more stages or ranks along features, " : "",
                 a->shape.stages > 1 ? "parallel.recompute or " : "");
    return n;
}
