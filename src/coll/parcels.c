/* Parcels: vectors that travel at once, each in messages of one size.
 *
 *     to 1     a0 a1 a2 a3 ...      round 0 is a0 and b0, round 1 a1 and b1; a round begins when all
 *     from 1   b0 b1 b2 b3 ...      but those of the WINDOW before it are complete
 *
 * One large message at a time lets a link carry one direction only where MPI's answers queue behind the
 * payload of the other; all messages at once are many for MPI to look through.  Some at a time keep both
 * directions busy, and what has come can be joined while they travel.  The window is what a slow link
 * carries in some milliseconds, in which a progress thread that has to wait for a core comes to look.
 */
#include "coll/schedule.h"

enum { WINDOW = 512 * 1024, MOST_ROUNDS = 64 }; /* bytes of a parcel that are under way */

/* The bytes of the largest parcel, which says how many rounds there are. */
static int64_t largest(const lk__parcel *parcel, int64_t n)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++)
        most = parcel[i].bytes > most ? parcel[i].bytes : most;
    return most;
}

/* The messages of a round: bytes from `at` on, at most `piece`, of each parcel that has so many. */
static lk_status round_add(lk__schedule *s, const lk__parcel *parcel, int64_t n, int64_t at,
                           int64_t piece, int64_t *messages)
{
    *messages = 0;
    for (const lk__parcel *f = parcel; f < parcel + n; f++) {
        int64_t left = f->bytes - at, bytes = left < piece ? left : piece;
        if (bytes <= 0)
            continue;
        LK_TRY(f->sends ? lk__schedule_send(s, f->peer, f->data + at, bytes)
                        : lk__schedule_recv(s, f->peer, f->data + at, bytes));
        ++*messages;
    }
    return LK_OK;
}

lk_status lk__schedule_parcels(lk__schedule *s, const lk__parcel *parcel, int64_t n, int64_t piece,
                               const lk__unpack *unpack)
{
    int64_t bytes = largest(parcel, n), messages[MOST_ROUNDS] = {0}, under_way = 0;
    piece = piece > 0 && piece < bytes ? piece : bytes;
    int64_t rounds = bytes > 0 ? (bytes + piece - 1) / piece : 0;
    int64_t ahead = piece > 0 ? WINDOW / piece : 0;
    ahead = ahead < 1 ? 1 : ahead < MOST_ROUNDS ? ahead : MOST_ROUNDS;
    for (int64_t round = 0; round < rounds + ahead; round++) {
        int64_t *last = &messages[round % ahead], complete = round - ahead;
        under_way -= *last;
        *last = 0;
        if (round < rounds)
            LK_TRY(round_add(s, parcel, n, round * piece, piece, last));
        under_way += *last;
        if (complete < 0)
            continue;
        LK_TRY(lk__schedule_wait_some(s, under_way));
        if (unpack)
            LK_TRY(unpack->add(unpack->arg, s, complete * piece, piece));
    }
    return LK_OK;
}
