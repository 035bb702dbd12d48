/* lk_aggregator: values that ranks observe behind steps, joined from time to time.  A program with a loop of
 * its own has one on each rank; an early-stop trigger has one, too.
 *
 * For a mean only the exact sum is kept, which does not depend on the number of ranks, nor does the state
 * that is saved of it.  A function of the program gets the values themselves, which rank 0 gathers.
 */
#include "multinode/aggregate.h"

#include "base/fpenv.h"
#include "base/memory/grow.h"
#include "coll/agree.h"
#include "coll/traits.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

#include <string.h>

struct lk_aggregator {
    lk_comm *comm; /* NULL: alone */
    lk_period every;
    lk_aggregate_fn *aggregate; /* NULL: the mean */
    void *context;
    lk__exact sum; /* for the mean */
    int64_t count;
    double *value; /* for the function */
    int64_t n, room;
    int64_t *first; /* [ranks + 1] */
    int64_t state[LK_AGGREGATOR_NUMBERS];
};

lk_status lk_aggregator_new(lk_comm *comm, lk_period every, lk_aggregate_fn *aggregate,
                            void *context, lk_aggregator **out)
{
    lk_status st = LK_OK;
    size_t ranks = comm ? (size_t)lk_comm_size(comm) : 1;
    lk_aggregator *a;
    *out = NULL;
    if (every.n < 1)
        st = LK_RAISE(LK_EINVAL, "every %lld %s: it would never be time", (long long)every.n,
                      every.steps ? "steps" : "epochs");
    LK_TRY(lk_agree(comm, st));
    const lk__trait trait[] = {{"every so many", every.n, .is_hash = false},
                               {"whether every is of steps", every.steps, .is_hash = false},
                               {"whether it has a function", aggregate != NULL, .is_hash = false}};
    LK_TRY(lk__traits_compare(comm, trait, sizeof trait / sizeof *trait, LK_ESTATE,
                              "aggregate alike"));
    LK_TRY(lk__agree_alloc(comm, &a, sizeof *a));
    a->comm = comm;
    a->every = every;
    a->aggregate = aggregate;
    a->context = context;
    LK_TRY_TO(fail, lk__agree_alloc(comm, &a->first, (ranks + 1) * sizeof *a->first));
    *out = a;
    return LK_OK;
fail:
    lk_aggregator_free(a);
    return st;
}

void lk_aggregator_free(lk_aggregator *a)
{
    if (!a)
        return;
    lk_free(a->value);
    lk_free(a->first);
    lk_free(a);
}

static void forget(lk_aggregator *a)
{
    a->sum = (lk__exact){.nan = 0};
    a->count = a->n = 0;
}

/* ---- values ---- */

static lk_status value_add(lk_aggregator *a, double value)
{
    if (a->aggregate) {
        LK_TRY(lk__grow(&a->value, &a->room, a->n + 1, sizeof *a->value));
        a->value[a->n++] = value;
    } else {
        lk__exact_add(&a->sum, value);
        a->count++;
    }
    return LK_OK;
}

/* The sums and counts of all ranks. */
static lk_status sums_join(lk_aggregator *a, int64_t *number)
{
    memcpy(number, &a->sum, sizeof a->sum);
    number[LK_EXACT_NUMBERS] = a->count;
    if (a->comm)
        LK_TRY(lk_allreduce(a->comm, NULL, number, LK_AGGREGATOR_NUMBERS, LK_I64, LK_REDUCE_SUM,
                            "observed"));
    lk__exact sum;
    memcpy(&sum, number, sizeof sum);
    lk__exact_carry(&sum);
    memcpy(number, &sum, sizeof sum);
    return LK_OK;
}

/* The mean; `*any` is false if there is no value. */
static lk_status mean_make(lk_aggregator *a, double *out, bool *any)
{
    int64_t number[LK_AGGREGATOR_NUMBERS];
    lk__exact sum;
    LK_TRY(sums_join(a, number));
    memcpy(&sum, number, sizeof sum);
    *any = number[LK_EXACT_NUMBERS] > 0;
    if (*any)
        *out = lk__exact_value(&sum) / (double)number[LK_EXACT_NUMBERS];
    return LK_OK;
}

