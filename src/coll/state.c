/* What collectives keep for a communicator: names from the environment, the last selection, the shared
 * area.  Made by its first collective call, freed with it.
 */
#include "base/env.h"
#include "coll/shm/area.h"
#include "comm/mpi_native.h"
#include "comm/progress_thread.h"

#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/alloc.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void state_free(void *coll)
{
    lk__coll_state *state = coll;
    for (int i = 0; i < LK_N_CALLS; i++)
        lk_free(state->named[i]);
    if (state->area)
        lk_shm_close(state->area->shared);
    lk_free(state->area);
    lk_free(state->tiers);
    lk__native_free(state->native);
    lk_free(state);
}

void lk__coll_variable(lk_comm_call call, char out[LK_COLL_VARIABLE])
{
    int n = snprintf(out, LK_COLL_VARIABLE, "LK_%s", lk_comm_call_name(call));
    for (int i = 0; i < n; i++)
        out[i] = (char)toupper((unsigned char)out[i]);
}

/* The value of LK_ALLREDUCE and so on; NULL: there is none. */
static const char *name_find(lk_comm_call call, char variable[LK_COLL_VARIABLE])
{
    lk__coll_variable(call, variable);
    const char *value = lk__env(variable);
    return value && *value ? value : NULL;
}

lk_status lk__coll_check_named(void)
{
    char variable[LK_COLL_VARIABLE];
    for (int i = 0; lk__colls[i]; i++) {
        const char *value = lk__colls[i]->benchmark_only ? name_find(lk__colls[i]->call, variable)
                                                         : NULL;
        LK_CHECK(!value || strcmp(value, lk__colls[i]->name) != 0, LK_EINVAL,
                 "%s=%s is there to measure against and may give other bits, which training in "
                 "canonical mode does not: unset it, or give parallel.mode=fast",
                 variable, value);
    }
    return LK_OK;
}

static lk_status name_read(lk_comm_call call, char **out)
{
    char variable[LK_COLL_VARIABLE];
    const char *value = lk__coll_named(call, name_find(call, variable));
    if (!value)
        return LK_OK;
    LK_TRY(lk_alloc(out, (int64_t)strlen(value) + 1, 1));
    memcpy(*out, value, strlen(value) + 1);
    return LK_OK;
}

lk_status lk__coll_state_get(lk_comm *comm, lk__coll_state **out)
{
    lk_status st;
    if (comm->coll) {
        *out = comm->coll;
        return LK_OK;
    }
    lk__coll_state *state;
    LK_TRY(lk_alloc_zero(&state, 1, sizeof *state));
    for (int call = LK_CALL_BARRIER; call <= LK_CALL_NEIGHBOUR; call++)
        LK_TRY_TO(fail, name_read((lk_comm_call)call, &state->named[call]));
    comm->coll = state;
    comm->coll_free = state_free;
    *out = state;
    return LK_OK;
fail:
    state_free(state);
    return st;
}

lk_status lk_coll_set_checks(lk_comm *comm, bool on)
{
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    LK_INSIDE(comm->w);
    lk__coll_state *state = NULL;
    LK_TRY(lk__coll_state_get(comm, &state));
    state->unchecked = !on;
    return LK_OK;
}
