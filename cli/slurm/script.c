/* lockstep slurm --script: a job that goes on until it is done.
 *
 * Before its time ends SLURM sends USR1 to the script alone, which passes it on to srun, and so to the ranks;
 * they save and end with status 75 (stop.h).  The script then puts the job back into the queue, and its next
 * run resumes.  Ranks that end with 75 for another reason, such as a file STOP, were asked to by somebody: then it
 * does not; nor where no step was made since the last start, which would go on for ever.  srun gets what sbatch
 * was told, where it does not take it over by itself (--cpus-per-task, since SLURM 22.05).
 */
#include "experiment.h"
#include "launch/line.h"
#include "layout.h"
#include "plan/fit.h"
#include "ranks.h"
#include "slurm/slurm.h"
#include "term.h"
#include "verb.h"

#include <lockstep/comm.h>

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_TIME "60"

enum { DEFAULT_SIGNAL = 120, FIELDS = 3, FIELD_DIGITS = 6 };

/* The MPIs, and what srun --mpi= starts them with. */
static const struct {
    const char *name, *srun;
} mpis[] = {{"openmpi", "pmix"}, {"mpich", "pmi2"}};

enum { N_MPIS = sizeof mpis / sizeof mpis[0] };

/* All that the script says. */
typedef struct script {
    const slurm_script_options *asked;
    int64_t ranks, signal;
    const char *time;
    int mpi; /* of mpis; -1: one rank, which needs none */
    char folder[PATH_MAX], self[PATH_MAX];
    char latest[PATH_MAX], stop[PATH_MAX]; /* files of the run: its newest checkpoint, and STOP */
    int n;
    char **operand;
} script;

/* ---- what is asked for ---- */

/* Seconds of a time limit in one of SLURM's forms: minutes, minutes:seconds, hours:minutes:seconds, and
 * days-hours, with :minutes and :seconds behind it.  -1: it is none of them. */
static int64_t time_read(const char *text)
{
    int64_t field[FIELDS] = {0}, days = 0;
    const char *dash = strchr(text, '-'), *at = text;
    int n = 0;
    for (;; at++) {
        char *end = NULL;
        if (!isdigit((unsigned char)*at) || n == FIELDS)
            return -1;
        long value = strtol(at, &end, 10);
        if (end - at > FIELD_DIGITS)
            return -1;
        if (end == dash && n > 0)
            return -1;
        if (end == dash)
            days = value;
        else
            field[n++] = value;
        at = end;
        if (!*at)
            break;
        if (*at != ':' && at != dash)
            return -1;
    }
    if (dash || n == FIELDS)
        return ((days * 24 + field[0]) * 60 + field[1]) * 60 + field[2];
    return field[0] * 60 + field[1];
}

static int time_check(const char *command, script *s)
{
    s->time = s->asked->time ? s->asked->time : DEFAULT_TIME;
    s->signal = s->asked->signal > 0 ? s->asked->signal : DEFAULT_SIGNAL;
    int64_t limit = time_read(s->time);
    if (limit < 0)
        return verb_refuse("%s: option --time: \"%s\" is no time limit: give minutes, "
                           "hours:minutes:seconds or days-hours, as SLURM reads them",
                           command, s->time);
    if (s->signal >= limit)
        return verb_refuse("%s: option --signal: %lld seconds before the end of %lld there is no "
                           "time left to train: give a longer --time or a shorter --signal",
                           command, (long long)s->signal, (long long)limit);
    return LK_EXIT_DONE;
}

/* The ranks must have room. */
static int nodes_check(const char *command, const script *s)
{
    const slurm_script_options *o = s->asked;
    if (o->nodes > s->ranks)
        return verb_refuse("%s: option --nodes: %lld nodes for %lld rank%s: there is a rank on "
                           "each at least",
                           command, (long long)o->nodes, (long long)s->ranks, plural(s->ranks));
    if (o->nodes > 0 && o->tasks_per_node > 0 && o->nodes * o->tasks_per_node < s->ranks)
        return verb_refuse(
            "%s: option --tasks-per-node: %lld on each of %lld node%s are fewer than "
            "%lld ranks",
            command, (long long)o->tasks_per_node, (long long)o->nodes, plural(o->nodes),
            (long long)s->ranks);
    return LK_EXIT_DONE;
}

