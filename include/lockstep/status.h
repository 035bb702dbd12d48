/* Status codes and the error trace.
 *
 * Every fallible function returns lk_status.  The first failure records a message; each caller
 * that forwards it with LK_TRY() adds one frame, so the trace printed at the top reads like a
 * stack.  The trace is per thread, of fixed size, and never allocates.  A message is one line of at
 * most 511 bytes; control characters in it are written as \xNN, because names and paths come from
 * files that others wrote.
 */
#ifndef LK_STATUS_H
#define LK_STATUS_H

#include <lockstep/api.h>

#include <stdio.h>

LK_BEGIN_DECLS

/* Single source of truth: enum, names and messages all come from this table. */
#define LK_STATUS_MAP(X)                                                  \
    X(OK, "success")                                                      \
    X(EINVAL, "invalid argument")                                         \
    X(ESHAPE, "shapes do not conform")                                    \
    X(EDTYPE, "wrong data type")                                          \
    X(EOVERLAP, "operands overlap")                                       \
    X(EOVERFLOW, "a size does not fit in 64 bits")                        \
    X(ENOMEM, "out of memory")                                            \
    X(ENOTSUP, "not supported")                                           \
    X(EFPENV, "the thread's floating-point environment is not canonical") \
    X(EIO, "input/output error")                                          \
    X(ESTATE, "wrong state")                                              \
    X(EIDENTITY, "of another run")                                        \
    X(ENAN, "a number is not finite")                                     \
    X(EMISMATCH, "ranks do not make the same calls")                      \
    X(ESTALL, "a rank does not come")                                     \
    X(ECOMM, "communication failed")

typedef enum lk_status {
#define X(code, text) LK_##code,
    LK_STATUS_MAP(X)
#undef X
} lk_status;

/** Static text for a status; never NULL. */
LK_API const char *lk_status_text(lk_status st);

/** Message of the last failure on this thread, "" if there is none.  Valid until the next one. */
LK_API const char *lk_error_message(void);

/** Status of the last failure on this thread, LK_OK if there is none. */
LK_API lk_status lk_error_status(void);

/** Print the trace of the last failure on this thread, innermost frame first, then clear it. */
LK_API void lk_error_print(FILE *to);

/** Forget the last failure on this thread. */
LK_API void lk_error_clear(void);

LK_API lk_status lk__raise(lk_status st, const char *file, int line, const char *func,
                           const char *fmt, ...) LK_PRINTF(5, 6) LK_COLD;
LK_API lk_status lk__trace(lk_status st, const char *file, int line, const char *func) LK_COLD;

/* Fail with a message.  Use where the error is discovered.  The value is `st` itself, so that
 * compilers and analysers see that what follows a failure is not reached. */
#define LK_RAISE(st, ...) \
    ((void)lk__raise((st), __FILE__, __LINE__, __func__, __VA_ARGS__), (lk_status)(st))

/* Return early unless cond holds.  For preconditions; active in every build. */
#define LK_CHECK(cond, st, ...)               \
    do {                                      \
        if (!(cond))                          \
            return LK_RAISE(st, __VA_ARGS__); \
    } while (0)

/* Forward a failure.  Use when the function holds nothing that must be released.  A status that was
 * returned without LK_RAISE() has no message. */
#define LK_TRY(expr)                                          \
    do {                                                      \
        lk_status try_st_ = (expr);                           \
        if (try_st_ != LK_OK) {                               \
            lk__trace(try_st_, __FILE__, __LINE__, __func__); \
            return try_st_;                                   \
        }                                                     \
    } while (0)

static inline lk_status lk__traced(lk_status st, const char *file, int line, const char *func)
{
    if (st != LK_OK)
        lk__trace(st, file, line, func);
    return st;
}

/* The status of a function's last step, to be returned: `return LK_TRACE(f());`. */
#define LK_TRACE(expr) lk__traced((expr), __FILE__, __LINE__, __func__)

/* Forward a failure through the cleanup label.  Needs a local `lk_status st`. */
#define LK_TRY_TO(label, expr)                           \
    do {                                                 \
        st = (expr);                                     \
        if (st != LK_OK) {                               \
            lk__trace(st, __FILE__, __LINE__, __func__); \
            goto label;                                  \
        }                                                \
    } while (0)

LK_END_DECLS

#endif /* LK_STATUS_H */
