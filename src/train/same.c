/* Comparing what ranks have with rank 0: the first difference is reported by all in the same words.  Jobs and
 * trainers call it when they are made, on all ranks together.
 *
 * The samples of a set are compared by hashes of up to 64 parts; where one differs, it is cut into parts
 * again, until the sample is found.
 */
#include "train/same.h"

#include "coll/agree.h"
#include "coll/traits.h"
#include "data/content.h"
#include "data/dataset.h"
#include "data/loader/loader.h"

#include <string.h>

enum { PARTS = 64, TEXT = 256 };

static bool is_alone(const lk_comm *comm)
{
    return !comm || lk_comm_size(comm) == 1;
}

/* ---- the mode ---- */

static lk_status mode_check(const lk_comm *comm, int64_t mode, int64_t first)
{
    static const char *const name[] = {
        [LK_REDUCTION_CANONICAL] = "canonical", [LK_REDUCTION_FAST] = "fast"};
    LK_CHECK(mode == first, LK_ESTATE,
             "parallel.mode is %s on rank 0 and %s on rank %d: all ranks must train the same",
             name[first == LK_REDUCTION_FAST], name[mode == LK_REDUCTION_FAST], lk_comm_rank(comm));
    return LK_OK;
}

lk_status lk__mode_compare(lk_comm *comm, int mode)
{
    int64_t first = mode;
    if (!is_alone(comm)) {
        LK_TRY(lk_bcast(comm, &first, 1, LK_I64, 0, "parallel.mode"));
        LK_TRY(lk__agree_first(comm, mode_check(comm, mode, first)));
    }
    if (mode != LK_REDUCTION_FAST)
        LK_TRY(lk__agree_bits(comm));
    return LK_OK;
}

/* ---- sets ---- */

/* What a set is, as far as is known without reading it; without gaps between the fields. */
typedef struct facts {
    int64_t count, batch, classes; /* count -1: there is no set */
    int64_t skipped, gaps;
    int64_t length_only; /* nothing else has to be alike */
    char fields[TEXT];   /* "x f32[4], y i64[]" */
} facts;

static void facts_of(const lk_loader *loader, facts *out)
{
    memset(out, 0, sizeof *out);
    out->count = -1;
    if (!loader)
        return;
    out->count = loader->info->count;
    out->batch = loader->options.batch;
    out->classes = loader->info->classes;
    out->skipped = loader->info->skipped;
    out->gaps = loader->info->gaps;
    for (int f = 0, at = 0; f < loader->info->n_fields && at < TEXT; f++) {
        const lk_field *field = &loader->info->field[f];
        at += snprintf(out->fields + at, (size_t)(TEXT - at), "%s%.63s %s%s", f ? ", " : "",
                       field->name, lk_dtype_name(field->dtype), lk_shape_text(field->shape).s);
    }
}

/* What differs between rank 0 and `rank`. */
static lk_status facts_report(const char *what, const facts *a, const facts *b, int rank)
{
    if (a->count < 0 || b->count < 0)
        return LK_RAISE(LK_ESTATE, "rank %d has %s and rank %d has none: all must have the same",
                        a->count < 0 ? rank : 0, what, a->count < 0 ? 0 : rank);
    LK_CHECK(a->count == b->count, LK_ESTATE,
             "%s has %lld samples on rank 0 and %lld on rank %d: all ranks must have %s", what,
             (long long)a->count, (long long)b->count, rank,
             a->length_only ? "as many" : "the same data");
    LK_CHECK(a->classes == b->classes, LK_ESTATE,
             "%s has %lld classes on rank 0 and %lld on rank %d: all ranks must have the same data",
             what, (long long)a->classes, (long long)b->classes, rank);
    LK_CHECK(a->skipped == b->skipped && a->gaps == b->gaps, LK_ESTATE,
             "%s has %lld damaged records and %lld gaps on rank 0, %lld and %lld on rank %d: all "
             "ranks must have the same data",
             what, (long long)a->skipped, (long long)a->gaps, (long long)b->skipped,
             (long long)b->gaps, rank);
    LK_CHECK(a->batch == b->batch, LK_ESTATE,
             "%s has batches of %lld samples on rank 0 and of %lld on rank %d: all ranks must have "
             "the same",
             what, (long long)a->batch, (long long)b->batch, rank);
    return LK_RAISE(LK_ESTATE,
                    "%s has %s on rank 0 and %s on rank %d: all ranks must have the same data",
                    what, a->fields, b->fields, rank);
}

/* Samples `first` to `first` + n - 1 of a set in `parts` parts: how many the first of them have. */
static int64_t part_of(int64_t n, int64_t *parts)
{
    int64_t each = (n - 1) / PARTS + 1;
    *parts = (n - 1) / each + 1;
    return each;
}

/* Samples of a part that are read: all, unless the set is too large. */
static int64_t part_read(const lk_dataset_info *info, int64_t part)
{
    int64_t bytes = 1;
    for (int f = 0; f < info->n_fields; f++)
        bytes += lk__field_bytes(&info->field[f]);
    int64_t most = LK__COMPARED_BYTES / PARTS / bytes;
    return part <= most ? part : most > 0 ? most : 1;
}

/* What the values of samples are hashed with. */
typedef struct hasher {
    const lk_dataset_info *info;
    lk_hash hash;
} hasher;

static void values_take(void *arg, int f, int64_t first, int64_t n, const void *values)
{
    hasher *h = arg;
    (void)first;
    lk_hash_add_bytes(&h->hash, values, (size_t)n * lk_dtype_size(h->info->field[f].dtype));
}

