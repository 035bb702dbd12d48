/* Parameter servers, workers and the chief of a job of SLURM: roles, ports, addresses and devices, as
 * keras_experiments assigns them, and what is said where they cannot be. */
#include "faults.h"

#include <lockstep/slurm.h>

/* A job with these tasks on hosts a, b, ..., as task `own` sees it. */
static lk_slurm_job *job_of(const char *nodelist, const char *tasks, int n_hosts, int n_tasks,
                            int own)
{
    char procid[16], nprocs[16], nnodes[16];
    lk_slurm_job *job;
    snprintf(procid, sizeof procid, "%d", own);
    snprintf(nprocs, sizeof nprocs, "%d", n_tasks);
    snprintf(nnodes, sizeof nnodes, "%d", n_hosts);
    ASSERT_OK(
        lk_slurm_job_new(&(lk_slurm_texts){nodelist, tasks, procid, nprocs, nnodes, NULL}, &job));
    return job;
}

/* The addresses of some tasks, separated by blanks. */
static const char *addresses(const lk_slurm_cluster *c, const int *task, int n)
{
    static char joined[4096];
    char one[LK_SLURM_ADDRESS];
    size_t at = 0;
    joined[0] = '\0';
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(joined + at, sizeof joined - at, "%s%s", i ? " " : "",
                               lk_slurm_address(c, task[i], one));
    return joined;
}

static void expect(const lk_slurm_job *job, const char *options, const char *ps,
                   const char *workers)
{
    lk_slurm_cluster *c;
    ASSERT_OK(lk_slurm_cluster_new(job, options, &c));
    if (strcmp(addresses(c, c->ps, c->n_ps), ps) != 0)
        TEST_FAIL("%s: servers %s, not %s", options, addresses(c, c->ps, c->n_ps), ps);
    if (strcmp(addresses(c, c->worker, c->n_workers), workers) != 0)
        TEST_FAIL("%s: workers %s, not %s", options, addresses(c, c->worker, c->n_workers),
                  workers);
    ASSERT_EQ(c->n_ps + c->n_workers, job->n_tasks);
    for (int i = 0; i < c->n_ps; i++)
        ASSERT_TRUE(c->task[c->ps[i]].role == LK_SLURM_PS && c->task[c->ps[i]].number == i);
    for (int i = 0; i < c->n_workers; i++)
        ASSERT_TRUE(c->task[c->worker[i]].role == LK_SLURM_WORKER &&
                    c->task[c->worker[i]].number == i);
    lk_slurm_cluster_free(c);
}

TEST(two_hosts_with_two_tasks_have_two_servers_and_two_workers)
{
    lk_slurm_job *job = job_of("n[1-2]", "2(x2)", 2, 4, 0);
    expect(job, NULL, "n1:2222 n2:2222", "n1:2223 n2:2223");
    expect(job, "num_param_servers=1", "n1:2222", "n1:2223 n2:2222 n2:2223");
    expect(job, "starting_port=2300", "n1:2300 n2:2300", "n1:2301 n2:2301");
    expect(job, "network=ib.cluster", "n1.ib.cluster:2222 n2.ib.cluster:2222",
           "n1.ib.cluster:2223 n2.ib.cluster:2223");
    lk_slurm_job_free(job);
}

/* Host a has no worker, because its one task is a parameter server. */
TEST(uneven_hosts_have_workers_behind_their_servers)
{
    lk_slurm_job *job = job_of("a,b,c,d", "1,3(x2),4", 4, 11, 0);
    const char *ps = "a:2222 b:2222 c:2222 d:2222";
    const char *workers = "b:2223 b:2224 c:2223 c:2224 d:2223 d:2224 d:2225";
    expect(job, "num_param_servers=4", ps, workers);
    expect(job, "num_param_servers=-1", ps, workers);
    expect(job, "num_param_servers=0", ps, workers);
    expect(job, "num_param_servers=100", ps, workers);
    expect(job, "num_param_servers=2", "a:2222 b:2222",
           "b:2223 b:2224 c:2222 c:2223 c:2224 d:2222 d:2223 d:2224 d:2225");
    lk_slurm_job_free(job);
}

