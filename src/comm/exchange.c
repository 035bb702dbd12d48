/* Labels of collective calls, and the exchange that splits and topology need.
 *
 *     rank     0 ◄─ 1   2 ◄─ 3   4 ◄─ 5        up a binomial tree: rank r collects the blocks of
 *              0 ◄───── 2        4             ranks r ... r + 2^k - 1, which lie side by side;
 *              0 ◄────────────── 4             then all blocks down the same tree
 *
 * Cost: 2 log2(P) messages deep, P blocks down each edge.
 */
#include "base/journal.h"
#include "comm/comm.h"
#include "comm/progress_thread.h"

#include <lockstep/extra/clock.h>

#include <string.h>

void lk__call_number(lk_comm *comm, const lk__call *call, lk__label *label)
{
    lk__journal_count_comm();
    bool repeated = lk__journal_repeats();
    label->h = (lk__header){.magic = LK_WIRE_MAGIC,
                            .kind = LK_KIND_COLLECTIVE,
                            .call = (uint8_t)call->call,
                            .dtype = (uint8_t)call->dtype,
                            .op = (uint8_t)call->op,
                            .context = comm->context,
                            .source = comm->w->rank,
                            .pieces = call->pieces < UINT32_MAX ? (uint32_t)call->pieces
                                                                : UINT32_MAX,
                            .layout = call->layout & LK_LAYOUT_MASK,
                            .started = call->started,
                            .unchecked = call->unchecked,
                            .repeated = repeated,
                            .finite = call->finite,
                            .sequence = ++comm->n_calls,
                            .count = call->count,
                            .past = comm->past,
                            .root = call->root,
                            .algorithm = (uint8_t)call->algorithm};
    label->name[0] = '\0';
}

void lk__call_label(lk_comm *comm, const lk__call *call, lk__label *label)
{
    lk__call_number(comm, call, label);
    lk__label_name(label, call->name);
    comm->past = lk__label_roll(label);
}

void lk__call_show(lk_comm *comm, const lk__label *label)
{
    lk__world *w = comm->w;
    lk__label_copy(&comm->recent[label->h.sequence % LK_RECENT], label);
    w->begun = true;
    w->status.state = LK_STATE_CALLING;
    w->status.peer = -1;
    w->status.at = (w->status.at + 1) % LK_BOARD_CALLS;
    w->shown_comm = label->h.context;
    w->shown_call = label->h.sequence;
    lk__slot_write_call(w->board[w->rank], &w->status, label);
}

void lk__call_begin(lk_comm *comm, const lk__call *call, lk__label *label)
{
    lk__call_label(comm, call, label);
    lk__call_show(comm, label);
}

void lk__call_rewind(lk_comm *comm, int64_t n_calls, uint64_t past)
{
    comm->n_calls = n_calls;
    comm->past = past;
    for (int i = 0; i < LK_RECENT; i++)
        if (comm->recent[i].h.sequence > n_calls)
            comm->recent[i].h.sequence = 0;
}

void lk__call_end(lk_comm *comm)
{
    lk__world *w = comm->w;
    if (w->status.state != LK_STATE_CALLING)
        return;
    w->status.state = LK_STATE_COMPUTING;
    w->status.peer = -1;
    lk__slot_write_state(w->board[w->rank], &w->status);
}

/* Send or receive one block and wait for it. */
static lk_status pass(lk_comm *comm, const lk__label *label, int peer, void *data, int64_t bytes,
                      bool send)
{
    lk_request r = {
        .comm = comm, .label = label, .peer = comm->member[peer], .data = data, .bytes = bytes};
    lk_status st = send ? lk__pending_send(&r) : lk__pending_recv(&r);
    st = st == LK_OK ? lk__wait_one(&r) : lk__fault_raise(comm->w);
    lk__request_end(&r);
    return LK_TRACE(st);
}

static lk_status up(lk_comm *comm, lk__label *label, int64_t bytes, unsigned char *all)
{
    int rank = comm->rank, size = comm->size;
    for (int step = 1; step < size; step *= 2) {
        if (rank & step) {
            int n = size - rank < step ? size - rank : step;
            return pass(comm, label, rank - step, all + rank * bytes, n * bytes, true);
        }
        if (rank + step >= size)
            continue;
        int n = size - rank - step < step ? size - rank - step : step;
        LK_TRY(pass(comm, label, rank + step, all + (rank + step) * bytes, n * bytes, false));
    }
    return LK_OK;
}

static lk_status down(lk_comm *comm, lk__label *label, int64_t bytes, unsigned char *all)
{
    int rank = comm->rank, size = comm->size, step = 1;
    while (step < size && !(rank & step))
        step *= 2;
    if (rank > 0)
        LK_TRY(pass(comm, label, rank - step, all, size * bytes, false));
    for (step /= 2; step > 0; step /= 2)
        if (rank + step < size)
            LK_TRY(pass(comm, label, rank + step, all, size * bytes, true));
    return LK_OK;
}

lk_status lk__exchange(lk_comm *comm, const lk__call *call, const void *mine, int64_t bytes,
                       void *all)
{
    LK_INSIDE(comm->w);
    lk__label label;
    lk__call_begin(comm, call, &label);
    memcpy((unsigned char *)all + comm->rank * bytes, mine, (size_t)bytes);
    LK_TRY(up(comm, &label, bytes, all));
    LK_TRY(down(comm, &label, bytes, all));
    lk__call_end(comm);
    return LK_OK;
}
