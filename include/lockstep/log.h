/* Messages for people.
 *
 * The library itself prints nothing: a host that wants its messages sets a sink, and the command
 * sets one that writes to stderr.  (Lines that options of ddl.h ask for are printed without one.)
 * Without a sink a message costs two loads.  Formatting never
 * allocates, and works where memory has run out.
 *
 * A message is one line: `[rank/size] text`, with the prefix once the rank is known.  Control
 * characters in it are written as \xNN, so no file name or tensor name can move a terminal's cursor
 * or forge a line.
 */
#ifndef LK_LOG_H
#define LK_LOG_H

#include <lockstep/status.h>

#include <stdbool.h>

LK_BEGIN_DECLS

/* In ascending order of detail: enumerator, name. */
#define LK_LOG_MAP(X) \
    X(OFF, "off")     \
    X(ERROR, "error") \
    X(WARN, "warn")   \
    X(INFO, "info")   \
    X(DEBUG, "debug")

typedef enum lk_log_level {
#define X(code, name) LK_LOG_##code,
    LK_LOG_MAP(X)
#undef X
        LK_N_LOG_LEVELS
} lk_log_level;

/** Takes one line, without a newline, valid during the call.  Calls are serialised. */
typedef void lk_log_sink(void *context, lk_log_level level, const char *line);

/** "off", "error", "warn", "info", "debug"; "?" for a value that is none. */
LK_API const char *lk_log_level_name(lk_log_level level);

/** Find a level by name.  Errors: LK_EINVAL with the list of known names. */
LK_API lk_status lk_log_level_find(const char *name, lk_log_level *out) LK_NODISCARD;

/**
 * Send messages to `sink` from now on; NULL: nowhere, as at the start.
 *
 * Not collective; thread safe.  When it returns, the old sink is not running in another thread.
 * `context` is borrowed until then.  What a sink itself logs is dropped.
 */
LK_API void lk_log_set_sink(lk_log_sink *sink, void *context);

/** Drop messages of more detail than `level`; LK_LOG_WARN at the start.  Thread safe. */
LK_API void lk_log_set_level(lk_log_level level);

/** The level in use. */
LK_API lk_log_level lk_log_level_now(void);

/**
 * Prefix all messages of this process with `[rank/size] `; size 0: no prefix, as at the start.
 *
 * Not collective; thread safe.  Errors: LK_EINVAL unless 0 <= rank < size or both are 0.
 */
LK_API lk_status lk_log_set_rank(int rank, int size) LK_NODISCARD;

/** As lk_log_set_rank(), for the calling thread alone: ranks may be threads of one process. */
LK_API lk_status lk_log_set_thread_rank(int rank, int size) LK_NODISCARD;

/** Whether a message of this level would reach a sink; to skip the work of preparing one. */
LK_API bool lk_log_is_enabled(lk_log_level level);

/** Log one message of at most 1023 bytes; a longer one is cut and ends in "...".  Thread safe. */
LK_API void lk_log_write(lk_log_level level, const char *fmt, ...) LK_PRINTF(2, 3);

LK_END_DECLS

#endif /* LK_LOG_H */
