/* Configurations: threads in this process, or processes that print what they saw.
 *
 * A trace is printed as lines "step N state HASH loss BITS", then "score HASH", in hexadecimal; or
 * "skipped WHY" if the algorithm cannot be used on these ranks.
 */
#include "verify/config.h"

#include "experiment.h"
#include "launch/wait.h"
#include "ranks.h"
#include "term.h"
#include "verb.h"

#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/log.h>
#include <lockstep/thread.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { EXTRA = 20 };

/* After a failure: whether the algorithm that was asked for cannot be used.  Says why. */
static bool is_skipped(const char *algorithm, lk_status st, char why[VERIFY_WHY])
{
    if (!algorithm || st != LK_ENOTSUP)
        return false;
    snprintf(why, VERIFY_WHY, "%s", lk_error_message());
    lk_error_clear();
    return true;
}

const verify_version *verify_version_of(const verify_config *p)
{
    return &p->layout->version[p->algorithm != NULL];
}

/* ---- threads ---- */

struct local {
    const verify_setting *setting;
    verify_trace *out;
};

static lk_status local_rank(lk_comm *comm, void *arg)
{
    const struct local *l = arg;
    return verify_train(comm, l->setting, l->out);
}

static int run_local(const verify_config *p, const verify_setting *setting, verify_trace *out,
                     char why[VERIFY_WHY])
{
    struct local l = {setting, out};
    lk_status st = lk_run_local(p->layout->ranks, local_rank, &l);
    if (st == LK_OK || is_skipped(p->algorithm, st, why))
        return LK_EXIT_DONE;
    return experiment_failed(setting->version->experiment, st);
}

/* ---- processes ---- */

static bool trace_read(FILE *from, verify_trace *out, char why[VERIFY_WHY])
{
    int64_t n = 0, step;
    uint64_t state, loss;
    if (fscanf(from, " skipped %255[^\n]", why) == 1)
        return true;
    rewind(from);
    while (n < out->steps && fscanf(from, " step %" SCNd64 " state %" SCNx64 " loss %" SCNx64,
                                    &step, &state, &loss) == 3) {
        if (step != n + 1)
            return false;
        out->state[n] = state;
        memcpy(&out->loss[n++], &loss, sizeof loss);
    }
    return n == out->steps && fscanf(from, " score %" SCNx64, &out->score) == 1;
}

/* Start `lockstep verify --trace`, its output into the file `fd`. */
static int trace_start(const verify_config *p, const verify_setting *s, int fd)
{
    char steps[32], until[32], threads[16];
    const verify_version *v = verify_version_of(p);
    const char **argv = NULL;
    job_end end;
    int k = 0;
    if (lk_alloc(&argv, v->n + EXTRA, sizeof *argv) != LK_OK)
        return verb_failed();
    snprintf(steps, sizeof steps, "%" PRId64, s->steps);
    snprintf(until, sizeof until, "%" PRId64, s->until);
    snprintf(threads, sizeof threads, "%d", p->threads);
    argv[k++] = "verify";
    argv[k++] = "--trace";
    argv[k++] = "--layouts";
    argv[k++] = p->layout->word;
    argv[k++] = "--steps";
    argv[k++] = steps;
    argv[k++] = "--until";
    argv[k++] = until;
    argv[k++] = "--threads";
    argv[k++] = threads;
    argv[k++] = "--isa";
    argv[k++] = lk_isa_name(p->isa);
    argv[k++] = "--algorithms";
    argv[k++] = p->algorithm ? p->algorithm : "auto";
    if (lk_log_level_now() < LK_LOG_WARN)
        argv[k++] = "--quiet";
    if (s->snapshot) {
        argv[k++] = "--snapshot";
        argv[k++] = s->snapshot;
    }
    argv[k++] = "--";
    for (int i = 0; i < v->n; i++)
        argv[k++] = v->operand[i];
    argv[k] = NULL;
    job_spec spec = {.launcher = p->launcher,
                     .n = p->layout->ranks,
                     .argv = (char **)(uintptr_t)argv,
                     .output = fd};
    (void)job_start(&spec, &end);
    job_signals_let_in();
    lk_free(argv);
    return end.status;
}

static int run_processes(const verify_config *p, const verify_setting *setting, verify_trace *out,
                         char why[VERIFY_WHY])
{
    int fd = memfd_create("lockstep-verify", MFD_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file) {
        fprintf(stderr, "error: lockstep verify: no file in memory: %s\n", strerror(errno));
        if (fd >= 0)
            close(fd);
        return LK_EXIT_FAILED;
    }
    int status = trace_start(p, setting, fd);
    rewind(file);
    if (status == LK_EXIT_DONE && !trace_read(file, out, why)) {
        fprintf(stderr, "error: lockstep verify: %d rank%s printed no trace\n", p->layout->ranks,
                plural(p->layout->ranks));
        status = LK_EXIT_FAILED;
    }
    fclose(file);
    return status;
}

/* For this process; no rank may be running. */
static lk_status process_set(const verify_config *p)
{
    LK_TRY(lk_isa_set(p->isa));
    LK_TRY(lk_threads_set(p->threads));
    verify_algorithm_set(p->algorithm);
    return LK_OK;
}