TEST(a_task_knows_itself_and_its_server)
{
    /* role, number, host, local, port, ps; of two servers on four hosts */
    static const lk_slurm_task task[11] = {
        {LK_SLURM_PS, 0, 0, 0, 2222, 0},     {LK_SLURM_PS, 1, 1, 0, 2222, 1},
        {LK_SLURM_WORKER, 0, 1, 1, 2223, 1}, {LK_SLURM_WORKER, 1, 1, 2, 2224, 1},
        {LK_SLURM_WORKER, 2, 2, 0, 2222, 0}, {LK_SLURM_WORKER, 3, 2, 1, 2223, 0},
        {LK_SLURM_WORKER, 4, 2, 2, 2224, 0}, {LK_SLURM_WORKER, 5, 3, 0, 2222, 0},
        {LK_SLURM_WORKER, 6, 3, 1, 2223, 0}, {LK_SLURM_WORKER, 7, 3, 2, 2224, 0},
        {LK_SLURM_WORKER, 8, 3, 3, 2225, 0}};
    for (int own = 0; own < 11; own++) {
        lk_slurm_job *job = job_of("a,b,c,d", "1,3(x2),4", 4, 11, own);
        lk_slurm_cluster *c;
        ASSERT_OK(lk_slurm_cluster_new(job, "num_param_servers=2", &c));
        lk_slurm_job_free(job);
        ASSERT_EQ(c->own, own);
        ASSERT_SAME_BITS(c->task, task, sizeof task);
        ASSERT_EQ(strcmp(c->host[3], "d"), 0);
        lk_slurm_cluster_free(c);
    }
    ASSERT_EQ(strcmp(lk_slurm_role_name(LK_SLURM_PS), "ps"), 0);
    ASSERT_EQ(strcmp(lk_slurm_role_name(LK_SLURM_WORKER), "worker"), 0);
    ASSERT_EQ(strcmp(lk_slurm_role_name((lk_slurm_role)7), "?"), 0);
}

/* ---- devices ---- */

/* Device i is processors 2i and 2i + 1. */
static void devices_make(lk_device *list, int n)
{
    for (int i = 0; i < n; i++) {
        list[i] = (lk_device){.processors = {(uint64_t)3 << (2 * i)}};
        snprintf(list[i].name, sizeof list[i].name, "core:%d", i);
    }
}

TEST(workers_of_a_host_share_its_devices)
{
    /* Four hosts with servers, and with 1, 2, 4 and 0 workers; three devices each.  "cpu:0-5": all of them. */
    static const char *const name[11] = {"cpu:0-5", "cpu:0-5", "cpu:0-5", "core:0",
                                         "core:1",  "cpu:0-5", "core:0",  "core:1",
                                         "core:2",  "cpu:0-5", "cpu:0-5"};
    lk_slurm_job *job = job_of("a,b,c,d", "2,3,5,1", 4, 11, 0);
    lk_slurm_cluster *c;
    lk_device list[3], own;
    devices_make(list, 3);
    ASSERT_OK(lk_slurm_cluster_new(job, NULL, &c));
    for (int task = 0; task < 11; task++) {
        ASSERT_OK(lk_slurm_device(c, task, list, 3, &own));
        if (strcmp(own.name, name[task]) != 0)
            TEST_FAIL("task %d has %s, not %s", task, own.name, name[task]);
        ASSERT_EQ(lk_device_n_processors(&own), name[task][1] == 'p' ? 6 : 2);
    }
    lk_slurm_cluster_free(c);
    /* without a server on its host the first task is a worker as well */
    ASSERT_OK(lk_slurm_cluster_new(job, "num_param_servers=1", &c));
    ASSERT_OK(lk_slurm_device(c, 2, list, 3, &own));
    ASSERT_EQ(strcmp(own.name, "core:0"), 0);
    ASSERT_OK(lk_slurm_device(c, 10, list, 3, &own)); /* alone on d */
    ASSERT_EQ(strcmp(own.name, "cpu:0-5"), 0);
    ASSERT_OK(lk_slurm_device(c, 2, list, 3, &list[2])); /* into the list itself */
    ASSERT_EQ(strcmp(list[2].name, "core:0"), 0);
    lk_slurm_cluster_free(c);
    lk_slurm_job_free(job);
}

/* The devices of this process, one worker of which has all and can be bound to them. */
TEST(without_a_list_devices_are_those_of_this_host)
{
    lk_slurm_job *job = job_of("a", "2", 1, 2, 1);
    lk_slurm_cluster *c;
    lk_device own, again;
    ASSERT_OK(lk_slurm_cluster_new(job, NULL, &c));
    unsetenv("LK_DEVICES");
    ASSERT_OK(lk_slurm_device(c, 1, NULL, 0, &own));
    ASSERT_OK(lk_device_parse(own.name, &again));
    ASSERT_SAME_BITS(again.processors, own.processors, sizeof own.processors);
    ASSERT_OK(lk_device_bind(&own));
    ASSERT_OK(lk_device_bind(NULL));
    lk_slurm_cluster_free(c);
    lk_slurm_job_free(job);
}

/* ---- what cannot be ---- */

