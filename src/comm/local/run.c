/* Ranks that are threads of one process: started, ended, and the memory that they share.
 *
 * Blocks of lk_shm_open() are plain memory in a list of the job: what ranks that failed did not
 * give back ends with the job.
 */
#include "base/thread.h"
#include "comm/local/end.h"
#include "comm/progress_thread.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/log.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { STACK_BYTES = 4 << 20, BLOCK_ALIGN = 4096 };

static void job_free(struct lk__local_job *job)
{
    for (int r = 0; job->end && r < job->n; r++) {
        struct lk__local_end *e = &job->end[r];
        lk__packet *p = atomic_load(&e->inbox);
        while (p) {
            lk__packet *next = p->next;
            lk__local_drop(&e->w, p);
            p = next;
        }
        lk__world_clear(&e->w);
    }
    while (job->blocks) {
        struct lk__local_block *next = job->blocks->next;
        lk_free(job->blocks);
        job->blocks = next;
    }
    pthread_mutex_destroy(&job->lock);
    lk_free(job->end);
    lk_free(job->board);
    lk_free(job->wakeup);
    lk_free(job->node);
    lk_free(job);
}

static lk_status local_block_make(lk__world *w, int64_t bytes, lk__key *key, lk__shm_block *out)
{
    struct lk__local_job *job = ((struct lk__local_end *)w)->job;
    struct lk__local_block *b = NULL;
    LK_TRY(lk_alloc(&b, (int64_t)sizeof *b + BLOCK_ALIGN + bytes, 1));
    uintptr_t behind = (uintptr_t)(b + 1) + BLOCK_ALIGN - 1;
    *b = (struct lk__local_block){.holders = 1, .base = (void *)(behind - behind % BLOCK_ALIGN)};
    pthread_mutex_lock(&job->lock);
    b->next = job->blocks;
    job->blocks = b;
    pthread_mutex_unlock(&job->lock);
    *key = (lk__key){.address = b};
    *out = (lk__shm_block){b->base, bytes, -1};
    return LK_OK;
}

static lk_status local_block_open(lk__world *w, int64_t bytes, const lk__key *key,
                                  lk__shm_block *out)
{
    struct lk__local_job *job = ((struct lk__local_end *)w)->job;
    pthread_mutex_lock(&job->lock);
    struct lk__local_block *b = job->blocks;
    while (b && b != key->address)
        b = b->next;
    if (b) {
        b->holders++;
        *out = (lk__shm_block){b->base, bytes, -1};
    }
    pthread_mutex_unlock(&job->lock);
    LK_CHECK(b, LK_ECOMM, "the rank that made the memory has given up"); /* after a fault */
    return LK_OK;
}

static lk_status local_block_touch(lk__world *w, const lk__shm_block *b, void *part, int64_t bytes)
{
    (void)w;
    (void)b;
    memset(part, 0, (size_t)bytes);
    return LK_OK;
}

static void local_block_seal(lk__world *w, lk__shm_block *b)
{
    (void)w;
    (void)b;
}

static void local_block_free(lk__world *w, lk__shm_block *block)
{
    struct lk__local_job *job = ((struct lk__local_end *)w)->job;
    pthread_mutex_lock(&job->lock);
    struct lk__local_block **at = &job->blocks, *last = NULL;
    while (*at && (*at)->base != block->base)
        at = &(*at)->next;
    if (*at && --(*at)->holders == 0) {
        last = *at;
        *at = last->next;
    }
    pthread_mutex_unlock(&job->lock);
    lk_free(last);
}

/* A thread's world lives as long as the job; that of `self` is its own. */
static void local_close(lk__world *w)
{
    (void)w;
}

static void self_close(lk__world *w)
{
    job_free(((struct lk__local_end *)w)->job);
}

#define LOCAL_TRANSPORT(text, closes)                                                           \
    {                                                                                           \
        .name = (text), .send = lk__local_send, .poll = lk__local_poll, .take = lk__local_take, \
        .withdraw = lk__local_withdraw, .drop = lk__local_drop, .nap = lk__local_nap,           \
        .spread = lk__local_spread, .block_make = local_block_make,                             \
        .block_open = local_block_open, .block_touch = local_block_touch,                       \
        .block_seal = local_block_seal, .block_free = local_block_free, .close = (closes)       \
    }

static const lk__transport transport_local = LOCAL_TRANSPORT("local", local_close);
static const lk__transport transport_self = LOCAL_TRANSPORT("self", self_close);

static int cores(void)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

static lk_status job_new(int n, const lk__transport *transport, struct lk__local_job **out)
{
    lk_status st;
    struct lk__local_job *job = NULL;
    LK_TRY(lk_alloc_zero(&job, 1, sizeof *job));
    job->n = n;
    pthread_mutex_init(&job->lock, NULL);
    LK_TRY_TO(fail, lk_alloc(&job->board, n, sizeof *job->board));
    LK_TRY_TO(fail, lk_alloc(&job->wakeup, n, sizeof *job->wakeup));
    LK_TRY_TO(fail, lk_alloc_zero(&job->node, n, sizeof *job->node));
    LK_TRY_TO(fail, lk__nodes_pretend(n, job->node));
    LK_TRY_TO(fail, lk_alloc_zero(&job->end, n, sizeof *job->end));
    for (int r = 0; r < n; r++) {
        struct lk__local_end *e = &job->end[r];
        job->board[r] = &e->slot;
        job->wakeup[r] = &e->wakeup;
        e->job = job;
        e->w = (lk__world){.transport = transport,
                           .rank = r,
                           .size = n,
                           .node = job->node,
                           .board = job->board,
                           .wakeup = job->wakeup,
                           .fault = &job->fault};
        lk__wait_pace(&e->w, n, cores());
        lk__world_init(&e->w);
    }
    *out = job;
    return LK_OK;
fail:
    job_free(job);
    return st;
}

