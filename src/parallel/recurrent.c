/* lk_recurrent_forward(): a recurrent model whose carry comes from a rank and goes to another.
 *
 *     first = what rank_in sent;  (y, last) = model(x, first);  last to rank_out
 *
 * The program calls it on each rank, on the thread of the tape.  All is on one tape, so backward answers
 * the messages in the reverse order.
 */
#include "coll/agree.h"
#include "dist/common/dist.h"
#include "nn/model.h"

#include <lockstep/recurrent.h>

static lk_status recurrent_check(const lk_model *model, const lk_pass *pass, const lk_comm *comm,
                                 int rank_in, int rank_out, const lk_var *out)
{
    LK_CHECK(model && pass && pass->tape && comm && out, LK_EINVAL, "%s is NULL",
             !model                 ? "model"
             : !pass || !pass->tape ? "pass or its tape"
             : !comm                ? "comm"
                                    : "out");
    LK_TRY(lk__model_check_whole(model));
    LK_TRY(lk__model_check_recurrent(model));
    LK_CHECK(rank_in < lk_comm_size(comm), LK_EINVAL, "the carry comes from rank %d, there are %d",
             rank_in, lk_comm_size(comm));
    LK_CHECK(rank_out < lk_comm_size(comm), LK_EINVAL, "the carry goes to rank %d, there are %d",
             rank_out, lk_comm_size(comm));
    return LK_OK;
}

/* A failure of a rank whose messages others wait for is the end of the job. */
static lk_status ends_job(lk_comm *comm, lk_status st)
{
    if (st != LK_OK && !lk__is_end(st))
        lk__dist_end_job(comm);
    return st;
}

lk_status lk_recurrent_forward(lk_model *model, const lk_pass *pass, lk_var x, lk_comm *comm,
                               int rank_in, int rank_out, const char *name, lk_var *out)
{
    lk_status st;
    lk_var *values = NULL;
    LK_TRY(recurrent_check(model, pass, comm, rank_in, rank_out, out));
    int n = (int)lk_model_carries(model);
    *out = LK_NO_VAR;
    LK_TRY(ends_job(comm, lk_alloc(&values, 2 * (int64_t)n, sizeof *values)));
    lk_list first = {.at = values, .room = n}, last = {.at = values + n, .room = n};
    if (rank_in >= 0)
        LK_TRY_TO(done, lk_dist_recv_list(pass->tape, comm, rank_in, 0, name, &first));
    LK_TRY_TO(done,
              lk_model_forward_carry(model, pass, x, rank_in >= 0 ? &first : NULL, &last, out));
    if (rank_out >= 0)
        LK_TRY_TO(done, lk_dist_send_list(comm, last.at, last.n, rank_out, 0, name, NULL));
done:
    lk_free(values);
    return ends_job(comm, st);
}
