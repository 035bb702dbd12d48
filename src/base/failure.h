/* lk__failure: the last failure of a thread (status, message, trace) as a value.  Rooms take it on
 * the thread that failed, and set it on another that reports it, or later on the same one;
 * lk__error_prefix() puts words before its message. status.c has the failures themselves. */
#ifndef LK_BASE_FAILURE_H
#define LK_BASE_FAILURE_H

#include <lockstep/status.h>

enum { LK__FAILURE_FRAMES = 24, LK__FAILURE_MESSAGE = 512 };

typedef struct lk__frame {
    const char *file, *func;
    int line;
} lk__frame;

/** A message and the frames it passed through, innermost first. */
typedef struct lk__failure {
    lk_status st;
    char message[LK__FAILURE_MESSAGE];
    lk__frame frame[LK__FAILURE_FRAMES];
    int n_frames;
    int n_dropped; /* frames beyond LK__FAILURE_FRAMES */
} lk__failure;

/** The last failure of this thread; st is LK_OK if there is none. */
void lk__failure_get(lk__failure *out);

/** Make it this thread's last failure: LK_TRY() adds frames to it. */
void lk__failure_set(const lk__failure *f);

/** Put something before the message of this thread's last failure, whose status and frames stay: where
 * it happened, in words of a caller that knows more ("layer conv1: "). */
void lk__error_prefix(const char *fmt, ...) LK_PRINTF(1, 2);

#endif /* LK_BASE_FAILURE_H */
