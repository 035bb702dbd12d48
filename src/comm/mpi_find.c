/* Find and load the module for the MPI of this process, once, when the first communicator is
 * opened; mpi.h says where it looks.
 *
 * A program that is linked statically cannot open one: there dlopen() is not linked in, and its address is
 * 0; or it is, and what it opens would have a C library of its own.
 */
#include "base/env.h"
#include "base/text/number.h"
#include "comm/comm.h"
#include "comm/mpi.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma weak dlopen
#pragma weak dlclose
#pragma weak dlsym
#pragma weak dladdr
#pragma weak dlerror

enum { OPENMPI, MPICH, N_MPIS, NO_MPI = N_MPIS };

/* The MPIs, where their launchers say how many processes they start, and what srun --mpi= starts them
 * with. */
static const struct {
    const char *name, *title, *count, *srun;
} mpis[N_MPIS] = {{"openmpi", "Open MPI", "OMPI_COMM_WORLD_SIZE", "pmix"},
                  {"mpich", "MPICH", "PMI_SIZE", "pmi2"}};

static const lk__mpi *found;
static bool other_build;      /* there is a module, but not for this library */
static char unloadable[640];  /* the first module that is there but cannot be loaded, and why */
static int host_mpi = NO_MPI; /* the MPI that was loaded before: no other can be */

/* Whether an object of this process was loaded by the dynamic linker. */
static int has_interpreter(struct dl_phdr_info *object, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_INTERP)
            return 1;
    return 0;
}

static bool is_static(void)
{
    return !dlopen || !dlsym || !dladdr || !dl_iterate_phdr(has_interpreter, NULL);
}

static bool is_set(const char *variable)
{
    const char *value = lk__env(variable);
    return value && *value;
}

bool lk__mpi_launched(void)
{
    return is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMI_RANK") || is_set("PMIX_RANK");
}

/* The MPI that the host has loaded, or NO_MPI. */
static int loaded(void)
{
    int (*version)(char *, int *) = NULL;
    char text[8192] = "";
    int n = 0;
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    memcpy(&version, &symbol, sizeof version);
    if (!version || version(text, &n) != 0)
        return NO_MPI;
    return strstr(text, "Open MPI") ? OPENMPI : MPICH;
}

/* Which module to try first.  PMIX_RANK does not count: in a job of SLURM the mpirun of MPICH starts
 * its helpers with srun, which may set it for them. */
static int likely(void)
{
    if (host_mpi != NO_MPI)
        return host_mpi;
    return is_set("PMI_RANK") && !is_set("OMPI_COMM_WORLD_SIZE") ? MPICH : OPENMPI;
}

/* Folders to look in, one after the other; false after the last. */
static bool folder(int i, char out[PATH_MAX])
{
    static const char *const beside[] = {"mpi", "lockstep/mpi", LK_MPI_FROM_BIN};
    enum { N_BESIDE = sizeof beside / sizeof beside[0] };
    const char *given = lk__env("LK_MPI_MODULES");
    if (given && *given) {
        snprintf(out, PATH_MAX, "%s", given);
        return i == 0;
    }
    if (i > N_BESIDE)
        return false;
    Dl_info here;
    char self[PATH_MAX];
    snprintf(out, PATH_MAX, "%s", LK_MPI_FOLDER);
    if (i == N_BESIDE)
        return true;
    if (!dladdr((const void *)mpis, &here) || !here.dli_fname)
        return true;
    /* A program that was found in PATH is known by its bare name alone. */
    const char *program = "/proc/self/exe";
    if (!realpath(strchr(here.dli_fname, '/') ? here.dli_fname : program, self) &&
        !realpath(program, self))
        return true;
    *(strrchr(self, '/') + 1) = '\0';
    return snprintf(out, PATH_MAX, "%s%s", self, beside[i]) < PATH_MAX;
}

