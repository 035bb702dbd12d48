/* lk_slurm_cluster: which task of a job is a parameter server, which a worker, at which address, and which
 * devices it has.
 *
 * Programs and the command make one from a lk_slurm_job, on any thread.  Tasks are gone through host by host:
 * the first of a host is a parameter server as long as these last, all others are workers.
 */
#include "comm/device/device.h"
#include "comm/slurm/slurm.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

enum { LAST_PORT = 65535 };

static const lk_option options[] = {
    {.name = "num_param_servers",
     .type = LK_OPTION_INT,
     .offset = offsetof(lk_slurm_cluster_options, num_param_servers),
     .value = "N",
     .def = "-1",
     .min = -1,
     .max = LK_SLURM_MAX_HOSTS,
     .help = "on how many hosts the first task is a parameter server; 0 or -1: on all"},
    {.name = "starting_port",
     .type = LK_OPTION_INT,
     .offset = offsetof(lk_slurm_cluster_options, starting_port),
     .value = "PORT",
     .def = "2222",
     .min = 1,
     .max = LAST_PORT,
     .help = "port of the first task of each host; the others have those behind it"},
    {.name = "network",
     .type = LK_OPTION_TEXT,
     .offset = offsetof(lk_slurm_cluster_options, network),
     .value = "NAME",
     .help = "call hosts HOST.NAME, as they are called in another network"},
    {.name = NULL},
};

const lk_descriptor lk_slurm_cluster_descriptor = {
    .name = "slurm_cluster",
    .summary = "parameter servers and workers of a job of SLURM",
    .options = options,
    .options_size = sizeof(lk_slurm_cluster_options),
};

const char *lk_slurm_role_name(lk_slurm_role role)
{
    return role == LK_SLURM_PS ? "ps" : role == LK_SLURM_WORKER ? "worker" : "?";
}

/* ---- making ---- */

static lk_status network_check(const char *network)
{
    size_t n = 0;
    while (lk__slurm_is_host_char(network[n]))
        n++;
    LK_CHECK(n > 0 && n < LK_SLURM_HOST && !network[n] && network[0] != '.', LK_EINVAL,
             "network \"%.160s\": it is put behind the names of hosts, so give what may stand "
             "there, such as ib.cluster",
             network);
    return LK_OK;
}

static lk_status options_check(const lk_slurm_job *job, const lk_slurm_cluster_options *o)
{
    LK_CHECK(o->num_param_servers >= -1 && o->num_param_servers <= LK_SLURM_MAX_HOSTS, LK_EINVAL,
             "num_param_servers is %lld: from -1 to %d", (long long)o->num_param_servers,
             LK_SLURM_MAX_HOSTS);
    LK_CHECK(o->starting_port >= 1 && o->starting_port <= LAST_PORT, LK_EINVAL,
             "starting_port is %lld: from 1 to %d", (long long)o->starting_port, LAST_PORT);
    for (int i = 0; i < job->n_hosts; i++)
        LK_CHECK(o->starting_port + job->tasks[i] - 1 <= LAST_PORT, LK_EINVAL,
                 "the %d tasks of host %s need ports %lld to %lld, but the last is %d: give "
                 "another starting_port",
                 job->tasks[i], job->host[i], (long long)o->starting_port,
                 (long long)o->starting_port + job->tasks[i] - 1, LAST_PORT);
    if (o->network)
        LK_TRY(network_check(o->network));
    return LK_OK;
}

/* The names of the hosts, with the network. */
static lk_status hosts_make(const lk_slurm_job *job, const char *network, lk_slurm_cluster *c)
{
    const char **host = NULL;
    LK_TRY(lk_arena_alloc(c->arena, &host, job->n_hosts, sizeof *host));
    for (int i = 0; i < job->n_hosts; i++) {
        char name[2 * LK_SLURM_HOST];
        int n = snprintf(name, sizeof name, "%s%s%s", job->host[i], network ? "." : "",
                         network ? network : "");
        LK_TRY(lk_arena_text(c->arena, name, (size_t)n, &host[i]));
    }
    c->host = host;
    c->n_hosts = job->n_hosts;
    return LK_OK;
}

static lk_status tasks_make(const lk_slurm_job *job, int port, lk_slurm_cluster *c)
{
    lk_slurm_task *task = NULL;
    int *ps = NULL, *worker = NULL, at = 0, n_ps = 0, n_workers = 0;
    LK_TRY(lk_arena_alloc(c->arena, &task, job->n_tasks, sizeof *task));
    LK_TRY(lk_arena_alloc(c->arena, &ps, c->n_ps, sizeof *ps));
    LK_TRY(lk_arena_alloc(c->arena, &worker, c->n_workers, sizeof *worker));
    for (int h = 0; h < job->n_hosts; h++)
        for (int i = 0; i < job->tasks[h]; i++, at++) {
            bool serves = i == 0 && h < c->n_ps;
            task[at] = (lk_slurm_task){.role = serves ? LK_SLURM_PS : LK_SLURM_WORKER,
                                       .number = serves ? n_ps : n_workers,
                                       .host = h,
                                       .local = i,
                                       .port = port + i,
                                       .ps = h < c->n_ps ? h : 0};
            if (serves)
                ps[n_ps++] = at;
            else
                worker[n_workers++] = at;
        }
    c->task = task;
    c->ps = ps;
    c->worker = worker;
    c->n_tasks = job->n_tasks;
    c->own = job->task;
    return LK_OK;
}

