/* Running a check: configurations outside, cases inside, so that threads start seldom. */
#include "selfcheck/check_run.h"

#include "kernel/reference/reference.h"
#include "selfcheck/check.h"
#include "term.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/threads.h>
#include <lockstep/hash.h>
#include <lockstep/thread.h>

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* A case with the outputs of its first configuration and of the present one. */
struct trial {
    check_case c;
    check_buffer first, now;
    int runs;
};

struct configuration {
    lk_isa isa;
    int threads, way;
};

void check_name(const lk__check *check, lk_dtype dtype, char *buf, size_t size)
{
    if (check->untyped)
        snprintf(buf, size, "%s", check->name);
    else
        snprintf(buf, size, "%s.%s", check->name, lk_dtype_name(dtype));
}

static void LK_PRINTF(2, 3) fail(check_result *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->failure, sizeof r->failure, fmt, ap);
    va_end(ap);
    r->failed = true;
}

static void fail_in(check_result *r, const struct trial *t, const struct configuration *g,
                    const char *what)
{
    fail(r, "case %d (%s), %s, %d thread%s, %s: %s", t->c.index, t->c.label, lk_isa_name(g->isa),
         g->threads, plural(g->threads), t->c.check->ways[g->way], what);
}

static void fail_at(check_result *r, const struct trial *t, const struct configuration *g, int o,
                    int64_t at, const void *wrong, const char *source, const void *right)
{
    lk_dtype dtype = t->c.out[o].dtype;
    double v = check_get(dtype, wrong, at), want = check_get(dtype, right, at);
    char what[320];
    snprintf(what, sizeof what,
             "output %d differs first at element %lld of %lld: %.17g (%a), but %s gives %.17g (%a)",
             o, (long long)at, (long long)t->c.out[o].n, v, v, source, want, want);
    fail_in(r, t, g, what);
}

static bool trial_new(struct trial *t, const lk__check *check, int index, lk_dtype dtype,
                      uint64_t seed)
{
    *t = (struct trial){
        .c = {.check = check, .index = index, .dtype = dtype, .seed = seed, .ways = 1}};
    return check->setup(&t->c) == LK_OK && check_buffer_new(&t->c, &t->first) == LK_OK &&
           check_buffer_new(&t->c, &t->now) == LK_OK;
}

static void trial_free(struct trial *t)
{
    check_buffer_free(&t->first);
    check_buffer_free(&t->now);
    check_case_free(&t->c);
}

/* Compute into `b` and see that it returns LK_OK and stays within the outputs. */
static void compute(struct trial *t, const struct configuration *g, check_buffer *b,
                    check_result *r)
{
    check_buffer_reset(&t->c, b);
    if (t->c.check->run(&t->c, g->way, b->out) != LK_OK) {
        fail_in(r, t, g, lk_error_message());
        return;
    }
    if (check_buffer_spill(&t->c, b) >= 0)
        fail_in(r, t, g, "something was written outside of the output");
    check_buffer_settle(&t->c, b);
    t->runs++;
}

/* Run the case in one configuration and compare with the first one. */
static void try_configuration(struct trial *t, const struct configuration *g, check_result *r)
{
    compute(t, g, &t->now, r);
    for (int o = 0; o < t->c.n_out && !r->failed; o++) {
        int64_t at;
        if (check_differ(&t->c, o, t->now.out[o], t->first.out[o], &at))
            fail_at(r, t, g, o, at, t->now.out[o], "the first configuration", t->first.out[o]);
    }
}

static lk_status truth_new(const check_case *c, const check_buffer *start, check_truth *truth)
{
    *truth = (check_truth){.bits = {NULL}};
    for (int o = 0; o < c->n_out; o++) {
        truth->bits[o] = start->out[o];
        if (!lk_dtype_is_real(c->out[o].dtype))
            continue;
        LK_TRY(lk_alloc(&truth->value[o], c->out[o].n, sizeof(lk__ref_value)));
        for (int64_t i = 0; i < c->out[o].n; i++)
            truth->value[o][i].bound = -1;
    }
    return LK_OK;
}

