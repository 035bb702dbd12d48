/* Processes below a process, from the lists of children of each of its threads. */
#include "launch/tree.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The name of a program is in parentheses, and may hold any: what counts is behind the last.  The state
 * is the third field, the start the 22nd. */
bool process_read(pid_t pid, process *out)
{
    enum { BETWEEN = 18 };
    char path[64], text[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *at = strrchr(text, ')');
    *out = (process){.pid = pid};
    if (!at || sscanf(at, ") %c", &out->state) != 1)
        return false;
    at += 3;
    for (int i = 0; at && i < BETWEEN; i++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, " %llu", &out->start) == 1;
}

int process_rank(pid_t pid)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="};
    char path[64], note[64], *text = NULL;
    size_t room = 0;
    int rank = -1;
    bool ours = false;
    snprintf(note, sizeof note, "LK_NOTE=/proc/%d/", (int)getpid());
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && getdelim(&text, &room, '\0', file) > 0) {
        ours = ours || strncmp(text, note, strlen(note)) == 0;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strncmp(text, names[i], strlen(names[i])) == 0)
                rank = (int)strtol(text + strlen(names[i]), NULL, 10);
    }
    free(text);
    if (file)
        fclose(file);
    return ours ? rank : -1;
}

struct visit {
    void (*fn)(const process *p, void *arg);
    void *arg;
    bool deep;
};

static void children_visit(pid_t parent, const struct visit *v);

static void thread_visit(pid_t process_id, const char *thread, const struct visit *v)
{
    char path[512];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)process_id, thread);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &child) == 1) {
        process p;
        if (v->deep)
            children_visit(child, v);
        if (process_read(child, &p))
            v->fn(&p, v->arg);
    }
    if (file)
        fclose(file);
}

static void children_visit(pid_t parent, const struct visit *v)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    DIR *threads = opendir(path);
    if (!threads)
        return;
    for (const struct dirent *d; (d = readdir(threads));)
        if (d->d_name[0] != '.')
            thread_visit(parent, d->d_name, v);
    closedir(threads);
}

void tree_visit(pid_t root, void (*fn)(const process *p, void *arg), void *arg)
{
    children_visit(root, &(struct visit){.fn = fn, .arg = arg, .deep = true});
}

/* ---- hung launchers ---- */

static void dead_count(const process *p, void *arg)
{
    int *count = arg;
    count[0]++;
    count[1] += p->state == 'Z' || p->state == 'X';
}

bool tree_is_hung(pid_t launcher)
{
    int count[2] = {0, 0}; /* all, and those that have ended */
    children_visit(launcher, &(struct visit){.fn = dead_count, .arg = count});
    return count[0] > 0 && count[0] == count[1];
}

/* ---- the end ---- */

static void one_kill(const process *p, void *arg)
{
    (void)arg;
    kill(p->pid, SIGKILL);
}

struct left {
    pid_t launcher;
    int ranks;
};

/* A rank that has outlived its launcher is a child of this process, which alone waits for it. */
static void rank_kill(const process *p, void *arg)
{
    struct left *left = arg;
    if (p->pid == left->launcher)
        return;
    if (p->state == 'Z') {
        (void)waitpid(p->pid, NULL, WNOHANG);
    } else if (process_rank(p->pid) >= 0) {
        kill(p->pid, SIGKILL);
        left->ranks++;
    }
}

void tree_kill(pid_t launcher)
{
    struct left left = {.launcher = launcher};
    tree_visit(launcher, one_kill, NULL);
    kill(launcher, SIGKILL);
    tree_visit(getpid(), rank_kill, &left);
}

void tree_kill_ranks(pid_t launcher)
{
    enum { TRIES = 200 };
    struct left left = {.launcher = launcher, .ranks = 1};
    for (int i = 0; i < TRIES && left.ranks > 0; i++) {
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        left.ranks = 0;
        tree_visit(getpid(), rank_kill, &left);
    }
}
