/* Whether what is summed is finite: the lowest rank that gives a NaN or an infinity is named on all.
 *
 *     each rank     the first number that is not finite in what it gives
 *     all           the least of (rank, index), by an allreduce of one pair up and down the tree
 *
 * A call that blocks does this first, and sums nothing if there is one.  A call that is begun has both
 * under way at once; waiting for it waits for both, and fails.
 */
#include "coll/finite.h"

#include "base/failure.h"
#include "comm/user.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

enum { WHAT = 160, NAME = 64 };

struct lk__finite {
    lk__after after; /* comes first */
    lk_request *request;
    lk_value_index
        found; /* value: 2 rank + (1 for a NaN), INT64_MAX: nothing; index: of the element */
    char what[WHAT], name[NAME];
};

/* ---- this rank's numbers ---- */

typedef struct part {
    const unsigned char *at;
    int64_t n;
} part;

/* The bits of an exponent that is all ones. */
static uint64_t exponent_of(lk_dtype dtype)
{
    switch (dtype) {
    case LK_F16: return UINT64_C(0x7c00);
    case LK_BF16: return UINT64_C(0x7f80);
    case LK_F32: return UINT64_C(0x7f800000);
    case LK_F64: return UINT64_C(0x7ff0000000000000);
    default: return 0;
    }
}

/* The first element whose exponent is all ones, -1 if there is none. */
#define FIRST_OF(type, name)                                             \
    static int64_t name(part p, type ones)                               \
    {                                                                    \
        for (int64_t i = 0; i < p.n; i++) {                              \
            type bits;                                                   \
            memcpy(&bits, p.at + i * (int64_t)sizeof bits, sizeof bits); \
            if ((bits & ones) == ones)                                   \
                return i;                                                \
        }                                                                \
        return -1;                                                       \
    }
FIRST_OF(uint16_t, first_of_16)
FIRST_OF(uint32_t, first_of_32)
FIRST_OF(uint64_t, first_of_64)

static int64_t first_of(part p, int64_t elem, uint64_t ones)
{
    return elem == 2   ? first_of_16(p, (uint16_t)ones)
           : elem == 4 ? first_of_32(p, (uint32_t)ones)
                       : first_of_64(p, ones);
}

/* Of a number whose exponent is all ones: whether its fraction has a bit. */
static bool is_nan(const unsigned char *at, int64_t elem, uint64_t ones)
{
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)elem); /* the lowest byte comes first */
    return bits & ((ones & -ones) - 1);
}

/* Note the first number of a part that is not finite; `from` is the part's place in its vector. */
static bool scan(const lk__coll_args *k, part p, int64_t from, lk_value_index *found)
{
    uint64_t ones = exponent_of(k->c.dtype);
    int64_t i = first_of(p, k->elem, ones);
    if (i < 0)
        return false;
    *found = (lk_value_index){
        .value = {.i64 = 2 * (int64_t)k->rank + is_nan(p.at + i * k->elem, k->elem, ones)},
        .index = from + i};
    return true;
}

static lk_value_index scan_all(const lk__coll_args *k)
{
    lk_value_index found = {.value = {.i64 = INT64_MAX}};
    const unsigned char *in = k->c.in ? k->c.in : k->c.out;
    for (int64_t v = 0; v < k->n_vectors; v++, in += k->stride) {
        if (!k->counts && scan(k, (part){in, k->c.count}, 0, &found))
            return found;
        for (int r = 0; k->counts && r < k->size; r++)
            if (scan(k, (part){in + k->offsets[r] * k->elem, k->counts[r]}, k->offsets[r], &found))
                return found;
    }
    return found;
}

/* ---- all ranks ---- */

static lk_collective vote_of(lk__finite *f, const lk__coll_args *k)
{
    const lk_collective *c = &k->c;
    const char *name = c->name ? c->name : "";
    f->found = (lk_value_index){.value = {.i64 = INT64_MAX}};
    if (exponent_of(c->dtype))
        f->found = scan_all(k);
    snprintf(f->what, sizeof f->what, "%s(\"%.64s\", %s x %lld, %s)", lk_comm_call_name(c->call),
             name, lk_dtype_name(c->dtype), (long long)k->total, lk_reduce_op_name(c->op));
    size_t n = strlen(name), most = sizeof f->name - sizeof ".finite";
    snprintf(f->name, sizeof f->name, "%s.finite", n > most ? name + n - most : name);
    return (lk_collective){.call = LK_CALL_ALLREDUCE,
                           .name = f->name,
                           .algorithm = "tree",
                           .out = &f->found,
                           .count = 1,
                           .dtype = LK_I64,
                           .op = LK_REDUCE_MINLOC};
}

static lk_status verdict(const lk__finite *f)
{
    int64_t code = f->found.value.i64;
    LK_CHECK(code == INT64_MAX, LK_ENAN, "rank %lld gives %s at index %lld of %s: it has diverged",
             (long long)(code / 2), code % 2 ? "nan" : "inf", (long long)f->found.index, f->what);
    return LK_OK;
}

lk_status lk__finite_check(const lk__coll_args *k)
{
    lk__finite f = {.request = NULL};
    lk_collective vote = vote_of(&f, k);
    LK_TRY(lk_coll_run(k->comm, &vote));
    return LK_TRACE(verdict(&f));
}

/* ---- beside a call that was begun ---- */

static lk_status settle(lk__after *after, bool wait, bool *done)
{
    lk__finite *f = (lk__finite *)after;
    *done = true;
    if (wait)
        LK_TRY(lk_wait(&f->request, NULL));
    else
        LK_TRY(lk_test(&f->request, done, NULL));
    if (*done)
        LK_TRY(verdict(f));
    return LK_OK;
}

static void after_free(lk__after *after)
{
    lk__finite *f = (lk__finite *)after;
    if (f->request)
        lk__request_drop(&f->request);
    lk_free(f);
}

lk_status lk__finite_start(const lk__coll_args *k, lk__finite **out)
{
    lk__finite *f = NULL;
    LK_TRY_COMM(k->comm->w, lk_alloc_zero(&f, 1, sizeof *f));
    f->after = (lk__after){settle, after_free};
    lk_collective vote = vote_of(f, k);
    lk_status st = lk_coll_start(k->comm, &vote, &f->request);
    if (st != LK_OK) {
        lk_free(f);
        return st;
    }
    *out = f;
    return LK_OK;
}

void lk__finite_follow(lk__finite *f, lk_request *r)
{
    if (r) {
        r->after = &f->after;
        return;
    }
    lk__failure why;
    lk__failure_get(&why);
    (void)!lk_wait(&f->request, NULL); /* the others do the same */
    after_free(&f->after);
    lk__failure_set(&why);
}