/* Where the module of this name would be in folder `i`; false after the last folder. */
static bool module_path(int i, const char *name, char out[PATH_MAX + 64])
{
    char at[PATH_MAX];
    if (!folder(i, at))
        return false;
    snprintf(out, PATH_MAX + 64, "%s/lockstep-mpi-%s.so", at, name);
    return true;
}

/* All folders that are looked in, each once. */
static const char *folders(char *out, size_t size)
{
    char at[PATH_MAX], before[PATH_MAX] = "";
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; n < size && folder(i, at); i++) {
        if (strcmp(at, before) != 0)
            n += (size_t)snprintf(out + n, size - n, "%s%s", i > 0 ? ", " : "", at);
        memcpy(before, at, sizeof before);
    }
    return out;
}

bool lk_mpi_has_module(const char *name)
{
    char path[PATH_MAX + 64];
    if (is_static() || !name || strchr(name, '/'))
        return false;
    for (int i = 0; module_path(i, name, path); i++)
        if (access(path, R_OK) == 0)
            return true;
    return false;
}

static void unloadable_note(const char *path)
{
    const char *why = dlerror();
    if (access(path, R_OK) == 0 && !unloadable[0])
        snprintf(unloadable, sizeof unloadable, "%.300s is there but cannot be loaded: %.300s",
                 path, why ? why : "no reason is given");
}

/* The symbols of a module and its MPI become global only when it is the one: those of another build
 * would be found in place of the next MPI's. */
static const lk__mpi *module_open(const char *name)
{
    char path[PATH_MAX + 64];
    for (int i = 0; module_path(i, name, path); i++) {
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
            unloadable_note(path);
            continue;
        }
        const lk__mpi *m = dlsym(handle, LK_MPI_SYMBOL);
        if (m && m->interface == LK_MPI_INTERFACE) {
            /* An MPI's own plug-ins look for its symbols. */
            (void)dlopen(path, RTLD_NOW | RTLD_GLOBAL);
            return m;
        }
        other_build = other_build || m;
        dlclose(handle);
    }
    return NULL;
}

/* Whether LK_MPI names another MPI than the one that is loaded. */
static bool is_contradicted(void)
{
    const char *given = lk__env("LK_MPI");
    for (int i = 0; given && host_mpi != NO_MPI && i < N_MPIS; i++)
        if (i != host_mpi && strcmp(given, mpis[i].name) == 0)
            return true;
    return false;
}

static void find(void)
{
    const char *given = lk__env("LK_MPI");
    if (is_static())
        return;
    host_mpi = loaded();
    if (is_contradicted())
        return;
    if (given && *given) {
        found = strchr(given, '/') ? NULL : module_open(given);
        return;
    }
    for (int i = 0, first = likely(); i < N_MPIS && !found; i++) {
        int k = (first + i) % N_MPIS;
        if (host_mpi == NO_MPI || host_mpi == k)
            found = module_open(mpis[k].name);
    }
}

lk_status lk__mpi_module(const lk__mpi **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    *out = found;
    char looked[640];
    LK_CHECK(!is_static(), LK_ENOTSUP,
             "a program that is linked statically cannot use MPI; link it with the shared library");
    LK_CHECK(!is_contradicted(), LK_ENOTSUP,
             "this program is linked with %s, but LK_MPI is %s: start it with the mpirun of %s, or "
             "with lockstep run --mpi %s, or unset LK_MPI",
             mpis[host_mpi].title, lk__env("LK_MPI"), mpis[host_mpi].title, mpis[host_mpi].name);
    LK_CHECK(found || !other_build, LK_ENOTSUP,
             "the modules for MPI are of another build of the library (looked in %s)",
             folders(looked, sizeof looked));
    LK_CHECK(found || !unloadable[0], LK_ENOTSUP, "%s", unloadable);
    LK_CHECK(found, LK_ENOTSUP,
             "no module for MPI%s%s was found: neither lockstep-mpi-openmpi.so nor "
             "lockstep-mpi-mpich.so is in %s (LK_MPI_MODULES names another folder)",
             is_set("LK_MPI") ? " " : "", is_set("LK_MPI") ? lk__env("LK_MPI") : "",
             folders(looked, sizeof looked));
    return LK_OK;
}

