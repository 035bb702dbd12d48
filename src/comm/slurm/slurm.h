/* What job.c, lists.c and cluster.c share: a variable of SLURM with its name, for messages, and the
 * readers of SLURM's two lists. */
#ifndef LK_COMM_SLURM_H
#define LK_COMM_SLURM_H

#include <lockstep/slurm.h>

/** A variable, or a text in its place. */
typedef struct lk__slurm_text {
    const char *name;  /* how reports call it: that of the variable */
    const char *value; /* NULL: not set */
} lk__slurm_text;

/* How each report about a list begins: a format and its arguments. */
#define LK__SLURM_AT "%s \"%.160s\", column %d: "
#define LK__SLURM_WHERE(t, place) (t)->name, (t)->value, (int)((place) - (t)->value) + 1

/** Whether `c` may be in the name of a host. */
bool lk__slurm_is_host_char(char c);

/** Count the hosts of a list, and the bytes that their names take at most, with a zero behind each.  Nothing
 * is allocated.  Errors: LK_EINVAL, as lk_slurm_job_new(). */
lk_status lk__slurm_hosts_count(const lk__slurm_text *text, int *n, int64_t *bytes) LK_NODISCARD;

/** Write the names of a list that was counted to `names` [bytes], and where each is to `host` [n]. */
lk_status lk__slurm_hosts_write(const lk__slurm_text *text, char *names,
                                const char **host) LK_NODISCARD;

/** Count the hosts and the tasks of a list of tasks by host; the first `room` hosts get theirs in `tasks`.
 * Errors: LK_EINVAL, as lk_slurm_job_new(). */
lk_status lk__slurm_tasks_read(const lk__slurm_text *text, int room, int *tasks, int *n_hosts,
                               int *n_tasks) LK_NODISCARD;

#endif /* LK_COMM_SLURM_H */
