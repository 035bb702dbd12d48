/* What SLURM says of a job: the first line of the input is the list of hosts, the second that of their
 * tasks.  A list that can be counted can be written, in as many bytes; of two that agree there is a job,
 * unless a host is there twice. */
#include "comm/slurm/slurm.h"
#include "fuzz.h"

#include <stdio.h>

/* The names of a list, in exactly the memory that was counted. */
static void check_hosts(const lk__slurm_text *text, int n, int64_t bytes)
{
    const char **host = malloc((size_t)n * sizeof *host);
    char *names = malloc((size_t)bytes);
    FUZZ_CHECK(host && names && n >= 1 && n <= LK_SLURM_MAX_HOSTS);
    FUZZ_CHECK(lk__slurm_hosts_write(text, names, host) == LK_OK);
    FUZZ_CHECK(host[0] == names);
    for (int i = 0; i < n; i++) {
        size_t length = strlen(host[i]);
        FUZZ_CHECK(length >= 1 && length < LK_SLURM_HOST && host[i] + length < names + bytes);
        for (size_t k = 0; k < length; k++)
            FUZZ_CHECK(lk__slurm_is_host_char(host[i][k]));
        FUZZ_CHECK(i == 0 || host[i] == host[i - 1] + strlen(host[i - 1]) + 1);
    }
    free(names);
    free(host);
}

/* The job of two lists, `hosts` of `n` and `tasks` of `of` hosts, as its last task sees it. */
static void check_job(const char *hosts, int n, const char *tasks, int of, int all)
{
    char procid[16], nprocs[16], nnodes[16], nodeid[16];
    lk_slurm_job *job = NULL;
    snprintf(procid, sizeof procid, "%d", all - 1);
    snprintf(nprocs, sizeof nprocs, "%d", all);
    snprintf(nnodes, sizeof nnodes, "%d", of);
    snprintf(nodeid, sizeof nodeid, "%d", of - 1);
    const lk_slurm_texts texts = {hosts, tasks, procid, nprocs, nnodes, nodeid};
    lk_status st = lk_slurm_job_new(&texts, &job);
    if (n == of)
        FUZZ_CHECK(st == LK_OK || strstr(lk_error_message(), " is there twice"));
    else
        FUZZ_CHECK(st == LK_EINVAL);
    fuzz_check_status(st);
    lk_slurm_job_free(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    size_t first = strcspn(text, "\n");
    char *second = text + first + (text[first] == '\n');
    text[first] = '\0';
    lk__slurm_text hosts = {"HOSTS", text}, tasks = {"TASKS", second};
    int n = 0, of = 0, all = 0, own[64];
    int64_t bytes = 0;
    lk_status st = lk__slurm_hosts_count(&hosts, &n, &bytes);
    if (st == LK_OK)
        check_hosts(&hosts, n, bytes);
    fuzz_check_status(st);
    lk_status also = lk__slurm_tasks_read(&tasks, 64, own, &of, &all);
    fuzz_check_status(also);
    if (st == LK_OK && also == LK_OK)
        check_job(text, n, second, of, all);
    free(text);
    fuzz_check_memory();
    return 0;
}
