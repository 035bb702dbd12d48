/* Calls of launchers.
 *
 *     Open MPI   mpirun -q [-rf FILE --host a:4,b:4] [-x NAME] -n N      -q: without advice about ranks
 *                                                                        that end with another status than 0
 *     MPICH      mpirun [-hosts a:4,b:4 -bind-to user:0+1,2+3] -n N
 *
 * More ranks than cores are meant: Open MPI is given the options for it, and for root.
 *
 * Unless hosts are given, or a batch system or a list of hosts says otherwise, all ranks are on this host.
 * They need no network then, so that no rank opens a port for other machines: Open MPI leaves out what
 * would, and what MPICH is built on keeps to the loopback.  The launchers themselves have no option for it.
 *
 * To other hosts MPICH's launcher takes the whole environment along, Open MPI's what is passed by name:
 * variables of this library and of DDL, where programs and libraries are found, and what is asked for.
 *
 * What they keep in files goes to folders that are removed after the job: see home.h.
 *
 * What is set in the environment already stays, unless it is asked for.
 */
#include "launch/line.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

bool launch_is_here(const launch_place *place)
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
    return place && place->hosts ? place->here : !is_any_set(elsewhere);
}

static bool is_crowded(int n)
{
    cpu_set_t mask;
    return sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) < n;
}

/* ---- settings and words ---- */

static void word(launch_line *line, const char *text)
{
    line->argv[line->n_words++] = text;
}

static void words(launch_line *line, const char *option, const char *value)
{
    word(line, option);
    word(line, value);
}

static void set_always(launch_line *line, const char *name, const char *value)
{
    line->setting[line->n_settings].name = name;
    line->setting[line->n_settings++].value = value;
}

static void set(launch_line *line, const char *name, const char *value)
{
    if (!is_set(name) && *value)
        set_always(line, name, value);
}

