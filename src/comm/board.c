/* Slots of the status board: a sequence lock on words. */
#include "comm/board.h"

#include "comm/futex.h"

#include <stddef.h>
#include <string.h>

_Static_assert(offsetof(lk__doing, state) == 0 && offsetof(lk__doing, peer) == 4 &&
                   offsetof(lk__doing, pid) == 8 &&
                   offsetof(lk__doing, call) == sizeof(uint64_t) * LK_DOING_CALL,
               "state and peer are the first word, pid the second, then the call");

/* Two numbers as they lie in a word.  By arithmetic: to load what was stored in two parts is slow. */
static uint64_t word_of(int32_t first, int32_t second)
{
    bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    uint64_t low = (uint32_t)(little ? first : second), high = (uint32_t)(little ? second : first);
    return low | high << 32;
}

void lk__slot_write(lk__slot *slot, const lk__doing *doing)
{
    lk__slot_write_call(slot, doing, &doing->call);
}

void lk__slot_write_call(lk__slot *slot, const lk__doing *doing, const lk__label *call)
{
    uint64_t word[LK_DOING_WORDS];
    size_t n = lk__label_bytes(call) / 8;
    word[0] = word_of(doing->state, doing->peer);
    word[1] = word_of(doing->pid, 0);
    memcpy(word + LK_DOING_CALL, call, sizeof *word * n);
    n += LK_DOING_CALL;
    uint32_t v = atomic_load_explicit(&slot->version, memory_order_relaxed);
    atomic_store_explicit(&slot->version, v + 1, memory_order_relaxed);
    lk__fence(memory_order_release);
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&slot->word[i], word[i], memory_order_relaxed);
    atomic_store_explicit(&slot->version, v + 2, memory_order_release);
}

void lk__slot_write_state(lk__slot *slot, const lk__doing *doing)
{
    atomic_store_explicit(&slot->word[0], word_of(doing->state, doing->peer), memory_order_release);
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
