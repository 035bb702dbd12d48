/* lk_bcast() of an object of any length, cut into pieces.  objects.c and multi-node iterators call it, on
 * all ranks, on the thread of the communicator.
 */
#ifndef LK_COLL_OBJECTS_H
#define LK_COLL_OBJECTS_H

#include <lockstep/coll.h>

enum { LK_BCAST_PIECE = 64 << 20 }; /* bytes, where nothing speaks for another number */

/** lk_bcast() of `n` bytes in pieces of at most `most` of them, so that no message is longer, however
 * long the object: the deadline is that of a piece.  Collective. */
lk_status lk__bcast_pieces(lk_comm *comm, void *data, int64_t n, int64_t most, int root,
                           const char *name) LK_NODISCARD;

#endif /* LK_COLL_OBJECTS_H */
