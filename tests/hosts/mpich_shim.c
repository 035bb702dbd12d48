/* For MPICH on simulated hosts, to be loaded before it: Debian's MPICH 4.0 (device ch4:ucx)
 *
 *  - never gives its processor away while it waits, so that four ranks on two processors take seconds for
 *    what takes milliseconds;
 *  - may stay in MPI_Finalize() where several ranks of several hosts talk over TCP: one rank waits until its
 *    connections are closed, while the others wait in the launcher's barrier and serve them no more.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#pragma GCC visibility push(default) /* to be found before UCX's own */
unsigned ucp_worker_progress(void *worker);
void *ucp_disconnect_nb(void *endpoint);
#pragma GCC visibility pop

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*real)(void *);
    if (!real) {
        void *symbol = dlsym(RTLD_NEXT, "ucp_worker_progress");
        memcpy(&real, &symbol, sizeof real);
    }
    unsigned done = real(worker);
    if (done == 0)
        sched_yield();
    return done;
}

/* NULL: closed already. */
void *ucp_disconnect_nb(void *endpoint)
{
    (void)endpoint;
    return NULL;
}
