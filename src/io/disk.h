/* lk__disk: work on the disk of one rank, for which others wait.  Checkpoints and the files of runs
 * make one.
 *
 * A disk may take longer than any message, and a rank that waits for it is not stuck; but a rank
 * that was stopped writes nothing, and waiting for it would never end.  So the work is done by a
 * thread of its own, while the rank itself communicates with the others again and again, within the
 * deadline of their communicator, and says whether it is still working and on what.  A slow disk is
 * then reported, and a rank that no longer takes part ends the job at the deadline as everywhere.
 */
#ifndef LK_IO_DISK_H
#define LK_IO_DISK_H

#include "base/failure.h"
#include "base/storage/storage.h"

#include <lockstep/comm.h>

/** Work that a thread does, without communication. */
typedef lk_status lk__work_fn(void *arg);

typedef struct lk__work {
    lk__work_fn *fn;
    void *arg;
    pthread_t thread;
    bool running; /* the thread is to be joined */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
    lk__storage_status status;
    lk__failure failure;
} lk__work;

/** Nothing to do: it is done. */
void lk__work_init(lk__work *w);

/** Do fn(arg) on a thread, or here if none can be started. */
void lk__work_start(lk__work *w, lk__work_fn *fn, void *arg);

/** Whether it is done, within so many nanoseconds. */
bool lk__work_is_done(lk__work *w, int64_t ns);

/** Wait for it; its failure is this thread's now. */
lk_status lk__work_end(lk__work *w) LK_NODISCARD;

/** The ranks that wait for a disk, and the callback for messages about it. */
typedef struct lk__disk {
    lk_comm *comm; /* NULL: one rank */
    /* Called on rank 0 with a line that says for which disk it waits; NULL: the line goes to the log. */
    void (*message)(void *arg, const char *text);
    void *arg;
} lk__disk;

/** Wait until the work of all ranks is done; `own` may be NULL.  Collective.  Errors: those of
 * communication; the work may then still go on. */
lk_status lk__disk_await(const lk__disk *disk, lk__work *own) LK_NODISCARD;

/** Do fn(arg) on this rank (fn NULL: nothing), and wait until all ranks have done theirs.  Collective.
 * The status is that of this rank's work, for the caller to agree on, or of communication. */
lk_status lk__disk_do(const lk__disk *disk, lk__work_fn *fn, void *arg) LK_NODISCARD;

#endif /* LK_IO_DISK_H */
