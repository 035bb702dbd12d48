/* Run a call: check, select, schedule, start. */
#include "coll/schedule.h"

#include <lockstep/alloc.h>

lk_status lk_coll_start(lk_comm *comm, const lk_collective *c, lk_request **out)
{
    lk_status st;
    LK_CHECK(comm && c && out, LK_EINVAL, "%s is NULL", !comm ? "comm" : !c ? "c" : "out");
    *out = NULL;
    LK_TRY(lk__fault_check(comm->w));
    lk__case k = {.memory = NULL};
    lk__schedule *s = NULL;
    int number;
    LK_TRY_TO(done, lk__case_make(comm, c, &k));
    LK_TRY_TO(done, lk__coll_select(&k, &number));
    st = lk__schedule_new(&k, number, &s);
    if (st == LK_OK)
        st = lk_colls[number - 1]->schedule(&k, s);
    if (st == LK_OK)
        st = lk__schedule_start(s, out);
    if (st != LK_OK) { /* no memory: others may have begun */
        lk__schedule_free(s);
        st = lk__fault_raise(comm->w);
        goto done;
    }
    st = lk__progress(comm->w);
    if (st != LK_OK) {
        lk__request_end(*out);
        *out = NULL;
    }
done:
    lk__case_free(&k);
    return st;
}

lk_status lk_coll_run(lk_comm *comm, const lk_collective *c)
{
    lk_request *r = NULL;
    LK_TRY(lk_coll_start(comm, c, &r));
    LK_TRY(lk_wait(&r, NULL));
    return LK_OK;
}

lk_status lk_coll_choice(lk_comm *comm, const lk_collective *c, const char **out)
{
    lk_status st;
    LK_CHECK(comm && c && out, LK_EINVAL, "%s is NULL", !comm ? "comm" : !c ? "c" : "out");
    *out = NULL;
    lk__case k = {.memory = NULL};
    int number;
    LK_TRY_TO(done, lk__case_make(comm, c, &k));
    LK_TRY_TO(done, lk__coll_select(&k, &number));
    *out = lk_colls[number - 1]->name;
done:
    lk__case_free(&k);
    return st;
}