int verify_run(const verify_config *config, const char *snapshot, verify_trace *out,
               char why[VERIFY_WHY])
{
    const verify_setting setting = {verify_version_of(config), config->steps, out->steps, snapshot};
    why[0] = '\0';
    verify_algorithm_set(NULL); /* processes get it on their command line */
    if (config->launcher)
        return run_processes(config, &setting, out, why);
    return process_set(config) == LK_OK ? run_local(config, &setting, out, why) : verb_failed();
}

static int trace_print(lk_comm *comm, const verify_config *config, const verify_setting *setting,
                       verify_trace *trace)
{
    char why[VERIFY_WHY];
    lk_status st = verify_trace_new(setting->until, trace);
    if (st == LK_OK)
        st = verify_train(comm, setting, trace);
    if (is_skipped(config->algorithm, st, why)) {
        if (lk_comm_rank(comm) == 0)
            printf("skipped %s\n", why);
        return LK_EXIT_DONE;
    }
    if (st != LK_OK)
        return experiment_failed(setting->version->experiment, st);
    for (int64_t i = 0; i < trace->steps && lk_comm_rank(comm) == 0; i++) {
        uint64_t loss;
        memcpy(&loss, &trace->loss[i], sizeof loss);
        printf("step %" PRId64 " state %016" PRIx64 " loss %016" PRIx64 "\n", i + 1,
               trace->state[i], loss);
    }
    if (lk_comm_rank(comm) == 0)
        printf("score %016" PRIx64 "\n", trace->score);
    return LK_EXIT_DONE;
}

int verify_print(const verify_config *config, const verify_setting *setting)
{
    lk_comm *comm;
    verify_trace trace = {.steps = 0};
    lk_isa now;
    bool threads = ranks_are_threads(); /* what is set for the process is not theirs alone */
    if (threads && (config->algorithm || lk_isa_now(&now) != LK_OK || now != config->isa))
        return verb_refuse(
            "lockstep verify: on ranks that are threads, set LK_ALLREDUCE and LK_ISA "
            "instead of --algorithms and --isa");
    if (!threads && process_set(config) != LK_OK)
        return verb_failed();
    int status = ranks_open(&comm);
    if (status == LK_EXIT_DONE)
        status = trace_print(comm, config, setting, &trace);
    ranks_close(comm);
    verify_trace_free(&trace);
    return status;
}

/* ---- the allreduce, by LK_ALLREDUCE ---- */

static const char *const variable = "LK_ALLREDUCE";

const char *verify_named(void)
{
    static char given[64];
    static bool read;
    const char *value = secure_getenv(variable);
    if (!read && value)
        snprintf(given, sizeof given, "%s", value);
    read = true;
    return *given ? given : NULL;
}

void verify_algorithm_set(const char *name)
{
    const char *value = name ? name : verify_named();
    if (value)
        setenv(variable, value, 1);
    else
        unsetenv(variable);
}

int verify_algorithm_check(bool fast, const char *who, const char *name)
{
    lk_coll_info about = {.benchmark_only = false};
    bool known = false;
    for (int k = 0; !known && lk_coll_list(k, &about); k++)
        known = strcmp(about.call, "allreduce") == 0 && strcmp(about.name, name) == 0;
    if (!known)
        return verb_refuse("lockstep verify: %s: there is no allreduce \"%s\"; see \"lockstep list "
                           "collectives\"",
                           who, name);
    if (about.benchmark_only && !fast)
        return verb_refuse("lockstep verify: %s: %s is there to measure against and may give other "
                           "bits: leave it out, or give parallel.mode=fast",
                           who, name);
    return LK_EXIT_DONE;
}

/* ---- --transport and --mpi ---- */

static int refuse(const char *option, const char *what)
{
    return verb_refuse("lockstep verify: option --%s: %s", option, what);
}

static int transport_add(verify_transports *to, const launcher *l)
{
    if (to->n == VERIFY_TRANSPORTS)
        return refuse("mpi", "too many");
    to->item[to->n++] = l;
    return LK_EXIT_DONE;
}

static int mpi_add(verify_transports *to, const char *mpi)
{
    char why[256];
    launcher *l = to->n < VERIFY_TRANSPORTS ? &to->launcher[to->n] : NULL;
    if (l && !launcher_find(mpi, l, why, sizeof why))
        return refuse("mpi", why);
    return transport_add(to, l);
}

int verify_transports_read(const lk_option_names *transport, const lk_option_names *mpi,
                           verify_transports *out)
{
    int status = LK_EXIT_DONE;
    out->n = 0;
    for (int i = 0; i < transport->n && status == LK_EXIT_DONE; i++) {
        const char *name = transport->item[i];
        if (strcmp(name, "local") == 0)
            status = transport_add(out, NULL);
        else if (strcmp(name, "mpi") != 0)
            status = refuse("transport", "give local or mpi");
        for (int k = 0; strcmp(name, "mpi") == 0 && k < mpi->n && status == LK_EXIT_DONE; k++)
            status = mpi_add(out, mpi->item[k]);
    }
    return status;
}