/* What the function makes of the `n` values on rank 0, which were gathered as bytes. */
static lk_status function_call(lk_aggregator *a, const void *bytes, int size, double *out)
{
    for (int r = 0; r <= size; r++) {
        LK_CHECK(a->first[r] % (int64_t)sizeof(double) == 0, LK_EINVAL,
                 "values of rank %d end at byte %lld", r - 1, (long long)a->first[r]);
        a->first[r] /= (int64_t)sizeof(double);
    }
    return LK_TRACE(a->aggregate(a->context, bytes, a->first, size, out));
}

static lk_status function_make(lk_aggregator *a, double *out, bool *any)
{
    int size = a->comm ? lk_comm_size(a->comm) : 1;
    void *all = NULL;
    lk_status st = LK_OK;
    if (!a->comm) {
        a->first[0] = 0;
        a->first[1] = a->n;
        *any = a->n > 0;
        if (*any)
            LK_TRY(a->aggregate(a->context, a->value, a->first, 1, out));
        return LK_OK;
    }
    LK_TRY(lk_gather_bytes(a->comm, a->value, a->n * (int64_t)sizeof *a->value, 0, "observed", &all,
                           a->first));
    *any = a->first[size] > 0;
    if (*any && all)
        st = function_call(a, all, size, out);
    lk_free(all);
    if (!*any)
        return LK_OK;
    LK_TRY(lk_agree(a->comm, st));
    return LK_TRACE(lk_bcast(a->comm, out, 1, LK_F64, 0, "aggregated"));
}

lk_status lk_aggregator_observe(lk_aggregator *a, const lk_position *at, const double *value,
                                double *out, bool *due)
{
    LK_FP_GUARD();
    lk_status st = value ? value_add(a, *value) : LK_OK;
    *due = false;
    if (!lk_period_is_due(a->every, at))
        return st;
    if (st == LK_OK)
        st = lk__fp_check();
    st = lk_agree(a->comm, st);
    if (st == LK_OK)
        st = a->aggregate ? function_make(a, out, due) : mean_make(a, out, due);
    forget(a); /* after a failure, too: these values do not belong to the next time */
    if (st != LK_OK)
        *due = false;
    return LK_TRACE(st);
}

/* ---- its state ---- */

lk_status lk__aggregator_save(lk_aggregator *a, int64_t number[LK_AGGREGATOR_NUMBERS])
{
    lk_status st = LK_OK;
    if (a->aggregate && a->n > 0)
        st = LK_RAISE(LK_ESTATE,
                      "%lld values were observed that a function is to aggregate: save where it "
                      "has just been time to",
                      (long long)a->n);
    LK_TRY(lk_agree(a->comm, st));
    return LK_TRACE(sums_join(a, number));
}

/* Whether such a sum can be: digits are below 2^32, the highest has the sign; counts leave room for more. */
static bool is_state(const int64_t *number)
{
    bool sound = true;
    for (int i = 0; i < LK_EXACT_DIGITS - 1; i++)
        sound = sound && number[i] >= 0 && number[i] <= UINT32_MAX;
    int64_t top = number[LK_EXACT_DIGITS - 1];
    sound = sound && top >= INT32_MIN && top <= INT32_MAX;
    for (int i = LK_EXACT_DIGITS; i < LK_AGGREGATOR_NUMBERS; i++)
        sound = sound && number[i] >= 0 && number[i] <= INT64_MAX / 2;
    return sound;
}

lk_status lk__aggregator_load(lk_aggregator *a, const int64_t number[LK_AGGREGATOR_NUMBERS])
{
    LK_CHECK(is_state(number), LK_EINVAL, "these numbers are no state of an aggregator");
    LK_CHECK(!a->aggregate || number[LK_EXACT_NUMBERS] == 0, LK_EINVAL,
             "the state has a sum of %lld values, which a function cannot aggregate",
             (long long)number[LK_EXACT_NUMBERS]);
    forget(a);
    if (a->comm && lk_comm_rank(a->comm) > 0) /* one rank has it for all */
        return LK_OK;
    memcpy(&a->sum, number, sizeof a->sum);
    a->count = number[LK_EXACT_NUMBERS];
    return LK_OK;
}

lk_status lk_aggregator_state(lk_aggregator *a, const char *name, lk_state_tensor *tensor)
{
    LK_TRY(lk__aggregator_save(a, a->state));
    *tensor = (lk_state_tensor){
        .name = name, .dtype = LK_I64, .shape = LK_SHAPE(LK_AGGREGATOR_NUMBERS), .data = a->state};
    return LK_OK;
}

lk_status lk_aggregator_restore(lk_aggregator *a)
{
    return LK_TRACE(lk__aggregator_load(a, a->state));
}