/* The largest error of output `o` as a fraction of its bound, at `*at`. */
static double worst_error(const struct trial *t, const check_truth *truth, int o, int64_t *at)
{
    double worst = -1;
    *at = 0;
    for (int64_t i = 0; i < t->c.out[o].n; i++) {
        const lk__ref_value *v = &truth->value[o][i];
        double got = check_get(t->c.out[o].dtype, t->first.out[o], i);
        if (v->bound < 0)
            continue;
        double error = fabs((got - v->hi) - v->lo);
        if ((isnan(got) && isnan(v->hi)) || (isinf(got) && got == v->hi))
            error = 0;
        double fraction = error == 0 ? 0 : error / v->bound;
        if (isnan(fraction))
            fraction = (double)INFINITY;
        if (fraction > worst) {
            worst = fraction;
            *at = i;
        }
    }
    return worst;
}

/* Compare the first configuration's outputs with the definition's. */
static void compare_truth(const struct trial *t, const struct configuration *g,
                          const check_truth *truth, check_result *r)
{
    for (int o = 0; o < t->c.n_out && !r->failed; o++) {
        int64_t at;
        if (truth->has_bits[o] && check_differ(&t->c, o, t->first.out[o], truth->bits[o], &at))
            fail_at(r, t, g, o, at, t->first.out[o], "the definition", truth->bits[o]);
        if (r->failed || !truth->value[o])
            continue;
        double worst = worst_error(t, truth, o, &at);
        r->error = fmax(r->error, worst);
        if (worst <= 1)
            continue;
        const lk__ref_value *v = &truth->value[o][at];
        char what[256];
        snprintf(what, sizeof what,
                 "output %d, element %lld: %.17g, but the true value is %.17g and the error may be "
                 "%.3g",
                 o, (long long)at, check_get(t->c.out[o].dtype, t->first.out[o], at), v->hi + v->lo,
                 v->bound);
        fail_in(r, t, g, what);
    }
}

/* The first configuration: compare with the definition.  `now` holds the expected bits. */
static void try_first(struct trial *t, const struct configuration *g, check_result *r)
{
    compute(t, g, &t->first, r);
    if (r->failed)
        return;
    check_buffer_reset(&t->c, &t->now);
    check_truth truth;
    if (truth_new(&t->c, &t->now, &truth) != LK_OK || t->c.check->expect(&t->c, &truth) != LK_OK) {
        fail_in(r, t, g, lk_error_message());
    } else {
        check_buffer_settle(&t->c, &t->now);
        compare_truth(t, g, &truth, r);
    }
    for (int o = 0; o < t->c.n_out; o++)
        lk_free(truth.value[o]);
}

/* All cases with one instruction set and thread count. */
static void try_all(struct trial *t, int n, struct configuration g, bool first, check_result *r)
{
    for (int i = 0; i < n && !r->failed; i++)
        for (g.way = 0; g.way < CHECK_MAX_WAYS && !r->failed; g.way++) {
            if (!(t[i].c.ways >> g.way & 1))
                continue;
            if (first && g.way == 0)
                try_first(&t[i], &g, r);
            else
                try_configuration(&t[i], &g, r);
        }
}

static bool use(struct configuration *g, const check_setting *s, int isa, int threads,
                check_result *r)
{
    *g = (struct configuration){.isa = s->isa[isa], .threads = s->threads[threads]};
    lk_threads_share_all(true); /* cases are too short to share otherwise */
    if (lk_isa_set(g->isa) == LK_OK && lk_threads_set(g->threads) == LK_OK)
        return true;
    fail(r, "%s", lk_error_message());
    return false;
}

static void hash_outputs(const struct trial *t, int n, check_result *r)
{
    lk_hash h = lk_hash_start();
    for (int i = 0; i < n; i++)
        for (int o = 0; o < t[i].c.n_out; o++) {
            const check_array *a = &t[i].c.out[o];
            lk_hash_add_i64(&h, a->n);
            lk_hash_add_bytes(&h, t[i].first.out[o], (size_t)a->n * lk_dtype_size(a->dtype));
        }
    r->hash = lk_hash_value(&h);
}

static void begin(const lk__check *check, lk_dtype dtype, check_result *r)
{
    *r = (check_result){.cases = check->n_cases, .error = -1};
    check_name(check, dtype, r->name, sizeof r->name);
    lk_error_clear();
}

