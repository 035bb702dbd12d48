/* The calling thread's journal: one list of entries for all first runs under way, of which each run
 * has a part, and the journals that second runs read. journal.h says how it is used. */
#include "base/journal.h"

#include "base/memory/grow.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* Of a thread.  Places are counted on through all lists that it has had, from 1, so that one of an
 * earlier list is not taken for one of this. */
static _Thread_local struct {
    lk__journal_entry *entry;
    int64_t n, capacity;
    int64_t before; /* places of earlier lists */
    int runs;       /* first runs that are going on */
    int64_t comm_calls;
    lk__journal *read;
} own;

int64_t lk__journal_begin(void)
{
    own.runs++;
    return own.n;
}

lk__journal lk__journal_since(int64_t begin)
{
    return (lk__journal){.entry = own.n > begin ? own.entry + begin : NULL, .n = own.n - begin};
}

void lk__journal_end(void)
{
    if (--own.runs > 0)
        return; /* the run around it has these notes, too */
    own.before += own.n;
    lk_free(own.entry);
    own.entry = NULL;
    own.n = own.capacity = 0;
}

void lk__journal_read(lk__journal *j)
{
    for (int64_t i = 0; i < j->n; i++)
        j->entry[i].taken = false;
    j->next = 0;
    j->runs = own.runs;
    j->outer = own.read;
    own.read = j;
}

void lk__journal_shut(const lk__journal *j)
{
    own.read = j->outer;
}

void lk__journal_count_comm(void)
{
    own.comm_calls++;
}

int64_t lk__journal_comm_count(void)
{
    return own.comm_calls;
}

bool lk__journal_repeats(void)
{
    return own.read != NULL;
}

lk_status lk__journal_add(lk__journal_key key, int64_t *place)
{
    *place = 0;
    if (own.runs == (own.read ? own.read->runs : 0))
        return LK_OK;
    LK_TRY(lk__grow(&own.entry, &own.capacity, own.n + 1, sizeof *own.entry));
    own.entry[own.n++] = (lk__journal_entry){.key = key};
    *place = own.before + own.n;
    return LK_OK;
}

void lk__journal_write(int64_t place, int64_t a, int64_t b)
{
    int64_t i = place - own.before - 1;
    if (i < 0 || i >= own.n)
        return;
    own.entry[i].value[0] = a;
    own.entry[i].value[1] = b;
    own.entry[i].known = true;
}

bool lk__journal_take(lk__journal_key key, int64_t out[2])
{
    lk__journal *j = own.read;
    if (!j)
        return false;
    while (j->next < j->n && j->entry[j->next].taken)
        j->next++;
    for (int64_t i = j->next; i < j->n; i++) {
        lk__journal_entry *entry = &j->entry[i];
        if (entry->taken || memcmp(&entry->key, &key, sizeof key) != 0)
            continue;
        entry->taken = true;
        memcpy(out, entry->value, sizeof entry->value);
        return entry->known;
    }
    return false;
}
