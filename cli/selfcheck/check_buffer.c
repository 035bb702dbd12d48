/* Outputs of a check with guards around them, which show a write outside. */
#include "selfcheck/check_buffer.h"

#include <lockstep/extra/alloc.h>

#include <math.h>
#include <string.h>

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
