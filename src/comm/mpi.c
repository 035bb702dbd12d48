/* The transport `mpi`: ranks are processes.
 *
 * mpi_wires.c moves packets; here are opening, waiting and closing.  All MPI calls but those of
 * opening and closing are nonblocking; how to wait is decided here.
 */
#include "base/fpenv.h"
#include "comm/mpi_end.h"
#include "comm/progress_thread.h"
#include "comm/segment.h"
#include "comm/shm.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>

#include <unistd.h>

/* In ns: naps while MPI has something to do that notifies nobody, and when all that can come does. */
static const int64_t first_nap = 20000, last_nap = 1000000, nap_with_wakeup = 2000000;

/* How long the last packets may take to leave. */
static const int64_t patience = 10000000000;

/* MPI was initialised by the library, not by its host. */
static bool ours;

static lk__mpi_end *end_of(lk__world *w)
{
    return (lk__mpi_end *)w;
}

/* Packets of ranks on this node notify it.  Those of others, and payloads under way, do not:
 * then naps grow from short ones. */
static int64_t mpi_nap(lk__world *w, int64_t ns)
{
    lk__mpi_end *e = end_of(w);
    e->naps = e->seen == w->n_arrived ? e->naps + 1 : 1;
    e->seen = w->n_arrived;
    int64_t nap = first_nap * e->naps;
    nap = nap > last_nap ? last_nap : nap;
    if (e->alone && !e->under_way)
        nap = nap_with_wakeup;
    return nap > ns ? ns : nap;
}

static bool mpi_busy(lk__world *w)
{
    return end_of(w)->waiting || end_of(w)->under_way;
}

static bool mpi_moving(lk__world *w)
{
    return end_of(w)->under_way;
}

/* Calls of two threads must not overlap in MPI.  Ours are kept apart by the module; those of the host
 * only by an MPI that does it itself. */
static lk_status mpi_share(lk__world *w)
{
    const lk__mpi *m = end_of(w)->m;
    lk__mpi_threads level = m->threads();
    LK_CHECK(ours ? level >= LK_MPI_SERIALIZED : level == LK_MPI_MULTIPLE, LK_ENOTSUP,
             "no progress beside the caller: MPI was initialised %s",
             ours ? "without it; set LK_PROGRESS=1 before"
                  : "by the host with less than MPI_THREAD_MULTIPLE");
    if (level == LK_MPI_SERIALIZED)
        m->serialize();
    return LK_OK;
}

static lk_status mpi_block_make(lk__world *w, int64_t bytes, lk__key *key, lk__shm_block *out)
{
    (void)w;
    return lk__shm_make(bytes, key, out);
}

static lk_status mpi_block_open(lk__world *w, int64_t bytes, const lk__key *key, lk__shm_block *out)
{
    (void)w;
    return lk__shm_open(bytes, key, out);
}

static lk_status mpi_block_touch(lk__world *w, const lk__shm_block *b, void *part, int64_t bytes)
{
    LK_TRY(lk__shm_hold(b, w->rank));
    return LK_TRACE(lk__shm_touch(b, part, bytes));
}

static void mpi_block_seal(lk__world *w, lk__shm_block *b)
{
    (void)w;
    lk__shm_seal(b);
}

static void mpi_block_free(lk__world *w, lk__shm_block *b)
{
    (void)w;
    lk__shm_free(b);
}

static void end_free(lk__mpi_end *e)
{
    lk__mpi_forget(e);
    if (e->comm && !atomic_load(&e->fault.state))
        e->m->comm_free(e->comm);
    lk_free(e->ring_packet);
    lk_free(e->fault_sent);
    lk_free(e->asked);
    lk_free(e->board);
    lk_free(e->wakeup);
    lk_free(e->host);
    lk_free(e->node);
    lk_free(e);
}

/* Let what is under way arrive, then take back the ring.  After a fault MPI is left as it is: its
 * peers may be gone, and freeing or finalizing would wait for them. */
static void mpi_close(lk__world *w)
{
    lk__mpi_end *e = end_of(w);
    bool well = atomic_load(&w->fault->state) == 0;
    atomic_store(&e->fault.state, !well);
    for (int64_t start = lk_clock_ns(); well && e->under_way;)
        well = lk__mpi_complete(e) == LK_OK && lk_clock_ns() - start < patience;
    lk__world_clear(w);
    w->fault = &e->fault;
    lk_shm_close(e->shown);
    lk__mpi_forget(e); /* with the ring still there: others do the same */
    lk__mpi_ring_close(e);
    bool finalize = e->finalize && well;
    const lk__mpi *m = e->m;
    end_free(e);
    if (finalize)
        m->finalize();
}

static const lk__transport transport_mpi = {.name = "mpi",
                                            .send = lk__mpi_send,
                                            .poll = lk__mpi_poll,
                                            .take = lk__mpi_take,
                                            .withdraw = lk__mpi_withdraw,
                                            .drop = lk__mpi_drop,
                                            .nap = mpi_nap,
                                            .busy = mpi_busy,
                                            .moving = mpi_moving,
                                            .share = mpi_share,
                                            .spread = lk__mpi_spread,
                                            .ask = lk__mpi_ask,
                                            .inquire = lk__mpi_inquire,
                                            .block_make = mpi_block_make,
                                            .block_open = mpi_block_open,
                                            .block_touch = mpi_block_touch,
                                            .block_seal = mpi_block_seal,
                                            .block_free = mpi_block_free,
                                            .close = mpi_close};

