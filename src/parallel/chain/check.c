/* Whether a chain list can run: arithmetic on the table of all ranks' declarations.
 *
 * lk_chain_build() calls it on every rank, on the same table, so that all come to the same result in the
 * same words.
 *
 * The n-th value that rank a sends to rank b is the n-th that b takes from a.  Whether all come to their
 * end is found by going through the rows of all ranks: a rank goes on from a row when its partner has
 * come to the other end of it.  If none can go on, each that is not at its end waits for another
 * that is not, and from any of them the way leads into a circle, which is shown.
 */
#include "parallel/chain/chain.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

lk__component_text lk__component_name(int rank, int64_t component, const char *name)
{
    lk__component_text t;
    if (name[0])
        snprintf(t.s, sizeof t.s, "component %lld (%s) of rank %d", (long long)component, name,
                 rank);
    else
        snprintf(t.s, sizeof t.s, "component %lld of rank %d", (long long)component, rank);
    return t;
}

static lk__component_text row_component(const lk__chain_table *t, int rank, int64_t i)
{
    return lk__component_name(rank, t->row[i].component, t->row[i].name);
}

/* ---- each rank for itself ---- */

/* What a rank's own queue has seen before row `end`: values put, and values taken. */
static void queue_count(const lk__chain_table *t, int rank, int64_t end, int64_t *put,
                        int64_t *taken)
{
    *put = *taken = 0;
    for (int64_t i = t->first[rank]; i < end; i++) {
        bool own = t->row[i].kind != LK__ROW_COMPONENT && t->row[i].peer == rank;
        *put += own && t->row[i].kind == LK__ROW_OUT;
        *taken += own && t->row[i].kind == LK__ROW_IN;
    }
}

static lk_status queue_check(const lk__chain_table *t, int rank)
{
    int64_t put, taken, left = -1, end = t->first[rank + 1];
    for (int64_t i = t->first[rank]; i < end; i++) {
        if (t->row[i].kind != LK__ROW_IN || t->row[i].peer != rank)
            continue;
        queue_count(t, rank, i, &put, &taken);
        LK_CHECK(put > taken, LK_EINVAL,
                 "%s takes an input from its own rank, but no component before it has put one "
                 "there",
                 row_component(t, rank, i).s);
    }
    queue_count(t, rank, end, &put, &taken);
    for (int64_t i = t->first[rank], n = 0; i < end && put > taken && left < 0; i++)
        if (t->row[i].kind == LK__ROW_OUT && t->row[i].peer == rank && n++ == taken)
            left = i;
    LK_CHECK(left < 0, LK_EINVAL,
             "%s puts a value into the queue of its own rank that no later component takes",
             row_component(t, rank, left).s);
    return LK_OK;
}

/* What the host called the list that a row is of. */
static const char *row_list(const lk__chain_row *row)
{
    if (row->flags & LK__IS_CARRY)
        return row->kind == LK__ROW_IN ? "carry_in" : "carry_out";
    return row->kind == LK__ROW_IN ? "in_ranks" : "out_ranks";
}

static lk_status rank_check(const lk__chain_table *t, int rank)
{
    int64_t output = -1, in = 0;
    for (int64_t i = t->first[rank]; i < t->first[rank + 1]; i++) {
        const lk__chain_row *row = &t->row[i];
        LK_CHECK(row->kind == LK__ROW_COMPONENT || (row->peer >= 0 && row->peer < t->ranks),
                 LK_EINVAL, "%s: %s names rank %lld, there are %d", row_component(t, rank, i).s,
                 row_list(row), (long long)row->peer, t->ranks);
        bool is_input = row->kind == LK__ROW_IN && !(row->flags & LK__IS_CARRY);
        in = row->kind == LK__ROW_COMPONENT ? 0 : in + is_input;
        LK_CHECK(!(row->flags & LK__IS_MODEL) || in < 2, LK_EINVAL,
                 "%s is a model, which takes one value, and has several in_ranks: add a function "
                 "that joins what comes from them",
                 row_component(t, rank, i).s);
        if (row->kind != LK__ROW_COMPONENT || row->flags & LK__HAS_OUT)
            continue;
        LK_CHECK(output < 0, LK_EINVAL,
                 "%s and %s both have no out_ranks: a rank has at most one output",
                 row_component(t, rank, output).s, row_component(t, rank, i).s);
        output = i;
    }
    return LK_TRACE(queue_check(t, rank));
}

/* ---- pairs ---- */

static bool is_message(const lk__chain_table *t, int rank, int64_t i)
{
    return t->row[i].kind != LK__ROW_COMPONENT && t->row[i].peer != rank;
}

/* Which of the messages between this rank and its peer, in this direction, a row is. */
static int64_t message_number(const lk__chain_table *t, int rank, int64_t row)
{
    int64_t n = 0;
    for (int64_t i = t->first[rank]; i < row; i++)
        n += t->row[i].kind == t->row[row].kind && t->row[i].peer == t->row[row].peer;
    return n;
}

