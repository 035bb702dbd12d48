/* The report of a run, report.html: the run's output writes it on rank 0, when the run ends. */
#ifndef LK_TRAIN_PAGE_H
#define LK_TRAIN_PAGE_H

#include "train/run/curves.h"

/** What a report is made of; all is borrowed. */
typedef struct lk__page {
    lk_job *job;
    const lk__curves *curves;
    const char *confusion; /* the last table, as JSON; or NULL */
    const lk_run_result *end;
    const char *ended; /* why the run ended before it was complete; NULL: it is complete */
} lk__page;

lk_status lk__page_write(const lk__page *page, const char *path) LK_NODISCARD;

#endif /* LK_TRAIN_PAGE_H */