void check_run(const lk__check *check, lk_dtype dtype, const check_setting *s, check_result *r)
{
    begin(check, dtype, r);
    struct trial *t;
    int made = 0, n = check->n_cases;
    if (lk_alloc(&t, n, sizeof *t) != LK_OK) {
        fail(r, "%s", lk_error_message());
        return;
    }
    for (; made < n && !r->failed; made++)
        if (!trial_new(&t[made], check, made, dtype, s->seed))
            fail(r, "case %d: %s", made, lk_error_message());
    for (int i = 0; i < s->n_isas && !r->failed; i++)
        for (int j = 0; j < s->n_threads && !r->failed; j++) {
            double part = (i * s->n_threads + j) / (double)(s->n_isas * s->n_threads);
            struct configuration g;
            progress_show(s->progress, s->done + s->share * part, "%s, %s, %d thread%s", r->name,
                          lk_isa_name(s->isa[i]), s->threads[j], plural(s->threads[j]));
            if (use(&g, s, i, j, r))
                try_all(t, n, g, i == 0 && j == 0, r);
        }
    if (!r->failed)
        hash_outputs(t, n, r);
    for (int i = 0; i < made; i++) {
        r->configurations = r->configurations < t[i].runs ? t[i].runs : r->configurations;
        r->runs += t[i].runs;
        trial_free(&t[i]);
    }
    lk_free(t);
}

/* One run of a case whose n-th allocation fails.  True if it came to that one. */
static bool run_failing(struct trial *t, const struct configuration *g, int64_t n, check_result *r)
{
    lk_error_clear();
    check_buffer_reset(&t->c, &t->now);
    lk_alloc_stats before = lk_alloc_stats_now();
    lk_alloc_fail_at(n);
    lk_status st = t->c.check->run(&t->c, g->way, t->now.out);
    lk_alloc_fail_at(0);
    lk_alloc_stats after = lk_alloc_stats_now();
    bool came = after.calls - before.calls >= n;
    r->runs += came;
    char what[CHECK_FAILURE / 2];
    if (st != LK_OK && !(came && st == LK_ENOMEM)) {
        snprintf(what, sizeof what, "allocation %lld failing gives %s: %s", (long long)n,
                 lk_status_text(st), lk_error_message());
        fail_in(r, t, g, what);
    }
    if (after.live_blocks != before.live_blocks) {
        snprintf(what, sizeof what, "allocation %lld failing leaks %lld blocks", (long long)n,
                 (long long)(after.live_blocks - before.live_blocks));
        fail_in(r, t, g, what);
    }
    check_buffer_settle(&t->c, &t->now);
    for (int o = 0; o < t->c.n_out && st == LK_OK && !r->failed; o++) {
        int64_t at;
        if (check_differ(&t->c, o, t->now.out[o], t->first.out[o], &at))
            fail_at(r, t, g, o, at, t->now.out[o], "a run with memory", t->first.out[o]);
    }
    return came;
}

/* All ways of a case, each until none of its allocations fails any more. */
static void fail_in_turn(struct trial *t, struct configuration *g, check_result *r)
{
    compute(t, g, &t->first, r);
    for (g->way = 0; g->way < CHECK_MAX_WAYS; g->way++)
        if (t->c.ways >> g->way & 1)
            for (int64_t n = 1; !r->failed && run_failing(t, g, n, r); n++)
                ;
}

void check_run_failing(const lk__check *check, lk_dtype dtype, const check_setting *s,
                       check_result *r)
{
    begin(check, dtype, r);
    struct configuration g;
    for (int i = 0; i < check->n_cases && !r->failed; i++) {
        progress_show(s->progress, s->done + s->share * i / check->n_cases, "%s", r->name);
        struct trial t;
        if (!trial_new(&t, check, i, dtype, s->seed))
            fail(r, "case %d: %s", i, lk_error_message());
        else if (use(&g, s, s->n_isas - 1, s->n_threads - 1, r))
            fail_in_turn(&t, &g, r);
        trial_free(&t);
    }
    r->configurations = r->runs;
}