static void openmpi_set(launch_line *line, const job_spec *spec, const launch_folders *folders)
{
    static const char *const chosen[] = {"OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", NULL};
    if (geteuid() == 0) {
        set(line, "OMPI_ALLOW_RUN_AS_ROOT", "1");
        set(line, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    if (spec->place && spec->place->tcp) {
        set(line, "OMPI_MCA_pml", "ob1");
        set(line, "OMPI_MCA_btl", "self,vader,tcp");
    }
    if (!line->here)
        return;
    set(line, "OMPI_MCA_orte_default_hostfile", "none");
    set(line, "OMPI_MCA_orte_tmpdir_base", folders->files);
    set(line, "OMPI_MCA_btl_vader_backing_directory", folders->memory);
    set(line, "UCX_POSIX_DIR", folders->memory);
    set(line, "UCX_NET_DEVICES", "lo");
    if (is_any_set(chosen) || (spec->place && spec->place->tcp))
        return;
    set(line, "OMPI_MCA_btl", "^tcp,ofi");
    set(line, "OMPI_MCA_mtl", "^ofi");
}

static void mpich_set(launch_line *line, const job_spec *spec, const launch_folders *folders)
{
    if (spec->place && spec->place->tcp) {
        set(line, "UCX_TLS", "self,sm,tcp");
        set(line, "FI_PROVIDER", "tcp");
    }
    if (!line->here)
        return;
    set(line, "UCX_POSIX_DIR", folders->memory);
    set(line, "UCX_NET_DEVICES", "lo");
    set(line, "FI_TCP_IFACE", "lo");
    set(line, "FI_SOCKETS_IFACE", "lo");
}

/* ---- what is given ---- */

/* A copy of the first n characters, which lives as long as the line; "" if there is no memory. */
static const char *copy(launch_line *line, const char *text, size_t n)
{
    const char *out = "";
    if (lk_arena_text(line->arena, text, n, &out) != LK_OK) {
        line->lacks_memory = true;
        return "";
    }
    return out;
}

/* The next of the parts of a text that `between` separates; NULL at its end. */
static const char *part_next(launch_line *line, const char **at, const char *between)
{
    *at += strspn(*at, between);
    size_t n = strcspn(*at, between);
    const char *from = *at;
    *at += n;
    return n > 0 ? copy(line, from, n) : NULL;
}

static int parts_count(const char *text)
{
    int n = 0;
    for (; text && *text; text++)
        n += *text == '\n' || *text == ' ' || *text == '\t';
    return n + 1;
}

/* NAME, or NAME=VALUE, which is set: the name. */
static const char *variable_set(launch_line *line, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return text;
    const char *name = copy(line, text, (size_t)(equals - text));
    set_always(line, name, equals + 1);
    return name;
}

/* Whether Open MPI's launcher gets a variable that no option asked for. */
static bool is_carried(const char *entry)
{
    static const char *const begins[] = {"LK_", "DDL_", "PATH=", "LD_LIBRARY_PATH=", NULL};
    for (int i = 0; begins[i]; i++)
        if (strncmp(entry, begins[i], strlen(begins[i])) == 0)
            return strncmp(entry, "LK_NOTE=", 8) != 0; /* it leads nowhere on other hosts */
    return false;
}

/* Variables of the environment, by their names; those in `line` are passed already. */
static void carry(launch_line *line)
{
    extern char **environ;
    for (char **e = environ; *e; e++) {
        bool passed = false;
        size_t n = strcspn(*e, "=");
        for (int i = 0; i < line->n_settings; i++)
            passed = passed ||
                     (strncmp(line->setting[i].name, *e, n) == 0 && !line->setting[i].name[n]);
        if (is_carried(*e) && !passed)
            words(line, "-x", copy(line, *e, n));
    }
}

static void variables_pass(launch_line *line, const job_spec *spec, bool openmpi)
{
    const char *at = spec->place ? spec->place->variables : NULL, *part;
    set_always(line, "LK_MPI", spec->launcher->mpi);
    if (openmpi && !line->here)
        words(line, "-x", "LK_MPI");
    while (at && (part = part_next(line, &at, "\n")) != NULL) {
        const char *name = variable_set(line, part);
        if (openmpi)
            words(line, "-x", name);
    }
    if (openmpi && !line->here)
        carry(line);
}

/* ---- the line ---- */

static void openmpi_words(launch_line *line, const job_spec *spec)
{
    const launch_place *p = spec->place;
    bool ranked = p && (p->given || p->ranks);
    word(line, "-q");
    if (ranked)
        words(line, "-rf", p->given ? p->given : line->rankfile);
    if (p && p->hosts)
        words(line, "--host", p->hosts);
    if (line->here && !ranked && is_crowded(spec->n)) {
        word(line, "--oversubscribe");
        words(line, "--bind-to", "none");
    }
    if ((line->here && is_crowded(spec->n)) || (p && p->crowded))
        set(line, "OMPI_MCA_mpi_yield_when_idle", "1");
}

static void mpich_words(launch_line *line, const launch_place *p)
{
    if (p && p->hosts)
        words(line, "-hosts", p->hosts);
    if (p && p->binding)
        words(line, "-bind-to", p->binding);
}

/* The launcher and its options. */
static void launcher_words(launch_line *line, const job_spec *spec, const launch_folders *folders)
{
    char number[16];
    bool openmpi = strcmp(spec->launcher->mpi, "openmpi") == 0;
    const char *at = spec->place ? spec->place->words : NULL, *part;
    word(line, spec->launcher->path);
    if (openmpi) {
        openmpi_set(line, spec, folders);
        openmpi_words(line, spec);
    } else {
        mpich_set(line, spec, folders);
        mpich_words(line, spec->place);
    }
    variables_pass(line, spec, openmpi);
    while (at && (part = part_next(line, &at, " \t\n")) != NULL)
        word(line, part);
    int n = snprintf(number, sizeof number, "%d", spec->n);
    words(line, "-n", copy(line, number, (size_t)n));
}

/* Room for all words and settings that there may be. */
static bool room_make(const job_spec *spec, launch_line *out)
{
    extern char **environ;
    enum { OWN = 32 };
    int n = OWN;
    for (char **arg = spec->argv; *arg; arg++)
        n++;
    for (char **e = environ; *e; e++)
        n += 2 * is_carried(*e);
    if (spec->place)
        n += 2 * parts_count(spec->place->variables) + parts_count(spec->place->words);
    return lk_arena_new(&out->arena) == LK_OK &&
           lk_arena_alloc(out->arena, &out->argv, n, sizeof *out->argv) == LK_OK &&
           lk_arena_alloc(out->arena, &out->setting, n, sizeof *out->setting) == LK_OK;
}

bool launch_line_make(const job_spec *spec, const launch_folders *folders, launch_line *out)
{
    char self[PATH_MAX];
    *out = (launch_line){.here = launch_is_here(spec->place)};
    ssize_t length = readlink("/proc/self/exe", self, sizeof self);
    if (length < 0 || length == sizeof self || !room_make(spec, out))
        return false;
    if (spec->place && spec->place->ranks && strcmp(spec->launcher->mpi, "openmpi") == 0 &&
        !launch_folders_file(folders, "rankfile", out->rankfile))
        return false;
    launcher_words(out, spec, folders);
    word(out, spec->program ? spec->program : copy(out, self, (size_t)length));
    for (char **arg = spec->argv; *arg; arg++)
        word(out, *arg);
    return !out->lacks_memory;
}

void launch_line_free(launch_line *line)
{
    lk_arena_free(line->arena);
    *line = (launch_line){.arena = NULL};
}

void launch_line_print(const launch_line *line, const rankfile *ranks, FILE *to)
{
    for (int i = 0; i < line->n_settings; i++) {
        fprintf(to, "%s=", line->setting[i].name);
        shell_word_print(line->setting[i].value, to);
        fputc('\n', to);
    }
    if (line->rankfile[0]) {
        fputs("cat >", to);
        shell_word_print(line->rankfile, to);
        fputs(" <<END\n", to);
        rankfile_write(ranks, to);
        fputs("END\n", to);
    }
    for (int i = 0; i < line->n_words; i++) {
        if (i > 0)
            fputc(' ', to);
        shell_word_print(line->argv[i], to);
    }
    fputc('\n', to);
}

void launch_line_exec(const launch_line *line)
{
    for (int i = 0; i < line->n_settings; i++)
        setenv(line->setting[i].name, line->setting[i].value, 1);
    execv(line->argv[0], (char *const *)(uintptr_t)line->argv);
}

bool launch_line_write(const launch_line *line, const rankfile *ranks)
{
    if (!line->rankfile[0])
        return true;
    FILE *file = fopen(line->rankfile, "we");
    if (!file)
        return false;
    rankfile_write(ranks, file);
    bool written = ferror(file) == 0;
    return fclose(file) == 0 && written;
}

bool launch_variables_set(const char *variables)
{
    while (variables && *variables) {
        size_t n = strcspn(variables, "\n");
        char *text = strndup(variables, n), *equals = text ? strchr(text, '=') : NULL;
        bool done = text != NULL;
        if (equals) {
            *equals = '\0';
            done = setenv(text, equals + 1, 1) == 0;
        }
        free(text);
        if (!done)
            return false;
        variables += n + (variables[n] == '\n');
    }
    return true;
}

/* ---- quoting for a shell: 'as it is', and ' itself as '\\'' ---- */

void shell_word_print(const char *word, FILE *to)
{
    size_t plain = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_");
    if (*word && !word[plain]) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", to);
        else
            fputc(*word, to);
    fputc('\'', to);
}
