/* lk_summary_join(): the sums of all ranks.
 *
 * The lowest rank that has added something says which names there are; ranks that have added nothing take
 * them, the others compare.  Sums are joined as whole numbers (exact.h) and numbers of metrics are whole,
 * so no order matters.  The values are computed by the rank that has said the names, for a rank without
 * samples has no metric to ask.
 */
#include "base/fpenv.h"
#include "coll/agree.h"
#include "multinode/summary.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <math.h>
#include <string.h>

/* Of an entry: its sum and its count, in halves of 32 bits, whose sums over ranks do not overflow. */
enum { LOW = LK_EXACT_NUMBERS, HIGH, WORDS };

static const int64_t half_mask = (INT64_C(1) << 32) - 1;

/* What others have to know of an entry. */
struct record {
    char name[LK_SUMMARY_NAME];
    char metric[LK_SUMMARY_NAME]; /* the beginning of its name; "a mean" if it is none */
    int64_t options;              /* their hash */
    int64_t n_numbers;
};

/* A join on one rank. */
struct join {
    lk_summary *s;
    lk_comm *comm;
    int first; /* the rank that says the names */
    struct record *record;
    int64_t n;
    int64_t *word;  /* [n][WORDS] */
    double *number; /* of all metrics, one behind the other */
    int64_t n_numbers;
};

/* ---- names ---- */

static lk_status record_fill(const lk__summary_entry *e, struct record *out)
{
    lk_hash h = lk_hash_start();
    memcpy(out->name, e->name, LK_SUMMARY_NAME);
    strncpy(out->metric, e->metric ? e->metric->descriptor.name : "a mean", LK_SUMMARY_NAME - 1);
    if (e->metric)
        LK_TRY(lk_config_hash(&e->config, &h));
    out->options = (int64_t)lk_hash_value(&h);
    out->n_numbers = e->n_numbers;
    return LK_OK;
}

static lk_status records_new(const lk_summary *s, struct record **out)
{
    LK_TRY(lk_alloc_zero(out, s->n, sizeof **out));
    for (int64_t i = 0; i < s->n; i++)
        LK_TRY(record_fill(&s->entry[i], &(*out)[i]));
    return LK_OK;
}

/* A rank that has added nothing takes what the others have. */
static lk_status records_take(struct join *j)
{
    for (int64_t i = 0; i < j->n; i++) {
        lk__summary_entry *e;
        LK_TRY(lk__summary_insert(j->s, j->record[i].name, &e));
        e->n_numbers = j->record[i].n_numbers;
        LK_TRY(lk_alloc_zero(&e->number, e->n_numbers, sizeof *e->number));
    }
    return LK_OK;
}

/* An entry of this rank is what the one of its name is on the rank that says the names. */
static lk_status entry_compare(const struct join *j, const lk__summary_entry *e,
                               const struct record *first)
{
    struct record own = {.name = ""};
    int rank = lk_comm_rank(j->comm);
    LK_TRY(record_fill(e, &own));
    LK_CHECK(strcmp(own.metric, first->metric) == 0, LK_ESTATE,
             "\"%s\" is %s on rank %d and %s on rank %d", e->name, own.metric, rank, first->metric,
             j->first);
    LK_CHECK(own.options == first->options, LK_ESTATE,
             "\"%s\" is %s with other options on rank %d than on rank %d", e->name, own.metric,
             rank, j->first);
    LK_CHECK(own.n_numbers == first->n_numbers, LK_ESTATE,
             "\"%s\" has %lld numbers on rank %d and %lld on rank %d", e->name,
             (long long)own.n_numbers, rank, (long long)first->n_numbers, j->first);
    return LK_OK;
}

static lk_status records_compare(const struct join *j)
{
    const lk_summary *s = j->s;
    for (int64_t i = 0; i < j->n; i++) {
        const lk__summary_entry *e = lk__summary_find(s, j->record[i].name);
        LK_CHECK(e, LK_ESTATE, "nothing was added under \"%s\", as on rank %d", j->record[i].name,
                 j->first);
        LK_TRY(entry_compare(j, e, &j->record[i]));
    }
    for (int64_t i = 0; i < s->n; i++) {
        bool found = false;
        for (int64_t k = 0; k < j->n && !found; k++)
            found = strcmp(j->record[k].name, s->entry[i].name) == 0;
        LK_CHECK(found, LK_ESTATE, "something was added under \"%s\", on rank %d nothing was",
                 s->entry[i].name, j->first);
    }
    return LK_OK;
}

/* What came in a message are records, of names that are none twice. */
static lk_status records_check(struct join *j, int64_t bytes)
{
    j->n = bytes / (int64_t)sizeof *j->record;
    LK_CHECK(bytes % (int64_t)sizeof *j->record == 0, LK_EINVAL, "names of a summary in %lld bytes",
             (long long)bytes);
    for (int64_t i = 0; i < j->n; i++) {
        struct record *r = &j->record[i];
        r->name[LK_SUMMARY_NAME - 1] = r->metric[LK_SUMMARY_NAME - 1] = '\0';
        LK_CHECK(r->name[0] && (i == 0 || strcmp(r[-1].name, r->name) < 0) && r->n_numbers >= 0,
                 LK_EINVAL, "names of a summary: \"%s\" with %lld numbers", r->name,
                 (long long)r->n_numbers);
    }
    return LK_OK;
}

