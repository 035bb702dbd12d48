/* Parameter servers and workers of a job of SLURM: a row for each task, and a line about the one that asks. */
#include "ranks.h"
#include "report.h"
#include "slurm/slurm.h"
#include "term.h"
#include "verb.h"

#include <stdio.h>

static const report_column columns[] = {
    {"task", "task", 0}, {"role", NULL, 0}, {NULL, "role", -1}, {"number", "number", 0},
    {"chief", NULL, 0},  {"host", NULL, 0}, {"port", NULL, 0},  {"address", "address", -1},
    {"ps", "server", 0}, {"own", NULL, 0},  {"device", NULL, 0}};

enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

static bool is_chief(const lk_slurm_task *t)
{
    return t->role == LK_SLURM_WORKER && t->number == 0;
}

static void row(report *out, const lk_slurm_cluster *c, int task, const lk_device *device)
{
    const lk_slurm_task *t = &c->task[task];
    char address[LK_SLURM_ADDRESS];
    const char *role = lk_slurm_role_name(t->role);
    bool own = task == c->own;
    report_row(out, (report_cell[]){
                        cell_int(task), cell_text(role), cell_text(is_chief(t) ? "chief" : role),
                        cell_int(t->number), cell_bool(is_chief(t), "", NULL),
                        cell_text(c->host[t->host]), cell_int(t->port),
                        cell_text(lk_slurm_address(c, task, address)), cell_int(t->ps),
                        cell_bool(own, "", NULL), own ? cell_text(device->name) : cell_none()});
}

static void cluster_print(const lk_slurm_cluster *c, const lk_device *device, bool json)
{
    report out;
    const lk_slurm_task *own = &c->task[c->own];
    if (!json)
        printf("%d tasks on %d host%s: %d parameter server%s, %d worker%s\n\n", c->n_tasks,
               c->n_hosts, plural(c->n_hosts), c->n_ps, plural(c->n_ps), c->n_workers,
               plural(c->n_workers));
    report_keep(&out, columns, N_COLUMNS, json);
    for (int i = 0; i < c->n_tasks; i++)
        row(&out, c, i, device);
    report_end(&out);
    if (!json)
        printf("\nthis is task %d: %s %d%s, device %s\n", c->own, lk_slurm_role_name(own->role),
               own->number, is_chief(own) ? ", the chief" : "", device->name);
}

/* Each task looks by itself, so each says itself what it finds wrong. */
static int refuse(const char *command, lk_status st)
{
    fprintf(stderr, "error: %s: %s\n", command, lk_error_message());
    lk_error_clear();
    return st == LK_ENOMEM ? LK_EXIT_FAILED : LK_EXIT_USAGE;
}

int slurm_show(const char *command, const lk_slurm_cluster_options *options, bool json)
{
    lk_slurm_job *job = NULL;
    lk_slurm_cluster *c = NULL;
    lk_device device;
    lk_status st = lk_slurm_job_new(NULL, &job);
    if (st == LK_OK)
        st = lk_slurm_cluster_new_options(job, options, &c);
    if (st == LK_OK)
        st = lk_slurm_device(c, c->own, NULL, 0, &device);
    int status = LK_EXIT_DONE;
    if (st != LK_OK)
        status = refuse(command, st);
    else if (ranks_is_root())
        cluster_print(c, &device, json);
    lk_slurm_cluster_free(c);
    lk_slurm_job_free(job);
    return status;
}
