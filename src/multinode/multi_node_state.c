/* The state of a multi-node optimizer: tensors, numbers and their hash, for programs that save a training.
 *
 *     sums         [ranks][elements]   accumulated on each rank, of which samples and which tensors:
 *     samples      [ranks]
 *     sums_of      [ranks][tensors]
 *     pending.W    as parameter W      the mean that the next update follows, and of which tensors
 *     pending_of   [tensors]
 *
 * The first three are each rank's own: it holds its row.
 */
#include "base/fpenv.h"
#include "coll/traits.h"
#include "multinode/multi_node_optimizer.h"

#include <stdio.h>

static const char *const names[LK__MN_NUMBERS] = {[LK__MN_STEPS] = "steps",
                                                  [LK__MN_BROADCAST] = "broadcast",
                                                  [LK__MN_ACCUMULATED] = "accumulated",
                                                  [LK__MN_PENDING] = "pending"};

/* This rank's row of [ranks][n]. */
static lk_status row_add(lk_state_tensors *list, const char *prefix, const lk__mean *m,
                         lk_state_tensor row, int64_t n)
{
    lk_box box = {.ndim = 2, .first = {m->rank, 0}, .n = {1, n}};
    row.shape = LK_SHAPE(m->size, n);
    row.box = &box;
    return LK_TRACE(lk_state_tensors_add(list, prefix, &row));
}

static lk_status sums_add(lk__mn_parts *p, const char *prefix, lk_state_tensors *list)
{
    const lk__mean *m = &p->mean;
    LK_TRY(
        row_add(list, prefix, m,
                (lk_state_tensor){.name = "sums", .dtype = m->dtype, .data = lk_slab_data(p->sums)},
                m->elements));
    LK_TRY(row_add(list, prefix, m,
                   (lk_state_tensor){.name = "samples", .dtype = LK_I64, .data = &p->samples}, 1));
    return LK_TRACE(row_add(list, prefix, m,
                            (lk_state_tensor){.name = "sums_of", .dtype = LK_U8, .data = p->has},
                            m->slices));
}

lk_status lk_multi_node_optimizer_add_state(lk_multi_node_optimizer *o, const char *prefix,
                                            lk_state_tensors *list)
{
    lk__mn_parts *p = &o->parts;
    char behind[256];
    if (p->sums)
        LK_TRY(sums_add(p, prefix, list));
    if (!p->pending)
        return LK_OK;
    int n = snprintf(behind, sizeof behind, "%spending.", prefix);
    LK_CHECK(n > 0 && (size_t)n < sizeof behind, LK_EINVAL, "a prefix of %d characters", n);
    LK_TRY(lk_state_tensors_add_slab(list, behind, p->pending));
    lk_state_tensor of = {.name = "pending_of",
                          .dtype = LK_U8,
                          .shape = LK_SHAPE(p->mean.slices),
                          .data = p->pending_has};
    return LK_TRACE(lk_state_tensors_add(list, prefix, &of));
}

int64_t *lk_multi_node_optimizer_number(lk_multi_node_optimizer *o, int i, const char **name)
{
    *name = i >= 0 && i < LK__MN_NUMBERS ? names[i] : NULL;
    return *name ? &o->parts.number[i] : NULL;
}

static lk_status numbers_check(const lk_multi_node_optimizer *o)
{
    const int64_t *n = o->parts.number;
    const int64_t most[LK__MN_NUMBERS] = {[LK__MN_STEPS] = INT64_MAX,
                                          [LK__MN_BROADCAST] = 1,
                                          [LK__MN_ACCUMULATED] = o->options.accumulate - 1,
                                          [LK__MN_PENDING] = o->options.double_buffering};
    for (int i = 0; i < LK__MN_NUMBERS; i++)
        LK_CHECK(n[i] >= 0 && n[i] <= most[i], LK_EINVAL, "%s is %lld: it is from 0 to %lld",
                 names[i], (long long)n[i], (long long)most[i]);
    LK_CHECK(o->parts.samples >= 0, LK_EINVAL, "samples is %lld", (long long)o->parts.samples);
    return LK_OK;
}

lk_status lk_multi_node_optimizer_resume(lk_multi_node_optimizer *o)
{
    lk__trait trait[LK__MN_NUMBERS];
    LK_TRY(lk_agree(o->comm, numbers_check(o)));
    for (int i = 0; i < LK__MN_NUMBERS; i++)
        trait[i] = (lk__trait){names[i], o->parts.number[i], .is_hash = false};
    return LK_TRACE(
        lk__traits_compare(o->comm, trait, LK__MN_NUMBERS, LK_EINVAL, "go on from the same"));
}

void lk_multi_node_optimizer_hash(lk_multi_node_optimizer *o, lk_hash *h)
{
    const lk_multi_node_options *p = &o->options;
    lk_hash_add_text(h, "multi_node");
    lk_hash_add_i64(h, o->parts.mean.size);
    lk_hash_add_text(h, lk_wire_name((lk_wire)p->wire));
    lk_hash_add_i64(h, p->double_buffering | p->zero_fill << 1 | p->mean_of_means << 2);
    lk_hash_add_i64(h, p->accumulate);
    for (int i = 0; i < LK__MN_NUMBERS; i++)
        lk_hash_add_i64(h, o->parts.number[i]);
}
