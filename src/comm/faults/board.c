/* lk__slot: one rank's slot of the status board, written by its owner and read by others under a
 * sequence lock on words. board.h says what is in it. */
#include "comm/faults/board.h"

#include "base/futex.h"

#include <stddef.h>
#include <string.h>

_Static_assert(offsetof(lk__rank_status, state) == 0 && offsetof(lk__rank_status, peer) == 4 &&
                   offsetof(lk__rank_status, pid) == 8 && offsetof(lk__rank_status, at) == 12 &&
                   sizeof(lk__label) % 8 == 0 &&
                   offsetof(lk__board_entry, call) == sizeof(uint64_t) * LK_STATUS_WORDS,
               "state and peer are the first word, pid and at the second, then the calls");

/* Two numbers as they lie in a word.  By arithmetic: to load what was stored in two parts is slow. */
static uint64_t word_of(int32_t first, int32_t second)
{
    bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    uint64_t low = (uint32_t)(little ? first : second), high = (uint32_t)(little ? second : first);
    return low | high << 32;
}

const lk__label *lk__board_entry_collective(const lk__board_entry *s, int i)
{
    int newest = s->status.at % LK_BOARD_CALLS;
    const lk__label *call = &s->call[(newest + LK_BOARD_CALLS - i) % LK_BOARD_CALLS];
    if (call->h.call == LK_CALL_NONE)
        return NULL;
    for (int k = 0; k < i; k++) { /* what was numbered anew does not count */
        const lk__header *newer = &s->call[(newest + LK_BOARD_CALLS - k) % LK_BOARD_CALLS].h;
        if (newer->context == call->h.context && newer->sequence <= call->h.sequence)
            return NULL;
    }
    return call;
}

const lk__label *lk__board_entry_find(const lk__board_entry *s, uint32_t context, int64_t sequence)
{
    for (int i = 0; i < LK_BOARD_CALLS; i++) {
        const lk__label *call = lk__board_entry_collective(s, i);
        if (call && call->h.context == context && call->h.sequence == sequence)
            return call;
    }
    return NULL;
}

/* `bytes` of a call go to place `at`. */
static void write_words(lk__board_slot *slot, const lk__rank_status *status, int at,
                        const unsigned char *from, size_t bytes)
{
    uint32_t v = atomic_load_explicit(&slot->version, memory_order_relaxed);
    _Atomic uint64_t *call = slot->word + LK_STATUS_WORDS + (ptrdiff_t)at * LK_LABEL_WORDS;
    atomic_store_explicit(&slot->version, v + 1, memory_order_relaxed);
    lk__fence(memory_order_release);
    atomic_store_explicit(&slot->word[0], word_of(status->state, status->peer),
                          memory_order_relaxed);
    atomic_store_explicit(&slot->word[1], word_of(status->pid, status->at), memory_order_relaxed);
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, from + i, sizeof word);
        atomic_store_explicit(call++, word, memory_order_relaxed);
    }
    atomic_store_explicit(&slot->version, v + 2, memory_order_release);
}

void lk__slot_write(lk__board_slot *slot, const lk__rank_status *status)
{
    write_words(slot, status, 0, NULL, 0);
}

void lk__slot_write_call(lk__board_slot *slot, const lk__rank_status *status, const lk__label *call)
{
    write_words(slot, status, status->at & LK_ASIDE ? LK_ASIDE : status->at,
                (const unsigned char *)call, lk__label_bytes(call));
}

void lk__slot_write_state(lk__board_slot *slot, const lk__rank_status *status)
{
    atomic_store_explicit(&slot->word[0], word_of(status->state, status->peer),
                          memory_order_release);
}

void lk__slot_read(lk__board_slot *slot, lk__board_entry *out)
{
    enum { TRIES = 1000 };
    for (int k = 0; slot && k < TRIES; k++) {
        uint64_t word[LK_SLOT_WORDS];
        uint32_t v = atomic_load_explicit(&slot->version, memory_order_acquire);
        for (int i = 0; i < LK_SLOT_WORDS; i++)
            word[i] = atomic_load_explicit(&slot->word[i], memory_order_relaxed);
        lk__fence(memory_order_acquire);
        if (v % 2 == 0 && v == atomic_load_explicit(&slot->version, memory_order_relaxed)) {
            memcpy(out, word, sizeof *out);
            return;
        }
    }
    memset(out, 0, sizeof *out);
    out->status.peer = -1;
}

lk__state lk__slot_state(const lk__board_slot *slot)
{
    if (!slot)
        return LK_STATE_UNKNOWN;
    uint64_t word = atomic_load_explicit(&slot->word[0], memory_order_acquire);
    lk__rank_status d;
    memcpy(&d, &word, sizeof word);
    return (lk__state)d.state;
}
