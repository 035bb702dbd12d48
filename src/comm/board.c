/* Slots of the status board: a sequence lock on words. */
#include "comm/board.h"

#include "comm/futex.h"

#include <stddef.h>
#include <string.h>

void lk__slot_write(lk__slot *slot, const lk__doing *doing)
{
    uint64_t word[LK_DOING_WORDS] = {0};
    memcpy(word, doing, sizeof *doing);
    uint32_t v = atomic_load_explicit(&slot->version, memory_order_relaxed);
    atomic_store_explicit(&slot->version, v + 1, memory_order_relaxed);
    lk__fence(memory_order_release);
    for (int i = 0; i < LK_DOING_WORDS; i++)
        atomic_store_explicit(&slot->word[i], word[i], memory_order_relaxed);
    atomic_store_explicit(&slot->version, v + 2, memory_order_release);
}

_Static_assert(offsetof(lk__doing, state) == 0 && offsetof(lk__doing, peer) == 4,
               "state and peer are the first word");

void lk__slot_write_state(lk__slot *slot, const lk__doing *doing)
{
    uint64_t word;
    memcpy(&word, doing, sizeof word);
    atomic_store_explicit(&slot->word[0], word, memory_order_release);
}

lk__doing lk__slot_read(lk__slot *slot)
{
    enum { TRIES = 1000 };
    lk__doing doing = {.state = LK_STATE_UNKNOWN, .peer = -1};
    for (int k = 0; slot && k < TRIES; k++) {
        uint64_t word[LK_DOING_WORDS];
        uint32_t v = atomic_load_explicit(&slot->version, memory_order_acquire);
        for (int i = 0; i < LK_DOING_WORDS; i++)
            word[i] = atomic_load_explicit(&slot->word[i], memory_order_relaxed);
        lk__fence(memory_order_acquire);
        if (v % 2 == 0 && v == atomic_load_explicit(&slot->version, memory_order_relaxed)) {
            memcpy(&doing, word, sizeof doing);
            return doing;
        }
    }
    return doing;
}
