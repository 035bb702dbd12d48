/* Reading --transport and --mpi of `lockstep verify`. */
#include "verify/transport.h"

#include "verb.h"

#include <string.h>

static int refuse(const char *option, const char *what)
{
    return verb_refuse("lockstep verify: option --%s: %s", option, what);
}

static int transport_add(verify_transports *to, const launcher *l)
{
    if (to->n == VERIFY_TRANSPORTS)
        return refuse("mpi", "too many");
    to->item[to->n++] = l;
    return LK_EXIT_DONE;
}

static int mpi_add(verify_transports *to, const char *mpi)
{
    char why[256];
    launcher *l = to->n < VERIFY_TRANSPORTS ? &to->launcher[to->n] : NULL;
    if (l && !launcher_find(mpi, l, why, sizeof why))
        return refuse("mpi", why);
    return transport_add(to, l);
}

int verify_transports_read(const lk_option_names *transport, const lk_option_names *mpi,
                           verify_transports *out)
{
    int status = LK_EXIT_DONE;
    out->n = 0;
    for (int i = 0; i < transport->n && status == LK_EXIT_DONE; i++) {
        const char *name = transport->item[i];
        if (strcmp(name, "local") == 0)
            status = transport_add(out, NULL);
        else if (strcmp(name, "mpi") != 0)
            status = refuse("transport", "give local or mpi");
        for (int k = 0; strcmp(name, "mpi") == 0 && k < mpi->n && status == LK_EXIT_DONE; k++)
            status = mpi_add(out, mpi->item[k]);
    }
    return status;
}