/* The same names on all ranks. */
static lk_status names_settle(struct join *j, int64_t bytes)
{
    LK_TRY(records_check(j, bytes));
    if (j->s->n == 0)
        LK_TRY(records_take(j));
    else
        LK_TRY(records_compare(j));
    for (int64_t i = 0; i < j->n; i++)
        LK_TRY(lk_add_i64(j->n_numbers, j->record[i].n_numbers, &j->n_numbers));
    return LK_TRACE(lk__fp_check());
}

/* The lowest rank that has added something tells its names; `*any` is false if none has. */
static lk_status names_exchange(struct join *j, bool *any)
{
    struct record *own = NULL;
    int32_t size = lk_comm_size(j->comm), first = j->s->n > 0 ? lk_comm_rank(j->comm) : size;
    void *records = NULL;
    int64_t bytes = 0;
    lk_status st;
    LK_TRY(lk_allreduce(j->comm, NULL, &first, 1, LK_I32, LK_REDUCE_MIN, "summary"));
    *any = first < size;
    if (!*any)
        return LK_OK;
    j->first = first;
    st = lk_comm_rank(j->comm) == first ? records_new(j->s, &own) : LK_OK;
    LK_TRY_TO(done, lk_agree(j->comm, st));
    LK_TRY_TO(done, lk_bcast_bytes(j->comm, own, j->s->n * (int64_t)sizeof *own, j->first,
                                   "names of a summary", &records, &bytes));
    j->record = records;
    LK_TRY_TO(done, lk_agree(j->comm, names_settle(j, bytes)));
done:
    lk_free(own);
    return st;
}

/* ---- sums ---- */

static void numbers_copy(double *to, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

/* Put what is sent of the entries into one array of each dtype, or take it back. */
static void sums_move(struct join *j, bool back)
{
    int64_t at = 0;
    for (int64_t i = 0; i < j->n; i++) {
        lk__summary_entry *e = &j->s->entry[i];
        int64_t *word = j->word + i * WORDS;
        if (back) {
            memcpy(&e->sum, word, sizeof e->sum);
            lk__exact_carry(&e->sum);
            e->count = (word[HIGH] << 32) + word[LOW];
            numbers_copy(e->number, j->number + at, e->n_numbers);
        } else {
            memcpy(word, &e->sum, sizeof e->sum);
            word[LOW] = e->count & half_mask;
            word[HIGH] = e->count >> 32;
            numbers_copy(j->number + at, e->number, e->n_numbers);
        }
        at += e->n_numbers;
    }
}

/* Whether the counts of all ranks together fit; all find the same. */
static lk_status counts_check(const struct join *j)
{
    for (int64_t i = 0; i < j->n; i++) {
        const int64_t *word = j->word + i * WORDS;
        LK_CHECK(word[HIGH] + (word[LOW] >> 32) <= INT32_MAX, LK_EOVERFLOW,
                 "\"%s\" has more samples on all ranks together than can be counted",
                 j->s->entry[i].name);
    }
    return LK_OK;
}

static lk_status sums_join(struct join *j)
{
    LK_TRY(lk__agree_alloc(j->comm, &j->word, (size_t)j->n * WORDS * sizeof *j->word));
    LK_TRY(lk__agree_alloc(j->comm, &j->number, (size_t)j->n_numbers * sizeof *j->number));
    sums_move(j, false);
    LK_TRY(lk_allreduce(j->comm, NULL, j->word, j->n * WORDS, LK_I64, LK_REDUCE_SUM, "sums"));
    LK_TRY(lk_allreduce(j->comm, NULL, j->number, j->n_numbers, LK_F64, LK_REDUCE_SUM, "metrics"));
    LK_TRY(counts_check(j));
    sums_move(j, true);
    return LK_OK;
}

static void value_set(lk__summary_entry *e)
{
    e->value = (double)NAN;
    if (e->metric && e->metric->value)
        e->value = e->metric->value(e->config.options, e->out, e->number);
    else if (e->count > 0)
        e->value = lk__exact_value(&e->sum) / (double)e->count;
}

static lk_status values_share(struct join *j)
{
    double *value = (double *)(void *)j->word; /* which is as large, and not needed any more */
    for (int64_t i = 0; i < j->n; i++)
        value[i] = j->s->entry[i].value;
    LK_TRY(lk_bcast(j->comm, value, j->n, LK_F64, j->first, "values"));
    for (int64_t i = 0; i < j->n; i++)
        j->s->entry[i].value = value[i];
    return LK_OK;
}

static lk_status join(struct join *j)
{
    bool any = false;
    if (j->comm)
        LK_TRY(names_exchange(j, &any));
    else
        LK_TRY(lk__fp_check());
    if (any)
        LK_TRY(sums_join(j));
    for (int64_t i = 0; i < j->s->n; i++)
        value_set(&j->s->entry[i]);
    if (any)
        LK_TRY(values_share(j));
    return LK_OK;
}

lk_status lk_summary_join(lk_summary *s, lk_comm *comm)
{
    LK_FP_GUARD();
    struct join j = {.s = s, .comm = comm};
    lk_status st = LK_OK;
    if (s->joined)
        st = LK_RAISE(LK_ESTATE, "the summary is joined already");
    LK_TRY(lk_agree(comm, st));
    LK_TRY_TO(done, join(&j));
    s->joined = true;
done:
    lk_free(j.record);
    lk_free(j.word);
    lk_free(j.number);
    return st;
}
