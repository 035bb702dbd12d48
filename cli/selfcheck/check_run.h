/* Running one check of `lockstep selfcheck` with each instruction set, number of threads and way of splitting
 * the work.  The verb calls it, check by check, on its one thread; the kernels run on the pool.
 */
#ifndef LK_CLI_CHECK_RUN_H
#define LK_CLI_CHECK_RUN_H

#include "selfcheck/check.h"
#include "term.h"

#include <lockstep/extra/isa.h>

enum { CHECK_MAX_THREAD_COUNTS = 16, CHECK_NAME = 48, CHECK_FAILURE = 768 };

/* What to run the checks with. */
typedef struct check_setting {
    lk_isa isa[LK_N_ISAS];
    int n_isas;
    int threads[CHECK_MAX_THREAD_COUNTS];
    int n_threads;
    uint64_t seed;
    progress *progress;
    double done, share; /* of all work: what was done before this check, and what it is */
} check_setting;

typedef struct check_result {
    char name[CHECK_NAME]; /* the check's, with the dtype behind it unless it is untyped */
    int cases;
    int configurations; /* the most that a case was run in */
    int runs;           /* of all cases together */
    uint64_t hash;      /* of all outputs, in the order of the cases */
    double error;       /* the largest, as a fraction of what is allowed; below 0: none measured */
    bool failed;
    char failure[CHECK_FAILURE]; /* case, configuration, what differs */
} check_result;

/** The name of a check for a dtype, as in check_result. */
void check_name(const lk__check *check, lk_dtype dtype, char *buf, size_t size);

/** Run a check for a dtype (any for an untyped one); stops at its first failure. */
void check_run(const lk__check *check, lk_dtype dtype, const check_setting *s, check_result *r);

/**
 * Run every case again and again with the last instruction set and thread count, its first
 * allocation failing, then its second, and so on until none fails any more: it must return
 * LK_ENOMEM or the right result, and leak nothing.
 */
void check_run_failing(const lk__check *check, lk_dtype dtype, const check_setting *s,
                       check_result *r);

#endif /* LK_CLI_CHECK_RUN_H */
