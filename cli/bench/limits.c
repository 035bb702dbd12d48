/* Loops that do nothing but move memory or multiply and add, on threads of their own.
 *
 * They are compiled for each instruction set, so that a limit is not that of the compiler's least one.
 */
#include "bench/limits.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/extra/isa.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#if defined __x86_64__
#    include <immintrin.h>
#elif defined __aarch64__
#    include <arm_neon.h>
#endif

const int64_t bench_limit_bytes[BENCH_N_SIZES] = {1 << 16, 1 << 22, 1 << 24, 1 << 26};

enum {
    COPY_PAST = BENCH_N_LOOPS, /* a copy that is written around the caches */
    MULTIPLY_ADDS,
    CHAINS = 12, /* of multiply-adds: more than two units with a latency of 5 need */
    CHAIN_STEPS = 4096
};

/* A pass takes this long at least, so that reading the clock costs nothing. */
static const double shortest_sample = 1e-3;

const char *bench_loop_name(bench_loop loop)
{
    static const char *const names[BENCH_N_LOOPS] = {"read", "copy", "add"};
    return names[loop];
}

/* ---- loops ---- */

/* What they compute is given back, so that it must be computed. */
typedef struct loops {
    float (*read)(const float *x, int64_t n);
    void (*add)(float *y, const float *x, int64_t n);
    float (*multiply_add)(const float *x);
    int64_t lanes;
} loops;

#define NAMED_(name, isa) name##_##isa
#define NAMED(name, isa) NAMED_(name, isa)

#if defined __x86_64__
#    define LOOP_ISA scalar
#    define LOOP_TARGET
#    define LOOP_LANES 4
#    define LOOP_VECTOR __m128
#    define LOOP_LOAD _mm_loadu_ps
#    define LOOP_STORE _mm_storeu_ps
#    define LOOP_ADD _mm_add_ps
#    define LOOP_FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#    include "bench/loops.h"
#    define LOOP_ISA avx2
#    define LOOP_TARGET __attribute__((target("avx2,fma")))
#    define LOOP_LANES 8
#    define LOOP_VECTOR __m256
#    define LOOP_LOAD _mm256_loadu_ps
#    define LOOP_STORE _mm256_storeu_ps
#    define LOOP_ADD _mm256_add_ps
#    define LOOP_FMA _mm256_fmadd_ps
#    include "bench/loops.h"
#    define LOOP_ISA avx512
#    define LOOP_TARGET __attribute__((target("avx512f")))
#    define LOOP_LANES 16
#    define LOOP_VECTOR __m512
#    define LOOP_LOAD _mm512_loadu_ps
#    define LOOP_STORE _mm512_storeu_ps
#    define LOOP_ADD _mm512_add_ps
#    define LOOP_FMA _mm512_fmadd_ps
#    include "bench/loops.h"

static const loops *loops_of(lk_isa isa)
{
    if (isa == LK_ISA_AVX512 && !lk_isa_is_emulated(isa))
        return &loops_avx512;
    return isa == LK_ISA_SCALAR ? &loops_scalar : &loops_avx2;
}
#else
/* Vectors of the compiler: of AArch64 they are NEON's. */
typedef float plain __attribute__((vector_size(16)));
#    define LOOP_ISA plain
#    define LOOP_TARGET
#    define LOOP_LANES 4
#    define LOOP_VECTOR plain
#    define LOOP_LOAD(p) (*(const plain *)(p))
#    define LOOP_STORE(p, v) (*(plain *)(p) = (v))
#    define LOOP_ADD(a, b) ((a) + (b))
#    if defined __aarch64__
#        define LOOP_FMA(a, b, c) vfmaq_f32(c, a, b)
#    else
#        define LOOP_FMA(a, b, c) ((a) * (b) + (c))
#    endif
#    include "bench/loops.h"

static const loops *loops_of(lk_isa isa)
{
    (void)isa;
    return &loops_plain;
}
#endif

/* y = x, lines of y not being read before; where there are no such stores, as memcpy(). */
static void copy_past(float *y, const float *x, int64_t n)
{
#if defined __x86_64__
    for (int64_t i = 0; i + 4 <= n; i += 4)
        _mm_stream_ps(y + i, _mm_loadu_ps(x + i));
    _mm_sfence();
#else
    memcpy(y, x, (size_t)n * sizeof *x);
#endif
}

/* ---- threads ---- */

/* A thread with its arrays; [0] is the caller. */
struct worker {
    struct crew *crew;
    pthread_t thread;
    float *x, *y, kept;
    double seconds;
};

struct crew {
    const loops *loops;
    struct worker *worker;
    int threads;
    int loop;  /* what all do, */
    int64_t n; /* on so many elements, */
    int calls; /* so many times */
    atomic_int ready;
};

static void work(struct worker *w)
{
    const struct crew *c = w->crew;
    for (int i = 0; i < c->calls; i++)
        switch (c->loop) {
        case BENCH_READ: w->kept += c->loops->read(w->x, c->n); break;
        case BENCH_COPY: memcpy(w->y, w->x, (size_t)c->n * sizeof *w->x); break;
        case COPY_PAST: copy_past(w->y, w->x, c->n); break;
        case BENCH_ADD: c->loops->add(w->y, w->x, c->n); break;
        default: w->kept += c->loops->multiply_add(w->x); break;
        }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct crew *c = w->crew;
    int64_t (*now)(void) = c->threads == 1 ? lk_clock_thread_ns : lk_clock_ns;
    atomic_fetch_add(&c->ready, 1);
    while (atomic_load(&c->ready) < c->threads)
        sched_yield();
    int64_t start = now();
    work(w);
    w->seconds = 1e-9 * (double)(now() - start);
    return NULL;
}

