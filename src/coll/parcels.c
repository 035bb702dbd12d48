/* Parcels: vectors that travel at once, each in messages of one size.
 *
 *     to 1     a0 a1 a2 a3 ...      round 0 is a0 and b0, round 1 a1 and b1; a round begins when all
 *     from 1   b0 b1 b2 b3 ...      but the UNDER_WAY rounds before it are complete
 *
 * One large message at a time lets a link carry one direction only where MPI's answers queue behind the
 * payload of the other; all messages at once are many for MPI to look through.  A few at a time keep both
 * directions busy.
 */
#include "coll/schedule.h"

enum { UNDER_WAY = 4 };

/* Message number `round` of a parcel, of `piece` bytes (0: all of it); whether there are more behind it. */
static lk_status message_add(lk__schedule *s, const lk__parcel *f, int64_t round, int64_t piece,
                             bool *more)
{
    int64_t at = round * piece, left = f->bytes - at;
    int64_t bytes = piece > 0 && left > piece ? piece : left;
    if (bytes <= 0)
        return LK_OK;
    *more = *more || left > bytes;
    return f->sends ? lk__schedule_send(s, f->peer, f->data + at, bytes)
                    : lk__schedule_recv(s, f->peer, f->data + at, bytes);
}

lk_status lk__schedule_parcels(lk__schedule *s, const lk__parcel *parcel, int64_t n, int64_t piece)
{
    bool more = true;
    for (int64_t round = 0; more; round++) {
        more = false;
        for (int64_t i = 0; i < n; i++)
            LK_TRY(message_add(s, &parcel[i], round, piece, &more));
        LK_TRY(lk__schedule_wait_some(s, more ? UNDER_WAY * n : 0));
    }
    return LK_OK;
}