/* A number of processes; 0 if it is none. */
static int count_read(const char *text)
{
    int64_t n = 0;
    return text && !lk__number_read_int(text, &n) && n > 0 && n <= INT_MAX ? (int)n : 0;
}

/* How many processes the launcher of an MPI started with this one; 0: it did not start it, or says no
 * number.  Of srun, what it says of a step counts only where it speaks PMIx, and to this process: not
 * to a helper. */
static int started(int i)
{
    const char *count = lk__env(mpis[i].count);
    if (!count && i == OPENMPI && is_set("PMIX_RANK") && !is_set("PMI_SIZE"))
        count = lk__env("SLURM_STEP_NUM_TASKS");
    return count_read(count);
}

/* Whether srun started this process, and not a launcher that srun started.  A batch script has
 * SLURM_PROCID as well, but is no part of a step. */
static bool by_srun(void)
{
    return is_set("SLURM_PROCID") && is_set("SLURM_STEP_NUM_TASKS") &&
           !is_set("OMPI_COMM_WORLD_SIZE") && !is_set("MPI_LOCALNRANKS");
}

/* How many processes srun started with this one without a word of each other; 0: it did not. */
static int srun_alone(void)
{
    return by_srun() && !lk__mpi_launched() ? count_read(lk__env("SLURM_STEP_NUM_TASKS")) : 0;
}

lk__mpi_other_launcher lk__mpi_other_launcher_find(const lk__mpi *m)
{
    lk__mpi_other_launcher s = {.theirs = NO_MPI, .srun = by_srun()};
    for (int i = 0; i < N_MPIS; i++) {
        int other = (i + 1) % N_MPIS;
        if (strcmp(m->name, mpis[i].name) != 0 || started(i) > 0)
            continue;
        s.ours = i;
        s.theirs = started(other) > 0 ? other : NO_MPI;
        s.processes = started(other) > 0 ? started(other) : srun_alone();
    }
    return s;
}

static lk_status srun_refuse(int processes)
{
    return LK_RAISE(LK_ENOTSUP,
                    "srun started %d processes, but told them nothing of each other, so that each "
                    "of them is alone: start them with srun --mpi=%s for %s, --mpi=%s for %s; if "
                    "each is to be a job of its own, unset SLURM_STEP_NUM_TASKS",
                    processes, mpis[OPENMPI].srun, mpis[OPENMPI].title, mpis[MPICH].srun,
                    mpis[MPICH].title);
}

lk_status lk__srun_check(void)
{
    int processes = srun_alone();
    return processes > 1 ? srun_refuse(processes) : LK_OK;
}

lk_status lk__mpi_other_launcher_refuse(const lk__mpi_other_launcher *s)
{
    if (s->theirs == NO_MPI)
        return srun_refuse(s->processes);
    const char *ours = mpis[s->ours].title, *theirs = mpis[s->theirs].title;
    const char *module = mpis[s->theirs].name;
    char start[64], instead[128];
    if (s->srun)
        snprintf(start, sizeof start, "srun --mpi=%s", mpis[s->ours].srun);
    else
        snprintf(start, sizeof start, "the mpirun of %s", ours);
    if (host_mpi != NO_MPI)
        snprintf(instead, sizeof instead, "link the program with %s", theirs);
    else if (lk_mpi_has_module(module))
        snprintf(instead, sizeof instead, "set LK_MPI=%s", module);
    else
        snprintf(instead, sizeof instead, "build the module for %s, which is not there", theirs);
    return LK_RAISE(
        LK_ENOTSUP,
        "the launcher of %s started %d processes, but this is %s, in which each of them "
        "is alone: start them with %s, or %s",
        theirs, s->processes, ours, start, instead);
}
