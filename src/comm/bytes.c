/* lk_send_bytes() and lk_recv_bytes(): plain C objects whose size the receiver does not know, as
 * two messages, the number of bytes and the bytes.  Programs call them, on the rank's thread. */
#include "comm/comm.h"

#include <lockstep/extra/alloc.h>

lk_status lk_send_bytes(lk_comm *comm, const void *bytes, int64_t n, int dest, int64_t tag,
                        const char *name)
{
    LK_CHECK(n >= 0 && (bytes || n == 0), LK_EINVAL, "an object of %lld bytes at %p", (long long)n,
             bytes);
    LK_TRY(lk_send(comm, &n, 1, LK_I64, dest, tag, name));
    return LK_TRACE(lk_send(comm, bytes, n, LK_U8, dest, tag, name));
}

lk_status lk_recv_bytes(lk_comm *comm, int source, int64_t tag, const char *name, void **out,
                        int64_t *n)
{
    lk_status st;
    LK_CHECK(out && n, LK_EINVAL, "%s is NULL", out ? "n" : "out");
    lk_message first, rest;
    int64_t bytes = -1;
    *out = NULL;
    *n = 0;
    LK_TRY(lk_recv(comm, &bytes, 1, LK_I64, source, tag, name, &first));
    LK_CHECK(bytes >= 0, LK_EMISMATCH, "recv_bytes(\"%s\"): what rank %d sends is no object",
             name ? name : "", first.rank);
    void *block;
    LK_TRY_COMM(comm->w, lk_alloc(&block, bytes, 1)); /* its bytes are under way */
    LK_TRY_TO(fail, lk_recv(comm, block, bytes, LK_U8, first.rank, first.tag, name, &rest));
    if (rest.count != bytes)
        LK_TRY_TO(fail,
                  LK_RAISE(LK_EMISMATCH, "recv_bytes(\"%s\"): rank %d has sent %lld bytes of %lld",
                           name ? name : "", rest.rank, (long long)rest.count, (long long)bytes));
    *out = block;
    *n = bytes;
    return LK_OK;
fail:
    lk_free(block);
    return st;
}
