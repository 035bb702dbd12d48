/* lk__mean: mean.h says how it is used.
 *
 * What a rank tells is a few numbers: whether it failed, a hash of its tensors, its options, its samples,
 * and a bit for each tensor that it has a gradient of.  All get those of all, so that what is wrong is an
 * error with the same words everywhere, before anything is added.
 */
#include "multinode/mean.h"

#include "coll/coll.h"

#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/map.h>

#include <string.h>

/* Of a record; the bits of tensors come last. */
enum { FLAGS, TENSORS, ALGORITHM, WIRE, ZERO_FILL, SAMPLES, BEFORE, BITS };
enum { FAILED = 1, WANTS_BROADCAST = 2, LOST = 4 };

uint64_t lk__slice_hash(const lk_slab_layout *layout, int64_t i)
{
    lk_hash h = lk_hash_start();
    lk_slab_slice s;
    if (lk_slab_layout_slice(layout, i, &s) != LK_OK)
        return 0;
    lk_hash_add_text(&h, s.name);
    lk_hash_add_text(&h, lk_slab_slice_text(&s).s); /* dtype, shape and box */
    return lk_hash_value(&h);
}

uint64_t lk__layout_hash(const lk_slab_layout *layout, int64_t slices)
{
    lk_hash h = lk_hash_start();
    for (int64_t i = 0; i < slices; i++)
        lk_hash_add_i64(&h, (int64_t)lk__slice_hash(layout, i));
    return lk_hash_value(&h);
}

uint64_t lk__algorithm_hash(const char *name)
{
    lk_hash h = lk_hash_start();
    lk_hash_add_i64(&h, name != NULL);
    lk_hash_add_text(&h, name ? name : "");
    return lk_hash_value(&h);
}

/* The sum over all ranks. */
static lk_collective call_of(const lk__mean *m, void *data)
{
    return (lk_collective){.call = LK_CALL_ALLREDUCE,
                           .name = "gradients",
                           .algorithm = m->algorithm,
                           .out = data,
                           .count = m->elements,
                           .dtype = m->wire ? lk__wire_dtype(m->wire) : m->dtype,
                           .op = LK_REDUCE_SUM};
}

/* Whether the algorithm that is named can do it; alone, where nothing travels, whether there is one. */
static lk_status algorithm_check(const lk__mean *m, const lk_slab *params)
{
    const char *name;
    lk_collective call = call_of(m, lk_slab_data(params));
    lk_coll_info info = {.name = NULL};
    if (!m->algorithm)
        return LK_OK;
    if (m->comm) {
        return LK_TRACE(lk_coll_selected(m->comm, &call, &name));
    }
    bool known = false;
    for (int i = 0; !known && lk_coll_list(i, &info); i++)
        known = strcmp(info.call, lk_comm_call_name(call.call)) == 0 &&
                strcmp(info.name, m->algorithm) == 0;
    LK_CHECK(known, LK_EINVAL, "no allreduce algorithm named \"%s\"", m->algorithm);
    return LK_OK;
}

static lk_status arrays_make(lk__mean *m, lk_wire wire)
{
    m->record = BITS + (m->slices + 63) / 64;
    LK_TRY(lk_alloc_zero(&m->own, m->record, sizeof *m->own));
    LK_TRY(lk_alloc_zero(&m->all, m->size * m->record, sizeof *m->all));
    LK_TRY(lk_alloc_zero(&m->has, m->slices, sizeof *m->has));
    if (wire != LK_WIRE_DTYPE && m->comm)
        LK_TRY(lk__wire_new(m->layout, m->slices, wire, m->comm, &m->wire));
    return LK_OK;
}

