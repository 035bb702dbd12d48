/* What processes on one node show each other: what they do, their wakeups, and the end of the job.
 *
 * Made when the ranks open, of memory that they share.  Where that cannot be (processes of several
 * users or containers on a node), each rank sees only itself: everything works by messages, naps are
 * shorter than they could be, and reports know less.
 */
#include "comm/segment.h"
#include "comm/shm.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct place {
    lk__board_slot slot;
    lk__wakeup wakeup;
    lk__fault fault; /* that of the first rank is the one of all */
};

static lk_status hosts_exchange(lk_comm *comm)
{
    lk__host mine = {""};
    lk__call call = {
        .call = LK_CALL_SHARE, .name = "hosts", .dtype = LK_U8, .op = LK_N_REDUCE_OPS, .root = -1};
    if (gethostname(mine.name, sizeof mine.name - 1) != 0)
        snprintf(mine.name, sizeof mine.name, "node%d", comm->inter_rank);
    return lk__exchange(comm, &call, &mine, sizeof mine, comm->w->host);
}

static void show(lk_shm *s)
{
    lk__world *w = s->w;
    for (int i = 0; i < s->n; i++) {
        struct place *p = (struct place *)s->part[i].data;
        w->board[s->part[i].world_rank] = &p->slot;
        w->wakeup[s->part[i].world_rank] = &p->wakeup;
    }
    w->fault = &((struct place *)s->part[0].data)->fault;
    w->life = &s->block;
    lk__slot_write(w->board[w->rank], &w->status);
}

lk_status lk__node_open(lk_comm *comm, lk_shm **out)
{
    LK_TRY(hosts_exchange(comm));
    lk_status st = lk__shared_make(comm, sizeof(struct place), "node", out);
    if (st == LK_OK)
        show(*out);
    return st == LK_ENOTSUP || st == LK_ENOMEM ? lk__fault_check(comm->w) : st;
}
