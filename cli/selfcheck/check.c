/* Inputs and outputs of checks, and pieces joined. */
#include "selfcheck/check.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/reduce.h>

#include <math.h>
#include <string.h>

/* The finaliser of SplitMix64: every bit of x decides over every bit of the result. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

uint64_t check_random(const check_case *c, int which, int64_t i)
{
    uint64_t key = c->seed;
    for (const char *p = c->check->name; *p; p++)
        key = mix(key + 0x9e3779b97f4a7c15U + (unsigned char)*p);
    key = mix(key + (uint64_t)c->index * CHECK_MAX_INPUTS * 4 + (uint64_t)which);
    return mix(key + (uint64_t)i * 0x9e3779b97f4a7c15U);
}

double check_get(lk_dtype dtype, const void *base, int64_t i)
{
    switch (dtype) {
    case LK_F32: return (double)((const float *)base)[i];
    case LK_F64: return ((const double *)base)[i];
    case LK_I64: return (double)((const int64_t *)base)[i];
    case LK_I32: return (double)((const int32_t *)base)[i];
    case LK_U8: return (double)((const uint8_t *)base)[i];
    default: return (double)((const uint16_t *)base)[i];
    }
}

void check_set(lk_dtype dtype, void *base, int64_t i, double v)
{
    switch (dtype) {
    case LK_F32: ((float *)base)[i] = (float)v; break;
    case LK_F64: ((double *)base)[i] = v; break;
    case LK_I64: ((int64_t *)base)[i] = (int64_t)v; break;
    case LK_I32: ((int32_t *)base)[i] = (int32_t)v; break;
    case LK_U8: ((uint8_t *)base)[i] = (uint8_t)v; break;
    default: ((uint16_t *)base)[i] = (uint16_t)v; break;
    }
}

static lk_status fill(const check_case *c, check_array *a, int which, double lo, double hi)
{
    LK_TRY(lk_alloc(&a->data, a->n, lk_dtype_size(a->dtype)));
    for (int64_t i = 0; i < a->n; i++) {
        double unit = (double)(check_random(c, which, i) >> 11) * 0x1p-53;
        double v = lo + (hi - lo) * unit;
        check_set(a->dtype, a->data, i, lk_dtype_is_real(a->dtype) ? v : floor(v));
    }
    return LK_OK;
}

lk_status check_input(check_case *c, lk_dtype dtype, int64_t n, double lo, double hi)
{
    LK_CHECK(c->n_in < CHECK_MAX_INPUTS, LK_EINVAL, "%s has too many inputs", c->check->name);
    check_array *a = &c->in[c->n_in++];
    *a = (check_array){dtype, n, NULL};
    return LK_TRACE(fill(c, a, c->n_in - 1, lo, hi));
}

lk_status check_output(check_case *c, lk_dtype dtype, int64_t n, bool filled)
{
    LK_CHECK(c->n_out < CHECK_MAX_OUTPUTS, LK_EINVAL, "%s has too many outputs", c->check->name);
    check_array *a = &c->out[c->n_out++];
    *a = (check_array){dtype, n, NULL};
    if (filled)
        LK_TRY(fill(c, a, CHECK_MAX_INPUTS + c->n_out - 1, -1, 1));
    return LK_OK;
}

void check_case_free(check_case *c)
{
    for (int i = 0; i < c->n_in; i++)
        lk_free(c->in[i].data);
    for (int i = 0; i < c->n_out; i++)
        lk_free(c->out[i].data);
    c->n_in = c->n_out = 0;
}

lk_status check_join(const check_case *c, check_push *push, void *out)
{
    lk_status st;
    lk_tree *tree = NULL;
    void *piece = NULL;
    LK_TRY_TO(done, lk_tree_new(c->dtype, c->out[0].n, &tree));
    LK_TRY_TO(done, lk_alloc(&piece, c->out[0].n, lk_dtype_size(c->dtype)));
    LK_TRY_TO(done, push(c, tree, piece));
    LK_TRY_TO(done, lk_tree_finish(tree, out));
done:
    lk_tree_free(tree);
    lk_free(piece);
    return st;
}

/* ---- outputs, with guards around them that show a write outside ---- */

/* 0xa5 repeated is a small number in f32 and f64, and no NaN. */
enum { GUARD = LK_ALIGN, GUARDS = 2 * GUARD, JUNK = 0xa5 };

static size_t bytes_of(const check_array *a)
{
    return (size_t)a->n * lk_dtype_size(a->dtype);
}

lk_status check_buffer_new(const check_case *c, check_buffer *b)
{
    *b = (check_buffer){{NULL}, {NULL}};
    for (int o = 0; o < c->n_out; o++) {
        lk_status st = lk_alloc(&b->block[o], (int64_t)bytes_of(&c->out[o]) + GUARDS, 1);
        if (st != LK_OK) {
            check_buffer_free(b);
            LK_TRY(st);
        }
        b->out[o] = (char *)b->block[o] + GUARD;
    }
    return LK_OK;
}

void check_buffer_free(check_buffer *b)
{
    for (int o = 0; o < CHECK_MAX_OUTPUTS; o++) {
        lk_free(b->block[o]);
        b->block[o] = b->out[o] = NULL;
    }
}

void check_buffer_reset(const check_case *c, check_buffer *b)
{
    for (int o = 0; o < c->n_out; o++) {
        size_t bytes = bytes_of(&c->out[o]);
        memset(b->block[o], JUNK, bytes + GUARDS);
        if (c->out[o].data)
            memcpy(b->out[o], c->out[o].data, bytes);
    }
}

void check_buffer_settle(const check_case *c, check_buffer *b)
{
    for (int o = 0; o < c->n_out; o++)
        for (int64_t i = 0; i < c->out[o].n && lk_dtype_is_real(c->out[o].dtype); i++)
            if (isnan(check_get(c->out[o].dtype, b->out[o], i)))
                check_set(c->out[o].dtype, b->out[o], i, (double)NAN);
}

int check_buffer_spill(const check_case *c, const check_buffer *b)
{
    for (int o = 0; o < c->n_out; o++) {
        const unsigned char *before = b->block[o];
        const unsigned char *behind = before + GUARD + bytes_of(&c->out[o]);
        for (int i = 0; i < GUARD; i++)
            if (before[i] != JUNK || behind[i] != JUNK)
                return o;
    }
    return -1;
}

bool check_differ(const check_case *c, int o, const void *a, const void *b, int64_t *at)
{
    size_t size = lk_dtype_size(c->out[o].dtype);
    if (memcmp(a, b, bytes_of(&c->out[o])) == 0)
        return false;
    *at = 0;
    while (memcmp((const char *)a + (size_t)*at * size, (const char *)b + (size_t)*at * size,
                  size) == 0)
        ++*at;
    return true;
}