lk_status lk__mean_open(lk__mean *m, lk_comm *comm, const lk_slab *params,
                        const lk_mean_grad_options *options)
{
    lk_slab_slice first = {.dtype = LK_F32};
    *m = (lk__mean){.comm = comm && lk_comm_size(comm) > 1 ? comm : NULL,
                    .rank = comm ? lk_comm_rank(comm) : 0,
                    .size = comm ? lk_comm_size(comm) : 1,
                    .layout = lk_slab_layout_of(params),
                    .algorithm = options->algorithm,
                    .how = options->wire,
                    .zero_fill = options->zero_fill};
    m->slices = lk_slab_layout_slices(m->layout);
    for (int64_t i = m->slices - 1; i >= 0; i--) {
        lk_slab_slice s;
        LK_TRY(lk_slab_layout_slice(m->layout, i, &s));
        LK_CHECK(lk_dtype_is_real(s.dtype), LK_EDTYPE, "%s is %s: gradients are f32 or f64", s.name,
                 lk_dtype_name(s.dtype));
        LK_CHECK(i == m->slices - 1 || s.dtype == first.dtype, LK_EDTYPE,
                 "%s is %s and %s %s: gradients have one dtype", s.name, lk_dtype_name(s.dtype),
                 first.name, lk_dtype_name(first.dtype));
        first = s;
    }
    m->dtype = first.dtype;
    m->elements = lk_slab_layout_bytes(m->layout) / (int64_t)lk_dtype_size(m->dtype);
    m->hash = lk__layout_hash(m->layout, m->slices);
    lk_status st = arrays_make(m, options->wire);
    if (st == LK_OK)
        st = algorithm_check(m, params);
    if (st != LK_OK)
        lk__mean_close(m);
    return LK_TRACE(st);
}

void lk__mean_close(lk__mean *m)
{
    lk__wire_free(m->wire);
    lk_free(m->own);
    lk_free(m->all);
    lk_free(m->has);
    *m = (lk__mean){.comm = NULL};
}

/* ---- what all bring ---- */

static const int64_t *record_of(const lk__mean *m, int rank)
{
    return m->all + rank * m->record;
}

static bool has_bit(const lk__mean *m, int rank, int64_t i)
{
    return (uint64_t)record_of(m, rank)[BITS + i / 64] >> i % 64 & 1;
}

static void record_fill(lk__mean *m, const lk__mean_part *mine, lk_status st)
{
    memset(m->own, 0, (size_t)m->record * sizeof *m->own);
    m->own[FLAGS] = (st != LK_OK ? FAILED : 0) | (mine->wants_broadcast ? WANTS_BROADCAST : 0) |
                    (mine->lost ? LOST : 0);
    m->own[TENSORS] = (int64_t)m->hash;
    m->own[ALGORITHM] = (int64_t)lk__algorithm_hash(m->algorithm);
    m->own[WIRE] = m->how;
    m->own[ZERO_FILL] = m->zero_fill;
    m->own[SAMPLES] = mine->samples;
    m->own[BEFORE] = mine->before;
    for (int64_t i = 0; i < m->slices; i++)
        if (!mine->has_grad || mine->has_grad[i])
            m->own[BITS + i / 64] |= (int64_t)(UINT64_C(1) << i % 64);
}

/* What ranks have of tensor i, as far as zero_fill lets it differ. */
static lk_status tensor_compare(lk__mean *m, int64_t i)
{
    lk_slab_slice slice;
    int with = -1, without = -1;
    for (int r = m->size - 1; r >= 0; r--)
        *(has_bit(m, r, i) ? &with : &without) = r;
    LK_TRY(lk_slab_layout_slice(m->layout, i, &slice));
    LK_CHECK(m->zero_fill || with < 0 || without < 0, LK_ESTATE,
             "rank %d has a gradient of %s and rank %d has none: give zero_fill, so that it counts "
             "as zeros",
             with, slice.name, without);
    m->has[i] = m->zero_fill || with >= 0;
    return LK_OK;
}

/* Rank r has the tensors and the options of rank 0. */
static lk_status rank_check(const lk__mean *m, int r)
{
    const int64_t *first = record_of(m, 0), *other = record_of(m, r);
    LK_CHECK(other[TENSORS] == first[TENSORS], LK_ESTATE,
             "rank %d has other tensors than rank 0: names, dtypes and shapes must be the same", r);
    LK_CHECK(other[ALGORITHM] == first[ALGORITHM], LK_ESTATE,
             "rank %d has another algorithm than rank 0: all must have the same", r);
    LK_CHECK(other[WIRE] == first[WIRE], LK_ESTATE,
             "wire is %s on rank 0 and %s on rank %d: all must have the same",
             lk_wire_name((lk_wire)first[WIRE]), lk_wire_name((lk_wire)other[WIRE]), r);
    LK_CHECK(other[ZERO_FILL] == first[ZERO_FILL], LK_ESTATE,
             "zero_fill is %lld on rank 0 and %lld on rank %d: all must have the same",
             (long long)first[ZERO_FILL], (long long)other[ZERO_FILL], r);
    return LK_OK;
}

