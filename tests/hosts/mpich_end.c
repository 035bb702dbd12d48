/* For tests alone, loaded before MPICH 4.0: what its MPI_Finalize hangs in over TCP in about half of the runs.
 *
 * It waits for the end of connections, which needs the peer to make progress; but the peer may already wait
 * in the barrier of the process manager.  And it never gives its core away while it waits for a message,
 * which takes long where ranks share cores.
 */
#include <dlfcn.h>
#include <sched.h>
#include <string.h>

unsigned ucp_worker_progress(void *worker);
void *ucp_disconnect_nb(void *endpoint);

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*next)(void *);
    if (!next) {
        void *found = dlsym(RTLD_NEXT, "ucp_worker_progress");
        memcpy(&next, &found, sizeof next);
    }
    unsigned events = next(worker);
    if (events == 0)
        sched_yield();
    return events;
}

void *ucp_disconnect_nb(void *endpoint)
{
    (void)endpoint;
    return NULL;
}
