/* lk_slurm_job: what SLURM's variables say of a job, each read by itself and then compared.
 *
 * Programs and the command make one, on any thread.  Nothing is allocated before all variables are read and
 * agree on how many hosts and tasks there are.
 */
#include "base/env.h"
#include "base/text/number.h"
#include "comm/slurm/slurm.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODELIST, TASKS_PER_NODE, PROCID, NPROCS, NNODES, N_NEEDED, NODEID = N_NEEDED, N_TEXTS };

static const struct {
    const char *name, *expected;
} variable[N_TEXTS] = {
    [NODELIST] = {"SLURM_JOB_NODELIST", "the hosts, as node[1-3,07-08],login"},
    [TASKS_PER_NODE] = {"SLURM_TASKS_PER_NODE", "how many tasks each host has, as 1,3(x2),4"},
    [PROCID] = {"SLURM_PROCID", "which task this is"},
    [NPROCS] = {"SLURM_NPROCS", "how many tasks there are"},
    [NNODES] = {"SLURM_NNODES", "how many hosts there are"},
    [NODEID] = {"SLURM_NODEID", "which host this is"},
};

/* ---- the variables ---- */

static void texts_take(const lk_slurm_texts *given, lk__slurm_text out[N_TEXTS])
{
    const char *const value[N_TEXTS] = {
        [NODELIST] = given->nodelist, [TASKS_PER_NODE] = given->tasks_per_node,
        [PROCID] = given->procid,     [NPROCS] = given->nprocs,
        [NNODES] = given->nnodes,     [NODEID] = given->nodeid};
    for (int i = 0; i < N_TEXTS; i++)
        out[i] = (lk__slurm_text){variable[i].name, value[i]};
}

/* In a step on some of the job's hosts all variables but that of the hosts are of the step. */
static void texts_find(lk__slurm_text out[N_TEXTS])
{
    static const char of_step[] = "SLURM_STEP_NODELIST";
    for (int i = 0; i < N_TEXTS; i++)
        out[i] = (lk__slurm_text){variable[i].name, lk__env(variable[i].name)};
    if (lk__env(of_step))
        out[NODELIST] = (lk__slurm_text){of_step, lk__env(of_step)};
}

/* All that are missing are named at once. */
static lk_status texts_check(const lk__slurm_text text[N_TEXTS])
{
    char missing[512] = "";
    size_t at = 0;
    for (int i = 0; i < N_NEEDED; i++)
        if (!text[i].value || !*text[i].value)
            at += (size_t)snprintf(missing + at, sizeof missing - at, "%s%s (%s)",
                                   at > 0 ? ", " : "", text[i].name, variable[i].expected);
    LK_CHECK(at == 0, LK_EINVAL,
             "not set, or empty: %s; SLURM sets them for what srun and sbatch start", missing);
    return LK_OK;
}

/* A whole number from `least` to `most`. */
static lk_status number_read(const lk__slurm_text *text, int which, int least, int most, int *out)
{
    int64_t n = 0;
    const char *wrong = lk__number_read_int(text->value, &n);
    LK_CHECK(!wrong && n >= least && n <= most, LK_EINVAL,
             "%s is \"%.160s\": expected %s, from %d to %d", text->name, text->value,
             variable[which].expected, least, most);
    *out = (int)n;
    return LK_OK;
}

/* ---- what they say together ---- */

/* What is known of a job before memory is taken. */
typedef struct counts {
    int n_hosts, n_tasks, task;
    int64_t bytes; /* of the hosts' names */
} counts;