/* Seconds until the slowest is done. */
static lk_status crew_run(struct crew *c, double *seconds)
{
    int n = 1;
    atomic_store(&c->ready, 0);
    for (; n < c->threads; n++)
        if (pthread_create(&c->worker[n].thread, NULL, worker_main, &c->worker[n]) != 0)
            break;
    atomic_fetch_add(&c->ready, c->threads - n); /* those that are missing */
    worker_main(&c->worker[0]);
    *seconds = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0)
            pthread_join(c->worker[i].thread, NULL);
        *seconds = c->worker[i].seconds > *seconds ? c->worker[i].seconds : *seconds;
    }
    LK_CHECK(n == c->threads, LK_ENOTSUP, "only %d of %d threads could be started", n, c->threads);
    return LK_OK;
}

/* ---- figures ---- */

/* Rounds of one loop; `work` is what a call of a thread moves or computes, in units of 1e9. */
static lk_status loop_measure(struct crew *c, double work, double seconds, bench_figure *out)
{
    double sample[BENCH_MAX_ROUNDS], took = 0;
    int n = 0;
    c->calls = 1;
    LK_TRY(crew_run(c, &took)); /* pages and caches */
    for (;; c->calls *= 2) {
        LK_TRY(crew_run(c, &took));
        if (took >= shortest_sample)
            break;
    }
    double end = bench_now() + seconds;
    while (bench_goes_on(n, end))
        LK_TRY(crew_run(c, &sample[n++]));
    *out = bench_rate(work * c->calls * c->threads, bench_median(sample, n));
    return LK_OK;
}

static lk_status arrays_make(struct crew *c, int64_t n)
{
    for (int i = 0; i < c->threads; i++) {
        struct worker *w = &c->worker[i];
        w->crew = c;
        LK_TRY(lk_alloc(&w->x, n, sizeof *w->x));
        LK_TRY(lk_alloc(&w->y, n, sizeof *w->y));
        for (int64_t k = 0; k < n; k++) {
            w->x[k] = 1e-9F; /* what is added to again and again stays a normal number */
            w->y[k] = 1;
        }
    }
    return LK_OK;
}

static lk_status all_measure(struct crew *c, double seconds, bench_limits *out)
{
    static const double moved[] = {1, 2, 3, [COPY_PAST] = 2};
    double each = seconds / (BENCH_N_SIZES * MULTIPLY_ADDS + 1);
    for (int size = 0; size < BENCH_N_SIZES; size++) {
        int64_t bytes = bench_limit_bytes[size] / c->threads;
        c->n = bytes / (int64_t)sizeof(float);
        bench_figure gbytes[MULTIPLY_ADDS];
        for (c->loop = 0; c->loop < MULTIPLY_ADDS; c->loop++)
            LK_TRY(loop_measure(c, 1e-9 * moved[c->loop] * (double)bytes, each, &gbytes[c->loop]));
        memcpy(out->gbytes[size], gbytes, sizeof out->gbytes[size]);
        out->gbytes[size][BENCH_COPY] = bench_larger(gbytes[BENCH_COPY], gbytes[COPY_PAST]);
    }
    c->loop = MULTIPLY_ADDS;
    double flop = 2.0 * CHAIN_STEPS * CHAINS * (double)c->loops->lanes;
    return LK_TRACE(loop_measure(c, 1e-9 * flop, each, &out->gflops));
}

lk_status bench_limits_measure(int threads, double seconds, bench_limits *out)
{
    lk_status st;
    lk_isa isa;
    struct crew c = {.threads = threads};
    *out = (bench_limits){0};
    LK_TRY(lk_isa_now(&isa));
    c.loops = loops_of(isa);
    LK_TRY(lk_alloc_zero(&c.worker, threads, sizeof *c.worker));
    int64_t most = bench_limit_bytes[BENCH_N_SIZES - 1] / threads / (int64_t)sizeof(float);
    LK_TRY_TO(done, arrays_make(&c, most));
    LK_TRY_TO(done, all_measure(&c, seconds, out));
done:
    for (int i = 0; i < threads; i++) {
        lk_free(c.worker[i].x);
        lk_free(c.worker[i].y);
    }
    lk_free(c.worker);
    return st;
}

/* The size that is nearest to `bytes`, in powers. */
static int size_near(double bytes)
{
    int size = 0;
    while (size + 1 < BENCH_N_SIZES &&
           bytes * bytes > (double)bench_limit_bytes[size] * (double)bench_limit_bytes[size + 1])
        size++;
    return size;
}

bench_figure bench_limits_seconds(const bench_limits *l, double footprint, double read,
                                  double written)
{
    /* Seconds for each GB that is read, and for each that is copied, which is read as well, of two arrays. */
    bench_figure reads = bench_rate(1, l->gbytes[size_near(footprint)][BENCH_READ]);
    bench_figure copies = bench_rate(2, l->gbytes[size_near(footprint / 2)][BENCH_COPY]);
    return bench_combined(read - written, reads, written, copies);
}