static lk_status part_hash(const lk__content *content, int64_t first, int64_t n, uint64_t *out)
{
    hasher h = {lk_dataset_info_of(content->ds), lk_hash_start()};
    for (int64_t i = first; i < first + n; i++)
        LK_TRY(lk__content_sample(content, i, values_take, &h));
    *out = lk_hash_value(&h.hash);
    return LK_OK;
}

/* The hash of each part. */
static lk_status parts_hash(const lk_dataset *set, int64_t first, int64_t n, uint64_t *out)
{
    lk__content content;
    int64_t parts, each = part_of(n, &parts);
    lk_status st = lk__content_open(set, -1, &content);
    for (int64_t k = 0; k < parts && st == LK_OK; k++) {
        int64_t from = k * each, part = n - from < each ? n - from : each;
        st = part_hash(&content, first + from, part_read(lk_dataset_info_of(set), part), &out[k]);
    }
    lk__content_close(&content);
    return LK_TRACE(st);
}

/* The part, and in it the rank, that is the first to differ from rank 0; *part is -1 if none does. */
static lk_status part_other(lk_comm *comm, const uint64_t *mine, int64_t parts, int64_t *part,
                            int *rank)
{
    uint64_t first[PARTS];
    int64_t size = lk_comm_size(comm), at = 0;
    memcpy(first, mine, (size_t)parts * sizeof *first);
    LK_TRY(lk_bcast(comm, first, parts * (int64_t)sizeof *first, LK_U8, 0, "hashes of samples"));
    while (at < parts && first[at] == mine[at])
        at++;
    int64_t key = at < parts ? at * size + lk_comm_rank(comm) : parts * size;
    LK_TRY(lk_allreduce(comm, NULL, &key, 1, LK_I64, LK_REDUCE_MIN, "who has other samples"));
    *part = key < parts * size ? key / size : -1;
    *rank = (int)(key % size);
    return LK_OK;
}

/* Compare the samples of a set that has some. */
static lk_status samples_compare(lk_comm *comm, const char *what, const lk_dataset *set)
{
    int64_t first = 0, n = lk_dataset_info_of(set)->count, part = 0;
    int rank;
    do {
        uint64_t mine[PARTS] = {0};
        int64_t parts, each = part_of(n, &parts);
        LK_TRY(lk_agree(comm, parts_hash(set, first, n, mine)));
        LK_TRY(part_other(comm, mine, parts, &part, &rank));
        if (part < 0 && first == 0 && n == lk_dataset_info_of(set)->count)
            return LK_OK;
        LK_CHECK(part >= 0, LK_ESTATE, "%s changes while it is read", what);
        first += part * each;
        n = n - part * each < each ? n - part * each : each;
        n = part_read(lk_dataset_info_of(set), n);
    } while (n > 1);
    return LK_RAISE(LK_ESTATE,
                    "sample %lld of %s is another on rank %d than on rank 0: all ranks must have "
                    "the same data",
                    (long long)first, what, rank);
}

/* Compare what a set is, as far as `mine` says. */
static lk_status facts_compare(lk_comm *comm, const char *what, const facts *mine)
{
    facts first = *mine, other = *mine;
    int rank;
    LK_TRY(lk_bcast(comm, &first, (int64_t)sizeof first, LK_U8, 0, what));
    LK_TRY(lk__first_other(comm, memcmp(&first, mine, sizeof first) != 0, &rank));
    if (rank == lk_comm_size(comm))
        return LK_OK;
    LK_TRY(lk_bcast(comm, &other, (int64_t)sizeof other, LK_U8, rank, what));
    return LK_TRACE(facts_report(what, &first, &other, rank));
}

lk_status lk__loader_compare_length(lk_comm *comm, const char *what, const lk_loader *loader)
{
    facts mine;
    if (is_alone(comm))
        return LK_OK;
    facts_of(loader, &mine);
    mine.length_only = 1;
    mine.classes = mine.skipped = mine.gaps = 0;
    memset(mine.fields, 0, sizeof mine.fields);
    return LK_TRACE(facts_compare(comm, what, &mine));
}

lk_status lk__loader_compare(lk_comm *comm, const char *what, const lk_loader *loader)
{
    facts mine;
    if (is_alone(comm))
        return LK_OK;
    facts_of(loader, &mine);
    return LK_TRACE(facts_compare(comm, what, &mine));
}

/* Whether all ranks know the hash of their set, from their caches, and it is the same. */
static lk_status hashes_compare(lk_comm *comm, lk_loader *loader, bool *same)
{
    uint64_t mine = 0, first;
    int rank;
    *same = false;
    lk__cache_know(loader);
    LK_TRY(lk__first_other(comm, !lk__dataset_is_hashed(loader->ds), &rank));
    if (rank < lk_comm_size(comm))
        return LK_OK;
    LK_TRY(lk_agree(comm, lk_dataset_hash(loader->ds, &mine)));
    first = mine;
    LK_TRY(lk_bcast(comm, &first, 1, LK_I64, 0, "the hash of a set"));
    LK_TRY(lk__first_other(comm, first != mine, &rank));
    *same = rank == lk_comm_size(comm);
    return LK_OK;
}

lk_status lk__loader_compare_samples(lk_comm *comm, const char *what, lk_loader *loader)
{
    int rank;
    bool same;
    if (is_alone(comm) || loader->info->n_fields == 0 || loader->info->count == 0)
        return LK_OK;
    LK_TRY(lk__first_other(comm, !lk__dataset_is_compared(loader->ds), &rank));
    if (rank == lk_comm_size(comm))
        return LK_OK;
    LK_TRY(hashes_compare(comm, loader, &same));
    if (!same)
        LK_TRY(samples_compare(comm, what, loader->ds));
    lk__dataset_set_compared(loader->ds);
    return LK_OK;
}