TEST(what_cannot_be_assigned_is_named)
{
    lk_slurm_job *job = job_of("a,b", "1,300", 2, 301, 0),
                 *servers = job_of("a,b", "1(x2)", 2, 2, 0);
    lk_slurm_job *alone = job_of("a", "1", 1, 1, 0);
    lk_slurm_cluster *c = NULL;
    lk_device own, other = {.kind = (lk_device_kind)3, .name = "gpu:0"};
    ASSERT_FAILS(
        lk_slurm_cluster_new(servers, NULL, &c), LK_EINVAL,
        "no task is left to be a worker: 2 tasks on 2 hosts, and as many parameter servers");
    ASSERT_FAILS(lk_slurm_cluster_new(alone, NULL, &c), LK_EINVAL, "1 task on 1 host");
    ASSERT_FAILS(lk_slurm_cluster_new(job, "starting_port=65300", &c), LK_EINVAL,
                 "the 300 tasks of host b need ports 65300 to 65599, but the last is 65535");
    ASSERT_FAILS(lk_slurm_cluster_new(job, "starting_port=0", &c), LK_EINVAL, "starting_port");
    ASSERT_FAILS(lk_slurm_cluster_new(job, "starting_port=65536", &c), LK_EINVAL, "starting_port");
    ASSERT_FAILS(lk_slurm_cluster_new(job, "num_param_servers=-2", &c), LK_EINVAL,
                 "num_param_servers");
    ASSERT_FAILS(lk_slurm_cluster_new(job, "num_ps=2", &c), LK_EINVAL, "num_ps");
    ASSERT_FAILS(lk_slurm_cluster_new(job, "network=a:b", &c), LK_EINVAL, "network \"a:b\"");
    ASSERT_FAILS(lk_slurm_cluster_new(job, "network=.ib", &c), LK_EINVAL, "network \".ib\"");
    lk_slurm_cluster_options o = {.num_param_servers = 1, .starting_port = -1};
    ASSERT_FAILS(lk_slurm_cluster_new_options(job, &o, &c), LK_EINVAL, "starting_port is -1");
    o = (lk_slurm_cluster_options){.num_param_servers = -7, .starting_port = 2222};
    ASSERT_FAILS(lk_slurm_cluster_new_options(job, &o, &c), LK_EINVAL, "num_param_servers is -7");
    ASSERT_FAILS(lk_slurm_cluster_new(NULL, NULL, &c), LK_EINVAL, "job is NULL");
    ASSERT_TRUE(!c);
    ASSERT_OK(lk_slurm_cluster_new(servers, "num_param_servers=1", &c));
    ASSERT_FAILS(lk_slurm_device(c, 2, NULL, 0, &own), LK_EINVAL, "task 2 of 2");
    ASSERT_FAILS(lk_slurm_device(c, 0, &other, 0, &own), LK_EINVAL, "no device");
    ASSERT_FAILS(lk_slurm_device(c, 0, &other, 1, &own), LK_ENOTSUP, "\"gpu:0\" is of kind 3");
    ASSERT_FAILS(lk_slurm_device(c, 0, NULL, 2, &own), LK_EINVAL, "list is NULL");
    lk_slurm_cluster_free(c);
    lk_slurm_job_free(job);
    lk_slurm_job_free(servers);
    lk_slurm_job_free(alone);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_struct_of_options_does_as_its_text)
{
    lk_slurm_job *job = job_of("a,b", "2(x2)", 2, 4, 3);
    lk_slurm_cluster *c;
    lk_slurm_cluster_options o = {.num_param_servers = 1, .starting_port = 9, .network = "x"};
    ASSERT_OK(lk_slurm_cluster_new_options(job, &o, &c));
    ASSERT_EQ(strcmp(addresses(c, c->worker, c->n_workers), "a.x:10 b.x:9 b.x:10"), 0);
    lk_slurm_cluster_free(c);
    ASSERT_OK(lk_slurm_cluster_new_options(job, NULL, &c));
    ASSERT_EQ(strcmp(addresses(c, c->worker, c->n_workers), "a:2223 b:2223"), 0);
    lk_slurm_cluster_free(c);
    lk_slurm_job_free(job);
}

static lk_status cluster_made(void)
{
    static const lk_slurm_texts texts = {"n[1-2]", "2(x2)", "0", "4", "2", NULL};
    lk_slurm_job *job = NULL;
    lk_slurm_cluster *c = NULL;
    lk_device own;
    lk_status st = lk_slurm_job_new(&texts, &job);
    if (st == LK_OK)
        st = lk_slurm_cluster_new(job, "network=ib", &c);
    if (st == LK_OK)
        st = lk_slurm_device(c, 0, NULL, 0, &own);
    lk_slurm_cluster_free(c);
    lk_slurm_job_free(job);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(cluster_made) >= 6);
}
