/* Replica sets: ranks that hold the same, of which the lowest writes for all.
 *
 *     sets  = [ set { ";" set } ]
 *     set   = range { "," range }
 *     range = RANK [ "-" RANK ]
 *
 * Ranks that no set names are one more set.  The partition is a number for each rank; the set that names it,
 * in the order of the text, or behind them all.
 */
#include "base/text/number.h"
#include "io/checkpoint/checkpoint.h"

#include <string.h>

/* What is read, and how far. */
typedef struct reader {
    const char *text, *at;
    int size, *set;
} reader;

/* A rank at r->at, up to the next separator. */
static lk_status rank_read(reader *r, int64_t *out)
{
    char word[24];
    r->at += strspn(r->at, " ");
    size_t n = strcspn(r->at, " ,;-");
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), r->at);
    LK_CHECK(n > 0 && n < sizeof word && !lk__number_read_int(word, out), LK_EINVAL,
             "replica_sets \"%s\", column %d: \"%s\" is no rank", r->text,
             (int)(r->at - r->text) + 1, word);
    LK_CHECK(*out >= 0 && *out < r->size, LK_EINVAL,
             "replica_sets \"%s\": there is no rank %lld among %d, which are numbered from 0",
             r->text, (long long)*out, r->size);
    r->at += n;
    r->at += strspn(r->at, " ");
    return LK_OK;
}

/* One range becomes part of set number `set`. */
static lk_status range_read(reader *r, int set)
{
    int64_t first, last;
    LK_TRY(rank_read(r, &first));
    last = first;
    if (*r->at == '-') {
        r->at++;
        LK_TRY(rank_read(r, &last));
    }
    LK_CHECK(first <= last, LK_EINVAL, "replica_sets \"%s\": %lld-%lld ends before it begins",
             r->text, (long long)first, (long long)last);
    for (int64_t i = first; i <= last; i++) {
        LK_CHECK(r->set[i] < 0, LK_EINVAL, "replica_sets \"%s\": rank %lld is named twice", r->text,
                 (long long)i);
        r->set[i] = set;
    }
    return LK_OK;
}

lk_status lk__replica_sets_read(const char *text, int size, int *set)
{
    reader r = {.text = text, .at = text, .size = size, .set = set};
    int n = 0;
    for (int i = 0; i < size; i++)
        set[i] = -1;
    r.at += strspn(r.at, " ");
    while (*r.at) {
        LK_TRY(range_read(&r, n));
        LK_CHECK(strchr(",;", *r.at) && (!*r.at || r.at[1]), LK_EINVAL,
                 "replica_sets \"%s\", column %d: give ranks with \",\" between them, and \";\" "
                 "between sets, such as \"0,1;2-3\"",
                 text, (int)(r.at - text) + 1);
        n += *r.at == ';';
        r.at += *r.at != '\0';
    }
    for (int i = 0; i < size; i++)
        set[i] = set[i] < 0 ? n + 1 : set[i];
    return LK_OK;
}

bool lk__replica_is_master(const int *set, int rank)
{
    for (int i = 0; i < rank; i++)
        if (set[i] == set[rank])
            return false;
    return true;
}
