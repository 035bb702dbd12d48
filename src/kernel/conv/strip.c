/* Find the positions and the taps of a strip. */
#include "kernel/conv/strip.h"

/* The region that strip `i` of a chunk belongs to. */
static int64_t region_find(const lk__conv_pass *p, int64_t i)
{
    int64_t low = 0, high = p->n_regions;
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (p->strips[mid] <= i)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* Fill in the offsets of n positions from `first` on, counted in raster order sample by sample. */
static void positions_fill(lk__conv_strip *s, int64_t first, int64_t n)
{
    const lk__conv_pass *p = s->pass;
    const lk__conv_class *k0 = s->axis_class[0], *k1 = s->axis_class[1], *k2 = s->axis_class[2];
    const int64_t *a0 = p->axis[0].a_off + k0->first, *c0 = p->axis[0].c_off + k0->first;
    const int64_t *a1 = p->axis[1].a_off + k1->first, *c1 = p->axis[1].c_off + k1->first;
    const int64_t *a2 = p->axis[2].a_off + k2->first, *c2 = p->axis[2].c_off + k2->first;
    int64_t i2 = first % k2->n, i1 = first / k2->n % k1->n, i0 = first / k2->n / k1->n % k0->n;
    int64_t sample = first / k2->n / k1->n / k0->n;
    for (int64_t m = 0; m < n;) {
        int64_t a = sample * p->a_sample + a0[i0] + a1[i1];
        int64_t c = sample * p->c_sample + c0[i0] + c1[i1];
        int64_t run = k2->n - i2 < n - m ? k2->n - i2 : n - m;
        for (int64_t i = 0; i < run; i++) {
            s->a_off[m + i] = a + a2[i2 + i];
            s->c_off[m + i] = c + c2[i2 + i];
        }
        m += run;
        i2 = 0;
        if (++i1 < k1->n)
            continue;
        i1 = 0;
        if (++i0 < k0->n)
            continue;
        i0 = 0;
        sample++;
    }
}

int64_t lk__conv_strip_count(const lk__conv_pass *p)
{
    return p->n_chunks * p->groups * p->strips[p->n_regions];
}

void lk__conv_strip_make(const lk__conv_pass *p, int64_t i, lk__conv_strip *out)
{
    int64_t n_strips = p->strips[p->n_regions], in_chunk = i % n_strips;
    out->pass = p;
    out->group = i / n_strips % p->groups;
    out->sample = i / n_strips / p->groups * p->chunk;
    int64_t left = p->batch - out->sample;
    int64_t size = left < p->chunk ? left : p->chunk;

    int64_t region = region_find(p, in_chunk), r = region;
    out->n_taps = p->a_group > 0;
    for (int d = LK_CONV_AXES - 1; d >= 0; d--) {
        out->axis_class[d] = &p->axis[d].classes[r % p->axis[d].n_classes];
        r /= p->axis[d].n_classes;
        size *= out->axis_class[d]->n;
        out->n_taps *= out->axis_class[d]->n_taps;
    }
    /* The last chunk may have fewer samples than its strips have room for. */
    int64_t first = (in_chunk - p->strips[region]) * p->strip;
    out->n = size <= first ? 0 : size - first < p->strip ? size - first : p->strip;
    positions_fill(out, first, out->n);
}

lk__conv_tap lk__conv_strip_tap(const lk__conv_strip *s, int64_t i)
{
    const lk__conv_axis *axis = s->pass->axis;
    const lk__conv_class *k0 = s->axis_class[0], *k1 = s->axis_class[1], *k2 = s->axis_class[2];
    int64_t j2 = i % k2->n_taps, j1 = i / k2->n_taps % k1->n_taps, j0 = i / k2->n_taps / k1->n_taps;
    return (lk__conv_tap){
        .a = j0 * axis[0].a_step + j1 * axis[1].a_step + j2 * axis[2].a_step,
        .place = ((k0->tap + j0) * axis[1].n_taps + k1->tap + j1) * axis[2].n_taps + k2->tap + j2};
}
