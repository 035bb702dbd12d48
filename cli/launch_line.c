/* Calls of launchers.
 *
 *     Open MPI   mpirun -q -n N      -q: without advice about ranks that end with another status than 0
 *     MPICH      mpirun -n N
 *
 * More ranks than cores are meant: Open MPI is told so, and that root may.
 *
 * Unless a batch system or a list of hosts says otherwise, all ranks are on this host.  They need no
 * network then, so that no rank opens a port for other machines: Open MPI leaves out what would, and
 * what MPICH is built on keeps to the loopback.  The launchers themselves cannot be told so.
 *
 * What they keep in files goes to folders that are removed after the job: see launch_home.h.
 *
 * What is set in the environment already stays.
 */
#include "launch_line.h"

#include <lockstep/extra/alloc.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXTRA = 16 };

static bool is_set(const char *variable)
{
    const char *value = secure_getenv(variable);
    return value && *value;
}

static bool is_any_set(const char *const *variable)
{
    for (; *variable; variable++)
        if (is_set(*variable))
            return true;
    return false;
}

bool launch_is_here(void)
{
    static const char *const elsewhere[] = {"SLURM_JOB_ID",
                                            "PBS_JOBID",
                                            "LSB_JOBID",
                                            "PE_HOSTFILE",
                                            "HYDRA_HOST_FILE",
                                            "OMPI_MCA_orte_default_hostfile",
                                            "OMPI_MCA_orte_rankfile",
                                            "OMPI_MCA_rmaps_rank_file_path",
                                            "PRTE_MCA_prte_default_hostfile",
                                            NULL};
    return !is_any_set(elsewhere);
}

static bool is_crowded(int n)
{
    cpu_set_t mask;
    return sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) < n;
}

static void set(launch_line *line, const char *name, const char *value)
{
    if (is_set(name) || !*value || line->n_settings == LAUNCH_SETTINGS)
        return;
    line->setting[line->n_settings].name = name;
    line->setting[line->n_settings++].value = value;
}

static void openmpi_set(launch_line *line, const launch_home *home)
{
    static const char *const chosen[] = {"OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", NULL};
    if (geteuid() == 0) {
        set(line, "OMPI_ALLOW_RUN_AS_ROOT", "1");
        set(line, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    if (!line->here)
        return;
    set(line, "OMPI_MCA_orte_default_hostfile", "none");
    set(line, "OMPI_MCA_orte_tmpdir_base", home->files);
    set(line, "OMPI_MCA_btl_vader_backing_directory", home->memory);
    set(line, "UCX_POSIX_DIR", home->memory);
    set(line, "UCX_NET_DEVICES", "lo");
    if (is_any_set(chosen))
        return;
    set(line, "OMPI_MCA_btl", "^tcp,ofi");
    set(line, "OMPI_MCA_mtl", "^ofi");
}

static void mpich_set(launch_line *line, const launch_home *home)
{
    if (!line->here)
        return;
    set(line, "UCX_POSIX_DIR", home->memory);
    set(line, "UCX_NET_DEVICES", "lo");
    set(line, "FI_TCP_IFACE", "lo");
    set(line, "FI_SOCKETS_IFACE", "lo");
}

/* The launcher and its options, from argv[0] on; returns how many. */
static int launcher_words(const job_spec *spec, const launch_home *home, launch_line *out)
{
    int k = 0;
    out->argv[k++] = spec->launcher->path;
    if (strcmp(spec->launcher->mpi, "openmpi") == 0) {
        openmpi_set(out, home);
        out->argv[k++] = "-q";
        if (out->here && is_crowded(spec->n)) {
            out->argv[k++] = "--oversubscribe";
            out->argv[k++] = "--bind-to";
            out->argv[k++] = "none";
            set(out, "OMPI_MCA_mpi_yield_when_idle", "1");
        }
    } else {
        mpich_set(out, home);
    }
    out->setting[out->n_settings].name = "LK_MPI";
    out->setting[out->n_settings++].value = spec->launcher->mpi;
    snprintf(out->number, sizeof out->number, "%d", spec->n);
    out->argv[k++] = "-n";
    out->argv[k++] = out->number;
    return k;
}

bool launch_line_make(const job_spec *spec, const launch_home *home, launch_line *out)
{
    int count = 0;
    *out = (launch_line){.here = launch_is_here()};
    while (spec->argv[count])
        count++;
    ssize_t length = readlink("/proc/self/exe", out->self, sizeof out->self - 1);
    if (length < 0 || lk_alloc(&out->argv, count + EXTRA, sizeof *out->argv) != LK_OK)
        return false;
    out->self[length] = '\0';
    int k = launcher_words(spec, home, out);
    out->argv[k++] = spec->program ? spec->program : out->self;
    for (int i = 0; i < count; i++)
        out->argv[k++] = spec->argv[i];
    out->argv[k] = NULL;
    return true;
}

void launch_line_free(launch_line *line)
{
    lk_free(line->argv);
    line->argv = NULL;
}

static void word_print(const char *word)
{
    size_t plain = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_");
    if (*word && !word[plain]) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    putchar('\'');
}

void launch_line_print(const launch_line *line)
{
    for (int i = 0; i < line->n_settings; i++) {
        printf("%s=", line->setting[i].name);
        word_print(line->setting[i].value);
        putchar('\n');
    }
    for (int i = 0; line->argv && line->argv[i]; i++) {
        if (i > 0)
            putchar(' ');
        word_print(line->argv[i]);
    }
    putchar('\n');
}

void launch_line_exec(const launch_line *line)
{
    for (int i = 0; i < line->n_settings; i++)
        setenv(line->setting[i].name, line->setting[i].value, 1);
    execv(line->argv[0], (char *const *)(uintptr_t)line->argv);
}
