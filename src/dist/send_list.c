/* Messages and bcast of lists, of which the receiver need not know how many values there are, nor their
 * dtypes and shapes.
 *
 * How many there are goes ahead, as a plain message without a derivative.  Each value is a message of
 * send.c, whose message says what it is, or of bcast.c, and then what it is goes ahead too.
 */
#include "dist/common/list.h"
#include "dist/common/pending.h"
#include "dist/common/sample_lists.h"

#include <lockstep/extra/alloc.h>

lk_status lk_dist_send_list(lk_comm *comm, const lk_var *xs, int n, int dest, int64_t tag,
                            const char *name, lk_var *token)
{
    int64_t number = n;
    lk_var sent = LK_NO_VAR;
    if (token)
        *token = LK_NO_VAR;
    LK_CHECK(n >= 1, LK_EINVAL, "send_list of %d values", n);
    LK_TRY_DIST(comm, lk__list_check("send_list", xs, n, true));
    LK_TRY_DIST(comm, lk__dist_peer_check(xs[0].tape, comm,
                                          &(lk__dist_peer){"send_list", dest, tag, .list = true}));
    LK_TRY_DIST(comm, lk_send(comm, &number, 1, LK_I64, dest, tag, name));
    for (int i = 0; i < n; i++)
        LK_TRY_DIST(comm, lk_dist_send(comm, xs[i], dest, tag, name, &sent));
    if (token)
        *token = sent;
    return LK_OK;
}

static lk_status room_check(const char *call, const char *name, const lk_list *list, int64_t n)
{
    LK_CHECK(n >= 0 && n <= list->room, LK_EINVAL,
             "%s(\"%s\"): %lld values come, and the list has room for %d", call, name ? name : "",
             (long long)n, list->room);
    return LK_OK;
}

lk_status lk_dist_recv_list(lk_tape *tape, lk_comm *comm, int source, int64_t tag, const char *name,
                            lk_list *out)
{
    lk_message info;
    int64_t n = -1;
    LK_CHECK(out && (out->at || out->room == 0), LK_EINVAL, "recv_list: there is no list");
    out->n = 0;
    LK_TRY_DIST(comm, lk__dist_peer_check(
                          tape, comm,
                          &(lk__dist_peer){"recv_list", source, tag, .any = true, .list = true}));
    LK_TRY_DIST(comm, lk_recv(comm, &n, 1, LK_I64, source, tag, name, &info));
    LK_TRY_DIST(comm, room_check("recv_list", name, out, n));
    for (int64_t i = 0; i < n; i++)
        LK_TRY_DIST(comm, lk_dist_recv(tape, comm, info.rank, info.tag, LK_ANY_DTYPE, LK_ANY_SHAPE,
                                       name, &out->at[i]));
    out->n = (int)n;
    return LK_OK;
}

static lk_status likes_of(const lk_var *xs, int64_t n, lk__like **out)
{
    lk_status st = LK_OK;
    LK_TRY(lk_alloc(out, n, sizeof **out));
    for (int64_t i = 0; i < n; i++)
        LK_TRY_TO(fail, lk__like_of(xs[i], &(*out)[i]));
    return LK_OK;
fail:
    lk_free(*out);
    *out = NULL;
    return st;
}

lk_status lk_dist_bcast_list(lk_tape *tape, lk_comm *comm, int root, const char *name,
                             lk_list *list)
{
    lk_status st;
    lk__like *like = NULL;
    LK_CHECK(tape && comm && list && (list->at || list->room == 0), LK_EINVAL, "bcast_list: %s",
             !tape  ? "tape is NULL"
             : comm ? "there is no list"
                    : "comm is NULL");
    LK_CHECK(root >= 0 && root < lk_comm_size(comm), LK_EINVAL, "bcast_list: root %d of %d ranks",
             root, lk_comm_size(comm));
    LK_TRY_DIST(comm, lk__dist_uses(tape, comm, "bcast_list"));
    bool own = lk_comm_rank(comm) == root;
    int64_t n = list->n;
    if (own)
        LK_TRY_DIST(comm, lk__list_check("bcast_list", list->at, n, true));
    LK_TRY_DIST(comm, lk_bcast(comm, &n, 1, LK_I64, root, name));
    LK_TRY_DIST(comm, own ? LK_OK : room_check("bcast_list", name, list, n));
    if (own)
        LK_TRY_DIST(comm, likes_of(list->at, n, &like));
    else
        LK_TRY_DIST(comm, lk_alloc(&like, n, sizeof *like));
    LK_TRY_TO(done, lk_bcast(comm, like, n * LK_LIKE, LK_I64, root, name));
    for (int64_t i = 0; i < n; i++) {
        lk_output_spec s = lk__like_spec(&like[i]);
        if (!own)
            LK_TRY_TO(done, lk_full(tape, s.dtype, s.shape, 0, &list->at[i]));
        LK_TRY_TO(done, lk_dist_bcast(comm, list->at[i], root, name, &list->at[i]));
    }
    list->n = (int)n;
done:
    lk_free(like);
    return lk__dist_failed(comm, st);
}

