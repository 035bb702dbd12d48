/* Memory that processes of one node share, as memfds: made by one, opened by the others, which
 * learn its key by message.  For segment.c (blocks of lk_shm), node.c and the locks by which
 * reports see that a process has ended. */
#ifndef LK_COMM_SHM_H
#define LK_COMM_SHM_H

#include "comm/transport.h"

/** Make a block of `bytes` zero bytes; `key` is for lk__shm_open() in other processes. */
lk_status lk__shm_make(int64_t bytes, lk__key *key, lk__shm_block *out) LK_NODISCARD;

/** Open the block of another process of this user on this node. */
lk_status lk__shm_open(int64_t bytes, const lk__key *key, lk__shm_block *out) LK_NODISCARD;

/** Get memory for a part of the block now: later there might be none, and no error but a signal. */
lk_status lk__shm_touch(const lk__shm_block *b, const void *part, int64_t bytes) LK_NODISCARD;

/** Close the file: no rank opens the block any more.  The memory stays. */
void lk__shm_seal(lk__shm_block *b);

/** Release the block; all zero but fd -1 is allowed. */
void lk__shm_free(lk__shm_block *b);

/* Signs of life: a process holds the lock of its number until it ends, however it ends. */
lk_status lk__shm_hold(const lk__shm_block *b, int number) LK_NODISCARD;
bool lk__shm_held(const lk__shm_block *b, int number);

#endif /* LK_COMM_SHM_H */