/* The other end of a message; -1: there is none. */
static int64_t message_partner(const lk__chain_table *t, int rank, int64_t row)
{
    int peer = (int)t->row[row].peer;
    int64_t n = message_number(t, rank, row),
            kind = t->row[row].kind == LK__ROW_IN ? LK__ROW_OUT : LK__ROW_IN;
    for (int64_t i = t->first[peer]; i < t->first[peer + 1]; i++)
        if (t->row[i].kind == kind && t->row[i].peer == rank && n-- == 0)
            return i;
    return -1;
}

static lk_status pairs_check(const lk__chain_table *t, int rank)
{
    for (int64_t i = t->first[rank]; i < t->first[rank + 1]; i++) {
        if (!is_message(t, rank, i) || message_partner(t, rank, i) >= 0)
            continue;
        int64_t n = message_number(t, rank, i), peer = t->row[i].peer;
        LK_CHECK(t->row[i].kind == LK__ROW_IN, LK_EINVAL,
                 "%s sends to rank %lld, where no component takes message %lld from rank %d",
                 row_component(t, rank, i).s, (long long)peer, (long long)n, rank);
        return LK_RAISE(
            LK_EINVAL,
            "%s waits for message %lld from rank %lld, where no component sends it to rank %d",
            row_component(t, rank, i).s, (long long)n, (long long)peer, rank);
    }
    return LK_OK;
}

/* ---- circles ---- */

/* Go on with a rank as far as it comes; `buffered`: a send does not wait for its receive. */
static bool rank_advance(const lk__chain_table *t, int rank, bool buffered, int64_t *at)
{
    bool moved = false;
    for (; at[rank] < t->first[rank + 1]; at[rank]++, moved = true) {
        int64_t i = at[rank], other;
        if (!is_message(t, rank, i) || (buffered && t->row[i].kind == LK__ROW_OUT))
            continue;
        int peer = (int)t->row[i].peer;
        other = message_partner(t, rank, i);
        if (at[peer] < other || (at[peer] == other && buffered))
            break;
        if (at[peer] == other)
            at[peer]++; /* both ends are there */
    }
    return moved;
}

/* The circle that the lowest rank waits in, or leads to, in words. */
static void circle_text(const lk__chain_table *t, const int64_t *at, char *out, size_t size)
{
    int rank = 0, start;
    size_t used = 0;
    while (at[rank] == t->first[rank + 1])
        rank++;
    for (int n = 0; n < t->ranks; n++) /* now it is in the circle */
        rank = (int)t->row[at[rank]].peer;
    start = rank;
    for (int r = (int)t->row[at[rank]].peer; r != rank; r = (int)t->row[at[r]].peer)
        start = r < start ? r : start;
    rank = start;
    do {
        char text[3 * sizeof(lk__component_text)];
        const lk__chain_row *row = &t->row[at[rank]];
        int peer = (int)row->peer;
        int n = snprintf(text, sizeof text, "%s%s, %s rank %d, waits for %s", used ? "; " : "",
                         row_component(t, rank, at[rank]).s,
                         row->kind == LK__ROW_IN ? "receiving from" : "sending to", peer,
                         row_component(t, peer, message_partner(t, rank, at[rank])).s);
        if (used + (size_t)n + sizeof "; and so on" > size) {
            snprintf(out + used, size - used, "; and so on");
            return;
        }
        memcpy(out + used, text, (size_t)n + 1);
        used += (size_t)n;
        rank = peer;
    } while (rank != start);
}

static lk_status circles_check(const lk__chain_table *t, bool buffered, int64_t *at)
{
    char circle[380] = "";
    bool moved = true, ends = true;
    memcpy(at, t->first, (size_t)t->ranks * sizeof *at);
    while (moved) {
        moved = false;
        for (int r = 0; r < t->ranks; r++)
            moved = rank_advance(t, r, buffered, at) || moved;
    }
    for (int r = 0; r < t->ranks; r++)
        ends = ends && at[r] == t->first[r + 1];
    if (ends)
        return LK_OK;
    circle_text(t, at, circle, sizeof circle);
    LK_CHECK(!buffered, LK_EINVAL, "values are waited for in a circle: %s", circle);
    return LK_RAISE(LK_EINVAL,
                    "sends wait for their receives in a circle, add a component that receives "
                    "before one that sends: %s",
                    circle);
}

lk_status lk__chain_check(const lk__chain_table *t)
{
    lk_status st;
    int64_t *at = NULL;
    for (int r = 0; r < t->ranks; r++)
        LK_TRY(rank_check(t, r));
    for (int r = 0; r < t->ranks; r++)
        LK_TRY(pairs_check(t, r));
    LK_TRY(lk_alloc(&at, t->ranks, sizeof *at));
    LK_TRY_TO(done, circles_check(t, true, at));
    LK_TRY_TO(done, circles_check(t, false, at));
done:
    lk_free(at);
    return st;
}
