/* What a process says when a signal ends it: text that a signal handler may make, and where it was.
 *
 * Nothing here allocates, takes a lock or formats by the C library.  dladdr() and backtrace() of the latter
 * are called; both are no more than walks through tables once lk__crash_prepare() has loaded what they need.
 */
#ifndef LK_COMM_CRASH_H
#define LK_COMM_CRASH_H

#include "comm/world.h"

#include <signal.h>

enum { LK_CRASH_TEXT = 1024, LK_CRASH_FRAMES = 48 };

/* A text that grows at its end, as far as there is room; always ended by a zero. */
typedef struct lk__crash_text {
    char at[LK_CRASH_TEXT];
    size_t used;
} lk__crash_text;

void lk__crash_put(lk__crash_text *t, const char *text);
void lk__crash_put_int(lk__crash_text *t, int64_t value);
void lk__crash_put_hex(lk__crash_text *t, uintptr_t value);

/** Write it to a file descriptor, and begin it anew. */
void lk__crash_write(lk__crash_text *t, int fd);

/** "SIGSEGV"; "a signal" for one that is not hooked. */
const char *lk__signal_name(int sig);

/** Add what the signal was about: ` at address 0x10`, ` sent by process 4711`, or nothing. */
void lk__crash_put_cause(lk__crash_text *t, int sig, const siginfo_t *info);

/** Add what the rank was doing, as its slot of the board shows it: ` in allreduce("g") #3`. */
void lk__crash_put_doing(lk__crash_text *t, const lk__world *w);

/* Addresses from where the signal came from to main(). */
typedef struct lk__crash_frames {
    void *at[LK_CRASH_FRAMES];
    int n;
    int place; /* the first that is not within the C library, where abort() is called */
} lk__crash_frames;

/** Load what the walk needs; at another time than that of the signal. */
void lk__crash_prepare(void);

void lk__crash_walk(const void *context, lk__crash_frames *out);

/** Add an address: `name+0x12 (program+0x3f2a)`. */
void lk__crash_put_address(lk__crash_text *t, void *address);

#endif /* LK_COMM_CRASH_H */