static lk_status end_open(lk__mpi_end *e)
{
    int rank, size;
    e->m->comm_place(e->comm, &rank, &size);
    LK_TRY(lk_alloc(&e->node, size, sizeof *e->node));
    LK_TRY(lk_alloc_zero(&e->board, size, sizeof *e->board));
    LK_TRY(lk_alloc_zero(&e->wakeup, size, sizeof *e->wakeup));
    LK_TRY(lk_alloc_zero(&e->host, size, sizeof *e->host));
    LK_TRY(lk_alloc_zero(&e->fault_sent, size, sizeof *e->fault_sent));
    LK_TRY(lk_alloc_zero(&e->asked, size, sizeof *e->asked));
    LK_TRY(lk_alloc(&e->ring_packet, LK_MPI_RING, sizeof *e->ring_packet));
    LK_TRY(lk__mpi_check(e, e->m->comm_nodes(e->comm, e->node), "MPI_Comm_split_type"));
    LK_TRY(lk__nodes_pretend(size, e->node));
    e->board[rank] = &e->slot;
    e->wakeup[rank] = &e->own_wakeup;
    e->w = (lk__world){.transport = &transport_mpi,
                       .rank = rank,
                       .size = size,
                       .node = e->node,
                       .board = e->board,
                       .wakeup = e->wakeup,
                       .host = e->host,
                       .status = {.pid = getpid()},
                       .fault = &e->fault};
    lk__wait_pace(&e->w, 1, 1);
    lk__world_init(&e->w);
    return lk__mpi_ring_open(e);
}

/* How to wait, now that it is known who is on this node. */
static void settle(lk__mpi_end *e, const lk_comm *comm)
{
    e->alone = e->shown && comm->intra_size == comm->size;
    lk__wait_pace(&e->w, comm->intra_size, sysconf(_SC_NPROCESSORS_ONLN));
}

static lk_status mpi_open(const lk__mpi *m, bool world, int handle, bool finalize, lk_comm **out)
{
    lk_status st;
    lk__mpi_end *e;
    lk_comm *setup = NULL;
    LK_TRY(lk_alloc_zero(&e, 1, sizeof *e));
    e->m = m;
    e->finalize = finalize;
    LK_TRY_TO(fail, lk__mpi_check(e, m->comm_dup(world, handle, &e->comm), "MPI_Comm_dup"));
    LK_TRY_TO(fail, end_open(e));
    LK_TRY_TO(fail, lk__comm_world(&e->w, 1, out));
    LK_TRY_TO(fail_comm, lk__comm_world(&e->w, 0, &setup));
    st = lk__node_open(setup, &e->shown);
    settle(e, setup);
    lk_comm_close(setup);
    LK_TRY_TO(fail_comm, st);
    LK_TRY_TO(fail_comm, lk__progress_thread_default(&e->w));
    LK_TRY_TO(fail_comm, lk__abort_hook_default(&e->w));
    return LK_OK;
fail_comm:
    lk_comm_close(*out);
    *out = NULL;
    return st;
fail:
    end_free(e);
    return st;
}

/* Refuse to be alone where a launcher has started several processes. */
static lk_status alone_check(const lk__mpi_other_launcher *other, lk_comm **comm)
{
    if (other->processes <= 1 || lk_comm_size(*comm) > 1)
        return LK_OK;
    lk_comm_close(*comm);
    *comm = NULL;
    return lk__mpi_other_launcher_refuse(other);
}

lk_status lk__mpi_open(lk_comm **out)
{
    const lk__mpi *m = NULL;
    LK_TRY(lk__mpi_module(&m));
    LK_CHECK(!m->finalized(), LK_EINVAL, "MPI has been finalized in this process");
    lk__mpi_other_launcher other = lk__mpi_other_launcher_find(m);
    bool first = !m->running(), progress = false;
    LK_TRY(lk__progress_thread_wanted(&progress));
    LK_CHECK(!first || m->init(progress) == 0, LK_ECOMM, "MPI_Init_thread failed");
    ours = ours || first;
    LK_TRY(mpi_open(m, true, 0, first, out));
    return alone_check(&other, out);
}

lk_status lk_comm_from_mpi(int fortran_handle, lk_comm **out)
{
    LK_FP_GUARD_LONG();
    const lk__mpi *m = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    LK_TRY(lk__mpi_module(&m));
    LK_CHECK(m->running(), LK_EINVAL, "MPI is not initialised in this process, or finalized");
    lk__mpi_handle is = m->handle(fortran_handle);
    LK_CHECK(is == LK_MPI_INTRA, LK_EINVAL, "handle %d is %s", fortran_handle,
             is == LK_MPI_INTER ? "an intercommunicator: merge it first"
                                : "no communicator of MPI");
    lk__mpi_other_launcher other = lk__mpi_other_launcher_find(m);
    LK_TRY(mpi_open(m, false, fortran_handle, false, out));
    return alone_check(&other, out);
}