static lk_status counts_read(const lk__slurm_text text[N_TEXTS], counts *out)
{
    int hosts = 0, tasks = 0, of = 0;
    LK_TRY(number_read(&text[NNODES], NNODES, 1, LK_SLURM_MAX_HOSTS, &out->n_hosts));
    LK_TRY(number_read(&text[NPROCS], NPROCS, 1, LK_SLURM_MAX_TASKS, &out->n_tasks));
    LK_TRY(number_read(&text[PROCID], PROCID, 0, out->n_tasks - 1, &out->task));
    LK_TRY(lk__slurm_hosts_count(&text[NODELIST], &hosts, &out->bytes));
    LK_TRY(lk__slurm_tasks_read(&text[TASKS_PER_NODE], 0, NULL, &of, &tasks));
    LK_CHECK(hosts == out->n_hosts, LK_EINVAL, "%s \"%.160s\" has %d host%s, but %s is %d",
             text[NODELIST].name, text[NODELIST].value, hosts, hosts == 1 ? "" : "s",
             text[NNODES].name, out->n_hosts);
    LK_CHECK(of == out->n_hosts, LK_EINVAL, "%s \"%.160s\" is of %d host%s, but %s is %d",
             text[TASKS_PER_NODE].name, text[TASKS_PER_NODE].value, of, of == 1 ? "" : "s",
             text[NNODES].name, out->n_hosts);
    LK_CHECK(tasks == out->n_tasks, LK_EINVAL, "%s \"%.160s\" is of %d task%s, but %s is %d",
             text[TASKS_PER_NODE].name, text[TASKS_PER_NODE].value, tasks, tasks == 1 ? "" : "s",
             text[NPROCS].name, out->n_tasks);
    return LK_OK;
}

/* The host of this task is the one that SLURM says. */
static lk_status node_check(const lk_slurm_job *job, const lk__slurm_text *text)
{
    int node_id = 0, host = 0, before = 0;
    if (!text->value || !*text->value)
        return LK_OK;
    LK_TRY(number_read(text, NODEID, 0, job->n_hosts - 1, &node_id));
    while (before + job->tasks[host] <= job->task)
        before += job->tasks[host++];
    LK_CHECK(node_id == host, LK_EINVAL,
             "%s is %d, host %s, but task %d of tasks that are numbered host by host is on %s: "
             "start them with srun --distribution=block",
             text->name, node_id, job->host[node_id], job->task, job->host[host]);
    return LK_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static lk_status once_check(const lk_slurm_job *job, const lk__slurm_text *text)
{
    const char **sorted = NULL, *twice = NULL;
    LK_TRY(lk_alloc(&sorted, job->n_hosts, sizeof *sorted));
    for (int i = 0; i < job->n_hosts; i++)
        sorted[i] = job->host[i];
    qsort(sorted, (size_t)job->n_hosts, sizeof *sorted, by_name);
    for (int i = 1; i < job->n_hosts && !twice; i++)
        twice = strcmp(sorted[i], sorted[i - 1]) == 0 ? sorted[i] : NULL;
    lk_free(sorted);
    LK_CHECK(!twice, LK_EINVAL, "%s \"%.160s\": host %s is there twice", text->name, text->value,
             twice);
    return LK_OK;
}

static lk_status job_fill(lk_slurm_job *job, const lk__slurm_text text[N_TEXTS], const counts *c)
{
    const char **host = NULL;
    char *names = NULL;
    int *tasks = NULL, hosts, all;
    LK_TRY(lk_arena_new(&job->arena));
    LK_TRY(lk_arena_alloc(job->arena, &host, c->n_hosts, sizeof *host));
    LK_TRY(lk_arena_alloc(job->arena, &tasks, c->n_hosts, sizeof *tasks));
    LK_TRY(lk_arena_alloc(job->arena, &names, c->bytes, 1));
    LK_TRY(lk__slurm_hosts_write(&text[NODELIST], names, host));
    LK_TRY(lk__slurm_tasks_read(&text[TASKS_PER_NODE], c->n_hosts, tasks, &hosts, &all));
    job->n_hosts = c->n_hosts;
    job->n_tasks = c->n_tasks;
    job->task = c->task;
    job->host = host;
    job->tasks = tasks;
    LK_TRY(once_check(job, &text[NODELIST]));
    return LK_TRACE(node_check(job, &text[NODEID]));
}

lk_status lk_slurm_job_new(const lk_slurm_texts *texts, lk_slurm_job **out)
{
    lk__slurm_text text[N_TEXTS];
    counts c = {0};
    lk_slurm_job *job = NULL;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    if (texts)
        texts_take(texts, text);
    else
        texts_find(text);
    LK_TRY(texts_check(text));
    LK_TRY(counts_read(text, &c));
    LK_TRY(lk_alloc_zero(&job, 1, sizeof *job));
    lk_status st = job_fill(job, text, &c);
    if (st != LK_OK) {
        lk_slurm_job_free(job);
        LK_TRY(st);
    }
    *out = job;
    return LK_OK;
}

void lk_slurm_job_free(lk_slurm_job *job)
{
    if (!job)
        return;
    lk_arena_free(job->arena);
    lk_free(job);
}
