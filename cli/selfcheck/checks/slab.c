/* Check of slabs: names, offsets, gaps and the hash. */
#include "selfcheck/check.h"
#include "term.h"

#include <lockstep/slab.h>

#include <stdio.h>
#include <string.h>

enum { OWNED, WRAPPED };
enum { OUT_BYTES, OUT_HASH };
enum { MAX_SLICES = 4 };

static const struct {
    int n;
    struct {
        const char *name;
        lk_dtype dtype;
        lk_shape shape;
    } slice[MAX_SLICES];
} cases[] = {
    {1, {{"w", LK_F32, LK_DIMS(3)}}},
    {3,
     {{"fc1.weight", LK_F32, LK_DIMS(17, 5)},
      {"fc1.bias", LK_F32, LK_DIMS(5)},
      {"s", LK_F32, {0, {0}}}}},
    {4,
     {{"bytes", LK_U8, LK_DIMS(65)},
      {"double", LK_F64, LK_DIMS(8)},
      {"none", LK_F32, LK_DIMS(0, 4)},
      {"half", LK_BF16, LK_DIMS(3, 3)}}},
};

/* Bytes of slice i, and with the gap behind it. */
static int64_t bytes_of(const check_case *c, int i)
{
    lk_shape s = cases[c->index].slice[i].shape;
    int64_t bytes = (int64_t)lk_dtype_size(cases[c->index].slice[i].dtype);
    for (int d = 0; d < s.ndim; d++)
        bytes *= s.dim[d];
    return bytes;
}

static int64_t padded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static lk_status slab_setup(check_case *c)
{
    int64_t total = 0;
    for (int i = 0; i < cases[c->index].n; i++)
        total += padded(bytes_of(c, i));
    snprintf(c->label, sizeof c->label, "%d slice%s", cases[c->index].n, plural(cases[c->index].n));
    LK_TRY(check_input(c, LK_U8, total, 0, 256));
    LK_TRY(check_output(c, LK_U8, total, false));
    LK_TRY(check_output(c, LK_I64, 1, false));
    c->ways = 1U << OWNED | 1U << WRAPPED;
    return LK_OK;
}

static lk_status add_slices(const check_case *c, lk_slab_layout *layout)
{
    for (int i = 0; i < cases[c->index].n; i++)
        LK_TRY(lk_slab_layout_add(layout, cases[c->index].slice[i].name,
                                  cases[c->index].slice[i].dtype, cases[c->index].slice[i].shape));
    LK_CHECK(lk_slab_layout_bytes(layout) == c->out[OUT_BYTES].n, LK_EINVAL, "%lld bytes, not %lld",
             (long long)lk_slab_layout_bytes(layout), (long long)c->out[OUT_BYTES].n);
    return LK_OK;
}

/* Fill each slice through its tensor, found by name, with the input's bytes in order. */
static lk_status fill_slices(const check_case *c, const lk_slab *slab)
{
    const unsigned char *from = c->in[0].data;
    for (int i = 0; i < cases[c->index].n; i++) {
        lk_tensor *t;
        void *data;
        LK_TRY(lk_slab_find(slab, cases[c->index].slice[i].name, &t));
        lk_status st = lk_tensor_writable_data(t, &data);
        if (st == LK_OK)
            memcpy(data, from, (size_t)bytes_of(c, i));
        lk_tensor_free(t);
        LK_TRY(st);
        from += bytes_of(c, i);
    }
    return LK_OK;
}

static lk_status slab_run(const check_case *c, int way, void *const *out)
{
    lk_status st;
    lk_slab_layout *layout = NULL;
    lk_slab *slab = NULL;
    lk_hash h = lk_hash_start();
    size_t bytes = (size_t)c->out[OUT_BYTES].n;
    LK_TRY_TO(done, lk_slab_layout_new(&layout));
    LK_TRY_TO(done, add_slices(c, layout));
    if (way == OWNED) {
        LK_TRY_TO(done, lk_slab_new(layout, &slab));
    } else {
        LK_TRY_TO(done, lk_slab_wrap(layout, out[OUT_BYTES], (int64_t)bytes, NULL, NULL, &slab));
        lk_slab_zero(slab);
    }
    LK_TRY_TO(done, fill_slices(c, slab));
    if (way == OWNED)
        memcpy(out[OUT_BYTES], lk_slab_data(slab), bytes);
    lk_slab_hash(slab, &h);
    *(int64_t *)out[OUT_HASH] = (int64_t)lk_hash_value(&h);
done:
    lk_slab_free(slab);
    lk_slab_layout_free(layout);
    return st;
}

static lk_status slab_expect(const check_case *c, check_truth *truth)
{
    const unsigned char *from = c->in[0].data;
    unsigned char *to = truth->bits[OUT_BYTES];
    lk_hash h = lk_hash_start();
    for (int i = 0; i < cases[c->index].n; i++) {
        size_t bytes = (size_t)bytes_of(c, i), all = (size_t)padded(bytes_of(c, i));
        lk_shape s = cases[c->index].slice[i].shape;
        memcpy(to, from, bytes);
        memset(to + bytes, 0, all - bytes);
        LK_TRY(lk_hash_add_array(&h, cases[c->index].slice[i].name, cases[c->index].slice[i].dtype,
                                 s.ndim, s.dim, to));
        from += bytes;
        to += all;
    }
    *(int64_t *)truth->bits[OUT_HASH] = (int64_t)lk_hash_value(&h);
    truth->has_bits[OUT_BYTES] = truth->has_bits[OUT_HASH] = true;
    return LK_OK;
}

const lk__check lk__check_slab = {
    .name = "slab",
    .summary = "named slices of one buffer: offsets, gaps, hash",
    .n_cases = sizeof cases / sizeof cases[0],
    .untyped = true,
    .ways = {"own memory", "the host's memory"},
    .setup = slab_setup,
    .run = slab_run,
    .expect = slab_expect,
};
