/* A journal: what a first run of some code learned from outside, so that a second run of the same
 * code learns the same.  Each thread has its own; the tape (autograd/recompute.c) begins and ends
 * it, and communication (comm/) writes and reads it.
 *
 * A segment of a tape is run twice.  In the first run, code that finds out what the second one
 * cannot find out again (which message a receive took) adds an entry; in the second run it takes
 * the entry, by its key and in the order in which entries with that key were added:
 *
 *     first run     lk__journal_begin()     lk__journal_add(), lk__journal_write()
 *                   lk__journal_since()     the entries, which the segment keeps
 *                   lk__journal_end()
 *     second run    lk__journal_read()      lk__journal_take()
 *                   lk__journal_shut()
 *
 * Runs nest: a first run inside a second one adds entries of its own.
 *
 * Calls that communicate are counted, with or without an entry: if there was one, the second run
 * must take place here because it does on the other ranks.
 */
#ifndef LK_BASE_JOURNAL_H
#define LK_BASE_JOURNAL_H

#include <lockstep/status.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct lk__journal_key {
    uint64_t word[2];
} lk__journal_key;

typedef struct lk__journal_entry {
    lk__journal_key key;
    int64_t value[2];
    bool known, taken;
} lk__journal_entry;

/* The notes of one first run, and a second run that takes them. */
typedef struct lk__journal {
    lk__journal_entry *entry;
    int64_t n;
    int64_t next; /* all before it are taken */
    int runs;     /* first runs that began before the second one */
    struct lk__journal *outer;
} lk__journal;

/** A first run begins; says where its notes do. */
int64_t lk__journal_begin(void);

/** The notes since then; the next note may move them. */
lk__journal lk__journal_since(int64_t begin);

/** It is over, well or not. */
void lk__journal_end(void);

/** A second run begins, with all notes of `j` to be taken; it is over, well or not. */
void lk__journal_read(lk__journal *j);
void lk__journal_shut(const lk__journal *j);

/** Something is done together with others; how often that has been said. */
void lk__journal_count_comm(void);
int64_t lk__journal_comm_count(void);

/** Whether a second run is going on. */
bool lk__journal_repeats(void);

/** Make room for a note, in a first run: `*place` says where, 0 if none is wanted. */
lk_status lk__journal_add(lk__journal_key key, int64_t *place) LK_NODISCARD;

/** Fill it in; nothing if its first run is over. */
void lk__journal_write(int64_t place, int64_t a, int64_t b);

/** In a second run: the next note with this key; false if there is none, or it was not filled in. */
bool lk__journal_take(lk__journal_key key, int64_t out[2]);

#endif /* LK_BASE_JOURNAL_H */
