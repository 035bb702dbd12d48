/* lk_comm_open(): the communicator of all ranks, by the name of a transport ("self", "mpi"; NULL:
 * mpi if MPI's launcher started the process). */
#include "base/fpenv.h"
#include "comm/comm.h"

#include <string.h>

lk_status lk_comm_open(const char *transport, lk_comm **out)
{
    LK_FP_GUARD_LONG();
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    if (!transport) {
        LK_TRY(lk__srun_check());
        transport = lk__mpi_launched() ? "mpi" : "self";
    }
    if (strcmp(transport, "self") == 0)
        LK_TRY(lk__self_open(out));
    else if (strcmp(transport, "mpi") == 0)
        LK_TRY(lk__mpi_open(out));
    else
        return LK_RAISE(LK_EINVAL,
                        "no transport named \"%s\" can be opened: the names are self mpi "
                        "(local ranks are made with lk_run_local())",
                        transport);
    return LK_OK;
}
