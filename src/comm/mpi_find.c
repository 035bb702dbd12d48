/* Find the module for the MPI at hand.
 *
 * A program that is linked statically cannot open one: there dlopen() is not linked in, and its
 * address is 0.
 */
#include "base/number.h"
#include "comm/comm.h"
#include "comm/mpi.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma weak dlopen
#pragma weak dlsym
#pragma weak dladdr
#pragma weak dlerror

enum { OPENMPI, MPICH, N_MPIS };

/* The MPIs, and where their launchers say how many processes they start. */
static const struct {
    const char *name, *title, *count;
} mpis[N_MPIS] = {{"openmpi", "Open MPI", "OMPI_COMM_WORLD_SIZE"}, {"mpich", "MPICH", "PMI_SIZE"}};

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value;
}

bool lk__mpi_launched(void)
{
    return is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMI_RANK") || is_set("PMIX_RANK");
}

/* The MPI that the host has loaded: -1 if none. */
static int loaded(void)
{
    int (*version)(char *, int *) = NULL;
    char text[8192] = "";
    int n = 0;
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    memcpy(&version, &symbol, sizeof version);
    if (!version || version(text, &n) != 0)
        return -1;
    return strstr(text, "Open MPI") ? OPENMPI : MPICH;
}

/* Which module to try first.  PMIX_RANK does not count: in a job of SLURM the mpirun of MPICH starts
 * its helpers with srun, which may set it for them. */
static int likely(void)
{
    int i = loaded();
    if (i >= 0)
        return i;
    return is_set("PMI_RANK") && !is_set("OMPI_COMM_WORLD_SIZE") ? MPICH : OPENMPI;
}

/* Folders to look in, one after the other; false behind the last. */
static bool folder(int i, char out[PATH_MAX])
{
    static const char *const beside[] = {"mpi", "lockstep/mpi", LK_MPI_FROM_BIN};
    enum { N_BESIDE = sizeof beside / sizeof beside[0] };
    const char *given = getenv("LK_MPI_MODULES");
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

/* Where the module of this name would be in folder `i`; false behind the last folder. */
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
    if (!dlopen || !dlsym || !dladdr || !name || strchr(name, '/'))
        return false;
    for (int i = 0; module_path(i, name, path); i++)
        if (access(path, R_OK) == 0)
            return true;
    return false;
}

static const lk_mpi *found;
static bool other_build; /* there is a module, but not for this library */
static bool by_host;     /* the MPI was loaded before: no other can be */

static const lk_mpi *module_open(const char *name)
{
    char path[PATH_MAX + 64];
    for (int i = 0; module_path(i, name, path); i++) {
        /* Global: an MPI's own plug-ins look for its symbols. */
        void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        const lk_mpi *m = handle ? dlsym(handle, LK_MPI_SYMBOL) : NULL;
        if (m && m->interface == LK_MPI_INTERFACE)
            return m;
        other_build = other_build || m;
    }
    return NULL;
}

static void find(void)
{
    const char *given = getenv("LK_MPI");
    if (!dlopen || !dlsym || !dladdr)
        return;
    if (given && *given) {
        found = strchr(given, '/') ? NULL : module_open(given);
        return;
    }
    int first = likely(), only = loaded();
    by_host = only >= 0;
    for (int i = 0; i < N_MPIS && !found; i++) {
        int k = (first + i) % N_MPIS;
        if (!by_host || only == k)
            found = module_open(mpis[k].name);
    }
}

lk_status lk__mpi_module(const lk_mpi **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    *out = found;
    LK_CHECK(dlopen, LK_ENOTSUP, "a program that is linked statically cannot use MPI");
    char looked[640];
    LK_CHECK(found || !other_build, LK_ENOTSUP,
             "the modules for MPI are of another build of the library (looked in %s)",
             folders(looked, sizeof looked));
    LK_CHECK(found, LK_ENOTSUP,
             "no module for MPI%s%s was found: neither lockstep-mpi-openmpi.so nor "
             "lockstep-mpi-mpich.so is in %s (LK_MPI_MODULES names another folder)",
             is_set("LK_MPI") ? " " : "", is_set("LK_MPI") ? getenv("LK_MPI") : "",
             folders(looked, sizeof looked));
    return LK_OK;
}

/* How many processes the launcher of an MPI started with this one; 0: it did not start it, or says no
 * number.  Of srun, what it says of a step counts only where it speaks PMIx, and to this process: not
 * to a helper. */
static int started(int i)
{
    const char *count = getenv(mpis[i].count);
    if (!count && i == OPENMPI && is_set("PMIX_RANK") && !is_set("PMI_SIZE"))
        count = getenv("SLURM_STEP_NUM_TASKS");
    int64_t n = 0;
    return count && !lk__number_read_int(count, &n) && n > 0 && n <= INT_MAX ? (int)n : 0;
}

lk__mpi_stranger lk__mpi_stranger_find(const lk_mpi *m)
{
    lk__mpi_stranger none = {.processes = 0};
    for (int i = 0; i < N_MPIS; i++) {
        int other = (i + 1) % N_MPIS;
        if (strcmp(m->name, mpis[i].name) == 0 && started(i) == 0)
            return (lk__mpi_stranger){started(other), i, other};
    }
    return none;
}

lk_status lk__mpi_stranger_refuse(const lk__mpi_stranger *s)
{
    const char *ours = mpis[s->ours].title, *theirs = mpis[s->theirs].title;
    const char *module = mpis[s->theirs].name;
    char instead[128];
    if (by_host)
        snprintf(instead, sizeof instead, "link the program with %s", theirs);
    else if (lk_mpi_has_module(module))
        snprintf(instead, sizeof instead, "set LK_MPI=%s", module);
    else
        snprintf(instead, sizeof instead, "build the module for %s, which is not there", theirs);
    return LK_RAISE(
        LK_ENOTSUP,
        "the launcher of %s started %d processes, but this is %s, in which each of them "
        "is alone: start them with the mpirun of %s, or %s",
        theirs, s->processes, ours, ours, instead);
}
