/* Every f32 argument of every elementary function, against libm in double: the largest error.
 *
 * Some minutes on two cores.  With arguments, only the functions named: test_math_whole_range exp */
#include "math_reference.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, MAX_THREADS = 64 };

struct slice {
    const struct reference *f;
    uint64_t first, last; /* bit patterns */
    double worst;
    float at;
    lk_status st;
};

static void *slice_check(void *arg)
{
    struct slice *s = arg;
    static _Thread_local float x[CHUNK], y[CHUNK];
    for (uint64_t u = s->first; u < s->last; u += CHUNK) {
        int n = s->last - u < CHUNK ? (int)(s->last - u) : CHUNK;
        for (int i = 0; i < n; i++)
            x[i] = f32_of_bits((uint32_t)u + (uint32_t)i);
        s->st = lk_map1(LK_F32, s->f->op, 1, n, x, y);
        if (s->st != LK_OK)
            return NULL;
        for (int i = 0; i < n; i++) {
            double error = ulp_error_f32(y[i], s->f->fn((double)x[i]));
            if (error > s->worst) {
                s->worst = error;
                s->at = x[i];
            }
        }
    }
    return NULL;
}

/* Whether the function keeps its limit. */
static bool function_check(const struct reference *f, int n_threads)
{
    struct slice slice[MAX_THREADS];
    pthread_t thread[MAX_THREADS];
    for (int t = 0; t < n_threads; t++) {
        slice[t] = (struct slice){
            .f = f,
            .first = ((uint64_t)t << 32) / (uint64_t)n_threads,
            .last = ((uint64_t)(t + 1) << 32) / (uint64_t)n_threads,
        };
        if (pthread_create(&thread[t], NULL, slice_check, &slice[t]) != 0) {
            fprintf(stderr, "FAIL: cannot start a thread\n");
            return false;
        }
    }
    struct slice *worst = &slice[0];
    bool ok = true;
    for (int t = 0; t < n_threads; t++) {
        pthread_join(thread[t], NULL);
        ok = ok && slice[t].st == LK_OK;
        if (slice[t].worst > worst->worst)
            worst = &slice[t];
    }
    ok = ok && worst->worst <= f->limit;
    printf("%s %-10s at most %.4f ulp, at %a\n", ok ? "ok" : "FAIL", lk_map1_name(f->op),
           worst->worst, (double)worst->at);
    fflush(stdout);
    return ok;
}

int main(int argc, char **argv)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n_threads = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores;
    bool ok = true;
    for (int i = 0; i < N_REFERENCES; i++) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted = wanted || strcmp(argv[a], lk_map1_name(references[i].op)) == 0;
        if (wanted)
            ok = function_check(&references[i], n_threads) && ok;
    }
    return ok ? 0 : 1;
}
