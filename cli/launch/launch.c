/* Launchers of MPIs.
 *
 * Debian names them apart, mpirun.openmpi and mpirun.mpich; elsewhere the one in PATH is asked whose it
 * is.
 */
#include "launch/launch.h"

#include <lockstep/comm.h>

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_MPIS = 2, N_NAMES = 4, N_WORDS = 6 };

static const struct {
    const char *name, *package;
    const char *word;              /* in what its launcher says about itself */
    const char *launcher[N_NAMES]; /* "mpirun" and "mpiexec" may be another MPI's */
    const char
        *own[N_WORDS]; /* words it reads behind the program, too; -x stands for --x as well */
} mpis[N_MPIS] = {
    {"openmpi",
     "openmpi-bin",
     "open-mpi.org",
     {"mpirun.openmpi", "mpirun", "mpiexec"},
     {":", "-mca", "-gmca", "-am", "-tune"}},
    {"mpich", "mpich", "HYDRA", {"mpirun.mpich", "mpiexec.hydra", "mpirun", "mpiexec"}, {":"}},
};

static bool is_program(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return false;
    errno = EACCES;
    return S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool program_find(const char *name, char out[PATH_MAX])
{
    const char *path = secure_getenv("PATH");
    if (strchr(name, '/'))
        return snprintf(out, PATH_MAX, "%s", name) < PATH_MAX && is_program(out);
    for (const char *at = path; at && *at; at += strspn(at, ":")) {
        int length = (int)strcspn(at, ":");
        int n = snprintf(out, PATH_MAX, "%.*s/%s", length, at, name);
        if (n < PATH_MAX && is_program(out))
            return true;
        at += length;
    }
    errno = ENOENT;
    return false;
}

/* Whether `path --version` prints `word`. */
static bool says(const char *path, const char *word)
{
    extern char **environ;
    char *argv[] = {(char *)(uintptr_t)path, (char *)(uintptr_t) "--version", NULL};
    char text[4096];
    size_t have = 0;
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    bool started = posix_spawn(&pid, path, &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    for (ssize_t n = 1; started && n > 0 && have < sizeof text - 1;) {
        n = read(ends[0], text + have, sizeof text - 1 - have);
        have += n > 0 ? (size_t)n : 0;
    }
    close(ends[0]);
    text[have] = '\0';
    while (started && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return started && strstr(text, word);
}

static bool find_one(int i, launcher *out)
{
    for (int k = 0; k < N_NAMES && mpis[i].launcher[k]; k++) {
        const char *name = mpis[i].launcher[k];
        if (program_find(name, out->path) && (strchr(name, '.') || says(out->path, mpis[i].word))) {
            out->mpi = mpis[i].name;
            return true;
        }
    }
    return false;
}

bool launcher_find(const char *mpi, launcher *out, char *why, size_t size)
{
    const char *given = secure_getenv("LK_MPI");
    if (strcmp(mpi, "auto") == 0 && given && *given)
        mpi = given;
    bool any = strcmp(mpi, "auto") == 0, known = any;
    snprintf(why, size, "there is no MPI that this build has a module for");
    for (int i = 0; i < N_MPIS; i++) {
        if (!any && strcmp(mpi, mpis[i].name) != 0)
            continue;
        known = true;
        if (!lk_mpi_has_module(mpis[i].name)) {
            if (!any)
                snprintf(why, size, "there is no module for %s in this build", mpi);
            continue;
        }
        if (find_one(i, out))
            return true;
        snprintf(why, size, "there is no mpirun of %s in PATH (Debian package %s)", mpis[i].name,
                 mpis[i].package);
    }
    if (!known)
        snprintf(why, size, "no MPI is named \"%s\": the names are openmpi, mpich, auto", mpi);
    return false;
}

const char *launcher_own_word(const launcher *l, char *const *argv)
{
    for (; *argv; argv++) {
        const char *word = strncmp(*argv, "--", 2) == 0 ? *argv + 1 : *argv;
        for (int i = 0; i < N_MPIS; i++)
            for (int k = 0; strcmp(l->mpi, mpis[i].name) == 0 && k < N_WORDS && mpis[i].own[k]; k++)
                if (strcmp(word, mpis[i].own[k]) == 0)
                    return *argv;
    }
    return NULL;
}
