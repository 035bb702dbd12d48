/* For the test of examples/23_ddl_mnist.c alone, which it is linked with: the sum of the third gradient is
 * wrong on rank 5, in one element, by a quarter of it.  lk__ddl_check() is what looks at sums. */
#include "coll/ddl/ddl.h"

#include <string.h>

lk_status __real_lk__ddl_check(lk_ddl *d, const lk_collective *c, const void *given, bool mpi,
                               double tolerance);
lk_status __wrap_lk__ddl_check(lk_ddl *d, const lk_collective *c, const void *given, bool mpi,
                               double tolerance);

lk_status __wrap_lk__ddl_check(lk_ddl *d, const lk_collective *c, const void *given, bool mpi,
                               double tolerance)
{
    float *sum = c->out;
    if (c->name && strcmp(c->name, "conv2.weight") == 0 && lk_comm_rank(d->comm) == 5)
        sum[c->count / 2] *= 1.25F;
    return __real_lk__ddl_check(d, c, given, mpi, tolerance);
}
