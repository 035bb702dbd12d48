/* The log: one line per message, to the sink that the host program has set with lk_log_set_sink();
 * without one nothing is written.  Called on any thread; a lock keeps lines whole. */
#include "base/log.h"

#include "base/text/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

enum { MAX_LINE = 1024, MAX_PREFIX = 32 };

struct ranks {
    int rank, size; /* size 0: unknown */
};

/* Everything behind the lock; `level` and `listening` are also read without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lk_log_sink *sink;
static void *sink_context;
static struct ranks process_ranks;
static _Atomic bool listening; /* a sink is set */
static _Atomic int level_in_use = LK_LOG_WARN;

static _Thread_local struct ranks thread_ranks;
static _Thread_local bool in_sink; /* this thread holds the lock */

static const char *const names[LK_N_LOG_LEVELS] = {
#define X(code, name) [LK_LOG_##code] = name,
    LK_LOG_MAP(X)
#undef X
};

const char *lk_log_level_name(lk_log_level level)
{
    return (unsigned)level < LK_N_LOG_LEVELS ? names[level] : "?";
}

lk_status lk_log_level_find(const char *name, lk_log_level *out)
{
    LK_CHECK(name, LK_EINVAL, "the name of a log level is NULL");
    for (int i = 0; i < LK_N_LOG_LEVELS; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (lk_log_level)i;
            return LK_OK;
        }
#define X(code, known) " " known
    return LK_RAISE(LK_EINVAL, "no log level named \"%s\"; known are" LK_LOG_MAP(X), name);
#undef X
}

/* A sink may change the settings: its thread has the lock already. */
static void settings_lock(void)
{
    if (!in_sink)
        pthread_mutex_lock(&lock);
}

static void settings_unlock(void)
{
    if (!in_sink)
        pthread_mutex_unlock(&lock);
}

void lk_log_set_sink(lk_log_sink *new_sink, void *context)
{
    settings_lock();
    sink = new_sink;
    sink_context = context;
    atomic_store(&listening, new_sink != NULL);
    settings_unlock();
}

void lk_log_set_level(lk_log_level level)
{
    atomic_store(&level_in_use, (int)level);
}

lk_log_level lk_log_level_now(void)
{
    return (lk_log_level)atomic_load(&level_in_use);
}

static lk_status ranks_check(int rank, int size)
{
    LK_CHECK(rank >= 0 && (rank < size || (rank == 0 && size == 0)), LK_EINVAL,
             "rank %d of size %d", rank, size);
    return LK_OK;
}

lk_status lk_log_set_rank(int rank, int size)
{
    LK_TRY(ranks_check(rank, size));
    settings_lock();
    process_ranks = (struct ranks){rank, size};
    settings_unlock();
    return LK_OK;
}

lk_status lk_log_set_thread_rank(int rank, int size)
{
    LK_TRY(ranks_check(rank, size));
    thread_ranks = (struct ranks){rank, size};
    return LK_OK;
}

bool lk_log_is_enabled(lk_log_level level)
{
    return level > LK_LOG_OFF && (int)level <= atomic_load(&level_in_use) &&
           atomic_load(&listening);
}

bool lk__log_has_sink(void)
{
    return atomic_load(&listening);
}

/* The caller holds the lock. */
static struct ranks ranks_here(void)
{
    return thread_ranks.size > 0 ? thread_ranks : process_ranks;
}

bool lk__log_leads(void)
{
    settings_lock();
    int rank = ranks_here().rank;
    settings_unlock();
    return rank == 0;
}

/* The caller holds the lock. */
static void deliver(lk_log_level level, const char *text, size_t len)
{
    char line[MAX_PREFIX + MAX_LINE];
    struct ranks r = ranks_here();
    int n = r.size > 0 ? snprintf(line, MAX_PREFIX, "[%d/%d] ", r.rank, r.size) : 0;
    memcpy(line + n, text, len + 1);
    sink(sink_context, level, line);
}

void lk_log_write(lk_log_level level, const char *fmt, ...)
{
    if (!lk_log_is_enabled(level) || in_sink)
        return;
    char raw[MAX_LINE + 1], text[MAX_LINE]; /* one more byte shows that a message was cut */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    size_t len = lk_sanitize_text(raw, text, sizeof text);
    pthread_mutex_lock(&lock);
    in_sink = true;
    if (sink)
        deliver(level, text, len);
    in_sink = false;
    pthread_mutex_unlock(&lock);
}