/* How ranks count. */
static lk_status samples_count(lk__mean *m, const lk__mean_part *mine)
{
    bool counted = false, alike = true;
    int64_t all = 0, first = 0;
    for (int r = 0; r < m->size; r++)
        counted = counted || record_of(m, r)[SAMPLES] > 0;
    for (int r = 0; r < m->size; r++) {
        int64_t now = counted ? record_of(m, r)[SAMPLES] : 1, before = record_of(m, r)[BEFORE];
        LK_CHECK(now <= INT64_MAX - all && before <= INT64_MAX - all - now, LK_EOVERFLOW,
                 "rank %d has %lld samples, and %lld before: with those of lower ranks, %lld, they "
                 "are more than can be counted",
                 r, (long long)now, (long long)before, (long long)all);
        int64_t n = before + now;
        all += n;
        first = r == 0 ? n : first;
        alike = alike && n == first;
        if (r == m->rank) {
            m->samples = now;
            m->samples_so_far = n;
        }
    }
    alike = m->by_rank || (alike && !mine->weighed);
    m->weighs = !alike && !mine->weighed;
    m->divisor = alike ? m->size : all;
    return LK_OK;
}

lk_status lk__mean_exchange(lk__mean *m, const lk__mean_part *mine, lk_status st)
{
    bool failed = false;
    m->lost = mine->lost;
    record_fill(m, mine, st);
    if (m->comm)
        LK_TRY(lk_allgather(m->comm, m->own, m->all, m->record, LK_I64, "gradients to come"));
    else
        memcpy(m->all, m->own, (size_t)m->record * sizeof *m->own);
    m->broadcast = false;
    for (int r = 0; r < m->size; r++) {
        failed = failed || record_of(m, r)[FLAGS] & FAILED;
        m->broadcast = m->broadcast || record_of(m, r)[FLAGS] & WANTS_BROADCAST;
        m->lost = m->lost || record_of(m, r)[FLAGS] & LOST;
    }
    if (failed)
        LK_TRY(lk_agree(m->comm, st));
    for (int r = 1; r < m->size; r++)
        LK_TRY(rank_check(m, r));
    for (int64_t i = 0; i < m->slices && !m->broadcast && !mine->stays; i++)
        LK_TRY(tensor_compare(m, i));
    return LK_TRACE(samples_count(m, mine));
}

/* ---- adding up ---- */

lk_status lk__mean_weigh(const lk__mean *m, void *data)
{
    for (int64_t i = 0; i < m->slices; i++) {
        lk_slab_slice slice;
        LK_TRY(lk_slab_layout_slice(m->layout, i, &slice));
        if (!has_bit(m, m->rank, i))
            memset((char *)data + slice.offset, 0, (size_t)slice.bytes);
    }
    if (m->weighs && m->samples == 0) /* 0 times what it has may be no number */
        memset(data, 0, (size_t)(m->elements * (int64_t)lk_dtype_size(m->dtype)));
    else if (m->weighs)
        LK_TRY(lk_map1(m->dtype, LK_MAP1_SCALE, (double)m->samples, m->elements, data, data));
    return LK_OK;
}

lk_status lk__mean_start(lk__mean *m, void *data, bool wait)
{
    lk_collective call = call_of(m, data);
    if (!m->comm)
        return LK_OK;
    if (m->wire) {
        LK_TRY(lk__wire_scale(m->wire, data));
        call.out = lk__wire_narrow(m->wire, data, 0, m->elements);
    }
    if (wait)
        LK_TRY(lk_coll_run(m->comm, &call));
    else
        LK_TRY(lk_coll_start(m->comm, &call, &m->request));
    return LK_OK;
}

lk_status lk__mean_finish(lk__mean *m, void *data)
{
    LK_TRY(lk_wait(&m->request, NULL));
    if (m->wire)
        lk__wire_widen(m->wire, data, 0, m->elements);
    if (m->divisor > 1)
        LK_TRY(lk__reduce_op_finish(LK_REDUCE_AVG, m->dtype, m->elements, m->divisor, data));
    return LK_OK;
}
