/* What SLURM's variables say of a job: the lists of hosts as scontrol of SLURM 22.05 takes them apart, the
 * counts of tasks, and what is said about each variable that is missing, wrong or not like the others. */
#include "comm/slurm/slurm.h"
#include "faults.h"

/* ---- the lists ---- */

/* The hosts of a list, separated by blanks. */
static const char *hosts_of(const char *list)
{
    static char joined[4096];
    lk__slurm_text text = {"HOSTS", list};
    const char *host[256];
    static char names[65536];
    int n;
    int64_t bytes;
    size_t at = 0;
    ASSERT_OK(lk__slurm_hosts_count(&text, &n, &bytes));
    ASSERT_TRUE(n <= 256 && bytes <= (int64_t)sizeof names);
    ASSERT_OK(lk__slurm_hosts_write(&text, names, host));
    ASSERT_TRUE(host[n - 1] + strlen(host[n - 1]) < names + bytes);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(joined + at, sizeof joined - at, "%s%s", i ? " " : "", host[i]);
    return joined;
}

TEST(hosts_are_those_of_scontrol)
{
    const struct {
        const char *list, *hosts;
    } row[] = {
        {"node[1-3,07-08],login", "node1 node2 node3 node07 node08 login"},
        {"login", "login"},
        {"a,b", "a b"},
        {"A_b-9.z", "A_b-9.z"},
        {"n1-3", "n1-3"},
        {"n[1-1]", "n1"},
        {"n[08-11]", "n08 n09 n10 n11"},
        {"n[8-011]", "n8 n9 n10 n11"},
        {"n[008-11]", "n008 n009 n010 n011"},
        {"n[01,1]", "n01 n1"},
        {"[1-3]", "1 2 3"},
        {"n[999999999999999998-999999999999999999]", "n999999999999999998 n999999999999999999"},
        {"n[1-2][3-4]", "n13 n14 n23 n24"},
        {"a[0-1]b[0-2]", "a0b0 a0b1 a0b2 a1b0 a1b1 a1b2"},
        {"a[0-1]b[0-1],c[0-1]d[0-1]", "a0b0 a0b1 a1b0 a1b1 c0d0 c0d1 c1d0 c1d1"},
        {"rack[1-2]-n[01-02]-ib[0,2]",
         "rack1-n01-ib0 rack1-n01-ib2 rack2-n01-ib0 rack2-n01-ib2 rack1-n02-ib0 rack1-n02-ib2 "
         "rack2-n02-ib0 rack2-n02-ib2"},
        {"a[0-2]b[0-1]c[0]", "a0b0c0 a1b0c0 a2b0c0 a0b1c0 a1b1c0 a2b1c0"},
        {"a[0-1]b[0-1]c[0-1]d[0-1]",
         "a0b0c0d0 a0b0c0d1 a1b0c0d0 a1b0c0d1 a0b1c0d0 a0b1c0d1 a1b1c0d0 a1b1c0d1 a0b0c1d0 "
         "a0b0c1d1 a1b0c1d0 a1b0c1d1 a0b1c1d0 a0b1c1d1 a1b1c1d0 a1b1c1d1"},
        /* which SLURM 22.05 refuses, and later ones write */
        {"n[1-3]-ib", "n1-ib n2-ib n3-ib"},
        {"n[09-10].x.y,m", "n09.x.y n10.x.y m"},
        {"a[0-1]b[5,6]c", "a0b5c a0b6c a1b5c a1b6c"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if (strcmp(hosts_of(row[i].list), row[i].hosts) != 0)
            TEST_FAIL("%s is \"%s\", not \"%s\"", row[i].list, hosts_of(row[i].list), row[i].hosts);
}

TEST(tasks_of_each_host_may_be_said_once_for_several)
{
    const struct {
        const char *list;
        int n, tasks[8], all;
    } row[] = {{"1,3(x2),4", 4, {1, 3, 3, 4}, 11}, /* the example of keras_experiments */
               {"2(x2)", 2, {2, 2}, 4},
               {"7", 1, {7}, 7},
               {"1(x1),2", 2, {1, 2}, 3},
               {"1,2(x3),16(x2),5", 7, {1, 2, 2, 2, 16, 16, 5}, 44}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        lk__slurm_text text = {"TASKS", row[i].list};
        int tasks[8] = {0}, n, all;
        ASSERT_OK(lk__slurm_tasks_read(&text, 8, tasks, &n, &all));
        ASSERT_EQ(n, row[i].n);
        ASSERT_EQ(all, row[i].all);
        ASSERT_SAME_BITS(tasks, row[i].tasks, sizeof tasks);
        int few[8] = {0};
        ASSERT_OK(lk__slurm_tasks_read(&text, 1, few, &n, &all));
        ASSERT_EQ(n, row[i].n);
        ASSERT_EQ(few[0], row[i].tasks[0]);
        ASSERT_EQ(few[1], 0);
    }
}

/* ---- jobs ---- */

static const lk_slurm_texts good = {"node[1-3],login", "1,3(x2),4", "4", "11", "4", "2"};

TEST(a_job_has_its_hosts_and_their_tasks)
{
    static const char *const host[] = {"node1", "node2", "node3", "login"};
    static const int tasks[] = {1, 3, 3, 4};
    lk_slurm_job *job;
    ASSERT_OK(lk_slurm_job_new(&good, &job));
    ASSERT_EQ(job->n_hosts, 4);
    ASSERT_EQ(job->n_tasks, 11);
    ASSERT_EQ(job->task, 4);
    ASSERT_SAME_BITS(job->tasks, tasks, sizeof tasks);
    for (int i = 0; i < 4; i++)
        ASSERT_EQ(strcmp(job->host[i], host[i]), 0);
    lk_slurm_job_free(job);
    lk_slurm_job_free(NULL);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

/* The job of `texts` is refused with `text`, before anything is allocated. */
static void refuse(lk_slurm_texts texts, const char *text)
{
    lk_slurm_job *job = NULL;
    int64_t calls = lk_alloc_stats_now().calls;
    ASSERT_FAILS(lk_slurm_job_new(&texts, &job), LK_EINVAL, text);
    ASSERT_TRUE(!job);
    ASSERT_EQ(lk_alloc_stats_now().calls, calls);
}

/* The good texts with another one, and without that of SLURM_NODEID. */
static lk_slurm_texts with(size_t field, const char *text)
{
    lk_slurm_texts texts = good;
    texts.nodeid = NULL;
    memcpy((char *)&texts + field, &text, sizeof text);
    return texts;
}

#define WITH(field, text) with(offsetof(lk_slurm_texts, field), text)

TEST(a_wrong_list_of_hosts_is_named_with_the_column)
{
    const struct {
        const char *list, *said;
    } row[] = {
        {",a", "SLURM_JOB_NODELIST \",a\", column 1: a host is missing"},
        {"a,", "column 3: a host is missing"},
        {"a,,b", "column 3: a host is missing"},
        {"a b", "column 2: \" \" is in no host's name"},
        {"a;b", "column 2: \";\" is in no host's name"},
        {"n]", "column 2: \"]\" is in no host's name"},
        {"(x)", "column 1: \"(\" is in no host's name"},
        {"n[1-3", "column 6: the bracket of column 2 is not closed"},
        {"n[", "column 3: a number is missing"},
        {"n[]", "column 3: a number is missing"},
        {"n[,1]", "column 3: a number is missing"},
        {"n[1,]", "column 5: a number is missing"},
        {"n[1,,2]", "column 5: a number is missing"},
        {"n[a-b]", "column 3: a number is missing"},
        {"n[-1]", "column 3: a number is missing"},
        {"n[+1]", "column 3: a number is missing"},
        {"n[ 1]", "column 3: a number is missing"},
        {"n[1-]", "column 5: a number is missing"},
        {"n[1-2-3]", "column 6: \"-\" is out of place"},
        {"n[1x]", "column 4: \"x\" is out of place"},
        {"n[[1]]", "column 3: a number is missing"},
        {"n[1]]", "column 5: \"]\" is in no host's name"},
        {"n[3-1]", "column 3: the range 3-1 runs backwards; say 1-3"},
        {"n[1-65537]", "column 3: the bracket has 65537 numbers up to here; at most 65536"},
        {"n[1-60000,1-60000]", "column 11: the bracket has 120000 numbers up to here"},
        {"n[0-999999999999999999]", "numbers up to here; at most 65536"},
        {"n[1-1000]m[1-1000]", "column 11: the name stands for 1000000 hosts up to here"},
        {"a[1-40000],b[1-40000]", "column 12: 80000 hosts up to this name; at most 65536"},
        {"n[9999999999999999999]", "column 3: a number of 19 digits; at most 18"},
        {"n[0-00000000000000000001]", "column 5: a number of 20 digits; at most 18"},
        {"[1][1][1][1][1][1][1][1][1]", "column 25: a name with more than 8 brackets"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        refuse(WITH(nodelist, row[i].list), row[i].said);
    char longest[LK_SLURM_HOST + 1];
    memset(longest, 'n', sizeof longest);
    longest[LK_SLURM_HOST] = '\0';
    refuse(WITH(nodelist, longest), "column 1: a host's name of 256 characters; at most 255");
    memcpy(longest + LK_SLURM_HOST - 4, "[10]", 4); /* 252 and 2 */
    ASSERT_EQ(strlen(hosts_of(longest)), 254);
}

TEST(a_wrong_list_of_tasks_is_named_with_the_column)
{
    const struct {
        const char *list, *said;
    } row[] = {
        {"4(x2",
         "SLURM_TASKS_PER_NODE \"4(x2\", column 5: tasks of each host are written 1,3(x2),4"},
        {"4(x)", "column 4: tasks of each host"},
        {"4;3", "column 2: tasks of each host"},
        {"4,", "column 3: tasks of each host"},
        {",4", "column 1: tasks of each host"},
        {"1,-1", "column 3: tasks of each host"},
        {"x", "column 1: tasks of each host"},
        {"1,0", "column 3: 0 tasks on a host; from 1 to 1048576"},
        {"1048577", "column 1: 1048577 tasks on a host"},
        {"99999999999999999999999", "tasks on a host; from 1 to 1048576"},
        {"1(x0)", "column 1: 0 times, which makes 0 hosts; from 1 to 65536"},
        {"1(x65537)", "column 1: 65537 times, which makes 65537 hosts"},
        {"1,1(x65536)", "column 3: 65536 times, which makes 65537 hosts"},
        {"17(x65536)", "column 1: 1114112 tasks up to here; at most 1048576"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        refuse(WITH(tasks_per_node, row[i].list), row[i].said);
}

TEST(a_wrong_number_is_named_with_what_was_expected)
{
    refuse(WITH(procid, "11"), "SLURM_PROCID is \"11\": expected which task this is, from 0 to 10");
    refuse(WITH(procid, "-1"), "SLURM_PROCID is \"-1\"");
    refuse(WITH(procid, "two"), "SLURM_PROCID is \"two\"");
    refuse(WITH(procid, "1.5"), "SLURM_PROCID is \"1.5\"");
    refuse(WITH(nprocs, "0"),
           "SLURM_NPROCS is \"0\": expected how many tasks there are, from 1 to 1048576");
    refuse(WITH(nprocs, "1e3"), "SLURM_NPROCS is \"1e3\"");
    refuse(WITH(nprocs, "99999999999999999999"), "SLURM_NPROCS is \"99999999999999999999\"");
    refuse(WITH(nnodes, "65537"),
           "SLURM_NNODES is \"65537\": expected how many hosts there are, from 1 to 65536");
    refuse(WITH(nnodes, "4 "), "SLURM_NNODES is \"4 \"");
}

TEST(counts_that_do_not_agree_are_both_named)
{
    refuse(WITH(nnodes, "3"),
           "SLURM_JOB_NODELIST \"node[1-3],login\" has 4 hosts, but SLURM_NNODES is 3");
    refuse(WITH(nodelist, "login"),
           "SLURM_JOB_NODELIST \"login\" has 1 host, but SLURM_NNODES is 4");
    refuse(WITH(tasks_per_node, "11"),
           "SLURM_TASKS_PER_NODE \"11\" is of 1 host, but SLURM_NNODES is 4");
    refuse(WITH(nprocs, "12"),
           "SLURM_TASKS_PER_NODE \"1,3(x2),4\" is of 11 tasks, but SLURM_NPROCS is 12");
}

TEST(all_that_is_missing_is_named_at_once)
{
    refuse((lk_slurm_texts){0},
           "not set, or empty: SLURM_JOB_NODELIST (the hosts, as node[1-3,07-08],login), "
           "SLURM_TASKS_PER_NODE (how many tasks each host has, as 1,3(x2),4), SLURM_PROCID (which "
           "task this is), SLURM_NPROCS (how many tasks there are), SLURM_NNODES (how many hosts "
           "there are); SLURM sets them for what srun and sbatch start");
    refuse(WITH(procid, NULL), "not set, or empty: SLURM_PROCID (which task this is); SLURM sets");
    refuse(WITH(nodelist, ""), "not set, or empty: SLURM_JOB_NODELIST (the hosts");
}

TEST(a_host_is_there_once)
{
    lk_slurm_job *job = NULL;
    lk_slurm_texts texts = {"n[1-3],n[03,4]", "1(x5)", "0", "5", "5", NULL};
    ASSERT_OK(lk_slurm_job_new(&texts, &job)); /* n3 and n03 are two */
    lk_slurm_job_free(job);
    texts.nodelist = "n[1-3],n[4,3]";
    ASSERT_FAILS(lk_slurm_job_new(&texts, &job), LK_EINVAL, "host n3 is there twice");
    ASSERT_TRUE(!job);
}

TEST(a_task_is_on_the_host_that_slurm_says)
{
    static const int host_of[11] = {0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3};
    for (int task = 0; task < 11; task++)
        for (int host = 0; host < 4; host++) {
            char procid[8], nodeid[8];
            snprintf(procid, sizeof procid, "%d", task);
            snprintf(nodeid, sizeof nodeid, "%d", host);
            lk_slurm_texts texts = WITH(procid, procid);
            texts.nodeid = nodeid;
            lk_slurm_job *job = NULL;
            if (host == host_of[task])
                ASSERT_OK(lk_slurm_job_new(&texts, &job));
            else
                ASSERT_FAILS(lk_slurm_job_new(&texts, &job), LK_EINVAL,
                             "srun --distribution=block");
            lk_slurm_job_free(job);
        }
    lk_slurm_texts texts = WITH(nodeid, "0");
    lk_slurm_job *job = NULL;
    ASSERT_FAILS(
        lk_slurm_job_new(&texts, &job), LK_EINVAL,
        "SLURM_NODEID is 0, host node1, but task 4 of tasks that are numbered host by host "
        "is on node3");
    texts.nodeid = "4";
    ASSERT_FAILS(lk_slurm_job_new(&texts, &job), LK_EINVAL,
                 "SLURM_NODEID is \"4\": expected which host this is, from 0 to 3");
}

/* ---- the environment ---- */

static const char *const names[] = {"SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_PROCID",
                                    "SLURM_NPROCS",       "SLURM_NNODES",         "SLURM_NODEID",
                                    "SLURM_STEP_NODELIST"};

/* The environment of a step, NULL: not set. */
static void set(const char *const value[7])
{
    for (int i = 0; i < 7; i++)
        if (value[i])
            setenv(names[i], value[i], 1);
        else
            unsetenv(names[i]);
}

TEST(the_environment_is_read_where_no_texts_are_given)
{
    lk_slurm_job *job = NULL;
    set((const char *[7]){NULL});
    ASSERT_FAILS(lk_slurm_job_new(NULL, &job), LK_EINVAL, "not set, or empty: SLURM_JOB_NODELIST");
    set((const char *[7]){"n[0-1]", "2(x2)", "3", "4", "2", "1"});
    ASSERT_OK(lk_slurm_job_new(NULL, &job));
    ASSERT_EQ(job->task, 3);
    ASSERT_EQ(job->n_hosts, 2);
    lk_slurm_job_free(job);
    unsetenv("SLURM_NPROCS");
    ASSERT_FAILS(lk_slurm_job_new(NULL, &job), LK_EINVAL, "not set, or empty: SLURM_NPROCS (");
}

TEST(a_step_on_a_part_of_the_job_has_its_own_hosts)
{
    lk_slurm_job *job = NULL;
    set((const char *[7]){"n[0-3]", "2", "1", "2", "1", "0", "n2"});
    ASSERT_OK(lk_slurm_job_new(NULL, &job));
    ASSERT_EQ(job->n_hosts, 1);
    ASSERT_EQ(strcmp(job->host[0], "n2"), 0);
    lk_slurm_job_free(job);
    setenv("SLURM_STEP_NODELIST", "n[2", 1);
    ASSERT_FAILS(lk_slurm_job_new(NULL, &job), LK_EINVAL,
                 "SLURM_STEP_NODELIST \"n[2\", column 4: the bracket");
    set((const char *[7]){NULL});
}

/* ---- limits and memory ---- */

TEST(the_largest_job_is_read)
{
    lk_slurm_job *job;
    lk_slurm_texts texts = {"n[00000-65535]", "16(x65536)", "1048575", "1048576", "65536", "65535"};
    ASSERT_OK(lk_slurm_job_new(&texts, &job));
    ASSERT_EQ(strcmp(job->host[65535], "n65535"), 0);
    ASSERT_EQ(job->tasks[65535], 16);
    lk_slurm_job_free(job);
}

/* Each number a range of its own: no step looks at all of them. */
TEST(many_short_ranges_take_no_longer_than_a_long_one)
{
    enum { N = 60000 };
    char *list = malloc(N * 6 + 16), nnodes[16], tasks[32];
    size_t at = (size_t)sprintf(list, "n[");
    for (int i = 0; i < N; i++)
        at += (size_t)sprintf(list + at, "%s%d", i ? "," : "", i);
    sprintf(list + at, "]");
    snprintf(nnodes, sizeof nnodes, "%d", N);
    snprintf(tasks, sizeof tasks, "1(x%d)", N);
    lk_slurm_texts texts = {list, tasks, "0", nnodes, nnodes, "0"};
    lk_slurm_job *job;
    ASSERT_OK(lk_slurm_job_new(&texts, &job));
    ASSERT_EQ(strcmp(job->host[N - 1], "n59999"), 0);
    lk_slurm_job_free(job);
    free(list);
}

static lk_status job_made(void)
{
    lk_slurm_job *job = NULL;
    lk_status st = lk_slurm_job_new(&good, &job);
    lk_slurm_job_free(job);
    return st;
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(job_made) >= 3);
}