static int mpi_choose(const char *command, script *s)
{
    const char *asked = s->asked->mpi;
    s->mpi = -1;
    for (int i = 0; i < N_MPIS && s->mpi < 0; i++)
        if (asked ? strcmp(asked, mpis[i].name) == 0 : lk_mpi_has_module(mpis[i].name))
            s->mpi = i;
    if (asked && s->mpi < 0)
        return verb_refuse("%s: option --mpi: \"%s\" is none: give openmpi or mpich", command,
                           asked);
    if (asked && !lk_mpi_has_module(asked))
        return verb_refuse("%s: option --mpi: there is no module for %s in this build", command,
                           asked);
    if (s->ranks > 1 && s->mpi < 0)
        return verb_refuse("%s: %lld ranks need an MPI, and this build has a module for none",
                           command, (long long)s->ranks);
    if (s->ranks == 1)
        s->mpi = -1;
    return LK_EXIT_DONE;
}

/* ---- the experiment ---- */

/* Open the data, build the model and plan the first rank, as the ranks will; train nothing. */
static int experiment_try(lk_experiment *e, const lk_mesh_shape *shape, int64_t ranks)
{
    lk_job *job = NULL;
    lk_plan *plan = NULL;
    lk_status st = lk_experiment_expand(e, 0, (int)ranks);
    if (st == LK_OK)
        st = plan_make(e, NULL, shape, (int)ranks, 0, &job, &plan);
    int status = st == LK_OK ? LK_EXIT_DONE : experiment_failed(e, st);
    lk_plan_free(plan);
    lk_job_free(job);
    return status;
}

/* Where the run will have its files, when the paths of its experiment are expanded. */
static int files_find(script *s, const lk_experiment *e)
{
    const char *own = e->train.checkpoint.folder, *output = e->train.output;
    int n = own ? snprintf(s->latest, sizeof s->latest, "%s/LATEST", own)
                : snprintf(s->latest, sizeof s->latest, "%s/checkpoints/LATEST", output);
    int m = snprintf(s->stop, sizeof s->stop, "%s/STOP", output);
    if (n >= (int)sizeof s->latest || m >= (int)sizeof s->stop)
        return verb_refuse("%s: the path of the output or of the checkpoints is too long", e->path);
    return LK_EXIT_DONE;
}

/* Check the experiment, and take the number of ranks from its layout where none is asked for. */
static int experiment_check(script *s)
{
    lk_experiment *e = NULL;
    int status = experiment_open(s->n, s->operand, &e);
    if (status != LK_EXIT_DONE)
        return status;
    lk_mesh_shape shape = layout_of(e);
    if (shape.data == 0 && s->asked->ranks == 0)
        shape.data = 1;
    s->ranks = s->asked->ranks > 0 ? s->asked->ranks : layout_ranks(&shape);
    if (!e->train.output)
        status = verb_refuse("%s: train.output is not set: without a folder for checkpoints a job "
                             "could not go on when its time ends; give train.output=FOLDER",
                             e->path);
    else if (s->ranks > RANKS_MAX_PROCESSES)
        status = verb_refuse("%s: %lld ranks; at most %d", e->path, (long long)s->ranks,
                             RANKS_MAX_PROCESSES);
    else
        status = experiment_try(e, &shape, s->ranks);
    if (status == LK_EXIT_DONE)
        status = files_find(s, e);
    lk_experiment_free(e);
    return status;
}

/* ---- the script ---- */

/* The name of the experiment's file, of letters that SLURM and its users can do with. */
static void name_print(const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".yaml") == 0)
        n -= 5;
    printf("#SBATCH --job-name=");
    for (size_t i = 0; i < n; i++)
        putchar(isalnum((unsigned char)name[i]) || strchr("._-", name[i]) ? name[i] : '_');
    putchar('\n');
}

static void number_print(const char *option, int64_t value)
{
    if (value > 0)
        printf("#SBATCH --%s=%lld\n", option, (long long)value);
}

