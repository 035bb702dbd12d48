/* What local.c and run.c share of the transports `self` and `local`, whose ranks are threads of one
 * process: the job, and each rank's inbox. */
#ifndef LK_COMM_LOCAL_END_H
#define LK_COMM_LOCAL_END_H

#include "base/failure.h"
#include "comm/comm.h"
#include "comm/local/job.h"

#include <pthread.h>

/* Before a block that ranks share. */
struct lk__local_block {
    struct lk__local_block *next;
    int holders;
    void *base;
};

/* One rank. */
struct lk__local_end {
    lk__world w;
    struct lk__local_job *job;
    pthread_t thread;
    lk_rank_fn *fn;
    void *arg;
    _Alignas(64) _Atomic(lk__packet *) inbox;
    lk__wakeup wakeup;
    lk__board_slot slot;
};

/* All ranks. */
struct lk__local_job {
    int n, n_started; /* ranks, and threads of them */
    lk__left_fn *left;
    struct lk__local_end *end;
    lk__board_slot **board;
    lk__wakeup **wakeup;
    int *node;
    lk__fault fault;
    pthread_mutex_t lock; /* for the blocks, and the failure that lk_run_local() returns */
    struct lk__local_block *blocks;
    lk__failure failure;
};

/* The functions of the transport that move packets. */
lk_status lk__local_send(lk__world *w, lk_request *r) LK_NODISCARD;
lk_status lk__local_poll(lk__world *w) LK_NODISCARD;
lk_status lk__local_take(lk__world *w, lk__packet *p, lk_request *r) LK_NODISCARD;
void lk__local_withdraw(lk__world *w, lk_request *r);
void lk__local_drop(lk__world *w, lk__packet *p);
int64_t lk__local_nap(lk__world *w, int64_t ns);
void lk__local_spread(lk__world *w);

#endif /* LK_COMM_LOCAL_END_H */
