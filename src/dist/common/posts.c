/* The messages and communicators of a tape. */
#include "dist/common/posts.h"

#include "autograd/guest.h"
#include "comm/user.h"

#include <lockstep/alloc.h>

#include <stdio.h>
#include <string.h>

/* A communicator that the tape has seen. */
typedef struct seen {
    lk__comm_user user;
    struct seen *next;
    struct posts *owner;
    lk_comm *comm;
} seen;

/* Of one tape.  Posts are in the order of their handles. */
typedef struct posts {
    lk__guest guest;
    int64_t n, capacity;
    lk__post *post;
    seen *seen;
    const lk_comm *last; /* seen, and not freed */
} posts;

lk_short_string lk__post_text(const lk__post *p)
{
    lk_short_string t;
    int rank = p->info.rank;
    const char *call = p->sends ? "isend" : p->blocking ? "recv" : "irecv";
    if (rank >= 0)
        snprintf(t.s, sizeof t.s, "%s(\"%s\") %s rank %d", call, p->d.name,
                 p->sends ? "to" : "from", rank);
    else
        snprintf(t.s, sizeof t.s, "%s(\"%s\") from any rank", call, p->d.name);
    return t;
}

/* End what is under way on `comm` (NULL: any).  Where others may wait for it, or it is `wrong` that
 * nobody has waited for it, the job ends. */
static void give_up(posts *s, const lk_comm *comm, const char *why, bool wrong)
{
    for (int64_t i = 0; i < s->n; i++) {
        lk__post *p = &s->post[i];
        if (!p->request || (comm && p->d.comm != comm))
            continue;
        if (wrong || !lk__request_is_over(p->request)) {
            char report[320];
            snprintf(report, sizeof report,
                     "rank %d %s before it has waited for %s: lk_dist_wait() is missing",
                     lk_comm_rank(p->d.comm), why, lk__post_text(p).s);
            lk__comm_end_job(p->d.comm, wrong ? LK_ESTATE : LK_ECOMM, report);
        }
        lk__request_drop(&p->request);
    }
}

static void comm_freed(lk__comm_user *user)
{
    seen *c = (seen *)(void *)user;
    give_up(c->owner, c->comm, "has freed the communicator", false);
    c->owner->last = NULL;
}

/* Forget communicators: all, or those that were freed. */
static void forget(posts *s, bool all)
{
    for (seen **at = &s->seen; *at;) {
        seen *c = *at;
        if (!all && !lk__comm_is_freed(c->comm)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        lk__comm_leave(c->comm, &c->user);
        lk_free(c);
    }
}

static void posts_reset(lk__guest *g)
{
    posts *s = (posts *)g;
    give_up(s, NULL, "has reset the tape", true);
    s->n = 0;
    forget(s, false);
}

static void posts_free(lk__guest *g)
{
    posts *s = (posts *)g;
    give_up(s, NULL, "has freed the tape", false);
    forget(s, true);
    lk_free(s->post);
    lk_free(s);
}

static lk_status posts_ready(lk__guest *g)
{
    const posts *s = (const posts *)g;
    for (int64_t i = 0; i < s->n; i++)
        LK_CHECK(s->post[i].waited || !s->post[i].recorded, LK_ESTATE,
                 "backward before %s has been waited for: lk_dist_wait() is missing",
                 lk__post_text(&s->post[i]).s);
    return LK_OK;
}

/* Others may wait for what this rank does not do any more. */
static void tell(lk_comm *comm)
{
    char report[400];
    if (lk__comm_is_freed(comm) || lk_comm_size(comm) == 1)
        return;
    snprintf(report, sizeof report, "rank %d failed: %s: %.300s", lk_comm_rank(comm),
             lk_status_text(lk_error_status()), lk_error_message());
    lk__comm_end_job(comm, LK_ECOMM, report);
}

/* A sum that is not finite has failed on all its ranks alike. */
static void posts_failed(lk__guest *g, lk_status st)
{
    const posts *s = (const posts *)g;
    if (st == LK_ENAN)
        return;
    for (const seen *c = s->seen; c; c = c->next)
        tell(c->comm);
}

lk_status lk__dist_told(lk_comm *comm, lk_status st)
{
    if (st == LK_ENOMEM && comm)
        tell(comm);
    return st;
}

static lk_status posts_of(lk_tape *t, posts **out)
{
    lk__guest **guest = lk__tape_guest(t);
    if (!*guest) {
        LK_TRY(lk_alloc_zero(out, 1, sizeof **out));
        (*out)->guest = (lk__guest){posts_reset, posts_ready, posts_failed, posts_free};
        *guest = &(*out)->guest;
    }
    *out = (posts *)*guest;
    return LK_OK;
}

lk_status lk__dist_uses(lk_tape *t, lk_comm *comm, const char *call)
{
    posts *s = NULL;
    LK_TRY(posts_of(t, &s));
    if (s->last == comm)
        return LK_OK;
    seen *c = s->seen;
    while (c && c->comm != comm)
        c = c->next;
    LK_CHECK(!c || !lk__comm_is_freed(comm), LK_ESTATE,
             "%s: the communicator was freed; free it after the tape", call);
    if (!c) {
        LK_TRY(lk_alloc(&c, 1, sizeof *c));
        *c = (seen){.user = {.freed = comm_freed}, .next = s->seen, .owner = s, .comm = comm};
        s->seen = c;
        lk__comm_use(comm, &c->user);
    }
    s->last = comm;
    return LK_OK;
}

lk_status lk__post_room(lk_tape *t)
{
    posts *s = NULL;
    LK_TRY(posts_of(t, &s));
    if (s->n < s->capacity)
        return LK_OK;
    int64_t capacity = s->n < 8 ? 16 : 2 * s->n;
    lk__post *more = NULL;
    LK_TRY(lk_alloc(&more, capacity, sizeof *more));
    if (s->n > 0)
        memcpy(more, s->post, (size_t)s->n * sizeof *more);
    lk_free(s->post);
    s->post = more;
    s->capacity = capacity;
    return LK_OK;
}

void lk__post_add(lk_tape *t, const lk__post *post)
{
    posts *s = (posts *)*lk__tape_guest(t);
    s->post[s->n] = *post;
    s->post[s->n].recorded = lk__tape_writes(t);
    s->post[s->n].segment = lk__tape_segment(t);
    s->n++;
    lk__var_hold(post->handle);
    lk__var_hold(post->data);
}

lk__post *lk__post_find(lk_var handle)
{
    posts *s = handle.tape ? (posts *)*lk__tape_guest(handle.tape) : NULL;
    int64_t low = 0, high = s ? s->n : 0;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (s->post[middle].handle.serial < handle.serial)
            low = middle + 1;
        else
            high = middle;
    }
    return s && low < s->n && s->post[low].handle.serial == handle.serial ? &s->post[low] : NULL;
}

void lk__post_done(lk_var handle)
{
    posts *s = (posts *)*lk__tape_guest(handle.tape);
    lk__post *p = lk__post_find(handle);
    lk__var_release(p->data);
    lk__var_release(p->handle);
    p->waited = true;
    while (s->n > 0 && s->post[s->n - 1].waited && !s->post[s->n - 1].recorded)
        s->n--;
}
