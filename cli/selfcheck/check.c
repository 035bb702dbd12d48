/* Inputs of checks, and pieces joined. */
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