static lk_status cluster_fill(const lk_slurm_job *job, const lk_slurm_cluster_options *o,
                              lk_slurm_cluster *c)
{
    bool some = o->num_param_servers > 0 && o->num_param_servers < job->n_hosts;
    c->n_ps = some ? (int)o->num_param_servers : job->n_hosts;
    c->n_workers = job->n_tasks - c->n_ps;
    LK_CHECK(c->n_workers > 0, LK_EINVAL,
             "no task is left to be a worker: %d task%s on %d host%s, and as many parameter "
             "servers; start more tasks, or set num_param_servers to less",
             job->n_tasks, job->n_tasks == 1 ? "" : "s", job->n_hosts,
             job->n_hosts == 1 ? "" : "s");
    LK_TRY(lk_arena_new(&c->arena));
    LK_TRY(hosts_make(job, o->network, c));
    return LK_TRACE(tasks_make(job, (int)o->starting_port, c));
}

static lk_status cluster_new(const lk_slurm_job *job, const lk_slurm_cluster_options *o,
                             lk_slurm_cluster **out)
{
    lk_slurm_cluster *c = NULL;
    LK_TRY(options_check(job, o));
    LK_TRY(lk_alloc_zero(&c, 1, sizeof *c));
    lk_status st = cluster_fill(job, o, c);
    if (st != LK_OK) {
        lk_slurm_cluster_free(c);
        LK_TRY(st);
    }
    *out = c;
    return LK_OK;
}

lk_status lk_slurm_cluster_new(const lk_slurm_job *job, const char *text, lk_slurm_cluster **out)
{
    lk_status st;
    lk_arena *arena = NULL;
    lk_slurm_cluster_options o;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    LK_CHECK(job, LK_EINVAL, "job is NULL");
    LK_TRY(lk_arena_new(&arena));
    LK_TRY_TO(done, lk_options_parse(&lk_slurm_cluster_descriptor, text, arena, &o));
    LK_TRY_TO(done, cluster_new(job, &o, out));
done:
    lk_arena_free(arena);
    return st;
}

lk_status lk_slurm_cluster_new_options(const lk_slurm_job *job,
                                       const lk_slurm_cluster_options *given,
                                       lk_slurm_cluster **out)
{
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    LK_CHECK(job, LK_EINVAL, "job is NULL");
    if (given)
        LK_TRY(cluster_new(job, given, out));
    else
        LK_TRY(lk_slurm_cluster_new(job, NULL, out));
    return LK_OK;
}

void lk_slurm_cluster_free(lk_slurm_cluster *c)
{
    if (!c)
        return;
    lk_arena_free(c->arena);
    lk_free(c);
}

/* ---- looking ---- */

const char *lk_slurm_address(const lk_slurm_cluster *c, int task, char out[LK_SLURM_ADDRESS])
{
    const lk_slurm_task *t = &c->task[task];
    snprintf(out, LK_SLURM_ADDRESS, "%s:%d", c->host[t->host], t->port);
    return out;
}

/* Workers of a host: its tasks without the parameter server, which is the first. */
static int workers_beside(const lk_slurm_cluster *c, int task, int *number)
{
    const lk_slurm_task *t = &c->task[task];
    int first = task - t->local, n = 0, serves = c->task[first].role == LK_SLURM_PS;
    while (first + n < c->n_tasks && c->task[first + n].host == t->host)
        n++;
    *number = t->local - serves; /* -1: the parameter server itself */
    return n - serves;
}

/* All processors of a list, as one device. */
static void devices_join(const lk_device *list, int n, lk_device *out)
{
    lk__processors all = {{0}};
    *out = (lk_device){.kind = LK_DEVICE_CPU};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < LK_MAX_PROCESSORS / 64; k++)
            out->processors[k] |= list[i].processors[k];
    memcpy(&all, out->processors, sizeof all);
    lk__device_set_name(out, "cpu", &all);
}

static lk_status device_choose(const lk_slurm_cluster *c, int task, const lk_device *list, int n,
                               lk_device *out)
{
    LK_CHECK(n > 0, LK_EINVAL, "there is no device to choose from");
    for (int i = 0; i < n; i++)
        LK_CHECK(list[i].kind == LK_DEVICE_CPU, LK_ENOTSUP, "device \"%.*s\" is of kind %d",
                 LK_DEVICE_NAME, list[i].name, (int)list[i].kind);
    int number, workers = workers_beside(c, task, &number);
    lk_device own;
    if (workers > 1 && number >= 0 && number < n)
        own = list[number];
    else
        devices_join(list, n, &own);
    *out = own;
    return LK_OK;
}

lk_status lk_slurm_device(const lk_slurm_cluster *c, int task, const lk_device *list, int n,
                          lk_device *out)
{
    LK_CHECK(c && out, LK_EINVAL, "%s is NULL", c ? "out" : "cluster");
    LK_CHECK(task >= 0 && task < c->n_tasks, LK_EINVAL, "task %d of %d", task, c->n_tasks);
    LK_CHECK(list || n == 0, LK_EINVAL, "list is NULL, but has %d devices", n);
    if (list) {
        return LK_TRACE(device_choose(c, task, list, n, out));
    }
    lk__device_list here;
    LK_TRY(lk__devices_named(NULL, &here));
    lk_status st;
    LK_TRY_TO(done, device_choose(c, task, here.entry, here.n, out));
done:
    lk_free(here.entry);
    return st;
}