lk_status lk__self_open(lk_comm **out)
{
    lk_status st;
    struct lk__local_job *job = NULL;
    LK_TRY(job_new(1, &transport_self, &job));
    LK_TRY_TO(fail, lk__comm_world(&job->end[0].w, 0, out));
    st = lk__progress_thread_default(&job->end[0].w);
    if (st == LK_OK)
        st = lk__abort_hook_default(&job->end[0].w);
    if (st == LK_OK)
        return LK_OK;
    lk_comm_close(*out); /* and the job */
    *out = NULL;
    return st;
fail:
    job_free(job);
    return st;
}

/* Whether an error only passes on what another rank reported. */
static bool passed_on(lk_status st)
{
    return st == LK_ECOMM || st == LK_ESTALL || st == LK_EMISMATCH;
}

/* The rank failed with this thread's last error: keep the one to return, and tell the others. */
static void rank_failed(struct lk__local_end *e, lk_status st)
{
    struct lk__local_job *job = e->job;
    if (lk_error_status() != st)
        (void)LK_RAISE(st, "the rank's function returned this without a message");
    pthread_mutex_lock(&job->lock);
    lk__failure *f = &job->failure;
    if (f->st == LK_OK || (passed_on(f->st) && !passed_on(st))) {
        lk__failure_get(f);
        snprintf(f->message, sizeof f->message, "rank %d: %.480s", e->w.rank, lk_error_message());
    }
    pthread_mutex_unlock(&job->lock);
    (void)!lk__fault_raise(&e->w);
}

static void *rank_main(void *arg)
{
    struct lk__local_end *e = arg;
    lk_comm *comm = NULL;
    lk_status st = lk_log_set_thread_rank(e->w.rank, e->w.size);
    if (st == LK_OK)
        st = lk__comm_world(&e->w, 0, &comm);
    if (st == LK_OK)
        st = lk__progress_thread_default(&e->w);
    if (st == LK_OK)
        st = lk__abort_hook_default(&e->w);
    if (st == LK_OK)
        st = e->fn(comm, e->arg);
    if (st != LK_OK)
        rank_failed(e, st);
    while (e->w.comms) /* also those that it forgot: it has left */
        lk_comm_close(e->w.comms);
    if (e->job->left)
        e->job->left(e->arg, e->w.rank, st);
    return NULL;
}

/* Without the last threads the first could only wait: then all end. */
lk_status lk__local_start(struct lk__local_job *job, lk_rank_fn *fn, void *arg, lk__left_fn *left)
{
    pthread_attr_t attr;
    LK_CHECK(pthread_attr_init(&attr) == 0, LK_ENOMEM, "no attributes for a thread");
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    lk_status st = LK_OK;
    job->left = left;
    for (int r = 0; r < job->n && st == LK_OK; r++) {
        struct lk__local_end *e = &job->end[r];
        e->fn = fn;
        e->arg = arg;
        int code = left ? lk__thread_start(&e->thread, &attr, rank_main, e)
                        : pthread_create(&e->thread, &attr, rank_main, e);
        if (code == 0)
            job->n_started++;
        else
            st = LK_RAISE(LK_ENOMEM, "no thread for rank %d of %d", r, job->n);
    }
    pthread_attr_destroy(&attr);
    if (st != LK_OK)
        (void)!lk__fault_raise(&job->end[job->n_started].w);
    return st;
}

lk_status lk__local_new(int n, struct lk__local_job **out)
{
    LK_CHECK(n >= 1 && n <= LK_MAX_LOCAL, LK_EINVAL, "%d local ranks: give 1 to %d", n,
             LK_MAX_LOCAL);
    return LK_TRACE(job_new(n, &transport_local, out));
}

lk_status lk__local_end(struct lk__local_job *job)
{
    for (int r = 0; r < job->n_started; r++)
        pthread_join(job->end[r].thread, NULL);
    lk_status st = job->failure.st;
    if (st != LK_OK)
        lk__failure_set(&job->failure);
    job_free(job);
    return st;
}

lk_status lk_run_local(int n, lk_rank_fn *fn, void *arg)
{
    struct lk__local_job *job = NULL;
    lk__failure failure;
    LK_CHECK(fn, LK_EINVAL, "fn is NULL");
    LK_TRY(lk__local_new(n, &job));
    lk_status st = lk__local_start(job, fn, arg, NULL);
    lk__failure_get(&failure);
    lk_status ended = lk__local_end(job);
    if (st != LK_OK) /* not what ranks that were told so have made of it */
        lk__failure_set(&failure);
    else
        st = ended;
    return LK_TRACE(st);
}