/* ---- samples ---- */

/* Two values along the line of ranks, each of which passes on what it got and something of its own. */
static lk_status line_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in, lk_var *out)
{
    int rank = lk_comm_rank(comm);
    lk_var token;
    lk_list list = {.at = out, .room = 2};
    (void)s;
    if (rank > 0)
        LK_TRY(lk_dist_recv_list(in[0].tape, comm, rank - 1, 6, "check", &list));
    else
        out[0] = in[0];
    LK_TRY(lk_mul(out[0], in[1], &out[1]));
    if (rank + 1 < lk_comm_size(comm))
        LK_TRY(lk_dist_send_list(comm, out, 2, rank + 1, 6, "check", &token));
    return LK_OK;
}

const lk_dist_check lk__dist_check_send_list = {
    .name = "send_list",
    .summary = "values for dest, of any shapes; dx = the dy that dest sends back",
    .samples = (const lk_dist_sample[]){
        {.name = "along a line", .n_in = 2, .n_out = 2, .shape = shape_same, .run = line_sample},
        {0}}};

/* Two values of root; the others do not know what will come. */
static lk_status bcast_list_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                   lk_var *out)
{
    lk_list list = {.at = out, .n = 0, .room = 3};
    if (lk_comm_rank(comm) == lk_dist_root(s, comm))
        for (list.n = 0; list.n < 2; list.n++)
            out[list.n] = in[list.n];
    return LK_TRACE(lk_dist_bcast_list(in[0].tape, comm, lk_dist_root(s, comm), "check", &list));
}

#define BCAST_SAMPLE(text, who)                                                                 \
    {                                                                                           \
        .name = (text), .n_in = 2, .n_out = 3, .shape = shape_ragged, .run = bcast_list_sample, \
        .axis = 2, .root = (who), .is_linear = true                                             \
    }

const lk_dist_check lk__dist_check_bcast_list = {
    .name = "bcast_list",
    .summary = "the values of root; dx = the sum of dy, on root",
    .samples = (const lk_dist_sample[]){BCAST_SAMPLE("two values, from the first", 0),
                                        BCAST_SAMPLE("two values, from the last", -1),
                                        {0}}};

/* The root takes lists of one value from any rank, and adds them up. */
static lk_status from_any_sample(const lk_dist_sample *s, lk_comm *comm, const lk_var *in,
                                 lk_var *out)
{
    int root = lk_dist_root(s, comm);
    if (lk_comm_rank(comm) != root) {
        return LK_TRACE(lk_dist_send_list(comm, in, 1, root, 8, "check", NULL));
    }
    out[0] = in[0];
    for (int r = 1; r < lk_comm_size(comm); r++) {
        lk_var got = LK_NO_VAR;
        lk_list list = {.at = &got, .room = 1};
        LK_TRY(lk_dist_recv_list(in[0].tape, comm, LK_ANY_RANK, 8, "check", &list));
        LK_TRY(lk_add(out[0], got, out));
    }
    return LK_OK;
}

const lk_dist_check lk__dist_check_recv_list = {
    .name = "recv_list",
    .summary = "the values that were sent here; their dy go back to the sender",
    .samples = (const lk_dist_sample[]){
        {LINEAR_SAMPLE("from any rank to the last", shape_same, from_any_sample), .root = -1},
        {0}}};