static void head_print(const script *s)
{
    printf("#!/bin/bash\n");
    name_print(s->operand[0]);
    number_print("nodes", s->asked->nodes);
    number_print("ntasks", s->ranks);
    number_print("ntasks-per-node", s->asked->tasks_per_node);
    number_print("cpus-per-task", s->asked->cpus_per_task);
    printf("#SBATCH --time=%s\n", s->time);
    printf("#SBATCH --signal=B:USR1@%lld\n", (long long)s->signal);
    printf("#SBATCH --requeue\n"
           "#SBATCH --open-mode=append\n"
           "\n"
           "# Before its time ends this script gets USR1 and passes it on: the ranks save, and end "
           "with\n"
           "# status 75.  The job then goes back into the queue, and its next run goes on from "
           "there,\n"
           "# unless no step was made since the last start.\n"
           "#\n"
           "# To stop it for good, with a checkpoint: scancel -s USR1 JOB, which is for the ranks "
           "alone,\n"
           "# or a file STOP in the output folder.\n");
}

/* Whether a word has something that a shell would replace, were it not quoted. */
static bool has_variable(const script *s)
{
    bool found = strpbrk(s->self, "$`") || strpbrk(s->folder, "$`") || strpbrk(s->latest, "$`") ||
                 strpbrk(s->stop, "$`");
    for (int i = 0; i < s->n; i++)
        found = found || strpbrk(s->operand[i], "$`");
    return found;
}

/* What becomes of the job when the ranks have ended, or are to. */
static void end_print(const script *s)
{
    printf("ranks=$!\n"
           "ends=''\n"
           "trap 'trap \"\" USR1; ends=yes; kill -USR1 \"$ranks\"' USR1\n"
           "wait \"$ranks\"\n"
           "status=$?\n"
           "if [ $status -gt 128 ] && [ -n \"$ends\" ]; then # it was the signal that came\n"
           "    wait \"$ranks\"\n"
           "    status=$?\n"
           "fi\n"
           "if [ $status -ne 75 ] || [ -z \"$ends\" ]; then\n"
           "    exit $status\n"
           "fi\n"
           "if rm ");
    shell_word_print(s->stop, stdout);
    printf(" 2>/dev/null; then\n"
           "    echo 'there is a file STOP: the job does not go on' >&2\n"
           "elif [ \"$(newest)\" = \"$before\" ]; then\n"
           "    echo 'no step was made in this time: the job does not go on' >&2\n"
           "else\n"
           "    scontrol requeue \"$SLURM_JOB_ID\"\n"
           "fi\n"
           "exit $status\n");
}

static void command_print(const script *s)
{
    if (has_variable(s))
        printf("# shellcheck disable=SC2016 # words are meant as they stand there\n");
    printf("cd ");
    shell_word_print(s->folder, stdout);
    printf(" || exit 1\n");
    if (s->mpi >= 0)
        printf("export LK_MPI=%s\n", mpis[s->mpi].name);
    printf("newest() { cat ");
    shell_word_print(s->latest, stdout);
    printf(" 2>/dev/null || echo step-000000000000; }\n"
           "before=$(newest)\n");
    printf("srun --kill-on-bad-exit --mpi=%s", s->mpi >= 0 ? mpis[s->mpi].srun : "none");
    if (s->asked->cpus_per_task > 0)
        printf(" --cpus-per-task=%lld", (long long)s->asked->cpus_per_task);
    printf(" \\\n    ");
    shell_word_print(s->self, stdout);
    printf(" train");
    for (int i = 0; i < s->n; i++) {
        putchar(' ');
        shell_word_print(s->operand[i], stdout);
    }
    printf(" --resume &\n");
    end_print(s);
}

static bool places_find(script *s)
{
    ssize_t n = readlink("/proc/self/exe", s->self, sizeof s->self - 1);
    if (n < 0 || !getcwd(s->folder, sizeof s->folder))
        return false;
    s->self[n] = '\0';
    return true;
}

int slurm_script(const char *command, const slurm_script_options *o, int n, char **operand)
{
    script s = {.asked = o, .n = n, .operand = operand};
    int status = time_check(command, &s);
    if (status == LK_EXIT_DONE)
        status = experiment_check(&s);
    if (status == LK_EXIT_DONE)
        status = nodes_check(command, &s);
    if (status == LK_EXIT_DONE)
        status = mpi_choose(command, &s);
    if (status == LK_EXIT_DONE && !places_find(&s)) {
        fprintf(stderr, "error: %s: cannot find the working folder, or the command itself\n",
                command);
        status = LK_EXIT_FAILED;
    }
    if (status == LK_EXIT_DONE) {
        head_print(&s);
        command_print(&s);
    }
    return status;
}
